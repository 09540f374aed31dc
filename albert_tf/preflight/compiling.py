"""Compiles a program with the real compiler for TPUs or GPUs, on a machine without them.

    python -m albert_tf.preflight.compiling PROGRAM DEVICES TRIPS RESULT

It runs in a separate process because the compiler may crash and uses gigabytes of memory. PROGRAM
is a serialized HLO module of one replica, TRIPS the number of its micro-batches, RESULT a JSON file
with the fields of `Compiled`. Loads no TensorFlow.
"""

import dataclasses
import importlib.util
import math
import os
import sys
from collections.abc import Callable
from typing import Any

# Set before JAX loads, so that it looks for no device on this machine or in Cloud metadata.
os.environ.update(JAX_PLATFORMS="cpu", TPU_SKIP_MDS_QUERY="1", ALLOW_MULTIPLE_LIBTPU_LOAD="1")
# The last line of an error is its cause then, not a notice of what was left out.
os.environ["JAX_TRACEBACK_FILTERING"] = "off"

import numpy as np
from jax.errors import JaxRuntimeError
from jax.experimental import topologies
from jax.interpreters import mlir as jax_mlir
from jaxlib import _jax, xla_client
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from albert_tf.files import read_bytes, to_json, write_text
from albert_tf.hardware import Slice
from albert_tf.preflight.bounds import Compiled, out_of_memory
from albert_tf.preflight.costs import program_costs
from albert_tf.preflight.gpu_costs import gpu_program_costs
from albert_tf.preflight.gpus import Gpus, parse_devices

# Without a GPU, nothing can be timed, and Triton's products would be those of no choice.
_GPU_SETTINGS = {"xla_gpu_autotune_level": 0, "xla_gpu_enable_triton_gemm": False}


def find_devices(where: Slice | Gpus) -> tuple[Any, dict[str, Any]]:
    """Return JAX's devices, which need not exist, and the settings of the compiler for them."""
    if isinstance(where, Slice):
        topology = topologies.get_topology_desc(where.name, "tpu", **where.settings)
        return topology.devices, {}
    shape = f"1x{where.machines}x{where.of_machine}"
    topology = topologies.get_topology_desc(
        where.name, "cuda", target_config=where.data.target(), topology=shape
    )
    nvcc = importlib.util.find_spec("nvidia.cuda_nvcc")
    folder = [*nvcc.submodule_search_locations][0] if nvcc else ""  # type: ignore[misc]
    return topology.devices, _GPU_SETTINGS | {"xla_gpu_cuda_data_dir": folder}


def parse(program: bytes) -> ir.Module:
    """Convert a serialized HLO module that was lowered for a CPU to StableHLO for other devices.

    `mhlo.copy`, which StableHLO does not have, is replaced by its operand. Random bits come from
    the generator of the device, which TensorFlow uses on TPUs, instead of Philox.
    """
    text = _jax.mlir.hlo_to_stablehlo(program)
    context = jax_mlir.make_ir_context()
    context.allow_unregistered_dialects = True
    with context:
        module = ir.Module.parse(text)
        found: dict[str, list[Any]] = {"mhlo.copy": [], "stablehlo.rng_bit_generator": []}

        def visit(operation):
            if operation.name in found:
                found[operation.name].append(operation)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit)
        for copy in found["mhlo.copy"]:
            copy.results[0].replace_all_uses_with(copy.operands[0])
            copy.erase()
        for generator in found["stablehlo.rng_bit_generator"]:
            if "DEFAULT" not in str(generator.attributes["rng_algorithm"]):
                _draw_by_the_device(generator)
    return module


def _draw_by_the_device(generator: ir.Operation) -> None:
    with ir.InsertionPoint(generator), generator.location:
        # The state is a key and a two-word counter, of which the device uses the first two words.
        state = stablehlo.slice(generator.operands[0], [0], [2], [1])
        after, bits = generator.results
        drawn = stablehlo.RngBitGeneratorOp(
            state.type, bits.type, stablehlo.RngAlgorithmAttr.get("DEFAULT"), state
        )
    bits.replace_all_uses_with(drawn.results[1])
    # TensorFlow slices the new state but uses none of the slices.
    after.replace_all_uses_with(generator.operands[0])
    generator.erase()


def compile_program(module: ir.Module, where: Slice | Gpus, trips: int) -> Compiled:
    """Compile the program of one replica for all devices."""
    devices, settings = find_devices(where)
    options = xla_client.CompileOptions()
    options.num_replicas = len(devices)
    options.executable_build_options.num_replicas = len(devices)
    options.executable_build_options.use_spmd_partitioning = True
    numbers = np.array([[device.id] for device in devices])
    options.device_assignment = xla_client.DeviceAssignment.create(numbers)
    options.env_option_overrides = list(settings.items())

    def compile_module():
        with module.context:
            return devices[0].client.compile(
                module,
                executable_devices=xla_client.DeviceList(tuple(devices)),
                compile_options=options,
            )

    return measure(compile_module, module, where, trips)


def product_flops(module: ir.Module, trips: int) -> float:
    """Count the operations of the matrix products of a program whose loops run `trips` times."""
    operations: Any = module.body.operations
    functions = {operation.attributes["sym_name"].value: operation for operation in operations}

    def flops_of(operation) -> float:
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
            return flops_of(functions[operation.attributes["callee"].value])
        inside = sum(
            flops_of(inner)
            for region in operation.operation.regions
            for block in region.blocks
            for inner in block.operations
        )
        return inside * (trips if name == "stablehlo.while" else 1)

    with module.context:
        return flops_of(functions["main"])


def measure(
    compile_step: Callable[[], Any], module: ir.Module, where: Slice | Gpus, trips: int
) -> Compiled:
    """Compile a step by calling `compile_step`, and collect the costs of the executable.

    `module` is the step in StableHLO, before compilation, whose loops run `trips` times.
    """
    flops = product_flops(module, trips)
    try:
        executable = compile_step()
    except JaxRuntimeError as error:
        if found := out_of_memory(str(error)):
            return Compiled(False, *found, flops)
        return Compiled(False, error=str(error).strip().splitlines()[0])
    sizes = executable.get_compiled_memory_stats()
    memory = (
        sizes.argument_size_in_bytes
        + sizes.output_size_in_bytes
        - sizes.alias_size_in_bytes
        + sizes.temp_size_in_bytes
        + sizes.generated_code_size_in_bytes
    )
    text = executable.hlo_modules()[0].to_string()
    if isinstance(where, Gpus):
        total, update = (gpu_program_costs(text, where, count) for count in (trips, 0))
    else:
        total, update = (program_costs(text, where.generation, count) for count in (trips, 0))
    costs = total._asdict()
    return Compiled(
        # The compiler for GPUs accepts programs of any size.
        fits=not isinstance(where, Gpus) or memory <= where.data.memory,
        memory=memory,
        flops=flops + costs.pop("kernel_flops"),
        update_memory_bytes=update.memory_bytes,
        update_cycles=update.cycles,
        **costs,
    )


def main(program: str, devices: str, trips: str, result: str) -> None:
    module = parse(read_bytes(program))
    write_result(compile_program(module, parse_devices(devices), int(trips)), result)


def write_result(compiled: Compiled, path: str) -> None:
    write_text(path, to_json(dataclasses.asdict(compiled)))


if __name__ == "__main__":
    main(*sys.argv[1:])
