"""A model of custom kernels, whose costs the TPU compiler does not estimate.

Matrix products of a kernel count in two ways:

- as operations of the model, like those of plain attention: 2 products forward and 4 backward;
- as operations that the kernel executes: the backward kernel computes the scores again, which
  makes 5.

The preflight assumes that kernels execute 35 % of the peak rate (`bounds.KERNEL_RATE`). Heads of
64 fill half of the rows or columns of a matrix unit in every product, and the exponentials of the
softmax, which other units compute, take part of the rest. This has not been compared with a TPU.
What a kernel reads and writes is counted as the traffic of any other instruction.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple


class KernelCosts(NamedTuple):
    """Costs of kernels.

    Attributes:
        flops: operations of the matrix products that they stand for.
        operations: operations of the matrix products that they execute.
    """

    flops: float = 0.0
    operations: float = 0.0

    def __add__(self, other: KernelCosts) -> KernelCosts:  # type: ignore[override]  # of tuples
        return KernelCosts(self.flops + other.flops, self.operations + other.operations)

    def times(self, count: float) -> KernelCosts:
        return KernelCosts(count * self.flops, count * self.operations)


# By the start of the name: matrix products that a kernel stands for and executes, each of
# 2 * batch * heads * length^2 * head_size operations.
_PRODUCTS = {"splash_mha_fwd": (2, 2), "splash_mha_dkv": (4, 5)}

_SHAPE = re.compile(r"\[([\d,]+)\]")


def kernel_costs(name: str, result_type: str) -> KernelCosts:
    """The costs of one call of a custom kernel.

    Args:
        name: of the instruction, which starts with that of the kernel.
        result_type: type of its result, of whose arrays the first with four axes is
            `[batch, heads, length, head_size]`.

    Raises:
        ValueError: if this module does not know the kernel.
    """
    for kernel, (stands_for, executes) in _PRODUCTS.items():
        if name.startswith(kernel):
            shapes = [[int(n) for n in text.split(",")] for text in _SHAPE.findall(result_type)]
            shape = next(shape for shape in shapes if len(shape) == 4)
            product = 2.0 * math.prod(shape) * shape[2]
            return KernelCosts(stands_for * product, executes * product)
    raise ValueError(f"the costs of the kernel {name} are unknown")
