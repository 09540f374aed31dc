"""Training that is stopped, killed or started twice: nothing is lost, and nothing goes wrong."""

import dataclasses
import json
import shutil
import signal

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.files import folder_of_one
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining import ORDER_FILE, pretrain
from tests.end_to_end.conftest import call, json_lines, results_of, start, wait_for
from tests.end_to_end.test_pretraining import variables

pytestmark = pytest.mark.integration


@pytest.mark.slow
def test_stopped_it_ends_with_the_same_weights(project, pretrained, tmp_path):
    folder = tmp_path / "out"
    words = project.pretrain_words(folder, "--do_train")
    process = start(*words)
    # It stands there from the start of training; the first steps take seconds to be compiled.
    wait_for(process, (folder / "train").exists)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate()
    assert process.returncode == 143, errors
    assert errors.splitlines()[-1] == (
        f"run_pretraining.py: Stopped at step 3 of 24 and saved {folder}/model.ckpt-3. "
        "Rerun the same command to resume."
    )
    assert f"resuming from {folder}/model.ckpt-3\n" in call(*words)
    np.testing.assert_equal(variables(folder), variables(pretrained))
    steps = [row["step"] for row in json_lines(folder / "metrics.jsonl")]
    assert steps == list(range(3, 25, 3)), "no step is logged twice, none is missing"


@pytest.fixture
def options(short_run, project) -> PretrainingOptions:
    """Return options of training in `tmp_path / "out"`."""
    return dataclasses.replace(short_run, eval_input_file=(str(project.eval),), do_train=True)


def test_one_program_trains_in_a_folder_and_others_may_evaluate(options, pretrained, tmp_path):
    folder = shutil.copytree(pretrained, tmp_path / "out")
    (folder / "checkpoint").unlink()  # the list may be lost
    (folder / "report.html").unlink()
    new = ("eval_results.txt", "evaluation_data.json", "filled_masks.jsonl", "report.html")
    unchanged = {*folder.iterdir()} - {folder / name for name in new}
    before = {path: path.stat().st_mtime_ns for path in unchanged}
    (folder / "eval_results.txt").unlink()
    options = dataclasses.replace(options, num_train_steps=48)
    with folder_of_one(str(folder), "output_dir"):
        with pytest.raises(InputError, match="`output_dir`: another process is already writing"):
            pretrain(options)
        pretrain(dataclasses.replace(options, do_train=False, do_eval=True))
    assert results_of(folder)["global_step"] == 24
    assert ": 24 steps" in (folder / "report.html").read_text()
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.slow
def test_a_run_in_another_order_of_examples(options, pretrained, tmp_path, caplog):
    folder = shutil.copytree(pretrained, tmp_path / "out")
    order = folder / ORDER_FILE
    examples = json.loads(order.read_text())["examples"]
    order.unlink()  # as of a version before the first that wrote it
    options = dataclasses.replace(options, num_train_steps=25)
    message = (
        f"`output_dir`={folder}: model.ckpt-24 was trained on examples in the order of version 1, "
        "but this program has version 2"
    )
    with pytest.raises(InputError, match=message):
        pretrain(options)
    pretrain(dataclasses.replace(options, num_train_steps=24))  # nothing is left to be trained
    order.write_text("[]")
    with pytest.raises(InputError, match=f"{order}: must be object, not array"):
        pretrain(options)
    order.write_text('{"version": 2, "train_batch_size": 16, "random_seed": 12345}')
    pretrain(options)
    assert f"{order}: train_batch_size was 16 and is 8; examples are in another" in caplog.text
    assert json.loads(order.read_text()) == {
        "version": 2,
        "examples": examples,
        "random_seed": 12345,
        "train_batch_size": 8,
        "shuffle_buffer_size": 10000,
    }


@pytest.mark.slow
def test_evaluation_in_training_keeps_the_best_and_changes_nothing(project, pretrained, tmp_path):
    folder = tmp_path / "out"
    kept = ("--keep_checkpoint_max=1", "--best_checkpoint_metric=masked_lm_accuracy")
    flags = ("--do_train", "--do_eval", "--eval_every_steps=8", "--iterations_per_loop=5", *kept)
    call(*project.pretrain_words(folder, *flags))
    np.testing.assert_equal(variables(folder), variables(pretrained))
    rows = json_lines(folder / "evaluations.jsonl")
    assert [row.pop("step") for row in rows] == [8, 16, 24]
    results = results_of(folder)
    assert rows[-1] == pytest.approx({name: results[name] for name in rows[-1]}, rel=1e-6)
    best = max(range(3), key=lambda number: rows[number]["masked_lm_accuracy"])
    # As a user would look at it: a folder like any other.
    words = f"--output_dir={folder}/best", f"--eval_input_file={project.eval}"
    call("run_pretraining.py", "--do_eval", *words)
    again = results_of(folder / "best")
    assert again["global_step"] == 8 * (best + 1)
    assert rows[best] == pytest.approx({name: again[name] for name in rows[best]}, rel=1e-6)
