"""What a report says of classification, regression and several labels."""

import functools

import numpy as np
import pytest
from sklearn import metrics

from albert_tf.finetuning.metrics import METRICS, intervals_of
from albert_tf.finetuning.task import ExampleSet
from albert_tf.input.examples import Features
from albert_tf.report.intervals import bootstrap, wilson
from albert_tf.report.sections import Shade
from albert_tf.tasks.classification.datasets import ClassificationDataset, Example
from albert_tf.tasks.classification.report import (
    class_sections,
    label_sections,
    label_set_sections,
    number_sections,
    quantile_sections,
)
from albert_tf.tasks.classification.targets import TARGETS


def example(count, labels, seed=0):
    """Return label ids and probabilities that agree more often than not, and lengths."""
    draw = np.random.default_rng(seed)
    ids = draw.integers(0, labels, count)
    scores = draw.normal(size=(count, labels)) + 1.5 * np.eye(labels)[ids]
    probabilities = np.exp(scores) / np.exp(scores).sum(axis=-1, keepdims=True)
    return ids, probabilities, draw.integers(5, 60, count)


def texts(cells):
    return [cell.text if isinstance(cell, Shade) else cell for cell in cells]


def test_confusions_and_results_by_label():
    ids, probabilities, lengths = example(200, 3)
    guesses = probabilities.argmax(axis=-1)
    names = ("x", "y", "z")
    labels, by_length, calibration, errors = class_sections(
        [f"t{n}" for n in range(200)], names, ids, probabilities, lengths, {}
    )
    matrix, by_label = labels.tables
    counts = metrics.confusion_matrix(ids, guesses)
    assert [texts(row) for row in matrix.rows] == [
        [name, *map(str, row)] for name, row in zip(names, counts, strict=True)
    ]
    assert [cell.share for cell in matrix.rows[0][1:]] == pytest.approx(counts[0] / counts[0].sum())
    precision, recall, f1, support = metrics.precision_recall_fscore_support(ids, guesses)
    for n, row in enumerate(by_label.rows):
        shares = (f"{value[n]:.1%}" for value in (precision, recall, f1))
        assert row == (names[n], str(support[n]), str((guesses == n).sum()), *shares)
    assert by_length.title == "By length"
    assert calibration.title == "Calibration"

    losses = -np.log(probabilities[np.arange(200), ids])
    wrong = np.flatnonzero(guesses != ids)
    assert errors.text.startswith(f"{len(wrong)} of 200")
    np.fill_diagonal(counts, 0)
    label, guess = np.unravel_index(counts.argmax(), counts.shape)
    first, more = errors.tables[:2]
    assert first.title == f"{names[label]} predicted as {names[guess]}: {counts.max()}"
    assert len(first.rows) == 5
    assert more.folded == f"{len(more.rows)} more"
    assert 5 + len(more.rows) == min(20, counts.max())
    cell = [n for n in wrong if (ids[n], guesses[n]) == (label, guess)]
    worst = max(cell, key=lambda n: losses[n])
    given, guessed = probabilities[worst, ids[worst]], probabilities[worst].max()
    assert first.rows[0] == (f"t{worst}", f"{guessed:.1%}", f"{given:.1%}")
    shown = [float(row[2].rstrip("%")) for row in (*first.rows, *more.rows)]
    assert shown == sorted(shown)


def test_of_many_labels_the_errors_show_what_is_confused_most():
    ids, probabilities, lengths = example(500, 30)
    names = [f"l{n}" for n in range(30)]
    sections = class_sections(["t"] * 500, names, ids, probabilities, lengths, {})
    assert [table.title for table in sections[0].tables] == ["By label"]
    counts = metrics.confusion_matrix(ids, probabilities.argmax(axis=-1))
    np.fill_diagonal(counts, 0)
    shown = [int(table.title.rpartition(": ")[2]) for table in sections[-1].tables if table.title]
    assert shown == sorted(counts.ravel().tolist(), reverse=True)[:20]


def test_labels_that_never_occur_divide_by_nothing():
    probabilities = np.array([[0.9, 0.1, 0.0], [0.8, 0.2, 0.0]])
    labels = class_sections(
        ["a", "b"], ("x", "y", "z"), np.array([0, 0]), probabilities, np.array([3, 4]), {}
    )[0]
    assert labels.tables[1].rows[2] == ("z", "0", "0", "", "", "")


