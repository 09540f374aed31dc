"""Labels, scores and answers of the three kinds of target."""

import dataclasses
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.utils import compute_class_weight

from albert_tf.errors import InputError
from albert_tf.finetuning.command import fine_tune
from albert_tf.finetuning.context import read_sets
from albert_tf.finetuning.run_report import write_predict_results, write_report
from albert_tf.finetuning.trained_settings import inherit
from albert_tf.interop.adjacent_files import labels_text
from albert_tf.tasks.classification.datasets import ClassificationDataset
from albert_tf.tasks.classification.encoding import class_weights
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.targets import TARGETS
from albert_tf.tasks.classification.task import ClassificationTask, SavedTarget, restore
from albert_tf.tokenizers import Tokenizer
from tests.conftest import refusal
from tests.support.finetuning import labeled, options_of, write_files
from tests.support.html import read_page


def task(target, metrics=("accuracy",), **fields):
    return ClassificationDataset("table", {}, metrics=metrics, target=target, **fields)


def test_one_label():
    one = task("classification", ("accuracy", "macro_f1"))
    target = TARGETS["classification"].learn(one, labeled("b", "a", "b"))
    assert (target.labels, target.outputs) == (("a", "b"), 2)
    assert target.encode(labeled("b", "a")).tolist() == [1, 0]
    logits = np.log(np.array([[0.9, 0.1], [0.2, 0.8], [0.6, 0.4]]))
    assert target.decode(logits) == ["a", "b", "a"]
    np.testing.assert_allclose(target.values(logits), np.exp(logits))
    scores = target.score(np.array([0, 1, 1]), logits)
    assert scores["eval_accuracy"] == pytest.approx(2 / 3)
    assert scores["eval_loss"] == pytest.approx(-np.log([0.9, 0.8, 0.4]).mean())
    assert target.collapse(logits) is None
    assert target.collapse(logits[[0, 2]]) == "every prediction is 'a'"


def test_labels_that_are_numbers_are_in_their_order():
    kind = TARGETS["classification"]
    assert kind.learn(task("classification"), labeled("10", "9", "1")).labels == ("1", "9", "10")
    assert kind.learn(task("classification"), labeled("10", "9", "x")).labels == ("10", "9", "x")
    fixed = task("classification", labels=("yes", "no"))
    assert kind.learn(fixed, labeled("no")).labels == ("yes", "no")


def test_a_number():
    number = task("regression", ("pearson", "mse"))
    target = TARGETS["regression"].learn(number, labeled("1", "2.5", " 4e0 "))
    assert target.outputs == 1
    assert target.encode(labeled("1", "-2.5")).tolist() == [1, -2.5]
    logits = np.array([[1.0], [5.6], [-0.25]], np.float32)
    assert target.decode(logits) == ["1", "5.5999999", "-0.25"]
    assert target.submitted(logits) == ["1", "5", "0"]
    scores = target.score(np.array([1.0, 5.0, 0.0]), logits)
    assert scores["MSE"] == scores["eval_loss"] == pytest.approx((0.6**2 + 0.25**2) / 3)
    assert target.collapse(logits) is None
    near = np.array([[2.0], [2.001]], np.float32)
    assert target.collapse(near) == "every prediction is about 2"
    assert target.collapse(np.array([[2.0], [2.5]], np.float32)) is None


def test_several_labels():
    several = task("multi_label", ("micro_f1", "macro_f1", "exact_match"), label_separator=";")
    target = TARGETS["multi_label"].learn(several, labeled("b; a", "", ["c", "a"], "a;a"))
    assert target.labels == ("a", "b", "c")
    sets = target.encode(labeled("c;a", "", ["b"]))
    assert sets.tolist() == [[1, 0, 1], [0, 0, 0], [0, 1, 0]]
    logits = np.array([[3.0, -2.0, 0.0], [-1.0, -1.0, -1.0], [1.0, 1.0, -3.0]])
    assert target.decode(logits) == ["a;c", "", "a;b"]
    np.testing.assert_allclose(target.values(logits), 1 / (1 + np.exp(-logits)))
    scores = target.score(sets, logits)
    # Of 4 predicted labels 3 are right, of 3 true ones all are found.
    assert scores["eval_micro_f1"] == pytest.approx(2 * 3 / (4 + 3))
    assert scores["eval_macro_f1"] == pytest.approx((2 / 3 + 1 + 1) / 3)
    assert scores["eval_exact_match"] == pytest.approx(2 / 3)
    right = np.where(sets == 1, target.values(logits), 1 - target.values(logits))
    assert scores["eval_loss"] == pytest.approx(-np.log(right).mean())
    assert target.collapse(logits) is None
    assert target.collapse(logits[[1, 1]]) == "every prediction is ''"


