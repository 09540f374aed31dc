"""The training step compiled for TPU slices with the TPU compiler, which needs no TPU.

At the end: that of the JAX engine, and that of the TensorFlow engine with its kernels.
"""

import dataclasses
import importlib.util
import json
import textwrap

import pytest

from albert_tf.errors import InputError
from albert_tf.flops import pretraining_flops
from albert_tf.hardware import GIB, known_slices, parse_slice
from albert_tf.preflight import __main__ as preflight
from albert_tf.preflight import lowering
from albert_tf.preflight.bounds import Compiled
from albert_tf.preflight.compiler import Compiler
from albert_tf.preflight.costs import KERNELS
from albert_tf.preflight.options import PreflightOptions, Request
from tests.conftest import run_python
from tests.support.tiny import CONFIG, LENGTH, PREDICTIONS, WITHOUT_DROPOUT
from tests.test_flops import lookups, selections

MISSING = [name for name in ("jax", "libtpu") if importlib.util.find_spec(name) is None]
needs_compiler = pytest.mark.skipif(
    bool(MISSING),
    reason=f"{' and '.join(MISSING)} not installed: pip install 'albert-tf[cpu,preflight]'",
)
ONE_LAYER = dataclasses.replace(CONFIG, num_hidden_layers=1)  # with dropout
SHARE = 8
# All of eight devices, so that one program does for all.
SLICE = "v3:2x2"


@pytest.fixture(scope="module")
def options(tmp_path_factory):
    config = tmp_path_factory.mktemp("preflight") / "albert_config.json"
    config.write_text(ONE_LAYER.to_json())
    return PreflightOptions(
        albert_config_file=str(config),
        devices="v3:2x2",
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS,
        train_batch_size=8 * SHARE,
        dtype="bfloat16",
        attention="plain",  # with kernels: at the end of this file
    )


class LowersHere(Compiler):
    """Lowers in this process, which has loaded TensorFlow; compiles in another one, as always."""

    def _run(self, module, arguments, what):
        if module != "lowering":
            return super()._run(module, arguments, what)
        lowering.main(*arguments)
        return None


@pytest.fixture(scope="module")
def compiler(options):
    return LowersHere(options)


def model_flops(config, examples):
    """Return the products of a training step, with those that `test_flops.py` finds beyond it."""
    # Nothing needs the gradient of the selection; it is in the program that the compiler is given.
    selected = 1.5 * selections(config, 1 + PREDICTIONS)
    step = pretraining_flops(config, LENGTH, PREDICTIONS, True)
    return examples * (step + lookups(config) + selected)


def parameters(config):
    """Of the encoder and both heads, by formula."""
    e, h = config.embedding_size, config.hidden_size
    return config.parameter_count() + h * e + 3 * e + config.vocab_size + 2 * h + 2


@pytest.mark.slow
def test_the_program_does_not_hold_the_weights(options, tmp_path):
    config = dataclasses.replace(ONE_LAYER, vocab_size=1_000_000)
    path = tmp_path / "albert_config.json"
    path.write_text(config.to_json())
    asked = options.pretraining(0, albert_config_file=str(path))
    program = lowering.lower(Request(8, asked))
    assert len(program) < parameters(config)  # in bytes, where each takes four


@pytest.mark.slow
@needs_compiler
def test_dropout_is_drawn_by_the_device_itself(compiler, options):
    micro = SHARE // 2  # the program that is compiled below
    request = compiler._request(8, options.pretraining(micro, train_batch_size=8 * SHARE))
    path = compiler._program(request, "")
    # In a process of its own: TensorFlow and JAX each bring a runtime.
    printing = "import sys; from albert_tf.preflight.compiling import parse; "
    printing += "print(parse(open(sys.argv[1], 'rb').read()))"
    process = run_python("-c", printing, path)
    # Of embeddings, attention's weights, attention's output and the feed-forward network's, in the
    # first micro-batch and in the loop over the others.
    assert process.stdout.count("rng_bit_generator") == 8
    assert process.stdout.count("algorithm = DEFAULT : (tensor<2xui64>)") == 8


def check_step(result):
    assert result.error is None
    assert result.fits
    # Weights and two moments at the least; a tiny model needs little besides its program.
    assert 3 * 4 * parameters(ONE_LAYER) < result.memory < 0.1 * GIB
    assert result.flops == pytest.approx(model_flops(ONE_LAYER, SHARE), rel=0.01)
    # Every gradient is all-reduced once, and six scalars: two weights, four sums.
    assert result.reduced_bytes == pytest.approx(4 * (parameters(ONE_LAYER) + 6), rel=1e-3)
    assert result.cycles > result.update_cycles > 0
    assert result.memory_bytes >= result.update_memory_bytes > 0


