"""GPUs that need not exist: their descriptions for the compiler, and the costs of programs."""

# ruff: noqa: E501 (the lines of a compiled program are as long as they are)

import dataclasses
import importlib.util
import json
import pathlib

import pytest

from albert_tf.errors import InputError
from albert_tf.hardware import GIB
from albert_tf.preflight import __main__ as preflight
from albert_tf.preflight.bounds import Compiled, step_time
from albert_tf.preflight.compiler import Compiler
from albert_tf.preflight.gpu_costs import gpu_program_costs
from albert_tf.preflight.gpus import FAMILIES, GPUS, parse_devices
from albert_tf.preflight.options import PreflightOptions
from albert_tf.tpu import preflight as former
from tests.conftest import run_python
from tests.support.tiny import WITHOUT_DROPOUT

H100 = parse_devices("h100")


@pytest.mark.parametrize(
    ("name", "of_machine", "machines", "full"),
    [
        ("h100", 1, 1, "h100x1"),
        ("h100-pciex2", 2, 1, "h100-pciex2"),
        ("rtx4090x8", 8, 1, "rtx4090x8"),
        ("l4x4x2", 4, 2, "l4x4x2"),
    ],
)
def test_names_of_gpus(name, of_machine, machines, full):
    where = parse_devices(name)
    assert (where.of_machine, where.machines, where.name) == (of_machine, machines, full)
    assert where.replicas == of_machine * machines
    assert parse_devices(full) == where


@pytest.mark.parametrize("name", ["h1000x8", "h100x0", "h100x8x2x2", "x8", "h100x", ""])
def test_other_names_are_errors_that_list_the_kinds(name):
    with pytest.raises(InputError, match=rf"^`devices`={name}: must be a kind of GPU .*h100, "):
        parse_devices(name)


def test_the_former_name_of_the_command():
    assert former.cli is preflight.cli


@pytest.mark.parametrize("kind", GPUS)
def test_what_the_compiler_is_told(kind):
    gpu = GPUS[kind]
    lines = set(map(str.strip, gpu.target().splitlines()))
    assert f"core_count: {gpu.cores}" in lines
    assert f"memory_bandwidth: {gpu.memory_bandwidth:.0f}" in lines
    assert f"shared_memory_per_core: {FAMILIES[gpu.capability].shared_memory * 1024}" in lines
    assert f'device_description_str: "{gpu.name}"' in lines
    # Dense products, added up in float32, per operation of the float32 units.
    units = 2 * gpu.cores * FAMILIES[gpu.capability].units * gpu.clock
    times = {(7, 0): 8, (7, 5): 8, (8, 0): 16, (9, 0): 16, (10, 0): 32}.get(gpu.capability, 4)
    times /= 2 if kind in ("a10g", "rtx4090", "rtx5090") else 1
    assert gpu.peak_flops == pytest.approx(times * units, rel=0.08)
    # TF32 is half as fast. GPUs without bfloat16 have no TF32, and are rated in float16.
    float32_flops = gpu.peak_flops / 2 if gpu.capability >= (8, 0) else units
    assert gpu.float32_flops == pytest.approx(float32_flops, rel=0.02)
    assert 0.002 < gpu.memory_bandwidth / gpu.peak_flops < 0.01
    assert gpu.network < 2 * gpu.link


def test_precisions():
    assert parse_devices("t4").for_dtype("auto").dtype == "float32"
    assert parse_devices("l4").for_dtype("auto").dtype == "bfloat16"
    assert H100.for_dtype("float32").peak_flops == 494.7e12 == H100.peak_flops / 2
    with pytest.raises(InputError, match="`dtype`=bfloat16: Tesla T4 has none; use float32"):
        parse_devices("t4").for_dtype("bfloat16")


def test_memory_is_what_jax_reserves(monkeypatch):
    monkeypatch.delenv("XLA_CLIENT_MEM_FRACTION", raising=False)
    monkeypatch.delenv("XLA_PYTHON_CLIENT_MEM_FRACTION", raising=False)
    assert H100.data.memory == 0.75 * 79.1 * GIB
    monkeypatch.setenv("XLA_PYTHON_CLIENT_MEM_FRACTION", "0.8")
    assert H100.data.memory == 0.8 * 79.1 * GIB
    monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", "0.9")
    assert H100.data.memory == 0.9 * 79.1 * GIB
    for value in ("2", "0", "nan", "75%"):
        monkeypatch.setenv("XLA_CLIENT_MEM_FRACTION", value)
        with pytest.raises(InputError, match=f"^XLA_CLIENT_MEM_FRACTION={value}: must be above 0"):
            H100.data.memory  # noqa: B018


def test_all_reduce_within_machines_and_across():
    assert H100.all_reduce_seconds(450e9) == 0
    assert parse_devices("h100x8").all_reduce_seconds(450e9) == 2 * 7 / 8
    both = parse_devices("h100x8x2").all_reduce_seconds(450e9)
    assert both == pytest.approx(2 * 7 / 8 + 2 / 2 * 450 / 400)


