"""Costs of a compiled TPU program, summed over its text (HLO as scheduled by the compiler).

XLA's own totals count the body of a loop once and include data that stays on the chip. Here, a loop
is counted as often as it runs, and only data that is read from or written to HBM is counted.

The compiler does not estimate custom kernels. They count as the operations of the matrix products
that they stand for (2 forward and 4 backward), as the cycles of their schedule, which the compiler
writes out when asked (`KERNELS`), and with the traffic of any other instruction. A schedule starts
a bundle of instructions in every cycle in which it does not wait.
"""

import functools
import math
import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from albert_tf.hardware import GENERATIONS


class Costs(NamedTuple):
    """Costs of a program on one device.

    Attributes:
        memory_bytes: bytes read from and written to HBM.
        cycles: the compiler's estimate, without communication and custom kernels; of a GPU, the sum
            over its kernels (`albert_tf.preflight.gpu_costs`).
        reduced_bytes: bytes that are all-reduced.
        kernel_flops: operations of the matrix products that custom kernels stand for.
        kernel_cycles: the cycles that they take.
        fused_attention: kernels of fused attention of a GPU.
    """

    memory_bytes: float = 0.0
    cycles: float = 0.0
    reduced_bytes: float = 0.0
    kernel_flops: float = 0.0
    kernel_cycles: float = 0.0
    fused_attention: float = 0.0

    def __add__(self, other: "Costs") -> "Costs":  # type: ignore[override]  # of tuples
        return Costs(*(one + another for one, another in zip(self, other, strict=True)))

    def times(self, count: float) -> "Costs":
        return Costs(*(count * value for value in self))


class Kernel(NamedTuple):
    """A custom kernel of attention, or of the feed-forward network.

    Attributes:
        products: matrix products that it stands for, each of 2 * batch * heads * length^2 *
            head_size operations, or of 2 * tokens * width * inner.
        bundles: generation -> bundles in the schedule of a core for the scores of 512 queries and
            512 keys, with a head of 64, or for 512 tokens in the network of base. A head of 128
            takes up to 56 % more.
        cycles: for a bundle. A kernel of attention waits for its own results: 1.1 to 1.4, forward
            and backward together, by the profiles that the compiler has for v5e, v5p and v6e.
    """

    products: int
    bundles: Mapping[str, int]
    cycles: float = 1.3


def _kernel(products: int, v4: int, v5e: int, v5p: int, v6e: int, tpu7x: int) -> Kernel:
    return Kernel(products, {"v4": v4, "v5e": v5e, "v5p": v5p, "v6e": v6e, "tpu7x": tpu7x})


# By a part of the kernel's name.
KERNELS = {
    "short_attention_forward": _kernel(2, 1688, 1067, 1098, 832, 773),
    "short_attention_backward": _kernel(4, 2424, 1677, 1728, 1048, 972),
    "dropout_attention_forward": _kernel(2, 4036, 2313, 2272, 2037, 1980),
    "dropout_attention_backward": _kernel(4, 4827, 2904, 2958, 2207, 2137),
    "splash_mha_fwd": _kernel(2, 3310, 2201, 2349, 1512, 1534),
    "splash_mha_dkv": _kernel(4, 4083, 3024, 3446, 2035, 2048),
    # By the profiles for v6e, 1.05 and 0.94 cycles for a bundle.
    "feed_forward_forward": Kernel(2, {"v6e": 9704, "tpu7x": 7446}, cycles=1.1),
    "feed_forward_backward": Kernel(4, {"v6e": 22974, "tpu7x": 20204}, cycles=1.1),
}
# Multiplications of 512 tokens and a matrix of base.
_NETWORK_BLOCK = 512 * 768 * 3072


class Instruction(NamedTuple):
    """One line of a computation: `%name = type opcode(operands), rest`.

    The only operand of a constant is its value.
    """

    name: str
    type: str
    opcode: str
    operands: list[str]
    rest: str