@pytest.mark.parametrize(
    ("kind", "labels"),
    [("classification", "ab"), ("regression", "12"), ("multi_label", ("a", "b,c"))],
)
def test_what_was_learned_is_restored(kind, labels):
    target = TARGETS[kind].learn(task(kind), labeled(*labels))
    saved = SavedTarget(kind=kind, spread=target.spread)
    again = restore(task(kind), saved, json.loads(labels_text(target.labels)))
    assert vars(again) == vars(target)
    if kind == "classification":  # folders of before there was a target.json
        assert restore(task(kind), None, ["a", "b"]).labels == target.labels


@pytest.mark.parametrize(
    ("kind", "labels", "message"),
    [
        ("classification", ("a", "a"), "rows.tsv: every row has the label 'a'; at least two"),
        ("regression", ("1", "high"), "rows.tsv:3: label 'high' is not a number"),
        ("regression", ("1", "nan"), "rows.tsv:3: label 'nan' is not a number"),
        ("regression", ("1.5", "1.50"), "rows.tsv: every row has the label 1.5"),
        ("multi_label", ("", " , "), "rows.tsv: no row has a label"),
    ],
)
def test_labels_that_cannot_be_are_named(kind, labels, message):
    with pytest.raises(InputError, match=message):
        TARGETS[kind].learn(task(kind), labeled(*labels))


def test_unknown_labels_are_named():
    for kind, label in (("classification", "c"), ("multi_label", "a,c")):
        target = TARGETS[kind].learn(task(kind), labeled("a", "b"))
        error = refusal(target.encode, labeled("a", label))
        assert error == "rows.tsv:3: label 'c' is not one of the training labels (a, b)"


def test_probabilities_of_large_logits_are_finite():
    logits = np.array([[1e4, -1e4], [-1e5, 1e5]], np.float32)
    for kind in ("classification", "multi_label"):
        target = TARGETS[kind](task(kind), ("a", "b"))
        np.testing.assert_allclose(target.values(logits), [[1, 0], [0, 1]], atol=1e-300)
    target = TARGETS["classification"](task("classification"), ("a", "b"))
    losses = target.losses(np.array([1, 1]), logits)
    np.testing.assert_allclose(losses, [-np.log(np.finfo(float).eps), 0], atol=1e-15)


@pytest.mark.parametrize(
    ("kind", "labels", "answer", "key", "value"),
    [
        ("classification", ("b", "a", "b"), "always 'b'", "eval_accuracy", 2 / 3),
        ("regression", ("1", "2", "6"), "always the mean, 3", "MSE", 14 / 3),
        ("multi_label", ("a,b", "a", "a,b"), "always 'a,b'", "eval_exact_match", 2 / 3),
        ("multi_label", ("", "", "a,b"), "never any label", "eval_exact_match", 2 / 3),
    ],
)
def test_the_scores_of_the_same_answer_for_all(kind, labels, answer, key, value):
    names = {"classification": "accuracy", "regression": "mse", "multi_label": "exact_match"}
    rows = labeled(*labels)
    target = TARGETS[kind].learn(task(kind, (names[kind],)), rows)
    truth = target.encode(rows)
    found, logits = target.baseline(truth)
    assert found == answer
    assert target.score(truth, logits)[key] == pytest.approx(value)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40))
def test_balanced_weights_are_scikit_learns(label_ids):
    ids = np.array([0, 1, 2, 3, *label_ids])
    expected = compute_class_weight("balanced", classes=np.arange(4), y=ids)
    np.testing.assert_allclose(class_weights("balanced", "abcd", ids), expected, rtol=1e-6)


