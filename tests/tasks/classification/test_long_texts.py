"""Texts that are read in windows: rows of texts in training, results and predictions of texts."""

import dataclasses
import json

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.run import read_sets
from albert_tf.finetuning.run_report import write_report
from albert_tf.finetuning.trained_settings import inherit
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tokenizers import Tokenizer
from tests.support.finetuning import options_of, write_files
from tests.support.html import read_page

# With a length of 6, there are windows of 4 tokens.
TEXTS = {"cat dog": "a", "cat dog cat dog bird": "b", "saw": "b", " ".join(["saw"] * 10): "a"}
WINDOWS = [1, 2, 1, 4]
LOGITS = np.arange(16, dtype=np.float32).reshape(8, 2) ** 2 % 7


@pytest.fixture
def options(tmp_path) -> ClassificationOptions:
    write_files(tmp_path)
    file = tmp_path / "rows.tsv"
    rows = [f"{text}\t{label}\n" for text, label in TEXTS.items()]
    file.write_text("".join(["text\tlabel\n", *rows]))
    (tmp_path / "out").mkdir()
    return options_of(
        tmp_path, tmp_path / "out", max_seq_length=6, long_texts="windows", do_predict=True,
        train_file=str(file), eval_file=str(file), predict_file=str(file),
        class_weights="balanced", cached_dir=str(tmp_path / "cache"),
    )  # fmt: skip


@pytest.mark.parametrize("how", ["windows", "windows_max"])
def test_windows_are_trained_on_and_texts_are_predicted(options, how, tmp_path, caplog):
    options, out = dataclasses.replace(options, long_texts=how), tmp_path / "out"
    task = ClassificationTask(options, Tokenizer.load(options.vocab_file))
    with caplog.at_level("INFO"):
        train, evaluated, predicted = read_sets(task)
    shares = "4 examples; 2 (50.0%) longer than 6 tokens, so that there are 8 windows"
    assert caplog.messages == [f"{name}: {shares}" for name in ("train", "eval", "predict")]
    labels = train.features.arrays["label_ids"]
    assert labels.tolist() == [0, 1, 1, 1, 0, 0, 0, 0]
    # Each label has the same weight in the loss, whose rows are windows.
    weights = train.features.arrays["example_weights"]
    assert weights[labels == 0].sum() == pytest.approx(weights[labels == 1].sum())
    assert task.epoch_size(train) == 8

    outputs = task.per_example(evaluated, {"logits": LOGITS})
    combine = np.mean if how == "windows" else np.max
    rows = np.split(LOGITS, np.cumsum(WINDOWS)[:-1])
    np.testing.assert_allclose(outputs["logits"], [combine(each, axis=0) for each in rows])
    assert outputs["logits"].dtype == np.float32
    guesses = outputs["logits"].argmax(axis=-1)
    accuracy = np.mean(guesses == [0, 1, 1, 0])
    assert task.score(evaluated, outputs)["eval_accuracy"] == accuracy
    assert task.baseline(evaluated).results["eval_accuracy"] == 0.5
    task.write_predictions(str(out), predicted, outputs)
    lines = (out / "predictions.tsv").read_text().splitlines()[1:]
    assert [line.split("\t")[1] for line in lines] == ["ab"[guess] for guess in guesses]

    (out / "eval_results.txt").write_text(f"eval_accuracy = {accuracy}\n")
    write_report(options, task, [train, evaluated], [(evaluated, outputs)])
    page = read_page((out / "report.html").read_text()).text
    assert "By length" in page
    assert "windows" in page
    assert "eval 4 2 (50.0%) 8 0" in page

    for name, text in task.adjacent_files().items():
        (out / name).write_text(text)
    later = ClassificationOptions(output_dir=str(out), do_predict=True)
    assert inherit(later).long_texts == how
    recorded = json.loads((out / "target.json").read_text())
    assert recorded["long_texts"] == how


def test_pairs_have_no_windows(options):
    pairs = dataclasses.replace(options, text_pair_column="label")
    expected = "^`long_texts`=windows: windows are of single texts; for pairs of texts, use head or"
    with pytest.raises(InputError, match=expected):
        find_dataset(pairs)
    with pytest.raises(InputError, match=expected):
        find_dataset(dataclasses.replace(options, task_name="RTE", do_train=False, train_file=None,
                                         eval_file=None, predict_file=None))  # fmt: skip
    find_dataset(dataclasses.replace(pairs, long_texts="head_tail"))