@pytest.mark.integration
@pytest.mark.slow
@needs_compiler
def test_a_larger_micro_batch_needs_more_memory(options, compiler):
    where, most = parse_slice(SLICE), 32 * SHARE
    small = Compiler(options).compile(where, 8 * SHARE, SHARE // 2, False)
    check_step(small)
    large = compiler.compile(where, 8 * most, most, False)
    # Of each example the layer keeps at least its widest activation, in bfloat16.
    kept = 2 * LENGTH * ONE_LAYER.intermediate_size
    assert large.memory - small.memory > 31 * SHARE * kept
    assert large.flops == 32 * small.flops
    assert large.reduced_bytes <= small.reduced_bytes  # some gradients may go as bfloat16


@pytest.mark.integration
@needs_compiler
def test_what_cannot_be_compiled_is_one_line(options, tmp_path, monkeypatch):
    (tmp_path / "program").write_bytes(b"not a program")
    compiler = Compiler(options)
    monkeypatch.setattr(compiler, "_program", lambda *arguments: str(tmp_path / "program"))
    result = compiler.compile(parse_slice("v3:2x2"), 8, 1, None)
    assert not result.fits
    assert result.error
    assert "\n" not in result.error


@pytest.fixture
def made_up(monkeypatch):
    """Return a compiler by formula: an example needs 0.1 GiB, and all else 1 GiB."""
    asked = []

    def compile_step(self, where, batch, micro, remat):
        asked.append((where.name, micro))
        memory = GIB * (1 + 0.1 * micro)
        trips = batch // where.replicas // micro
        return Compiled(
            fits=memory <= where.data.memory,
            memory=memory,
            flops=1e12 * micro * trips,
            memory_bytes=1e6 * micro * trips,
            cycles=1e8 * micro * trips,
            kernel_cycles=1e6 * micro * trips,
        )

    monkeypatch.setattr(Compiler, "compile", compile_step)
    monkeypatch.setattr(preflight, "check_installed", lambda where: None)
    return asked


def test_report_of_one_slice(options, made_up, tmp_path, capsys):
    (tmp_path / "a.tfrecord").touch()
    settings = {"max_seq_length": LENGTH, "max_predictions_per_seq": 4, "pack_rows": True}
    manifest = {"settings": settings, "files": {"a.tfrecord": 6 * 4096}, "vocab_size": 60}
    counts = {"rows": 6 * 4096, "examples": 100_000}
    (tmp_path / "a.manifest.json").write_text(json.dumps(manifest | counts))
    files = (str(tmp_path / "a.tfrecord*"), "gs://elsewhere/b.tfrecord")
    # v2 has 7.48 GiB: 64 examples need 7.4, 128 do not fit; a larger program is tried first.
    config = tmp_path / "albert_config.json"
    shape = dataclasses.replace(ONE_LAYER, max_position_embeddings=4 * LENGTH)
    config.write_text(shape.to_json())
    asked = dataclasses.replace(options, devices="v2-8", train_batch_size=8 * 512)
    asked = dataclasses.replace(asked, albert_config_file=str(config))
    preflight.preflight(dataclasses.replace(asked, input_file=files, price_per_hour=36.0))
    # Without and with --remat.
    assert [micro for _, micro in made_up] == [256, 128, 64] * 2
    out = capsys.readouterr().out
    # 6 times 35.4597 to 83.4779 seconds, as below.
    assert "an epoch of 24,576 rows (100,000 examples): 6.0 steps, 3:33 to 8:21\n" in out
    rows = [line.split() for line in out.splitlines() if line.strip().startswith(("64 ", "128 "))]
    # 512 TFLOP at 23 TFLOP/s; 51.2e9 and 0.512e9 cycles at 700 MHz, 125,000 times.
    for number, remat in enumerate(("no", "yes")):
        assert " ".join(rows[2 * number]) == f"128 {remat} 13.80 of 7.48 does not fit"
        assert " ".join(rows[2 * number + 1]) == (
            f"64 {remat} 7.40 of 7.48 22260.9 35459.7-83477.9 51.30-120.77"
        )
    assert textwrap.dedent(out[out.index("fastest: ") :]).startswith(
        """fastest: --micro_batch_size=64
  products        512.000 TFLOP, 22260.9 ms at peak
  memory traffic  0.5 GB, 1.5 ms
  all-reduce      0.000 GB, 0.0 ms
  bound           22260.9 ms, by compute
  estimate        73874.3 ms, 30% of peak
  fused kernels   731.4 ms of it
  likely          35459.7-83477.9 ms, 51.30-120.77 days
  price           44,325 to 104,347, at 36.00 per hour for v2:2x2
"""
    )
    assert all(len(line) <= 80 for line in out.splitlines()[1:])
    # Without rows, and with other predictions.
    settings = {"max_seq_length": 4 * LENGTH, "max_predictions_per_seq": 5}
    counts = {"settings": settings, "examples": 40_960, "padding_share": 0.4}
    (tmp_path / "a.manifest.json").write_text(json.dumps(manifest | counts))
    preflight.preflight(dataclasses.replace(asked, input_file=files, max_seq_length=4 * LENGTH))
    out = capsys.readouterr().out
    assert "note: `max_predictions_per_seq`=4: the examples were created with 5 (" in out
    assert (
        "an epoch of 40,960 examples: 10.0 steps, 5:55 to 13:55\n"
        "40.0% of it is padding; with --pack_rows, at least 24,576 rows: 6.0 steps, 3:33 to 8:21\n"
    ) in out


def test_report_of_another_engine_and_generation(options, made_up, capsys):
    asked = dataclasses.replace(
        options, engine="jax", devices="v5e:2x4", micro_batch_sizes=("32",), train_batch_size=256
    )
    preflight.preflight(asked)
    lines = capsys.readouterr().out.splitlines()
    assert " jax with plain attention " in " ".join(map(str.strip, lines[:4])) + " "
    (row,) = [line.split() for line in lines if line.strip().startswith("32 ")]
    # 3.2e9 and 32e6 cycles at 1.5 GHz; 32 TFLOP at 197 TFLOP/s.
    assert row[5:] == ["162.4", "1853.0-2434.8", "2.68-3.52"]
    assert "  estimate        2154.7 ms, 8% of peak" in lines
    assert "  fused kernels   21.3 ms of it" in lines


def test_table_of_all_slices(options, made_up, capsys):
    asked = dataclasses.replace(options, devices=None, all_topologies=True, train_batch_size=4096)
    preflight.preflight(asked)
    rows = {line.split()[0]: line.split() for line in capsys.readouterr().out.splitlines() if line}
    assert not any(name.startswith("tpu7x") for name in rows)
    for where in known_slices():
        if "tensorflow" not in where.data.engines:
            continue
        share = 4096 // where.replicas
        fitting = [
            n for n in range(share.bit_length()) if 1 + 0.1 * 2**n <= where.data.memory / GIB
        ]
        assert rows[where.name][2] == str(min(2 ** max(fitting), share, 256)), where
        bound = share * 1e12 / where.data.peak_flops * 1e3
        assert float(rows[where.name][3]) == pytest.approx(bound, abs=0.06), where
    # Far fewer programs than slices times sizes.
    assert len(made_up) <= 4 * 6


def test_nothing_fits(options, made_up):
    wide = dataclasses.replace(options, devices="v2-8", micro_batch_sizes=("128",))
    with pytest.raises(InputError, match="v2:2x2: no micro-batch can run .*memory"):
        preflight.preflight(dataclasses.replace(wide, train_batch_size=8 * 512))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"devices": "v9:2x2"},
            r"`devices`=v9:2x2: no such slice; known slices are .*v3:16x16 \(v3-512",
        ),
        (
            {"devices": "tpu7x:2x2x1"},
            "`devices`=tpu7x:2x2x1: `engine`=tensorflow cannot be compiled for it; use `engine`",
        ),
        (
            {"engine": "jax"},
            "`devices`=v3:2x2: `engine`=jax cannot be compiled for it; use `engine`=tensorflow",
        ),
        ({"devices": "v3:2x2x1"}, "`devices`=v3:2x2x1: no such slice"),
        ({"devices": None}, "set either `devices` .* or `all_topologies`"),
        ({"all_topologies": True}, "set either `devices` .* or `all_topologies`"),
        ({"train_batch_size": 12}, "`train_batch_size`=12: must be a multiple of the 8 devices"),
        ({"micro_batch_sizes": ("3",)}, "`micro_batch_sizes`=3: does not divide the 8 examples"),
        ({"micro_batch_sizes": ("4", "x")}, "`micro_batch_sizes`=x: must be whole numbers"),
        ({"albert_config_file": "no.json"}, "no.json: no such file"),
        ({"max_seq_length": 513}, "`max_seq_length`=513: .* has max_position_embeddings"),
    ],
)
def test_errors_name_the_flag(options, made_up, changes, message):
    with pytest.raises(InputError, match=message):
        preflight.preflight(dataclasses.replace(options, **changes))
    assert not made_up