PROGRAM = """HloModule step, is_scheduled=true

%add (x: f32[], y: f32[]) -> f32[] {
  %x = f32[] parameter(0)
  %y = f32[] parameter(1)
  ROOT %sum = f32[] add(%x, %y)
}

%body (state: (bf16[4096,768], s32[])) -> (bf16[4096,768], s32[]) {
  %state = (bf16[4096,768]{1,0}, s32[]) parameter(0)
  %value = bf16[4096,768]{1,0} get-tuple-element(%state), index=0
  %weights = bf16[768,3072]{1,0} constant({...})
  %wide = (bf16[4096,3072]{1,0}, s8[33554432]{0}) custom-call(%value, %weights), custom_call_target="__cublas$lt$matmul", backend_config={"gemm_backend_config":{"dot_dimension_numbers":{"lhs_contracting_dimensions":["1"],"rhs_contracting_dimensions":["0"]}}}
  %heads = bf16[8,512,12,64]{3,2,1,0} bitcast(%value)
  %mask = bf16[8,1,512,512]{3,2,1,0} constant({...})
  %context = (bf16[8,12,512,64]{3,1,2,0}, f32[8,12,512]{2,1,0}, u8[0]{0}) custom-call(%heads, %heads, %heads, %mask), custom_call_target="__cudnn$fmhaScaleBiasSoftmax", backend_config={"cudnn_fmha_backend_config": {"intermediate_tensor_shape": {"element_type": "BF16", "dimensions": ["8", "12", "512", "512"]}}}
  %back = (bf16[8,12,512,64]{3,1,2,0}, bf16[8,12,512,64]{3,1,2,0}, bf16[8,12,512,64]{3,1,2,0}, u8[5]{0}) custom-call(%heads, %heads, %heads, %heads), custom_call_target="__cudnn$fmhaScaleBiasSoftmaxBackward", backend_config={"cudnn_fmha_backend_config": {"intermediate_tensor_shape": {"dimensions": ["8","12","512","512"]}}}
  ROOT %next = (bf16[4096,768]{1,0}, s32[]) tuple(%value, %value)
}

%condition (state: (bf16[4096,768], s32[])) -> pred[] {
  %state.1 = (bf16[4096,768]{1,0}, s32[]) parameter(0)
  ROOT %more = pred[] constant(true)
}

ENTRY %main (a: bf16[4096,768], g: f32[1000]) -> f32[1000] {
  %a = bf16[4096,768]{1,0} parameter(0)
  %g = f32[1000]{0} parameter(1)
  %start = (bf16[4096,768]{1,0}, s32[]) tuple(%a, %a)
  %loop = (bf16[4096,768]{1,0}, s32[]) while(%start), condition=%condition, body=%body, backend_config={"known_trip_count":{"n":"3"}}
  %all = f32[1000]{0} all-reduce-start(%g), replica_groups={{0,1}}, to_apply=%add
  %done = f32[1000]{0} all-reduce-done(%all)
  ROOT %out = f32[1000]{0} fusion(%done), kind=kLoop, calls=%add
}
"""


def test_kernels_take_the_longer_of_products_and_traffic():
    costs = gpu_program_costs(PROGRAM, H100)
    value, wide = 2 * 4096 * 768, 2 * 4096 * 3072
    product = 2 * 4096 * 768 * 3072
    scores = 2 * 8 * 12 * 512 * 512 * 64
    assert costs.reduced_bytes == 4000
    assert costs.fused_attention == 3 * 2
    assert costs.kernel_flops == 3 * (2 + 4) * scores
    # Without the workspaces; the all-reduce counts for the network only.
    product_bytes = value + wide + 2 * 768 * 3072
    forward = 4 * value + 4 * 8 * 12 * 512 + 2 * 8 * 512 * 512
    backward = 7 * value
    assert costs.memory_bytes == 3 * (product_bytes + forward + backward) + 8000
    seconds = 3 * max(product / 989.4e12, product_bytes / 3352e9) + 8000 / 3352e9
    assert costs.cycles / 1.98e9 == pytest.approx(seconds)
    attention = max(2 * scores / 989.4e12, forward / 3352e9)
    attention += max(5 * scores / 989.4e12, backward / 3352e9)
    assert costs.kernel_cycles / 1.98e9 == pytest.approx(3 * attention)
    # With dropout, the instructions take longer than the products.
    head, scope = "bf16[96,512,64]{2,1,0}", "transpose(jvp(dropout_attention_backward))"
    call = f"""ENTRY %main (a: {head}) -> ({head}, {head}, {head}) {{
  %a = {head} parameter(0)
  ROOT %call = ({head}, {head}, {head}) custom-call(%a, %a, %a, %a), custom_call_target="__gpu$xla.gpu.triton", metadata={{op_name="jit(f)/{scope}/pallas_call"}}
}}
"""
    dropout = gpu_program_costs(call, H100)
    assert (dropout.memory_bytes, dropout.kernel_flops) == (7 * value, 4 * scores)
    assert dropout.kernel_cycles == pytest.approx(96 * 512**2 / 32 * 94 / 4 / 132)
    # Products in float32 take twice as long.
    wider = gpu_program_costs(PROGRAM.replace("bf16[4096,768]", "f32[4096,768]"), H100)
    assert wider.cycles > costs.cycles


