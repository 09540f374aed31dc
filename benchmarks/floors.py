"""What no implementation can be faster than: the matrix products at this machine's own rate."""

from __future__ import annotations

# A feed-forward layer of ALBERT-base on 8 sequences of 128 tokens.
ROWS, INNER, COLUMNS = 1024, 768, 3072
# Of one product, a multiplication and an addition as two.
FLOPS = 2 * ROWS * INNER * COLUMNS
# The contestant that does nothing else.
NAME = "matrix products"