@pytest.mark.parametrize("package", ["jax", "libtpu"])
def test_without_the_compiler_it_says_what_to_install(options, package, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == package else found("os" if name == "libtpu" else name),
    )
    message = rf"{package}, which is not installed: pip install 'albert-tf\[cpu,preflight\]'"
    with pytest.raises(InputError, match=message):
        preflight.preflight(options)


# Compiling for each takes a minute.
OTHERS = ("v4:2x2x1", "v5p:2x2x1", "v6e:2x2", "tpu7x:2x2x1")


def with_compiler(test):
    """Mark a test of the JAX engine's step, which needs more packages."""
    missing = importlib.util.find_spec("grain") is None or importlib.util.find_spec("orbax") is None
    skipped = pytest.mark.skipif(missing, reason="grain or orbax not installed")
    return pytest.mark.integration(pytest.mark.slow(needs_compiler(skipped(test))))


# Heads of a size, and sequences of a length, that the attention kernel supports.
LONG, MICRO, TRIPS = 128, 4, 2
TWO_LAYERS = dataclasses.replace(WITHOUT_DROPOUT, hidden_size=32, max_position_embeddings=LONG)
DIRECTIONS = ("forward", "backward")


@pytest.fixture
def compile_step(options, tmp_path):
    def compile_for(name, attention, dropout=0.0, engine="jax"):
        config = tmp_path / "albert_config.json"
        shape = dataclasses.replace(TWO_LAYERS, attention_probs_dropout_prob=dropout)
        config.write_text(shape.to_json())
        where = parse_slice(name)
        batch = where.replicas * MICRO * TRIPS
        asked = dataclasses.replace(
            options,
            engine=engine,
            attention=attention,
            albert_config_file=str(config),
            devices=name,
            max_seq_length=LONG,
            train_batch_size=batch,
        )
        return Compiler(asked).compile(where, batch, MICRO, False)

    return compile_for


