"""Training that is stopped, killed or started twice: nothing is lost, and nothing goes wrong."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import shutil
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint_folders import TENSORFLOW
from albert_tf.interop.tensorflow_checkpoints import damage_of
from albert_tf.locks import folder_of_one
from albert_tf.training.evaluation import EVALUATIONS_FILE
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining import ORDER_FILE, pretrain
from tests.end_to_end.conftest import LENGTH, PREDICTIONS, call, results_of, run, start
from tests.end_to_end.test_pretraining import variables

pytestmark = pytest.mark.integration

# Of the test with kills; the steps between saves and evaluations meet every sixth step.
KILLS, SEED = 10, 20
SAVE_EVERY, EVAL_EVERY = 3, 6


def wait_for(process, seen, *arguments) -> None:
    """Return as soon as `seen(...)`, while the process lives."""
    while not seen(*arguments):
        assert process.poll() is None, process.communicate()
        time.sleep(0.0005)


def assert_same_weights(folder, other) -> None:
    expected, actual = variables(other), variables(folder)
    assert expected.keys() == actual.keys()
    for name, value in expected.items():
        if not name.startswith("save_counter"):
            np.testing.assert_array_equal(actual[name], value, err_msg=name)


def assert_finished_as_uninterrupted(folder, pretrained) -> None:
    assert_same_weights(folder, pretrained)
    rows = (folder / "metrics.jsonl").read_text().splitlines()
    steps = [json.loads(row)["step"] for row in rows]
    assert steps == list(range(3, 25, 3)), "no step is logged twice, none is missing"


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
    assert_finished_as_uninterrupted(folder, pretrained)


def options_of(project, folder, **flags) -> PretrainingOptions:
    return PretrainingOptions(
        albert_config_file=str(project.config),
        input_file=(str(project.train),),
        eval_input_file=(str(project.eval),),
        output_dir=str(folder),
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS,
        train_batch_size=8,
        do_train=True,
        **flags,
    )


def test_one_program_trains_in_a_folder_and_others_may_evaluate(project, pretrained, tmp_path):
    folder = shutil.copytree(pretrained, tmp_path / "out")
    (folder / "checkpoint").unlink()  # the list may be lost
    (folder / "report.html").unlink()
    new = ("eval_results.txt", "evaluation_data.json", "filled_masks.jsonl", "report.html")
    unchanged = {*folder.iterdir()} - {folder / name for name in new}
    before = {path: path.stat().st_mtime_ns for path in unchanged}
    (folder / "eval_results.txt").unlink()
    options = options_of(project, folder, num_train_steps=48)
    with folder_of_one(str(folder), "output_dir"):
        with pytest.raises(InputError, match="`output_dir`: another process is already writing"):
            pretrain(options)
        pretrain(dataclasses.replace(options, do_train=False, do_eval=True))
    assert results_of(folder)["global_step"] == 24
    assert ": 24 steps" in (folder / "report.html").read_text()
    assert {path: path.stat().st_mtime_ns for path in before} == before


def test_a_run_in_another_order_of_examples(project, pretrained, tmp_path, caplog):
    folder = shutil.copytree(pretrained, tmp_path / "out")
    order = folder / ORDER_FILE
    examples = json.loads(order.read_text())["examples"]
    order.unlink()  # as of a version before the first that wrote it
    options = options_of(project, folder, num_train_steps=25)
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


@pytest.mark.parametrize("replaced", ["input_file", "eval_input_file", None])
def test_a_run_says_on_what_it_resumes(project, tmp_path, caplog, replaced):
    options = options_of(project, tmp_path / "out", num_train_steps=4, num_warmup_steps=1)
    options = dataclasses.replace(options, eval_every_steps=2, save_checkpoints_steps=2)
    pretrain(options)
    caplog.clear()
    paths = {}
    for name in ("input_file", "eval_input_file"):
        (source,) = getattr(options, name)
        records = list(tf.data.TFRecordDataset(source).as_numpy_iterator())
        path = tmp_path / "moved" / pathlib.Path(source).name
        path.parent.mkdir(exist_ok=True)
        with tf.io.TFRecordWriter(str(path)) as writer:
            for record in records[:: -1 if name == replaced else 1]:
                writer.write(record)
        paths[name] = (str(path),)
    pretrain(dataclasses.replace(options, **paths, num_train_steps=6))
    assert "`num_train_steps` was 4 and is 6" in caplog.text
    assert ("; the training data is another" in caplog.text) == (replaced == "input_file")
    begins_again = replaced == "eval_input_file"
    assert ("was chosen on other examples" in caplog.text) == begins_again
    rows = (tmp_path / "out" / EVALUATIONS_FILE).read_text().splitlines()
    steps = [json.loads(row)["step"] for row in rows]
    assert steps == ([4, 6] if begins_again else [2, 4, 6])
    # Nothing is left to be trained after an older checkpoint than the one that is listed.
    data = tmp_path / "out" / "model.ckpt-6.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-8])
    pretrain(dataclasses.replace(options, do_eval=True))
    assert results_of(tmp_path / "out")["global_step"] == 4


def test_evaluation_in_training_keeps_the_best_and_changes_nothing(project, pretrained, tmp_path):
    folder = tmp_path / "out"
    options = options_of(
        project,
        folder,
        num_train_steps=24,
        random_seed=2**31 - 1,
        num_warmup_steps=4,
        learning_rate=0.01,
        save_checkpoints_steps=6,
        iterations_per_loop=5,
        shuffle_buffer_size=64,
        keep_checkpoint_max=1,
        eval_every_steps=8,
        best_checkpoint_metric="masked_lm_accuracy",
        do_eval=True,
    )
    pretrain(options)
    assert_same_weights(folder, pretrained)
    rows = [json.loads(line) for line in (folder / "evaluations.jsonl").read_text().splitlines()]
    assert [row.pop("step") for row in rows] == [8, 16, 24]
    results = results_of(folder)
    assert rows[-1] == pytest.approx({name: results[name] for name in rows[-1]}, rel=1e-6)
    best = max(range(3), key=lambda number: rows[number]["masked_lm_accuracy"])
    # As a user would look at it: a folder like any other.
    pretrain(dataclasses.replace(options, output_dir=str(folder / "best"), do_train=False))
    again = results_of(folder / "best")
    assert again["global_step"] == 8 * (best + 1)
    assert rows[best] == pytest.approx({name: again[name] for name in rows[best]}, rel=1e-6)


def last_line(path) -> dict:
    """Return the last whole line of a file of JSON lines; {} where there is none."""
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    whole = [line for line in lines if line.endswith("\n")]
    return json.loads(whole[-1]) if whole else {}


def at_work_on(folder) -> str:
    """Return what a process is, or was when it was killed, at work on in its training folder."""
    if any(folder.glob("*_temp")):
        return "saving"
    step = last_line(folder / "metrics.jsonl").get("step", 0)
    evaluated = last_line(folder / EVALUATIONS_FILE).get("step", 0)
    return "evaluation" if step % EVAL_EVERY == 0 and step > evaluated else "training"


def is_at_work_on(what: str, folder) -> bool:
    return at_work_on(folder) == what


def assert_all_can_be_read(folder) -> int:
    """Return the step of the latest checkpoint, after reading every value of all."""
    for path in [*folder.glob("*.index"), *folder.glob("best/*.index")]:
        assert damage_of(str(path.with_suffix(""))) is None
    newest = TENSORFLOW.find(str(folder))
    assert damage_of(newest) is None
    if (folder / "best" / "checkpoint").exists():
        assert damage_of(TENSORFLOW.find(str(folder / "best"))) is None
    return int(newest.rsplit("-", 1)[1])


@pytest.mark.manual
def test_ten_kills_at_random_moments_lose_nothing(project, tmp_path):
    """In training, saving and evaluation: what is there can be read, and the end is the same."""
    flags = (
        "--do_train", "--num_train_steps=400", f"--save_checkpoints_steps={SAVE_EVERY}",
        f"--eval_every_steps={EVAL_EVERY}", "--best_checkpoint_metric=loss",
    )  # fmt: skip
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    run(*project.pretrain_words(whole, *flags))
    draw, log = random.Random(SEED), []
    for number in range(KILLS):
        before = log[-1][-1] if log else 0
        process = start(*project.pretrain_words(folder, *flags))
        # Counted in steps and not in seconds, so that a fast machine does not come to the end.
        # The first checkpoint after `before` may be there already, written but not listed.
        step = before + draw.randint(2, 12) * SAVE_EVERY
        wait_for(process, (folder / f"model.ckpt-{step}.index").exists)
        time.sleep(draw.uniform(0, 0.1))
        if number % 3:  # evaluations and saves are short: wait for one to begin
            target = ("evaluation", "saving")[number % 3 - 1]
            wait_for(process, is_at_work_on, target, folder)
            time.sleep(draw.uniform(0, 0.01))
        process.kill()
        process.communicate()
        assert process.returncode == -signal.SIGKILL
        newest = assert_all_can_be_read(folder)
        log.append((last_line(folder / "metrics.jsonl")["step"], at_work_on(folder), newest))
    output, errors = run(*project.pretrain_words(folder, *flags))
    print("step, what was under way, checkpoint to resume from:", *log, sep="\n")
    assert {what for _, what, _ in log} == {"training", "saving", "evaluation"}
    assert f"resuming from {folder}/model.ckpt-{log[-1][-1]}" in output
    assert "damaged" not in errors
    assert not list(folder.glob("*_temp"))
    for part in ("", "best"):
        assert_same_weights(folder / part, whole / part)
    (kept,) = (whole / "best").glob("model.ckpt-*.json")
    assert (folder / "best" / kept.name).read_text() == kept.read_text()
    assert (folder / EVALUATIONS_FILE).read_bytes() == (whole / EVALUATIONS_FILE).read_bytes()
