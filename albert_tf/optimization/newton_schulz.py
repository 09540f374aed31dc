"""Orthogonalizes matrices with products alone, which suits accelerators."""

from __future__ import annotations

from keras import ops

# Coefficients of the polynomial that moves singular values towards 1, and how often it is applied.
_NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
_ITERATIONS = 5


def orthogonalize(matrix, dtype: str = "float32"):
    """Return a matrix with the same singular vectors and singular values between 0.7 and 1.2.

    Singular values below about 1e-3 of the Frobenius norm remain smaller.

    Args:
        matrix: `[rows, columns]`.
        dtype: in which it is computed.

    Returns:
        `[rows, columns]` in `dtype`; zeros for zeros.
    """
    a, b, c = _NEWTON_SCHULZ
    norm = ops.norm(matrix)
    x = ops.cast(matrix / ops.where(norm > 0, norm, 1.0), dtype)
    rows, columns = matrix.shape
    if rows > columns:
        x = ops.transpose(x)
    for _ in range(_ITERATIONS):
        gram = ops.matmul(x, ops.transpose(x))
        x = a * x + ops.matmul(b * gram + c * ops.matmul(gram, gram), x)
    return ops.transpose(x) if rows > columns else x