@with_compiler
@pytest.mark.parametrize(
    "name", ["v5e:2x2", *(pytest.param(n, marks=pytest.mark.manual) for n in OTHERS)]
)
def test_the_step_compiles_for_each_generation(compile_step, name):
    fused, plain = compile_step(name, "auto"), compile_step(name, "plain")
    for result in (fused, plain):
        assert result.error is None
        assert result.fits
        assert 0 < result.memory < 0.1 * GIB
        assert result.cycles > result.update_cycles > 0
        # Every gradient is all-reduced once, not once per micro-batch; a few may go as bfloat16.
        assert result.reduced_bytes == pytest.approx(4 * parameters(TWO_LAYERS), rel=0.02)
    # The model's operations are the same but for sums of rows that the kernel leaves to a product.
    assert fused.flops == pytest.approx(plain.flops, rel=1e-3)
    assert fused.kernel_cycles == pytest.approx(1.3 * bundles("short_attention", name))
    assert plain.kernel_cycles == 0


@with_compiler
@pytest.mark.parametrize(
    ("engine", "name"),
    [("jax", "v5e:2x2"), pytest.param("tensorflow", "v4:2x2x1", marks=pytest.mark.manual)],
)
def test_attention_with_dropout_is_fused(compile_step, engine, name):
    fused = compile_step(name, "auto", dropout=0.1, engine=engine)
    assert fused.error is None
    assert fused.kernel_cycles == pytest.approx(1.3 * bundles("dropout_attention", name))


def bundles(kernel, name):
    """Of the layer that is computed everywhere, forward and backward."""
    generation = parse_slice(name).generation
    cores = 2 if generation in ("v4", "v5p") else 1
    heads = MICRO * TRIPS * TWO_LAYERS.num_attention_heads / cores
    of_head = sum(KERNELS[f"{kernel}_{way}"].bundles[generation] for way in DIRECTIONS)
    return heads * (LONG / 512) ** 2 * of_head
