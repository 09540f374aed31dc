"""What commands load before the first step, and what JAX compiles only once."""

import concurrent.futures
import importlib.util
import os
import pathlib
import re

import pytest

from albert_tf.engines import startup
from tests.conftest import JAX_ENVIRONMENT, run_python, slow

pytestmark = pytest.mark.integration

# Loads what commands load, then prints which packages are there that have no use. Whatever all
# engines share, and the log of training, needs none of another engine.
LOADED = """
import importlib, pkgutil, sys
from albert_tf.engines.registry import select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import

engine, folder, *modules = sys.argv[1:]
select_engine(engine)
with quiet_import():
    load_keras()
    for name in (f"albert_tf.engines.{engine}.engine", *modules):
        importlib.import_module(name)
unused = {"sklearn", "matplotlib", "IPython", "jax", "tensorflow", "torch"} - {engine}
print(*sorted(unused & set(sys.modules)))

import keras, matplotlib.pyplot, sklearn.metrics  # as anywhere else from here on

for name in ("training", "modeling", "optimization", "input"):
    package = importlib.import_module(f"albert_tf.{name}")
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        importlib.import_module(module.name)
from albert_tf.training.log import EventWriter
from albert_tf.training.options import PretrainingOptions
writer = EventWriter(folder)
files = ("a.tfrecord", "b c.tfrecord")
writer.add_command(2, PretrainingOptions(output_dir="out", input_file=files, learning_rate=0.5))
writer.add_scalars(3, {"loss": 0.5})
writer.close()
print(*sorted({"jax", "tensorflow"} - {engine} & set(sys.modules)))
"""
# Compiles programs on JAX as a command does, and prints their results and what was compiled.
COMPILING = """
from albert_tf.engines.registry import select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import

select_engine("jax")
with quiet_import():
    load_keras()
    import jax, keras, numpy as np

counts = {"cache_hits": 0, "cache_misses": 0}
def count(event, **_):
    name = event.rsplit("/", 1)[-1]
    if name in counts:
        counts[name] += 1
jax.monitoring.register_event_listener(count)

layer = keras.layers.Dense(5, kernel_initializer=keras.initializers.RandomNormal(seed=1))
layer.build((None, 7))
step = jax.jit(lambda kernel, x: jax.nn.softmax(jax.numpy.tanh(x @ kernel)).sum(axis=0))
x = np.linspace(-1, 1, 77, dtype=np.float32).reshape(11, 7)
result = np.asarray(step(layer.kernel.value, x))
print(result.tobytes().hex(), counts["cache_hits"], counts["cache_misses"])
"""

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)


@pytest.mark.parametrize("engine", [*slow("tensorflow"), pytest.param("jax", marks=needs_jax)])
def test_commands_load_no_library_before_they_need_it(engine, tmp_path):
    modules = (
        "albert_tf.training.pretraining",
        "albert_tf.finetuning.runs",
        "albert_tf.tasks.classification.task",
        "albert_tf.tasks.question_answering.task",
        "albert_tf.tasks.multiple_choice.task",
        "albert_tf.tasks.tagging.task",
    )
    done = run_python("-c", LOADED, engine, tmp_path, *modules, **JAX_ENVIRONMENT)
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, [], "")
    import tensorflow as tf  # in this process only, as the reader that TensorBoard has
    from google.protobuf import json_format
    from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

    (path,) = tmp_path.iterdir()
    version, _, text, hparams, event = tf.compat.v1.train.summary_iterator(str(path))
    assert version.file_version == "brain.Event:2"
    (value,) = event.summary.value
    assert (event.step, value.tag, tf.make_ndarray(value.tensor).item()) == (3, "quality/loss", 0.5)
    assert value.metadata.plugin_data.plugin_name == "scalars"
    (value,) = text.summary.value
    assert (value.tag, value.metadata.plugin_data.plugin_name) == ("command", "text")
    flags = ["--output_dir=out", "'--input_file=a.tfrecord,b c.tfrecord'", "--learning_rate=0.5"]
    lines = tf.make_ndarray(value.tensor).item().decode().split(" \\\n")
    assert sorted(line.strip() for line in lines[1:]) == sorted(flags)
    assert all(line.startswith("    ") for line in lines), "a block of code in Markdown"
    content = hparams.summary.value[0].metadata.plugin_data.content
    session = HParamsPluginData.FromString(content).session_start_info
    assert {name: json_format.MessageToDict(each) for name, each in session.hparams.items()} == {
        "output_dir": "out",
        "input_file": "a.tfrecord,b c.tfrecord",
        "learning_rate": 0.5,
    }


