"""What the TPU compiler reports about a training step, the same for all engines."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any

from jax.errors import JaxRuntimeError
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from albert_tf.tpu.bounds import Compiled, out_of_memory
from albert_tf.tpu.costs import program_costs


def product_flops(module: ir.Module, trips: int) -> float:
    """Counts the operations of the matrix products of a program whose loops run `trips` times."""
    operations: Any = module.body.operations
    functions = {operation.attributes["sym_name"].value: operation for operation in operations}

    def of(operation) -> float:
        name = operation.operation.name
        if name in ("stablehlo.dot", "stablehlo.dot_general"):
            output = ir.RankedTensorType(operation.results[0].type).shape
            left = ir.RankedTensorType(operation.operands[0].type).shape
            axes = [len(left) - 1]
            if name == "stablehlo.dot_general":
                numbers = operation.attributes["dot_dimension_numbers"]
                axes = stablehlo.DotDimensionNumbers(numbers).lhs_contracting_dimensions
            return 2.0 * math.prod(output) * math.prod(left[axis] for axis in axes)
        if name == "func.call":
            return of(functions[operation.attributes["callee"].value])
        inside = sum(
            of(inner)
            for region in operation.operation.regions
            for block in region.blocks
            for inner in block.operations
        )
        return inside * (trips if name == "stablehlo.while" else 1)

    with module.context:
        return of(functions["main"])


def measure(compile_step: Callable[[], Any], module: ir.Module, trips: int) -> Compiled:
    """Compiles a step and collects its costs.

    Args:
        compile_step: compiles it and returns the executable.
        module: the step in StableHLO, before compilation.
        trips: number of micro-batches, that is, iterations of its loops.
    """
    started = time.monotonic()
    flops = product_flops(module, trips)
    try:
        executable = compile_step()
    except JaxRuntimeError as error:
        seconds = time.monotonic() - started
        if found := out_of_memory(str(error)):
            needed, available = found
            return Compiled(False, needed, available, flops, seconds=seconds)
        return Compiled(False, error=str(error).strip().splitlines()[0], seconds=seconds)
    seconds = time.monotonic() - started
    memory = executable.get_compiled_memory_stats()
    text = executable.hlo_modules()[0].to_string()
    total, update = program_costs(text, trips), program_costs(text, trips=0)
    return Compiled(
        fits=True,
        memory=memory.argument_size_in_bytes
        + memory.output_size_in_bytes
        - memory.alias_size_in_bytes
        + memory.temp_size_in_bytes
        + memory.generated_code_size_in_bytes,
        flops=flops + total.kernels.flops,
        memory_bytes=total.memory_bytes,
        cycles=total.cycles,
        kernel_operations=total.kernels.operations,
        reduced_bytes=total.reduced_bytes,
        update_memory_bytes=update.memory_bytes,
        update_cycles=update.cycles,
        seconds=seconds,
    )
