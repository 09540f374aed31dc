"""The commands with --engine=jax, in processes that cannot import TensorFlow."""

import dataclasses
import pathlib
import signal
import subprocess

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.interop.loading import open_weights
from tests.conftest import free_addresses
from tests.end_to_end import conftest
from tests.end_to_end.conftest import call, json_lines, results_of, wait_for
from tests.support.html import read_page
from tests.support.models import keras_file, random_model

pytest.importorskip("jax", reason="JAX is not installed (the extra `jax`)")
pytest.importorskip("orbax.checkpoint", reason="orbax is not installed (the extra `jax`)")
pytestmark = pytest.mark.integration

LAST = 24
FLAGS = ("--do_train", "--do_eval", "--eval_every_steps=12", f"--num_train_steps={LAST}")
# A schedule whose rate does not depend on the number of steps.
MUON = ("--optimizer=muon", "--bias_correction", "--schedule=wsd")


@pytest.fixture(scope="module")
def start(environment):
    """Start a command with `--engine=jax`."""

    def start(*words: str, **variables: str) -> subprocess.Popen:
        return conftest.start(*words, "--engine=jax", **environment | variables)

    return start


@pytest.fixture(scope="module")
def run(environment):
    """Run a command with `--engine=jax` and return what it printed (output, errors)."""
    return lambda *words: conftest.run(*words, "--engine=jax", **environment)


def values(folder: pathlib.Path) -> dict[str, np.ndarray]:
    """Return weights and moments in the last checkpoint, by name."""
    weights = open_weights(str(folder / f"model.ckpt-{LAST}"))
    tensors = {**weights.tensors, **{f"optimizer/{n}": t for n, t in weights.optimizer.items()}}
    return {name: tensor.read() for name, tensor in tensors.items()}


@pytest.mark.slow
def test_a_killed_run_ends_with_the_same_bits(project, start, run, tmp_path):
    folder, undisturbed = tmp_path / "out", tmp_path / "undisturbed"
    output, errors = run(*project.pretrain_words(undisturbed, *FLAGS, *MUON))
    assert output.startswith("JAX "), output
    assert [line for line in errors.splitlines() if "--learning_rate" not in line] == []
    words = project.pretrain_words(folder, *FLAGS, *MUON)
    process = start(*words)
    wait_for(process, (folder / "checkpoints.json").exists)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    output, _ = run(*words)
    assert f"resuming from {folder}/model.ckpt-" in output
    found = values(folder)
    assert len(found) > 70
    np.testing.assert_equal(found, values(undisturbed))
    moments = [sum(name.endswith(kind) for name in found) for kind in ("adam_m", "adam_v")]
    assert moments[0] > moments[1] > 0
    assert results_of(folder) == results_of(undisturbed)
    same = ("evaluations.jsonl", "filled_masks.jsonl", "data_order.json", "training_data.json")
    for name in same:
        assert (folder / name).read_bytes() == (undisturbed / name).read_bytes(), name
    assert (folder / "best" / "albert_config.json").exists()
    assert "after step" in read_page((folder / "report.html").read_text()).text


@pytest.mark.slow
def test_both_engines_learn_the_same_from_a_teacher(project, without_dropout, run, tmp_path):
    config = AlbertConfig.from_json_file(str(without_dropout / "albert_config.json"))
    student = dataclasses.replace(config, num_hidden_layers=2, num_attention_heads=4)
    start = keras_file(tmp_path / "start", random_model("pretraining", student))
    rows = []
    for program, engine in ((run, "jax"), (call, "tensorflow")):
        flags = f"--teacher={without_dropout}/out", f"--init_checkpoint={start}", "--do_train"
        words = project.pretrain_words(tmp_path / engine, *flags, f"--engine={engine}")
        program(*words, f"--albert_config_file={start.parent}/albert_config.json")
        rows.append(json_lines(tmp_path / engine / "metrics.jsonl"))
    for found, expected in zip(*rows, strict=True):
        names = [name for name in expected if name.endswith("_loss")]
        assert len(names) == 5
        for name in names:
            assert found[name] == pytest.approx(expected[name], rel=1e-3), name
    assert rows[0][-1]["teacher_hidden_loss"] < rows[0][0]["teacher_hidden_loss"]


class Processes(conftest.Two):
    """Two processes of one run, with two devices each."""

    def __init__(self, start, words: tuple[str, ...], of_one: tuple[str, ...] = (), one: int = 1):
        (address,) = free_addresses(1)
        words = (*words, f"--coordinator_address={address}", "--num_processes=2")

        def begin(number: int) -> subprocess.Popen:
            more = of_one if number == one else ()
            return start(*words, f"--process_id={number}", *more, JAX_NUM_CPU_DEVICES="2")

        super().__init__(begin)


@pytest.mark.slow
def test_damaged_data_of_one_process_ends_both(project, start, tmp_path):
    content = bytearray(project.train.read_bytes())
    content[len(content) // 2 :: 2000] = bytes(len(content[len(content) // 2 :: 2000]))
    for name in ("train.tfrecord", "train.manifest.json"):
        (tmp_path / name).write_bytes((project.folder / name).read_bytes())
    (tmp_path / "train.tfrecord").write_bytes(content)
    words = project.pretrain_words(tmp_path / "out", "--do_train")
    processes = Processes(start, words, (f"--input_file={tmp_path}/train.tfrecord",))
    (code, _, errors), (other, _, reason) = processes.end(seconds=60)
    assert code == other == 1, (errors, reason)
    assert (
        f"worker 1 (process 1) failed with an error that it has printed ({tmp_path}/train.tfrecord"
        in errors
    )
    assert f"{tmp_path}/train.tfrecord" in reason.splitlines()[-1]


@pytest.mark.slow
def test_an_error_before_they_meet_ends_both(project, start, tmp_path):
    one, flag = 0, "--max_seq_length=0"  # as its checks find
    words = project.pretrain_words(tmp_path / "out", "--do_train")
    printed = Processes(start, words, (flag,), one).end(seconds=200)
    assert [code for code, *_ in printed] == [1, 1], printed
    assert f"error: {flag}" in printed[one][2].splitlines()[-1]
    line = f"worker {one} (process {one}) failed with an error that it has printed ({flag}"
    assert line in printed[1 - one][2]
