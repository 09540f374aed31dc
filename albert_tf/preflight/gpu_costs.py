"""Costs of a compiled GPU program, summed over its text (HLO as scheduled by the compiler).

The compiler estimates no times. A kernel here takes as long as its products at the peak rate or as
what it reads and writes at the bandwidth of the memory, whichever is longer: nothing is known to
stay in the L2 cache, and no kernel is known to be slower than the GPU, but for attention with
dropout, which has more instructions than products. Products are calls of cuBLAS, attention of cuDNN
and with dropout of our Triton kernels; everything else is a fusion.
"""

import functools
import math
import re

from albert_tf.preflight.costs import Costs, Instruction, reduced_bytes, summed, traffic
from albert_tf.preflight.gpus import Gpus

# Kernel of attention -> its products of 2 * batch * heads * length^2 * head_size operations, how
# many it computes (backward, also the scores again), and in how many cycles a scheduler starts the
# instructions for 32 weights: those of the PTX for H100, two cycles for one with integers.
_ATTENTION = {
    "fmhaScaleBiasSoftmax": (2, 2, 0),
    "fmhaScaleBiasSoftmaxBackward": (4, 5, 0),
    "dropout_attention_forward": (2, 2, 48),
    "dropout_attention_backward": (4, 7, 94),
}
_SCHEDULERS = 4  # of a multiprocessor
_TARGET = re.compile(r'custom_call_target="__(cublas|cudnn\$(fmha\w+)|gpu\$xla\.gpu\.triton)')
_DROPOUT = re.compile(r"dropout_attention_\w+")
_CONTRACTED = re.compile(r'"lhs_contracting_dimensions":\["(\d+)"')
_WEIGHTS = re.compile(r'"intermediate_tensor_shape".*?"dimensions": ?\[([^\]]*)\]')
_SHAPE = re.compile(r"\[([\d,]+)\]")
_WORKSPACE = re.compile(r"[su]8\[\d+\]")


def gpu_program_costs(text: str, where: Gpus, trips: int = 1) -> Costs:
    """Sum the costs of a program for GPUs; arguments are as those of `program_costs`."""
    return summed(text, functools.partial(_costs, where), trips)


def _costs(where: Gpus, instruction: Instruction, types: dict[str, str]) -> Costs:
    gpu = where.data
    if reduced := reduced_bytes(instruction, types):
        return Costs(reduced_bytes=reduced)
    found = _TARGET.search(instruction.rest)
    if found:
        instruction = instruction._replace(type=_WORKSPACE.sub("", instruction.type))
    moved = traffic(instruction, types)
    seconds = moved / gpu.memory_bandwidth
    if not found:
        return Costs(moved, seconds * gpu.clock)
    first = types[instruction.operands[0]]
    if found[1] == "cublas":
        (contracted,) = _CONTRACTED.findall(instruction.rest)[:1]
        flops = 2.0 * math.prod(_shape(instruction.type)) * _shape(first)[int(contracted)]
        rate = gpu.float32_flops if first.startswith("f32") else gpu.peak_flops
        return Costs(moved, max(seconds, flops / rate) * gpu.clock)
    if kernel := found[2]:
        (dimensions,) = _WEIGHTS.findall(instruction.rest)[:1]
        weights = math.prod(map(int, re.findall(r"\d+", dimensions)))
    else:
        (kernel,) = _DROPOUT.findall(instruction.rest)[:1]
        heads, length, _ = _shape(instruction.type)
        weights = heads * length**2
    counted, computed, cycles = _ATTENTION[kernel]
    product = 2.0 * weights * _shape(instruction.type)[-1]
    starting = weights / 32 * cycles / _SCHEDULERS / gpu.cores / gpu.clock
    seconds = max(seconds, computed * product / gpu.peak_flops, starting)
    return Costs(
        moved,
        kernel_flops=counted * product,
        kernel_cycles=seconds * gpu.clock,
        fused_attention=1,
    )


def _shape(type_text: str) -> list[int]:
    """Return the shape of the first array of a type."""
    (shape,) = _SHAPE.findall(type_text)[:1]
    return [int(number) for number in shape.split(",")]
