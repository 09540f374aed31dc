"""What fine-tuned models note of themselves, and what exports read of it."""

import dataclasses
import json
import types

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.trained_settings import read_settings
from albert_tf.task_kinds import task_kinds
from albert_tf.tasks.classification.datasets import ClassificationDataset
from albert_tf.tasks.classification.options import ClassificationSettings
from albert_tf.tasks.classification.targets import OneLabel
from albert_tf.tasks.classification.task import ClassificationTask


def test_what_training_notes_is_what_exports_read(tmp_path):
    dataset = ClassificationDataset("table", {}, pairs=True)
    task = types.SimpleNamespace(
        dataset=dataset,
        target=OneLabel(dataset, ("a", "b")),
        options=types.SimpleNamespace(max_seq_length=77, long_texts="head"),
    )
    for name, text in ClassificationTask.adjacent_files(task).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "model.ckpt-1").write_text("")
    expected = ClassificationSettings(pairs=True, max_seq_length=77)
    for place in (tmp_path, tmp_path / "model.ckpt-1"):
        assert read_settings(ClassificationSettings, str(place), "target.json", {}) == expected
    changed = read_settings(
        ClassificationSettings, str(tmp_path), "target.json", {"max_seq_length": 9, "kind": None}
    )
    assert changed == dataclasses.replace(expected, max_seq_length=9)


@pytest.mark.parametrize("kind", [kind.load("export").settings_class for kind in task_kinds()])
def test_without_a_note_there_are_defaults(tmp_path, kind):
    assert read_settings(kind, str(tmp_path), "none.json", {}) == kind()
    recorded = {"max_seq_length": 30, "something": "else"}
    (tmp_path / "recorded.json").write_text(json.dumps(recorded))
    settings = read_settings(kind, str(tmp_path), "recorded.json", {})
    assert settings == dataclasses.replace(kind(), max_seq_length=30)
    (tmp_path / "recorded.json").write_text("{")
    with pytest.raises(InputError, match=r"recorded\.json: not JSON"):
        read_settings(kind, str(tmp_path), "recorded.json", {})
