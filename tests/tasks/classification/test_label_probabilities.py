"""Labels that are not certain: written by predictions or by hand, read from tables."""

import json

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.prediction.files import row_writer
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Columns,
    Example,
    RowSet,
    TableFile,
    read_examples,
)
from albert_tf.tasks.classification.encoding import class_weights
from albert_tf.tasks.classification.tables import fold_rows, hold_out
from albert_tf.tasks.classification.targets import TARGETS

DATASET = ClassificationDataset("table", {})


def read(path, column="probabilities", dataset=DATASET, **arguments):
    rows = RowSet((TableFile(str(path), Columns("text", None, column)),))
    return read_examples(dataset, rows, labeled=True, **arguments)


@pytest.mark.parametrize("ending", ["jsonl", "tsv", "parquet"])
def test_what_albert_predict_writes_is_read(tmp_path, ending):
    predicted = [{"no": 0.25, "yes": 0.75}, {"no": 0.5000001, "yes": 0.4999999}]
    rows = [
        {"text": text, "prediction": max(each, key=each.get), "probabilities": each}
        for text, each in zip(["a", "b"], predicted, strict=True)
    ]
    path = tmp_path / f"rows.{ending}"
    with row_writer(str(path)) as writer:
        writer.write(rows)
    examples = read(path)
    for example, each in zip(examples, predicted, strict=True):
        assert example.probabilities == pytest.approx(each)
    target = TARGETS["classification"].learn(DATASET, examples)
    assert target.labels == ("no", "yes")
    assert target.encode(examples).tolist() == [1, 0]
    np.testing.assert_allclose(target.probabilities(examples), [[0.25, 0.75], [0.5, 0.5]], 1e-6)
    # The column of predictions is one of ordinary labels.
    certain = read(path, "prediction")
    assert [example.label for example in certain] == ["yes", "no"]
    assert target.probabilities(certain) is None


def test_rows_may_be_certain_rounded_or_of_other_labels(tmp_path):
    lines = ["text\tlabel", "a\tx", 'b\t{"x": 0.33, "z": 0.33, " y": 0.33}', "c\t{x}", "d\t"]
    path = tmp_path / "rows.tsv"
    path.write_text("\n".join(lines) + "\n")
    examples = read(path, "label", may_lack_label=True)
    target = TARGETS["classification"].learn(DATASET, examples)
    assert target.labels == ("x", "y", "z", "{x}")
    assert target.encode(examples).tolist() == [0, 0, 3, -1]
    third = 1 / 3
    expected = [[1, 0, 0, 0], [third, third, third, 0], [0, 0, 0, 1], [0, 0, 0, 0]]
    np.testing.assert_allclose(target.probabilities(examples), expected, rtol=1e-6)
    weights = class_weights("balanced", target.labels, target.encode(examples))
    np.testing.assert_allclose(weights, [3 / 8, 3 / 4, 3 / 4, 3 / 4])
    with pytest.raises(InputError, match=r"rows.tsv:5: column 'label' is empty"):
        read(path, "label")


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ('{"x": 0.5, "y": 0.4}', 'the probabilities {"x": 0.5, "y": 0.4} add up to 0.9; must be 1'),
        (
            '{"x": 1.5, "y": -0.5}',
            "the probability of label 'x' is 1.5; must be a number from 0 to 1",
        ),
        (
            '{"x": -0.5, "y": 1.5}',
            "the probability of label 'x' is -0.5; must be a number from 0 to 1",
        ),
        ('{"x": NaN, "y": 1}', "the probability of label 'x' is nan; must be a number from 0 to 1"),
        ('{"x": "1"}', "the probability of label 'x' is '1'; must be a number from 0 to 1"),
        ('{"x": 1', "column 'label': not JSON (Expecting ',' delimiter: line 1 column 8 (char 7))"),
    ],
)
def test_what_is_no_distribution_is_named(tmp_path, label, message):
    path = tmp_path / "rows.tsv"
    path.write_text(f"text\tlabel\na\tx\nb\t{label}\n")
    with pytest.raises(InputError) as error:
        read(path, "label")
    assert str(error.value) == f"{path}:3: {message}"


def test_probabilities_need_one_label_per_row_and_known_ones(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"text": "a", "label": {"x": 0.5, "y": 0.5}}) + "\n")
    for kind in ("regression", "multi_label"):
        with pytest.raises(InputError, match=r"rows.jsonl:1: column 'label' contains an object"):
            read(path, "label", ClassificationDataset("table", {}, target=kind))
    with pytest.raises(InputError, match=r"rows.jsonl:1: column 'label' contains an object, not"):
        read_examples(DATASET, RowSet((TableFile(str(path), Columns("label")),)), labeled=False)
    target = TARGETS["classification"](DATASET, ("x", "z"))
    message = r"rows.jsonl:1: label 'y' is not one of the training labels \(x, z\)"
    with pytest.raises(InputError, match=message):
        target.encode(read(path, "label"))


def test_the_likeliest_label_decides_which_rows_are_held_out():
    labels = ["x", {"x": 0.2, "y": 0.8}, {"x": 0.6, "y": 0.4}, "y", None, "x", "y", None]
    examples = [Example(f"rows.tsv:{n}", "x", None, each) for n, each in enumerate(labels)]
    train, held_out = hold_out(ClassificationDataset("table", {}, held_out=0.5), examples)
    assert {each.likeliest_label for each in held_out} == {"x", "y"}
    assert [each for each in examples if each in train or each in held_out] == examples
    assert len(train) == 5
    with pytest.raises(InputError, match=r"`folds`=2: rows.tsv:4 has no label to score"):
        fold_rows(ClassificationDataset("table", {}, folds=2), examples)
    for _, rows in fold_rows(ClassificationDataset("table", {}, folds=3), examples[:4] * 2):
        assert len(rows) in (2, 3)


@pytest.mark.parametrize(("target", "label"), [("multi_label", ["x", "y"]), ("regression", "1.5")])
def test_rows_of_several_labels_or_numbers_are_held_out_as_they_come(target, label):
    examples = [Example(f"rows.jsonl:{n}", "x", None, label) for n in range(9)]
    dataset = ClassificationDataset("table", {}, target=target, held_out=0.3, folds=3)
    assert [len(part) for part in hold_out(dataset, examples)] == [6, 3]
    assert [len(rows) for _, rows in fold_rows(dataset, examples)] == [3, 3, 3]
