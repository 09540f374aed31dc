"""Costs of a scheduled program, from its text; and the bounds that follow."""

# ruff: noqa: E501 (the lines of a compiled program are as long as they are)

import dataclasses

import pytest

from albert_tf.hardware import GIB, known_slices, parse_slice
from albert_tf.preflight.bounds import Compiled, for_share, out_of_memory, step_time
from albert_tf.preflight.costs import KERNELS, program_costs

PROGRAM = """HloModule step, is_scheduled=true, entry_computation_layout={(f32[8,128]{1,0:T(8,128)})}

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[]{:T(128)} parameter(0)
  %y = f32[]{:T(128)} parameter(1)
  ROOT %sum = f32[]{:T(128)} add(%x, %y)
}

%fused (p: f32[8,128]) -> bf16[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %c = bf16[8,128]{1,0:T(8,128)(2,1)} convert(%p)
}

%body (state: (f32[8,128], s32[])) -> (f32[8,128], s32[]) {
  %state = (f32[8,128]{1,0:T(8,128)}, s32[]{:T(128)}) parameter(0)
  %value = f32[8,128]{1,0:T(8,128)} get-tuple-element(%state), index=0
  %half = bf16[8,128]{1,0:T(8,128)(2,1)} fusion(%value), kind=kLoop, calls=%fused, backend_config={"window_config":{"estimated_cycles":"100"}}
  %near = bf16[8,128]{1,0:T(8,128)(2,1)S(1)} fusion(%half), kind=kLoop, calls=%fused, backend_config={"window_config":{"estimated_cycles":"10"}}
  ROOT %next = (f32[8,128]{1,0:T(8,128)}, s32[]{:T(128)}) tuple(%value, %near)
}

%condition (state: (f32[8,128], s32[])) -> pred[] {
  %state.1 = (f32[8,128]{1,0:T(8,128)}, s32[]{:T(128)}) parameter(0)
  ROOT %more = pred[]{:T(512)} constant(true)
}

ENTRY %main (a: f32[8,128]) -> f32[8,128] {
  %a = f32[8,128]{1,0:T(8,128)} parameter(0)
  %start = (f32[8,128]{1,0:T(8,128)}, s32[]{:T(128)}) tuple(%a, %a)
  %loop = (f32[8,128]{1,0:T(8,128)}, /*index=1*/s32[]{:T(128)}) while(%start), condition=%condition, body=%body
  %out = f32[8,128]{1,0:T(8,128)} get-tuple-element(%loop), index=0
  %all = (f32[8,128]{1,0:T(8,128)S(1)}, f32[8,128]{1,0:T(8,128)}) all-reduce(%out, %near.2), replica_groups={{0,1}}, to_apply=%add
  %near.2 = f32[8,128]{1,0:T(8,128)S(1)} copy(%a), backend_config={"window_config":{"estimated_cycles":"7"}}
  ROOT %first = f32[8,128]{1,0:T(8,128)} get-tuple-element(%all), index=1
}
"""
SIZE = 8 * 128  # elements of every array


def test_loops_count_as_often_as_they_run():
    outside = 4 * SIZE * 2 + 4 * SIZE  # in and out of the all-reduce in HBM; what the copy reads
    inside = (4 + 2) * SIZE + 2 * SIZE  # the second fusion leaves its result on the chip
    for trips in (0, 1, 5):
        costs = program_costs(PROGRAM, "v5e", trips)
        assert costs.memory_bytes == outside + trips * inside
        assert costs.cycles == 7 + trips * 110
        assert costs.reduced_bytes == 2 * 4 * SIZE  # on the chip or not


def test_operations_whose_time_is_unknown_take_none():
    program = PROGRAM.replace('cycles":"7"', f'cycles":"{2**63 - 1}"')
    assert program_costs(program, "tpu7x").cycles == 110


KNOWN_TRIPS = ', body=%body, backend_config={"known_trip_count":{"n":"3"}}'
CONDITION = """  %limit = s32[]{:T(128)} constant(3)
  %number = s32[]{:T(128)} get-tuple-element(%state.1), index=1
  ROOT %more = pred[]{:T(512)} compare(%number, %limit), direction=LT
"""


