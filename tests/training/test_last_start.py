"""What has changed when a run resumes is said in one line."""

import dataclasses

import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.training.folder import START_FILE, start_file, warn_of_changes
from albert_tf.training.options import PretrainingOptions

OPTIONS = {
    "pretraining": PretrainingOptions(
        output_dir="x", input_file=("a", "b"), num_train_steps=100, num_warmup_steps=10
    ),
    "fine-tuning": ClassificationOptions(output_dir="x", learning_rate=5e-5, train_step=100),
}
LONGER = "the learning rate at step 50 is 0.00132 instead of 0.00088"


@pytest.mark.parametrize(
    ("kind", "changes", "data", "said"),
    [
        ("pretraining", {}, "x", ""),
        ("pretraining", {}, "", ""),
        ("pretraining", {}, "y", "the training data is another"),
        (
            "pretraining",
            {"num_train_steps": 200},
            "x",
            f"`num_train_steps` was 100 and is 200; {LONGER}",
        ),
        ("pretraining", {"clip_norm": 0.5, "dtype": "bfloat16"}, "x",
         "`dtype` was float32 and is bfloat16; `clip_norm` was 1.0 and is 0.5"),
        ("pretraining", {"input_file": ("a",)}, "x", "`input_file` was ['a', 'b'] and is ['a']"),
        ("pretraining", {"schedule": "wsd"}, "x",
         "`schedule` was polynomial and is wsd; the learning rate at step 50 is 0.00176 instead of "
         "0.00088"),
        ("pretraining", {"num_warmup_steps": 20}, "x", "`num_warmup_steps` was 10 and is 20"),
        ("fine-tuning", {"learning_rate": 1e-4}, "x",
         "`learning_rate` was 5e-05 and is 0.0001; the learning rate at step 50 is 5e-05 instead "
         "of 2.5e-05"),
        ("fine-tuning", {"weight_decay_rate": 0.0}, "x",
         "`weight_decay_rate` was 0.01 and is 0.0"),
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