@pytest.fixture
def options(tmp_path):
    config = tmp_path / "albert_config.json"
    # Heads and lengths that cuDNN's attention supports.
    sizes = {"hidden_size": 128, "max_position_embeddings": 128}
    shape = dataclasses.replace(WITHOUT_DROPOUT, **sizes)
    config.write_text(shape.to_json())
    return PreflightOptions(
        albert_config_file=str(config),
        engine="jax",
        devices="h100x8",
        max_seq_length=128,
        max_predictions_per_seq=4,
        train_batch_size=128,
        dtype="auto",
    )


def test_report(options, monkeypatch, capsys):
    sizes = {"flops": 98.94e12, "cycles": 1.98e8, "reduced_bytes": 4.5e9, "fused_attention": 44.0}
    compiled = Compiled(True, 8 * GIB, **sizes)
    monkeypatch.setattr(Compiler, "compile", lambda *_: compiled)
    monkeypatch.setattr(preflight, "check_installed", lambda where: None)
    preflight.preflight(dataclasses.replace(options, price_per_hour=20.0, num_train_steps=36000))
    out = capsys.readouterr().out
    low, high = step_time(compiled, parse_devices("h100x8")).likely
    (row,) = [line.split() for line in out.splitlines() if line.strip().startswith("16 ")]
    assert row[:6] == ["16", "no", "8.00", "of", "59.32", "100.0"]
    assert row[6] == f"{1e3 * low:.1f}-{1e3 * high:.1f}"
    assert " bfloat16, jax with" in out
    assert "  estimate        117.5 ms, 85% of peak\n" in out
    assert "  fused kernels   0.0 ms of it, 44 kernels of attention\n" in out
    price = [20.0 * 36000 * each / 3600 for each in (low, high)]
    assert (
        "  price           {:,.2f} to {:,.2f}, at 20.00 per hour for h100x8".format(*price) in out
    )
    assert all(len(line) <= 80 for line in out.splitlines()[2:])


def test_a_batch_that_the_devices_do_not_divide_is_refused(options, monkeypatch):
    monkeypatch.setattr(preflight, "check_installed", lambda where: None)
    message = "`train_batch_size`=128: must be a multiple of the 3 devices of h"
    with pytest.raises(InputError, match=message):
        preflight.preflight(dataclasses.replace(options, devices="h100x3"))


def test_without_the_compiler_it_says_what_to_install(options, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name: None if "cuda" in name else found(name)
    )
    message = r"jax_cuda12_plugin, .* pip install 'albert-tf\[jax,preflight-gpu\]'"
    with pytest.raises(InputError, match=message):
        preflight.preflight(options)


needs_compiler = pytest.mark.skipif(
    importlib.util.find_spec("jax_cuda12_plugin") is None,
    reason="jax_cuda12_plugin not installed: pip install 'albert-tf[jax,preflight-gpu]'",
)


@pytest.mark.integration
@pytest.mark.slow
@needs_compiler
@pytest.mark.parametrize(
    ("engine", "name"),
    [
        ("jax", "a100-40x2"),
        *(pytest.param("jax", kind, marks=pytest.mark.manual) for kind in GPUS),
        pytest.param("tensorflow", "h100x2", marks=pytest.mark.manual),
    ],
)
@pytest.mark.parametrize("dropout", [0.0, 0.1])
def test_the_step_compiles(options, engine, name, dropout):
    config = pathlib.Path(options.albert_config_file)
    changed = {"attention_probs_dropout_prob": dropout}
    config.write_text(json.dumps(json.loads(config.read_text()) | changed))
    where = parse_devices(name).for_dtype("auto")
    asked = dataclasses.replace(options, engine=engine, devices=name, dtype=where.dtype)
    batch = 8 * where.replicas
    result = Compiler(asked).compile(where, batch, 4, False)
    assert result.error is None
    assert result.fits
    assert 0 < result.memory < 0.2 * GIB
    # Two kernels of a layer that is computed everywhere, in two micro-batches.
    fused = engine == "jax" and where.dtype == "bfloat16"
    assert result.fused_attention == 4 * fused
    assert result.cycles > result.update_cycles > 0
    assert (result.reduced_bytes > 0) == (where.replicas > 1)


@pytest.mark.manual
@needs_compiler
def test_what_users_run_compiles():
    process = run_python("-m", "tests.preflight.gpu_programs", "h100", "a100-80")
    assert process.returncode == 0, process.stderr
    rows = [line.split(" | ") for line in process.stdout.splitlines() if line.startswith("| ")]
    assert len(rows) == 19
    # Fused attention, everywhere but in float32.
    assert all((row[2] == "0") == ("float32" in row[0]) for row in rows)
