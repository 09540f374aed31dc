"""A teacher predicts once, by its own labels and vocabulary, and a student learns from it."""

import contextlib
import dataclasses
import types

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from albert_tf.engines.workers import Workers
from albert_tf.finetuning import teacher
from albert_tf.finetuning.command import fine_tune
from albert_tf.finetuning.context import RunContext, read_sets
from albert_tf.finetuning.runs import sets_of_fold
from albert_tf.finetuning.teacher import Teacher
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.classification.text_model import TextClassifier
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from albert_tf.tasks.tagging.options import TaggingOptions
from albert_tf.tasks.tagging.task import TaggingTask
from albert_tf.tokenizers import Tokenizer
from tests.conftest import refusal
from tests.support.clue_files import write_lines
from tests.support.finetuning import LENGTH, options_of, write_files

pytestmark = pytest.mark.integration

ENGINE = types.SimpleNamespace(
    workers=Workers(),
    prediction_step=lambda model, outputs, devices: None,
    devices=types.SimpleNamespace(is_tpu=False, scope=contextlib.nullcontext),
)


def context_of(task) -> RunContext:
    return RunContext(task, read_sets(task), None, ENGINE, {})


class FakeModel:
    """A trained classifier of "Tool" and "animal", more certain of longer texts."""

    starts_with_head = True
    task = model = types.SimpleNamespace(
        taught_labels=lambda: ["Tool", "animal"],
        outputs=("scores",),
        encode=lambda split, examples: [len(each.text.split()) / 10 for each in examples],
        log_probabilities=lambda _, outputs: [*log_softmax(outputs["scores"], axis=-1)[:, None]],
    )


def fake_outputs(engine, step, task, examples, batch_size, pad):
    return {"scores": np.stack([examples.features, np.zeros(len(examples.features))], axis=1)}


