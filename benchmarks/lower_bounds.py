"""Lower bounds of the time of a step: its matrix products alone, at this machine's own rate."""

from __future__ import annotations

# A feed-forward layer of ALBERT-base on 8 sequences of 128 tokens.
ROWS, INNER, COLUMNS = 1024, 768, 3072
# Operations of one product; a multiplication and an addition count as two.
FLOPS = 2 * ROWS * INNER * COLUMNS
# The implementation that only multiplies matrices.
NAME = "matrix products"