@pytest.mark.parametrize(
    ("line", "others"),
    [(", body=%body", KNOWN_TRIPS), ("  ROOT %more = pred[]{:T(512)} constant(true)\n", CONDITION)],
    ids=["of the compiler", "in the condition"],
)
def test_a_number_of_trips_in_the_program_goes_first(line, others):
    text = PROGRAM.replace(line, others)
    for given, trips in ((5, 3), (0, 0)):
        assert program_costs(text, "v5e", given) == program_costs(PROGRAM, "v5e", trips)


def entry(*lines: str) -> str:
    """Return a program of these instructions."""
    body = "".join(f"  {line}\n" for line in lines)
    return f"ENTRY %main (a: f32[8,128]) -> f32[8,128] {{\n{body}}}\n"


@pytest.mark.parametrize(
    ("source", "part", "times"),
    [("", "S(1)", 1), ("S(1)", "", 1), ("", "", 2), ("S(1)", "S(1)", 0)],
)
def test_a_slice_counts_where_it_is_read_and_written(source, part, times):
    types = (
        f"((f32[64,128]{{1,0:T(8,128){source}}}), f32[8,128]{{1,0:T(8,128){part}}}, s32[]{{:S(2)}})"
    )
    program = entry(
        f"%a = f32[64,128]{{1,0:T(8,128){source}}} parameter(0)",
        f"%b = {types} slice-start(%a), slice={{[0:8]}}",
        f"ROOT %c = f32[8,128]{{1,0:T(8,128){part}}} slice-done(%b)",
    )
    assert program_costs(program, "v6e").memory_bytes == times * 4 * SIZE


def test_parts_of_an_array_count_as_what_is_moved():
    lines = {
        "dynamic-slice(%a)": 2 * 4 * SIZE,
        "dynamic-update-slice(%big, %a)": 2 * 4 * SIZE,
        "fusion(%big), kind=kLoop": 4 * SIZE + 400 * SIZE,
        "bitcast(%big)": 0,
        "copy-done(%a)": 0,
    }
    for line, moved in lines.items():
        program = entry(
            "%a = f32[8,128]{1,0:T(8,128)} parameter(0)",
            "%big = f32[100,8,128]{2,1,0:T(8,128)} parameter(1)",
            f"ROOT %b = f32[8,128]{{1,0:T(8,128)}} {line}",
        )
        assert program_costs(program, "v5e").memory_bytes == moved, line


FORWARD = (
    "%splash_mha_fwd_segmented_residuals.3 = (f32[2,1024,128]{2,1,0:T(8,128)}, "
    "bf16[2,12,1024,64]{3,2,1,0:T(8,128)(2,1)}, f32[2,12,1024,128]{3,2,1,0:T(8,128)}) "
)
BACKWARD = "%transpose_short_attention_backward.1 = (bf16[2,12,64,1024]{3,2,1,0:T(8,128)(2,1)}) "
UNKNOWN = "%my_kernel.1 = bf16[2,12,512,64]{3,2,1,0:T(8,128)} "


def test_kernels_count_by_their_schedules():
    def program(*kernels):
        return entry(
            *(f'{k}custom-call(%a), custom_call_target="tpu_custom_call"' for k in kernels)
        )

    product = 2 * 2 * 12 * 1024 * 1024 * 64
    heads, blocks = 2 * 12, 2 * 2  # a block has 512 queries and 512 keys
    for generation, cores in (("v5e", 1), ("v4", 2)):
        costs = program_costs(program(FORWARD, BACKWARD, BACKWARD), generation)
        forward, backward = (
            KERNELS[name].bundles[generation]
            for name in ("splash_mha_fwd", "short_attention_backward")
        )
        assert costs.kernel_flops == (2 + 2 * 4) * product
        bundles = heads * blocks * (forward + 2 * backward) / cores
        assert costs.kernel_cycles == pytest.approx(1.3 * bundles)
    assert costs.cycles == 0
    with pytest.raises(ValueError, match=r"the costs of the kernel my_kernel\.1 are unknown"):
        program_costs(program(UNKNOWN), "v5e")


