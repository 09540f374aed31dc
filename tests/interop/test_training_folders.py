"""Training folders of both engines: told apart, read, converted with all that resuming needs.

Also which checkpoint of a folder is exported and converted, and what is next to it.
"""

import asyncio
import gc
import os
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import TensorFlowFolder, orbax
from albert_tf.checkpoints.saving import Checkpoints
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.errors import InputError
from albert_tf.interop.adjacent_files import (
    EvaluatedSet,
    described_checkpoint,
    evaluation_data,
    find_adjacent_files,
)
from albert_tf.interop.file_names import FROZEN_FILE, SETTINGS_FILE, START_FILE, run_files
from albert_tf.interop.loading import find_format, load_weights, open_weights
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from albert_tf.training.evaluation import EVALUATIONS_FILE
from albert_tf.training.records import ORDER_FILE
from albert_tf.training.rows import METRICS_FILE
from albert_tf.training.run import DTYPE_FILE
from tests.conftest import KERAS_ON_JAX, refusal, run_python
from tests.interop.test_convert import assert_same, run, values_at
from tests.support.models import random_model
from tests.support.tiny import CONFIG

pytest.importorskip("orbax.checkpoint", reason="orbax-checkpoint is not installed")


def create_model(seed=3, optimizer_name="lamb"):
    keras.utils.set_random_seed(seed)
    model = AlbertForPreTraining(CONFIG)
    optimizer = create_optimizer(optimizer_name, 0.1)
    optimizer.build(model.trainable_weights)
    return model, optimizer


