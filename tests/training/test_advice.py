"""Advice on the learning rate and the warm-up, a plateau, and changes since the last start."""

import dataclasses
import json
import pathlib
import types

import pytest

from albert_tf.errors import InputError
from albert_tf.input.manifest import Rows
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.training.folder import START_FILE, start_file, warn_of_changes
from albert_tf.training.health import PlateauWatch, suitable_rate, warnings, what_to_try
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.run import _warn_of_steps


def options(**changes):
    return PretrainingOptions(albert_config_file="c", output_dir="o", **changes)


def test_lamb_at_the_rate_of_4096_with_a_batch_of_512():
    assert warnings(options()) == [], "the original's settings"
    assert warnings(options(train_batch_size=1024), Rows(4.0, 500.0)) == [], "as many examples"
    (line,) = warnings(options(train_batch_size=128), Rows(4.0, 500.0))
    assert "`train_batch_size`=128 rows (512 examples): ALBERT's 0.00176 at 4096" in line
    (line,) = warnings(options(train_batch_size=512))
    assert "`learning_rate`=0.00176 is high for `train_batch_size`=512" in line
    assert " 0.00062 " in line


@pytest.mark.parametrize(("optimizer", "batch", "rate"), [
    ("lamb", 4096, 0.00176), ("lamb", 1024, 0.00088), ("lamb", 16384, 0.00352),
    ("adamw", 256, 1e-4), ("adamw", 4096, 4e-4),
])  # fmt: skip
def test_the_square_root_rule_and_its_tolerance(optimizer, batch, rate):
    assert suitable_rate(optimizer, batch) == pytest.approx(rate, rel=1e-9)
    settings = {"optimizer": optimizer, "train_batch_size": batch, "num_warmup_steps": 10**6}
    assert warnings(options(**settings, learning_rate=1.9 * rate)) == []
    assert len(warnings(options(**settings, learning_rate=2.1 * rate))) == 1
    assert warnings(options(**settings, learning_rate=rate / 100)) == []


def test_a_short_warmup():
    (line,) = warnings(options(num_warmup_steps=100))
    assert "`num_warmup_steps`=100 is short for 125000 steps of 4,096 examples" in line
    assert line.endswith("3125")
    assert warnings(options(num_warmup_steps=1600)) == []
    # A small batch hardly needs one, nor does AdamW by LAMB's paper.
    small = {"train_batch_size": 64, "learning_rate": 1e-4, "num_train_steps": 2000}
    assert warnings(options(num_warmup_steps=0, **small)) == []
    assert "these are all steps" in warnings(options(train_only="embeddings:125000"))[0]
    assert warnings(options(train_only="embeddings:124999")) == []
    adamw = options(optimizer="adamw", learning_rate=1e-4, num_warmup_steps=0)
    assert warnings(adamw) == []


def test_what_to_try_names_a_rate_that_is_lower():
    text = what_to_try(options(train_batch_size=512, dtype="bfloat16"))
    assert "than 0.00176, such as 0.00062" in text
    assert text.endswith(", or a longer warm-up, or `dtype`=float32")
    text = what_to_try(options(learning_rate=1e-5))
    assert "such as" not in text
    assert "dtype" not in text
    tuned = ClassificationOptions(albert_config_file="c", output_dir="o", spm_model_file="s")
    assert "5e-05" in what_to_try(tuned)


CURVES = json.loads(pathlib.Path(__file__).with_name("plateau_curves.json").read_text())


def judged(name: str, at: int, resumed_from: int = 0) -> list[str]:
    """Return all advice for a run that is judged at a step, from its recorded curve."""
    rows = [
        {"step": step, "masked_lm_loss": loss, "masked_lm_accuracy": accuracy}
        for step, loss, accuracy in CURVES[name]
    ]
    before = [row for row in rows if row["step"] <= resumed_from]
    watch = PlateauWatch(10 * at, before)
    return [line for row in rows[len(before) :] if (line := watch.advice(row))]