def test_all_reduces_on_sparse_cores_count():
    program = """%called (p: f32[8,128]) -> f32[8,128] {
  %p = f32[8,128]{1,0:T(8,128)} parameter(0)
  ROOT %all = f32[8,128]{1,0:T(8,128)} all-reduce(%p), replica_groups={{0,1}}, to_apply=%add
}, execution_thread="sparsecore"

ENTRY %main (a: f32[8,128]) -> f32[8,128] {
  %a = f32[8,128]{1,0:T(8,128)} parameter(0)
  %start = ((f32[8,128]{1,0:T(8,128)}), f32[8,128]{1,0:T(8,128)}, s32[]) call-start(%a), execution_thread="sparsecore", to_apply=%called, metadata={}
  ROOT %done = f32[8,128]{1,0:T(8,128)} call-done(%start)
}
"""
    assert program_costs(program, "v5e").reduced_bytes == 4 * SIZE


def test_errors_of_the_compiler_about_memory():
    used = "Ran out of memory in memory space hbm. Used 20.50G of 15.48G hbm. Exceeded hbm by 5G."
    assert out_of_memory(used) == (20.5 * GIB, 15.48 * GIB)
    required = (
        "the total memory required for HLO temporaries (670.62G) exceeds available HBM (7.48G)."
    )
    assert out_of_memory(required) == (670.62 * GIB, 7.48 * GIB)
    assert out_of_memory("INVALID_ARGUMENT: something else") is None


COMPILED = Compiled(
    fits=True,
    flops=61.5e12,
    memory_bytes=225e9,
    cycles=1.88e9,
    reduced_bytes=82e9,
    update_memory_bytes=25e9,
    update_cycles=0.88e9,
)


def test_step_time_on_v3():
    time = step_time(COMPILED, parse_slice("v3:2x2"))
    # A core has half of a chip's 123 TFLOP/s and 900 GB/s; of 4 chips each sends 2 * 3/4.
    assert time[:3] == pytest.approx((1.0, 0.5, 1.5 * 82 / 328))
    assert (time.bound, time.bound_by) == (pytest.approx(1.0), "compute")
    assert time.estimate == pytest.approx(2.0 + time.network)
    slow = dataclasses.replace(COMPILED, memory_bytes=900e9)
    assert step_time(slow, parse_slice("v3:2x2")).bound_by == "memory"
    wide = dataclasses.replace(COMPILED, reduced_bytes=820e9)
    assert step_time(wide, parse_slice("v3:2x2")).bound_by == "network"
    assert step_time(COMPILED, parse_slice("v5e:1x1")).network == 0
    fused = step_time(dataclasses.replace(COMPILED, kernel_cycles=94e6), parse_slice("v3:2x2"))
    assert fused.kernels == pytest.approx(0.1)
    assert fused.estimate == pytest.approx(time.estimate + 0.1)
    assert time.likely == pytest.approx((0.48 * time.estimate, 1.13 * time.estimate))
    busy = step_time(dataclasses.replace(COMPILED, flops=123e12), parse_slice("v3:2x2"))
    assert busy.likely == pytest.approx((busy.bound, 1.13 * busy.estimate))  # no less than it


def test_costs_of_another_share():
    same = for_share(COMPILED, 8, 2, 16)
    assert same == COMPILED
    double = for_share(COMPILED, 8, 2, 32)
    assert (double.flops, double.memory_bytes, double.cycles) == (2 * 61.5e12, 425e9, 2.88e9)
    assert double.reduced_bytes == COMPILED.reduced_bytes


def test_slices_by_both_names():
    for where in known_slices():
        assert parse_slice(where.name) == parse_slice(where.accelerator) == where
    assert parse_slice("v3-512").replicas == 512
    assert parse_slice("v4-512").replicas == 256  # two cores of a chip act as one
    assert parse_slice("v5litepod-256").replicas == 256
    assert parse_slice("tpu7x-8").replicas == 8  # of four chips
