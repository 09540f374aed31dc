"""Two workers on this machine, killed, stopped and restarted, train as one device does."""

import json
import pathlib
import subprocess

import numpy as np
import pytest
import tensorflow as tf

from tests.conftest import free_addresses
from tests.end_to_end.conftest import Two, call, json_lines, results_of, start

pytestmark = pytest.mark.integration

# Compared early, before rounding has grown; long enough to be killed in.
EARLY, SHORT, LAST = 8, 16, 120
FLAGS = (
    "--do_train",
    f"--num_train_steps={LAST}",
    f"--save_checkpoints_steps={EARLY}",
    "--keep_checkpoint_max=1000",
    "--eval_every_steps=60",
    "--learning_rate=0.001",
    "--eval_batch_size=24",
    "--max_eval_steps=0",
)


@pytest.fixture(scope="module")
def words(project):
    """Return the command without dropout, of which every replica draws its own."""
    config = json.loads(project.config.read_text())
    config |= {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    path = project.folder / "no_dropout.json"
    path.write_text(json.dumps(config))

    def words(folder: pathlib.Path, *flags: str) -> tuple[str, ...]:
        return project.pretrain_words(folder, f"--albert_config_file={path}", *FLAGS, *flags)

    return words


class Workers(Two):
    """Two processes of one command."""

    def __init__(self, words: tuple[str, ...], of_one: tuple[str, ...] = (), one: int = 1):
        self.addresses = free_addresses(2)

        def begin(index: int) -> subprocess.Popen:
            task = {"type": "worker", "index": index}
            config = {"cluster": {"worker": self.addresses}, "task": task}
            more = (*(of_one if index == one else ()), "--strategy=multi_worker")
            return start(*words, *more, TF_CONFIG=json.dumps(config))

        super().__init__(begin)


def at_step(folder: pathlib.Path, step: int) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(f"{folder}/model.ckpt-{step}")
    names = [n for n in reader.get_variable_to_shape_map() if n.startswith(("params", "optim"))]
    return {name: reader.get_tensor(name) for name in names}


@pytest.mark.slow
def test_two_workers_train_as_one_device_does(words, tmp_path):
    one, two = tmp_path / "one", tmp_path / "two"
    flags = "--do_eval", f"--num_train_steps={SHORT}"
    workers = Workers(words(two, *flags, f"--eval_every_steps={SHORT // 2}"))
    (code, output, errors), (other_code, other, _) = workers.end()
    assert code == other_code == 0, errors
    choice = "MultiWorkerMirroredStrategy over 2 replica(s): CPU:0; this is worker"
    assert output.startswith(f"{choice} 0 of 2 ({workers.addresses[0]})\n")
    assert other.startswith(f"{choice} 1 of 2 ({workers.addresses[1]})\n")
    assert f"global_step = {SHORT}" in output
    assert "global_step" not in other  # only the chief reports and writes
    assert len((two / "evaluations.jsonl").read_text().splitlines()) == 2

    call(*words(one, *flags))
    expected, found = at_step(one, EARLY), at_step(two, EARLY)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5, err_msg=name)
    results = results_of(one)
    weights = {name for name in results if name.endswith("_weight")}
    assert len(weights) == 3
    for name, value in results_of(two).items():
        # The same examples, each once; the rest after steps of rounding.
        assert value == (results[name] if name in weights else pytest.approx(results[name], 0.01))
    rows = [json_lines(folder / "filled_masks.jsonl") for folder in (one, two)]
    filled = [np.array([row["masked_lm_ids"] for row in each]) for each in rows]
    assert np.mean(filled[0] == filled[1]) > 0.9, "examples keep their order"


@pytest.mark.slow
def test_an_error_before_they_meet_ends_both(words, tmp_path):
    one, flag = 1, "--train_batch_size=x"  # as its parser finds
    workers = Workers(words(tmp_path / "out"), (flag,), one)
    printed = workers.end(seconds=200)
    assert [code for code, *_ in printed] == [1, 1], printed
    assert f"error: {flag}" in printed[one][2].splitlines()[-1]
    line = (
        f"worker {one} ({workers.addresses[one]}) failed with an error that it has printed ({flag}"
    )
    assert line in printed[1 - one][2].splitlines()[-1]