@pytest.mark.integration
def test_intervals_are_wilsons_for_accuracy_and_drawn_for_the_rest():
    truth, guesses = np.array([0, 1, 1, 0, 1]), np.array([0, 1, 0, 0, 1])
    intervals = intervals_of(("accuracy", "matthew_corr"), truth, guesses)
    assert intervals["eval_accuracy"] == wilson(4, 5)
    of_samples = functools.partial(METRICS["matthew_corr"].of_samples, truth, guesses)
    assert intervals["matthew_corr"] == bootstrap(of_samples, 5)


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "labels", "names"),
    [
        ("classification", ["x", "y", "x", "z"], ("accuracy", "macro_f1")),
        ("regression", ["1", "2.5", "-3", "4"], ("pearson", "spearman", "mse")),
        ("multi_label", ["x,y", "", "z", "x"], ("micro_f1", "macro_f1", "exact_match")),
    ],
)
def test_every_result_of_every_kind_has_an_interval_that_holds_it(kind, labels, names):
    task = ClassificationDataset("t", {}, metrics=names, target=kind)
    rows = [Example(f"f:{n}", f"t{n}", "pair", labels[n % 4]) for n in range(60)]
    target = TARGETS[kind].learn(task, rows)
    truth = target.encode(rows)
    draw = np.random.default_rng(0)
    logits = draw.normal(size=(60, target.outputs)).astype(np.float32)
    if kind == "regression":
        logits += truth[:, None]
    features = Features([([1] * n, [0] * n) for n in draw.integers(3, 40, 60)], 0)
    examples = ExampleSet("eval", "m", rows, features)
    sections = target.report_sections(examples, truth, logits, "_m")
    intervals = {name: value for each in sections for name, value in each.intervals.items()}
    scores = {f"{name}_m": value for name, value in target.score(truth, logits).items()}
    assert intervals.keys() == scores.keys()
    for name, (low, high, _) in intervals.items():
        assert low <= scores[name] <= high
        assert low < high
    shown = [row[0] for row in sections[-1].tables[0].rows]
    assert shown
    assert all(text.endswith("\npair") for text in shown)
    (predictions,) = target.report_sections(examples, None, logits, "")
    assert predictions.title == "Predictions"


def test_predictions_are_counted():
    probabilities = np.array([[0.9, 0.1], [0.7, 0.3], [0.2, 0.8]])
    (section,) = label_sections(("x", "y"), probabilities >= 0.5, probabilities)
    assert [texts(row) for row in section.tables[0].rows] == [
        ["x", "66.7%", "2", "80.0%"],
        ["y", "33.3%", "1", "80.0%"],
    ]
    (section,) = quantile_sections(np.array([4.0, 1.0, 3.0, 2.0, 0.0]))
    assert [row[1] for row in section.tables[0].rows] == ["0", "1", "2", "3", "4"]


def test_numbers():
    truth, values = np.array([1.0, 2.0, 3.0]), np.array([1.5, 2.0, 0.0])
    guesses, errors = number_sections(["a", "b", "c"], truth, values, {"r": wilson(1, 2)})
    assert "error is 0.5." in guesses.text
    assert len(guesses.charts) == 1
    assert guesses.intervals == {"r": wilson(1, 2)}
    assert errors.tables[0].rows == [("c", "3", "0"), ("a", "1", "1.5"), ("b", "2", "2")]


def test_sets_of_labels():
    truth = np.array([[1, 1, 0], [0, 0, 0], [0, 1, 0]])
    probabilities = np.array([[0.9, 0.6, 0.1], [0.2, 0.7, 0.1], [0.1, 0.01, 0.2]])
    labels, errors = label_set_sections(["a", "b", "c"], ("x", "y", "z"), truth, probabilities, {})
    assert labels.tables[0].rows == [
        ("x", "1", "1", "100.0%", "100.0%", "100.0%"),
        ("y", "2", "2", "50.0%", "50.0%", "50.0%"),
        ("z", "0", "0", "", "", ""),
    ]
    assert errors.tables[0].rows == [("c", "y", "-"), ("b", "-", "y")]