def checkpoints_of(folder, model, optimizer) -> Checkpoints:
    engine = TensorFlowEngine(TensorFlowDevices())
    step = engine.training_step(model, optimizer, PretrainingObjective(), engine.devices)
    return Checkpoints(engine.checkpoints_in(str(folder)), step, engine.workers)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Return a training folder of engine tensorflow, at step 5."""
    folder = tmp_path_factory.mktemp("trained") / "run"
    folder.mkdir()
    model, optimizer = create_model()
    optimizer.iterations.assign(5)
    for number, variable in enumerate(optimizer.variables):
        if variable.shape:
            variable.assign(variable + 1 / (number + 3))
    with checkpoints_of(folder, model, optimizer) as checkpoints:
        checkpoints.save()
    (folder / "albert_config.json").write_text(CONFIG.to_json())
    for name in run_files():
        (folder / name).write_text('{"of": "the run"}\n')
    (folder / "model.ckpt-5.json").write_text('{"metric": "loss", "value": 1, "step": 5}')
    return folder


@pytest.fixture(scope="module")
def converted(trained, tmp_path_factory):
    """Return the same as a training folder of engine jax."""
    return run(trained, tmp_path_factory.mktemp("converted") / "run", "jax")


def state_of(path) -> dict[str, np.ndarray]:
    """Return all weights and moments."""
    weights = open_weights(str(path))
    tensors = {**weights.tensors, **weights.optimizer}
    assert len(tensors) == len(weights.tensors) + len(weights.optimizer)
    return {name: tensor.read() for name, tensor in tensors.items()}


@pytest.mark.integration
def test_moments_and_step_survive_to_the_bit_and_training_resumes(
    trained, converted, tmp_path, caplog
):
    caplog.set_level("INFO")
    assert open_weights(str(converted)).step == 5
    assert_same(state_of(trained), state_of(converted))
    back = run(converted, tmp_path / "back", "albert_tf")
    assert "note: training can resume from step 5" in caplog.text
    assert_same(state_of(trained), state_of(back))
    model, optimizer = create_model(seed=4)
    assert checkpoints_of(back, model, optimizer).restore_latest()
    assert int(optimizer.iterations.numpy()) == 5
    state = state_of(trained)
    for variable in [*model.weights, *optimizer.variables]:
        if variable is not optimizer.iterations:
            np.testing.assert_array_equal(variable.numpy(), state[variable.path])


@pytest.mark.integration
def test_the_files_of_a_run_are_converted_too(trained, converted):
    of_run = {ORDER_FILE, DTYPE_FILE, START_FILE, SETTINGS_FILE, FROZEN_FILE}
    of_run |= {"target.json", "question_answering.json", "multiple_choice.json", "tagging.json"}
    of_run |= {"sentences.json"}
    assert set(run_files()) == {*of_run, METRICS_FILE, EVALUATIONS_FILE}
    for name in (*run_files(), "model.ckpt-5.json", "albert_config.json"):
        assert (converted / name).read_bytes() == (trained / name).read_bytes()
    assert sorted(set(os.listdir(converted)) - {*run_files()}) == [
        "albert_config.json",
        "checkpoints.json",
        "model.ckpt-5",
        "model.ckpt-5.json",
    ]


@pytest.mark.integration
def test_a_part_of_a_model_has_no_moments(converted, tmp_path):
    encoder = run(converted, tmp_path / "encoder", "jax", head="encoder")
    assert open_weights(str(encoder)).optimizer == {}
    huggingface = run(converted, tmp_path / "hf", "huggingface")
    back = run(huggingface, tmp_path / "back", "jax")
    assert open_weights(str(back)).optimizer == {}
    assert not (back / ORDER_FILE).exists()


@pytest.mark.integration
def test_weights_of_engine_jax_are_read_like_all_others(converted):
    for path in (converted, converted / "model.ckpt-5", f"{converted}/model.ckpt-5/"):
        assert find_format(str(path)) == "albert_tf"
        model, _ = create_model(seed=4)
        assert not load_weights(model, str(path)).missing
        weights = open_weights(str(path))
        assert weights.config == CONFIG
        for variable in model.weights:
            np.testing.assert_array_equal(variable.numpy(), weights.read(variable.path))
        assert find_adjacent_files(str(path)) == find_adjacent_files(str(converted))
    (converted / "labels.json").write_text('["a", "b"]')
    assert find_adjacent_files(str(converted / "model.ckpt-5")).labels == ("a", "b")


@pytest.mark.integration
def test_orbax_is_asked_for_by_name(converted, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorstore", None)
    with pytest.raises(InputError, match=r"^tensorstore.*pip install 'albert-tf\[jax\]'$"):
        open_weights(str(converted))
    monkeypatch.setitem(sys.modules, "orbax.checkpoint", None)
    with pytest.raises(InputError, match=r"^orbax-checkpoint.*pip install 'albert-tf\[jax\]'$"):
        orbax.import_orbax.__wrapped__()


def test_only_the_first_of_several_failed_writes_is_reported(caplog):
    async def fail(error):
        raise error

    async def leave_behind():
        asyncio.create_task(fail(ValueError("PERMISSION_DENIED: Error writing to gs://bucket")))
        asyncio.create_task(fail(ValueError("of another library")))
        await asyncio.sleep(0)

    orbax.import_orbax()
    asyncio.run(leave_behind())
    gc.collect()
    assert [str(record.exc_info[1]) for record in caplog.records] == ["of another library"]


def test_a_process_on_jax_loads_no_tensorflow_to_read_weights(trained, tmp_path, monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    monkeypatch.delitem(sys.modules, "tensorflow")
    command = "convert it first: convert_checkpoint.py --input={} --output=NEW_FOLDER --to=jax"
    for path in (f"{trained}", f"{trained}/model.ckpt-5"):
        message = refusal(open_weights, path)
        assert message.startswith(f"`path`={path}: is read by TensorFlow")
        assert message.endswith(command.format(path))
    nothing = refusal(open_weights, f"{tmp_path}/nothing")
    assert nothing.startswith(f"`path`={tmp_path}/nothing: no such file or folder")
    assert "tensorflow" not in sys.modules


RESUMING_ON_JAX = """
import sys, types
import jax, numpy as np
from albert_tf.config import AlbertConfig
from albert_tf.checkpoints import OrbaxFolder
from albert_tf.checkpoints.saving import Checkpoints
from albert_tf.engines.workers import Workers
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.optimization import create_optimizer
folder, output = sys.argv[1:]
model = AlbertForPreTraining(AlbertConfig.from_json_file(f"{folder}/albert_config.json"))
optimizer = create_optimizer("lamb", 0.1)
optimizer.build(model.trainable_weights)
variables = [v for v in optimizer.variables if v is not optimizer.iterations]
state = types.SimpleNamespace(tree={
    "params": {v.path: v.value for v in model.weights},
    "optimizer": {v.path: v.value for v in variables},
    "step": optimizer.iterations.value,
})
assert Checkpoints(OrbaxFolder(folder), state, Workers()).restore_latest()
assert int(state.tree["step"]) == 5
np.savez(output, **state.tree["params"], **state.tree["optimizer"])
sys.exit("tensorflow" in sys.modules)
"""


@pytest.mark.integration
@pytest.mark.slow
def test_keras_on_jax_calls_everything_that_is_saved_by_the_same_names(
    trained, converted, tmp_path
):
    done = run_python("-c", RESUMING_ON_JAX, converted, tmp_path / "state.npz", **KERAS_ON_JAX)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "state.npz") as restored:
        assert_same(state_of(trained), dict(restored))


@pytest.mark.integration
def test_a_full_disk_leaves_no_converted_folder(trained, tmp_path, monkeypatch):
    def fill_up(path):
        raise OSError(28, "No space left on device", path)

    monkeypatch.setattr(orbax, "complete", fill_up)
    with pytest.raises(OSError, match="No space left"):
        run(trained, tmp_path / "out", "jax")
    assert list(tmp_path.iterdir()) == []
    assert tf.config.list_logical_devices()  # JAX has not taken them


RESULTS = "eval_accuracy = 0.9\nglobal_step = {}\nnull_score_diff_threshold = 0.5\n"


def add_checkpoint(folder, engine: str, step: int) -> None:
    path = folder / f"model.ckpt-{step}"
    if engine == "jax":
        path.mkdir(parents=True)
    else:
        folder.mkdir(exist_ok=True)
        path.with_suffix(f".ckpt-{step}.index").touch()


@pytest.fixture(params=["tensorflow", "jax"])
def run_folder(request, tmp_path):
    """Return a folder with checkpoints at steps 9 and 10, and the best at step 5."""
    for folder, step in ((tmp_path, 9), (tmp_path, 10), (tmp_path / "best", 5)):
        add_checkpoint(folder, request.param, step)
    return tmp_path


@pytest.mark.parametrize(
    ("evaluated", "described"), [(None, "best"), (5, "best"), (9, "best"), (10, "")]
)
def test_the_best_is_used_unless_results_are_about_the_newest(run_folder, evaluated, described):
    if evaluated:
        (run_folder / "eval_results.txt").write_text(RESULTS.format(evaluated))
    assert described_checkpoint(str(run_folder)) == str(run_folder / described).rstrip("/")
    assert described_checkpoint(f"{run_folder}/model.ckpt-9") == f"{run_folder}/model.ckpt-9"


def test_results_of_another_checkpoint_are_left_out(tmp_path):
    (tmp_path / "eval_results.txt").write_text(RESULTS.format(5))
    sets = (EvaluatedSet("matched", "MNLI, dev_matched.tsv", 9815),)
    (tmp_path / "evaluation_data.json").write_text(evaluation_data(sets))
    found = find_adjacent_files(str(tmp_path))
    assert found.evaluated == sets
    for step in (5, 0, None):
        assert found.about(step) == found
    other = found.about(10)
    assert other.results == {"null_score_diff_threshold": "0.5"}, "which answers depend on"
    assert other.evaluated == ()


def test_the_best_of_earlier_versions_has_its_results_in_the_folder_of_training(run_folder):
    (run_folder / "eval_results.txt").write_text(RESULTS.format(5))
    assert find_adjacent_files(str(run_folder / "best")).about(5).results["eval_accuracy"] == "0.9"
    (run_folder / "best" / "eval_results.txt").write_text("eval_accuracy = 0.8\nglobal_step = 5\n")
    assert find_adjacent_files(str(run_folder / "best")).results["eval_accuracy"] == "0.8"


@pytest.mark.integration
def test_the_best_is_converted_unless_training_is_to_resume(tmp_path):
    folder = tmp_path / "run"
    for place, step in ((folder, 30), (folder / "best", 10)):
        model = random_model("classifier", CONFIG, seed=step)
        place.mkdir()
        TensorFlowFolder(str(place)).write(step, {w.path: w.numpy() for w in model.weights})
        (place / "albert_config.json").write_text(CONFIG.to_json())
    (folder / "eval_results.txt").write_text(RESULTS.format(10))
    for to, step in (("google", 10), ("albert_tf", 30)):
        output = run(folder, tmp_path / to, to)
        assert (output / f"model.ckpt-{step}.index").exists()
        assert ("eval_accuracy" in (output / "eval_results.txt").read_text()) == (step == 10)
    assert_same(values_at(folder / "best"), values_at(tmp_path / "google"))
