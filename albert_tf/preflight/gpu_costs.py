"""Costs of a compiled GPU program, summed over its text (HLO as scheduled by the compiler).

The compiler estimates no times. A kernel here takes as long as its products at the peak rate or as
what it reads and writes at the bandwidth of the memory, whichever is longer: nothing is known to
stay in the L2 cache, and no kernel is known to be slower than the GPU. Products are calls of
cuBLAS, attention of cuDNN; everything else is a fusion.
"""

import functools
import math
import re

from albert_tf.preflight.costs import Costs, Instruction, reduced_bytes, summed, traffic
from albert_tf.preflight.gpus import Gpus

# Part of a call's target -> its products of 2 * batch * heads * length^2 * head_size operations,
# and how many it computes: backward, also the scores again.
_ATTENTION = {"Backward": (4, 5), "": (2, 2)}
_TARGET = re.compile(r'custom_call_target="__(cublas|cudnn\$fmha)([^"]*)"')
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
    (weights,) = _WEIGHTS.findall(instruction.rest)[:1]
    product = 2.0 * math.prod(map(int, re.findall(r"\d+", weights))) * _shape(first)[-1]
    counted, computed = _ATTENTION["Backward" if "Backward" in found[2] else ""]
    seconds = max(seconds, computed * product / gpu.peak_flops)
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