@pytest.mark.parametrize(
    ("name", "at", "stays"),
    [
        ("lamb", 1000, True),
        ("lamb", 2400, False),
        ("adamw", 1000, True),
        ("adamw", 2400, False),
        ("muon", 1200, False),
        ("muon, high rate", 1200, True),
    ],
)
def test_a_run_is_judged_once(name, at, stays):
    for resumed_from in (0, at // 3, at - 100):
        lines = judged(name, at, resumed_from)
        assert len(lines) == stays
        assert all(line.startswith(f"step {at}: still on the plateau") for line in lines)
    assert judged(name, at, resumed_from=at) == []


def test_fine_tuning_is_not_judged():
    watch = PlateauWatch(2000)
    assert [watch.advice({"step": step, "loss": 1.0}) for step in (500, 1000)] == [None, None]


@pytest.mark.parametrize(
    ("first", "before", "loss", "accuracy", "is_advised"),
    [
        (100, 0.14, 5.7, 0.15, True),
        (100, 0.3, 5.79, 0.3, False),  # has learned
        (100, 0.15, 5.4, 0.15, False),  # learns quickly
        (1000, 0.14, 5.7, 0.14, False),  # has no earlier records
    ],
)
def test_a_run_that_learns_gets_no_advice(first, before, loss, accuracy, is_advised):
    watch = PlateauWatch(2000)
    for step in range(first, 1000, 100):
        watch.advice({"step": step, "masked_lm_loss": 5.8, "masked_lm_accuracy": before})
    line = watch.advice({"step": 1000, "masked_lm_loss": loss, "masked_lm_accuracy": accuracy})
    assert bool(line) == is_advised
    if is_advised:
        said = "15.0% of the masked tokens are predicted, and their loss fell by only 1.7"
        assert said in line


@pytest.mark.parametrize(
    ("step", "warmup", "listed", "warning"),
    [
        (5, 0, (), "out is already at step 5, beyond step 4, at which training ends"),
        (0, 100, (), "the warm-up lasts until step 101, but training ends at step 4"),
        (3, 0, (1, 2, 4), "not saved, as training resumes from step 3: 1\n"),
        (4, 3, (), ""),
    ],
)
def test_numbers_of_steps(caplog, step, warmup, listed, warning):
    options = types.SimpleNamespace(
        num_train_steps=4, start_warmup_step=1, num_warmup_steps=warmup, output_dir="out",
        steps_to_save=listed,
    )  # fmt: skip
    _warn_of_steps(step, options, saved=[2])
    assert caplog.text.count("\n") == bool(warning)
    assert warning in caplog.text


OPTIONS = {
    "pretraining": PretrainingOptions(
        output_dir="x", input_file=("a", "b"), num_train_steps=100, num_warmup_steps=10
    ),
    "fine-tuning": ClassificationOptions(output_dir="x", learning_rate=5e-5, train_step=100),
}


@pytest.mark.parametrize(
    ("kind", "changes", "data", "said"),
    [
        ("pretraining", {}, "x", ""),
        ("pretraining", {}, "", ""),
        ("pretraining", {"coordinator_address": "b:1", "process_id": 0}, "x", ""),
        ("pretraining", {}, "y", "the training data is another"),
        ("pretraining", {"num_train_steps": 200}, "x",
         "`num_train_steps` was 100 and is 200; the learning rate at step 50 is 0.00132 instead of "
         "0.00088"),
        ("pretraining", {"clip_norm": 0.5, "dtype": "bfloat16"}, "x",
         "`dtype` was float32 and is bfloat16; `clip_norm` was 1.0 and is 0.5"),
        ("pretraining", {"input_file": ("a",)}, "x", "`input_file` was ['a', 'b'] and is ['a']"),
        ("fine-tuning", {"learning_rate": 1e-4}, "x",
         "`learning_rate` was 5e-05 and is 0.0001; the learning rate at step 50 is 5e-05 instead "
         "of 2.5e-05"),
    ],
)  # fmt: skip
def test_changes_since_the_last_start(tmp_path, caplog, kind, changes, data, said):
    options = dataclasses.replace(OPTIONS[kind], output_dir=str(tmp_path))
    warn_of_changes(options, "x", 50)  # of an earlier version
    (tmp_path / START_FILE).write_text(start_file(options, "x")[START_FILE])
    moved = tmp_path.rename(tmp_path.with_name(f"{tmp_path.name}-moved"))
    changed = dataclasses.replace(options, output_dir=str(moved), **changes)
    warn_of_changes(changed, data, 50)
    assert caplog.messages == ([f"{moved}: since the last start, {said}"] if said else [])


def test_a_damaged_record_is_named(tmp_path):
    options = PretrainingOptions(output_dir=str(tmp_path))
    for content in ("[]", '{"flags": {"num_train_steps": "x"}, "training_data": ""}'):
        (tmp_path / START_FILE).write_text(content)
        with pytest.raises(InputError, match=START_FILE):
            warn_of_changes(options, "", 5)