@pytest.mark.parametrize(
    "command", ["extract_corpus", "train_vocabulary", "create_pretraining_data"]
)
def test_help_of_data_preparation_needs_no_heavy_imports(command):
    done = run_python("-X", "importtime", f"data_prep/{command}.py", "--help")
    assert "--input_file" in done.stdout
    loaded = set(re.findall(r"\| +(\w+)$", done.stderr, re.MULTILINE))
    assert "data_prep" in loaded
    heavy = {"tensorflow", "keras", "torch", "transformers", "numba", "sentencepiece"}
    assert not heavy & loaded


def test_importing_the_package_and_the_programs_loads_no_framework():
    code = (
        "import sys, albert_tf, run_pretraining, run_classifier, run_squad, export_saved_model;"
        "import albert_tf.config, albert_tf.tokenizers.base, albert_tf.input.masking;"
        "import data_prep.corpora, data_prep.inspect.examples;"
        "import albert_tf.interop.huggingface_tokenizer;"
        "loaded = {'tensorflow', 'keras', 'torch', 'transformers'} & set(sys.modules);"
        "assert not loaded, loaded"
    )
    assert run_python("-c", code).stderr == ""


def _compile(folder: pathlib.Path) -> tuple[str, int, int]:
    """Return the result of a process, and the programs that it found and compiled."""
    done = run_python("-c", COMPILING, **JAX_ENVIRONMENT, ALBERT_TF_CACHE=str(folder))
    assert (done.returncode, done.stderr) == (0, "")
    result, hits, misses = done.stdout.split()
    return result, int(hits), int(misses)


@pytest.mark.slow
@needs_jax
def test_later_processes_compile_nothing(tmp_path):
    # The first two share an empty folder.
    with concurrent.futures.ThreadPoolExecutor() as pool:
        ((result,),) = {each[:1] for each in pool.map(_compile, [tmp_path] * 2)}
    first, second, *_ = programs = sorted(tmp_path.glob("compiled/*/*-cache"))
    assert _compile(tmp_path) == (result, len(programs), 0)

    # A process that was killed left part of a program, another one was damaged on the disk.
    first.write_bytes(first.read_bytes()[:100])
    first.with_name(first.name.removesuffix("-cache") + "-atime").unlink()
    second.write_bytes(second.read_bytes()[:100])
    assert _compile(tmp_path)[0] == result
    assert len(first.read_bytes()) > 100  # written again

    (folder,) = tmp_path.glob("compiled/*")
    assert {path.parent for path in tmp_path.rglob("*") if path.is_file()} == {folder}


def test_programs_are_not_kept_where_they_cannot_or_must_not_be(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("no folder")
    for name, value in {
        "ALBERT_TF_CACHE": str(file),
        startup.CACHE_VARIABLE: "off",
        "JAX_COMPILATION_CACHE_DIR": str(tmp_path / "own"),
    }.items():
        with monkeypatch.context() as patch:
            patch.setenv("ALBERT_TF_CACHE", str(tmp_path))
            patch.setenv(name, value)
            before = dict(os.environ)
            startup.keep_compiled_programs()
            assert dict(os.environ) == before
    assert list(tmp_path.iterdir()) == [file]