_BITS = {"pred": 8, "bf16": 16, "token": 0, "opaque": 0}
_HEAD = re.compile(r"^(ENTRY )?%?([\w.\-]+) \(.*\{$")
_NAME = re.compile(r"^\s+(?:ROOT )?%?([\w.\-]+) = ")
_ARRAY = re.compile(r"(\w+)\[([\d,]*)\](?:\{([^{}]*)\})?")
_OPERAND = re.compile(r"%([\w.\-]+)")
_PLACE = re.compile(r"S\(\d\)")
_ON_CHIP = re.compile(r"S\([1-9]")
_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
# What the compiler writes for an operation of a sparse core of TPU7x, whose time it does not know.
_UNKNOWN_CYCLES = str(2**63 - 1)
_KERNEL = 'custom_call_target="tpu_custom_call"'
_SHAPE = re.compile(r"\[([\d,]+)\]")
_TRIPS = re.compile(r'"known_trip_count":\{"n":"(\d+)"\}')
# Instructions that only name values or end an operation that started elsewhere.
_FREE = {"parameter", "constant", "tuple", "get-tuple-element", "bitcast", "after-all", "iota"}
_ALL_REDUCES = {"all-reduce", "all-reduce-start"}


def _balanced(text: str, start: int) -> int:
    """Return the position after the parenthesis that closes the one at `start`."""
    depth = 0
    for place in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[place], 0)
        if depth == 0:
            return place + 1
    raise ValueError(f"no closing parenthesis: {text[:200]}")


def _instruction(line: str) -> Instruction | None:
    found = _NAME.match(line)
    if not found:
        return None
    start = found.end()
    end = _balanced(line, start) if line[start] == "(" else line.index(" ", start)
    opening = line.index("(", end)
    closing = _balanced(line, opening)
    opcode = line[end:opening].strip()
    inside = line[opening + 1 : closing - 1]
    operands = [inside] if opcode == "constant" else _OPERAND.findall(inside)
    return Instruction(found[1], line[start:end], opcode, operands, line[closing:])


def computations(text: str) -> tuple[dict[str, list[Instruction]], str]:
    """Parse the computations of a module by name, and find the name of the entry computation."""
    found: dict[str, list[Instruction]] = {}
    entry = name = ""
    for line in text.splitlines():
        if head := _HEAD.match(line):
            name = head[2]
            found[name] = []
            entry = name if head[1] else entry
        elif name and (instruction := _instruction(line)):
            found[name].append(instruction)
    return found, entry


def memory_bytes(type_text: str) -> float:
    """Return the bytes of a type, or of all members of a tuple type, that are in HBM."""
    total = 0.0
    for dtype, shape, layout in _ARRAY.findall(type_text):
        if not _ON_CHIP.search(layout):
            digits = re.search(r"\d+", dtype)
            bits = _BITS.get(dtype, int(digits[0]) if digits else 0)
            total += math.prod(map(int, filter(None, shape.split(",")))) * bits / 8
    return total


def traffic(instruction: Instruction, types: dict[str, str]) -> float:
    """Return the bytes that an instruction reads from and writes to HBM."""
    inputs = [types.get(name, "") for name in instruction.operands]
    if instruction.opcode in ("dynamic-slice", "slice", "gather"):
        return 2 * memory_bytes(instruction.type)
    if instruction.opcode == "dynamic-update-slice":
        return 2 * memory_bytes(inputs[1])
    if instruction.opcode == "slice-start":
        # Its type begins with the whole operand and the part of it that is moved.
        source, part = [found[0] for found in _ARRAY.finditer(instruction.type)][:2]
        moved = memory_bytes(_PLACE.sub("", part))
        return moved * sum(not _ON_CHIP.search(place) for place in (source, part))
    if instruction.opcode in ("copy-start", "async-start"):
        # Their type contains both the operand and the result.
        return memory_bytes(instruction.type)
    return memory_bytes(instruction.type) + sum(memory_bytes(text) for text in inputs)


def program_costs(text: str, generation: str, trips: int = 1) -> Costs:
    """Sum the costs of a scheduled program for a TPU.

    Loops whose text does not tell run `trips` times; 0 leaves out all loops.
    """
    return summed(text, functools.partial(_costs, generation), trips)