@pytest.fixture
def rows(tmp_path):
    """Write a table, in which every third row has no label and one is uncertain; return texts."""
    write_files(tmp_path)
    lines = (tmp_path / "train.tsv").read_text().splitlines()
    texts = [line.split("\t")[0] for line in lines[1:]]
    lines[1::3] = [line.split("\t")[0] + "\t" for line in lines[1::3]]
    lines[2] = f'{texts[1]}\t{{"animal": 0.4, "tool": 0.6}}'
    (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n")
    return texts


@pytest.fixture
def taught(tmp_path, rows):
    out = tmp_path / "out"
    out.mkdir()
    settings = {"teacher": str(tmp_path), "teacher_weight": 0.7, "long_texts": "windows"}
    return options_of(tmp_path, out, do_eval=False, **settings)


def test_probabilities_are_those_of_the_student_s_labels_and_are_kept(
    tmp_path, rows, taught, monkeypatch
):
    monkeypatch.setattr(TextClassifier, "from_preset", lambda name: FakeModel())
    monkeypatch.setattr(teacher, "outputs_of", fake_outputs)
    tokenizer = Tokenizer.load(str(tmp_path / "vocab.txt"))
    task = ClassificationTask(taught, tokenizer)
    context = Teacher(taught, context_of(task)).teach()
    (train,) = context.sets
    assert task.target.labels == ("animal", "tool")
    expected = softmax([[0, len(text.split()) / 10 / 2] for text in rows], axis=-1)
    repeated = np.repeat(expected, train.features.windows_per_text, axis=0)
    assert len(repeated) > len(rows)
    np.testing.assert_allclose(train.features.arrays["teacher_probabilities"], repeated, rtol=1e-5)
    assert (task.objective.teacher_weight, task.objective.temperature) == (0.7, 2.0)
    labels = train.features.arrays["label_ids"][train.features.first_windows]
    assert [*np.flatnonzero(labels < 0)] == [*range(0, len(rows), 3)]
    certain = train.features.arrays["label_probabilities"][train.features.first_windows]
    np.testing.assert_allclose(certain[:2], [[0, 0], [0.4, 0.6]], rtol=1e-6)

    # It does not predict again, whatever the temperature; a fold has its part.
    monkeypatch.setattr(TextClassifier, "from_preset", None)
    hot = dataclasses.replace(taught, teacher_temperature=4.0)
    again = Teacher(hot, context_of(ClassificationTask(hot, tokenizer))).teach().sets[0]
    np.testing.assert_allclose(
        np.concatenate(again.taught)[:, 1],
        softmax([[0, len(text.split()) / 40] for text in rows], axis=-1)[:, 1],
        rtol=1e-5,
    )
    labeled = np.array([1, 4, 2])
    part = sets_of_fold(context, train, (labeled, np.array([5])))[0]
    np.testing.assert_array_equal(
        part.features.arrays["teacher_probabilities"][part.features.first_windows],
        np.concatenate(train.taught)[labeled],
    )

    # Unless the file is damaged, or the teacher was trained again.
    (kept,) = tmp_path.glob("out/teacher-*.npz")
    kept.write_bytes(kept.read_bytes()[:100])
    monkeypatch.setattr(TextClassifier, "from_preset", lambda name: FakeModel())
    repaired = Teacher(taught, context_of(task)).teach().sets[0]
    np.testing.assert_array_equal(np.concatenate(repaired.taught), np.concatenate(train.taught))
    for number, written in enumerate(("checkpoint", "model.ckpt-5.index"), start=1):
        path = str(tmp_path / written).removesuffix("/checkpoint").removesuffix(".index")
        options = dataclasses.replace(taught, teacher=path)
        Teacher(options, context_of(task)).teach()
        (tmp_path / written).touch()
        Teacher(options, context_of(task)).teach()
        assert len([*tmp_path.glob("out/teacher-*.npz")]) == 2 * number


def test_a_teacher_of_other_labels_or_another_task_is_named(tmp_path, taught, monkeypatch):
    def message(**changes):
        return refusal(fine_tune, dataclasses.replace(taught, **changes), ClassificationTask)

    monkeypatch.setattr(TextClassifier, "from_preset", lambda name: FakeModel())
    monkeypatch.setattr(FakeModel.task, "taught_labels", lambda: ["tool", "plant"])
    place = f"`teacher`={tmp_path}"
    assert message() == (
        f"{place}: has the labels tool, plant, but the training rows have animal, tool"
    )
    assert not [*(tmp_path / "out").iterdir()]
    assert message(teacher=f"{tmp_path}/none") == f"{place}/none: no such file or folder"
    assert message(multi_label=True) == f"{place}: needs one label per row"
    assert message(teacher=None) == f"{tmp_path}/train.tsv:2: column 'label' is empty"
    assert message(folds=2, eval_file=None).endswith("train.tsv:2 has no label to score")
    assert message(teacher_weight=1.5).startswith("`teacher_weight`=1.5: must be 0 to 1")
    assert message(teacher_temperature=0.0).startswith("`teacher_temperature`=0")


def test_words_and_choices_are_taught_where_they_are(tmp_path):
    tokenizer = write_files(tmp_path)
    words = [["cat", "saw"] * 15, ["dog", "\u200b", "bird"]]
    lines = [{"tokens": words[0]}, {"tokens": words[1], "tags": ["O", "B-X", "I-X"]}]
    file = write_lines(tmp_path / "rows.jsonl", lines)
    options = {"output_dir": str(tmp_path), "do_train": True, "do_eval": False, "teacher": "name"}
    options |= {"train_file": str(file), "max_seq_length": LENGTH}
    task = TaggingTask(TaggingOptions(**options), tokenizer)
    (train,) = read_sets(task)
    assert (train.features.arrays["label_ids"] >= 0).sum() == 2
    # The logits of a token are its id and its window.
    windows, padded = train.features, train.features.padded(LENGTH)
    numbers = np.arange(len(windows))[:, None]
    logits = np.stack(np.broadcast_arrays(padded["input_ids"], numbers), axis=-1)
    found = task.log_probabilities(train, {"logits": logits})
    assert [len(each) for each in found] == [30, 3]
    feature = task.teacher_feature(windows, [np.exp(each) for each in found])
    own = tuple(windows.places[windows.places[:, 0] >= 0].T)
    np.testing.assert_allclose(feature[own], softmax(logits[own].astype(float), axis=-1))
    assert (feature.sum(axis=-1) > 0).sum() == len(own[0]) == 32

    names = ("context", "question", "choices")
    rows = [("cat", "dog _", ["saw", "file", "bird"]), ("", "cat", ["dog", "drill"])]
    write_lines(file, (dict(zip(names, row, strict=True)) for row in rows))
    options |= {"task_name": "json", "max_qa_length": 8}
    choices = MultipleChoiceTask(MultipleChoiceOptions(**options), tokenizer)
    (train,) = read_sets(choices)
    assert train.features.arrays["label_ids"].tolist() == [-1, -1]
    logits = np.float32([[1, 2, 3], [1, 2, 3]])
    found = choices.log_probabilities(train, {"logits": logits})
    feature = choices.teacher_feature(train.features, [np.exp(each) for each in found])
    np.testing.assert_allclose(feature[0], softmax([1.0, 2, 3]), rtol=1e-6)
    np.testing.assert_allclose(feature[1], [*softmax([1.0, 2]), 0], rtol=1e-6)