def test_weights_of_labels_are_given_in_a_file_or_a_mapping(tmp_path):
    file = tmp_path / "weights.json"
    file.write_text('{"b": 2.5}')
    for given_weights in (str(file), {"b": 2.5}):
        assert class_weights(given_weights, ("a", "b"), np.array([0])).tolist() == [1, 2.5]
    assert class_weights("balanced", ("a", "b"), np.array([0])).tolist() == [0.5, 0.5]
    for content, message in [
        ('{"c": 1}', "'c' is not one of the training labels (a, b)"),
        ('{"a": 0}', "the weight of 'a' is 0.0; must be above 0"),
        ('{"a": -1}', "the weight of 'a' is -1.0; must be above 0"),
    ]:
        file.write_text(content)
        error = refusal(class_weights, str(file), ("a", "b"), np.array([0]))
        assert error.startswith(f"`class_weights`={file}: ")
        assert error.endswith(message)
    file.write_text('{"a": "x"}')
    with pytest.raises(InputError, match=rf"^{file}: "):
        class_weights(str(file), ("a", "b"), np.array([0]))
    with pytest.raises(InputError, match="^`class_weights`=.*/none.json: must be balanced, or"):
        class_weights(f"{tmp_path}/none.json", ("a", "b"), np.array([0]))


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


SOME = ("a", "b", None, "", "c", {"a": 0.4, "b": 0.6})


@pytest.mark.parametrize(
    ("kind", "labels", "answers", "expected", "count"),
    [
        ("classification", SOME, "abaaaa", "accuracy = 0.66666667", 3),
        ("regression", ("1.5", None, "x", 2, ""), (1.5, 0, 0, 3, 0), "MSE = 0.5", 2),
        ("multi_label", (["a"], [], "", None), ("a", "", "b", ""), "micro_f1 = 0.66666667", 3),
        ("multi_label", ("", "", ""), "aaa", "", 0),
    ],
)
def test_predicted_rows_are_scored(tmp_path, caplog, kind, labels, answers, expected, count):
    write_files(tmp_path)
    rows = [{"text": "cat"} | ({} if label is None else {"label": label}) for label in labels]
    (tmp_path / "a.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    kinds = {name: name == kind for name in ("regression", "multi_label")}
    splits = {"do_train": False, "do_eval": False, "do_predict": True}
    file = str(tmp_path / "a.jsonl")
    options = options_of(tmp_path, tmp_path, predict_file=file, **kinds, **splits)
    target = TARGETS[kind](find_dataset(options), ("a", "b"))
    task = ClassificationTask(options, Tokenizer.load(options.vocab_file), target)
    logits = [[2.0 * (label in each) - 1 for label in "ab"] for each in map(str, answers)]
    outputs = {"logits": np.array([[n] for n in answers] if kind == "regression" else logits)}
    with caplog.at_level("INFO"):
        write_predict_results(str(tmp_path), task, [(*read_sets(task), outputs)])
    assert (f"predict: {count} of {len(labels)} are scored" in caplog.text) == bool(count)
    results = tmp_path / "predict_results.txt"
    assert results.exists() == bool(count)
    assert not count or f"predict_{expected}\n" in results.read_text()


def test_pairs_have_no_windows(options):
    pairs = dataclasses.replace(options, text_pair_column="label")
    expected = "^`long_texts`=windows: windows are of single texts; for pairs of texts, use head or"
    with pytest.raises(InputError, match=expected):
        find_dataset(pairs)
    with pytest.raises(InputError, match=expected):
        find_dataset(dataclasses.replace(options, task_name="RTE", do_train=False, train_file=None,
                                         eval_file=None, predict_file=None))  # fmt: skip
    find_dataset(dataclasses.replace(pairs, long_texts="head_tail"))


def test_results_do_not_replace_what_is_read(tmp_path):
    write_files(tmp_path)
    (tmp_path / "out").mkdir()
    place = tmp_path / "out" / "test_results.tsv"
    place.write_text("label\ttext\n")
    options = options_of(tmp_path, tmp_path / "out", do_predict=True, predict_file=str(place))
    with pytest.raises(InputError, match=r"^`predict_file`=.*: is in `output_dir`, under a name"):
        fine_tune(options, ClassificationTask)


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ({"pairs": True}, "contains a model for pairs of texts, not for single te"),
        ({"kind": "regression"}, "contains a model for regression, not for classification"),
        ({"pairs": False}, ""),
        ({"pairs": None}, ""),
    ],
)
def test_a_model_of_other_texts_or_another_target(tmp_path, recorded, message):
    write_files(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "target.json").write_text(json.dumps(recorded))
    (tmp_path / "out" / "labels.json").write_text('["animal", "tool"]')
    changes = {"do_train": False, "do_eval": False, "do_predict": True}
    options = options_of(tmp_path, tmp_path / "out", **changes)
    task = ClassificationTask(options, Tokenizer.load(options.vocab_file))
    if not message:
        assert task.target.labels == ("animal", "tool")
        return
    with pytest.raises(InputError, match=message):
        _ = task.target