def summed(
    text: str, costs_of: Callable[[Instruction, dict[str, str]], Costs], trips: int
) -> Costs:
    """Sum the costs of the instructions of a program.

    `costs_of` returns those of an instruction, for it and the types of all values by their names.
    """
    found, entry = computations(text)

    def total_of(name: str) -> Costs:
        total = Costs()
        types = {instruction.name: instruction.type for instruction in found[name]}
        for instruction in found[name]:
            opcode, rest = instruction.opcode, instruction.rest
            if opcode in _FREE or opcode.endswith("-done"):
                continue
            if opcode == "while":
                (body,) = re.findall(r"body=%?([\w.\-]+)", rest)[:1]
                count = (_trips(found, rest) or trips) if trips else 0
                total += total_of(body).times(count)
            elif opcode in ("call", "call-start", "conditional"):
                # On TPU7x, sparse cores compute all-reduces, started by a `call-start`. Of the
                # branches of a conditional, the most expensive one is counted.
                names = _OPERAND.findall(rest.split("metadata=")[0])
                total += max((total_of(name) for name in names if name in found), default=Costs())
            else:
                total += costs_of(instruction, types)
        return total

    return total_of(entry)


def reduced_bytes(instruction: Instruction, types: dict[str, str]) -> float:
    """Return the bytes that an instruction all-reduces, on the chip or not."""
    if instruction.opcode not in _ALL_REDUCES:
        return 0.0
    operand_types = [types.get(name, "") for name in instruction.operands]
    return sum(memory_bytes(_PLACE.sub("", text)) for text in operand_types)


def _costs(generation: str, instruction: Instruction, types: dict[str, str]) -> Costs:
    cycles = _CYCLES.search(instruction.rest.replace(_UNKNOWN_CYCLES, "0"))
    return Costs(
        traffic(instruction, types),
        float(cycles[1]) if cycles else 0.0,
        reduced_bytes(instruction, types),
        *(_kernel_costs(instruction, generation) if _KERNEL in instruction.rest else ()),
    )


def _trips(found: dict[str, list[Instruction]], loop: str) -> int | None:
    """Return how often a loop runs, None if its text does not tell.

    A loop counts from 0 while it is below a constant.
    """
    if known := _TRIPS.search(loop):
        return int(known[1])
    (condition,) = re.findall(r"condition=%?([\w.\-]+)", loop)[:1]
    constants = {each.name: each for each in found[condition] if each.opcode == "constant"}
    for each in found[condition]:
        if each.opcode == "compare" and "direction=LT" in each.rest:
            limits = [constants[name].operands[0] for name in each.operands if name in constants]
            return int(limits[0]) if limits else None
    return None


def _kernel_costs(call: Instruction, generation: str) -> tuple[float, float]:
    """Return the operations that a custom kernel stands for, and the cycles that it takes.

    Of attention, the first result with four axes is `[batch, heads, length, head_size]`, or with
    the last two exchanged; without one, the largest result is `[heads, length, head_size]`. A
    length is no smaller than a head. The cores of a device share the heads. Of the feed-forward
    network, the first result is `[tokens, width]`, and the last axis of the second one is `inner`.

    Raises:
        ValueError: If the kernel is not in the table.
    """
    for name, kernel in KERNELS.items():
        if name in call.name:
            shapes = [[int(n) for n in text.split(",")] for text in _SHAPE.findall(call.type)]
            if name.startswith("feed_forward"):
                size = math.prod(shapes[0]) * shapes[1][-1]
                bundles = size / _NETWORK_BLOCK * kernel.bundles[generation]
                return kernel.products * 2.0 * size, kernel.cycles * bundles
            shape = next((each for each in shapes if len(each) == 4), max(shapes, key=math.prod))
            heads, length, head_size = math.prod(shape[:-2]), max(shape[-2:]), min(shape[-2:])
            blocks = heads * (length / 512) ** 2
            data = GENERATIONS[generation]
            bundles = blocks * kernel.bundles[generation] * data.devices / data.cores
            flops = kernel.products * 2.0 * heads * length**2 * head_size
            return flops, kernel.cycles * bundles
    raise ValueError(f"the costs of the kernel {call.name} are unknown")
