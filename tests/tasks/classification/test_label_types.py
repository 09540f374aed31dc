"""Labels come back as what they were: numbers and bools of JSON, Parquet and Python."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.interop.adjacent_files import find_adjacent_files, labels_text
from albert_tf.interop.convert import ConvertOptions, convert
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.prediction.tasks import Export
from albert_tf.tasks.classification.datasets import ClassificationDataset
from albert_tf.tasks.classification.targets import TARGETS
from tests.conftest import slow
from tests.support.kinds_of_tasks import write_weights
from tests.tasks.classification.test_label_probabilities import read


def write(path, *labels, text="x"):
    path.write_text(
        "".join(f'{{"text": {json.dumps(text)}, "label": {each}}}\n' for each in labels)
    )
    return path


def typed(values):
    return [(type(value), value) for value in values]


@pytest.mark.parametrize("kind", ["classification", "multi_label", "regression"])
@pytest.mark.parametrize("label", ["NaN", "null", "[1, null]", "[NaN]", "-Infinity"])
def test_a_row_without_a_label_is_named(tmp_path, kind, label):
    path = write(tmp_path / "rows.jsonl", 1, 0, label, 1)
    with pytest.raises(InputError, match=r"^.*rows.jsonl:3: column 'label' contains .*, no label$"):
        read(path, "label", ClassificationDataset("table", {}, target=kind))


def test_a_row_without_a_text_is_named(tmp_path):
    path = write(tmp_path / "rows.jsonl", 1, 0, text=float("nan"))
    with pytest.raises(InputError, match=r"^.*rows.jsonl:1: column 'text' is empty$"):
        read(path, "label")


@pytest.mark.parametrize(
    ("kind", "rows", "labels"),
    [
        ("classification", ["1.0", "0", "1", '"1"'], [0, 1]),
        ("classification", ["true", "false"], [False, True]),
        ("classification", ["2.5", "1.0"], [1, 2.5]),
        ("classification", ['"1"', '"1.0"'], ["1", "1.0"]),
        ("multi_label", ["[10, 9.0]", "[9]", "7", "[]", '"a,b"'], [10, 7, 9, "a", "b"]),
    ],
)
def test_equal_numbers_are_one_class_that_keeps_its_type(tmp_path, kind, rows, labels):
    dataset = ClassificationDataset("table", {}, target=kind)
    examples = read(write(tmp_path / "rows.jsonl", *rows), "label", dataset)
    target = TARGETS[kind].learn(dataset, examples)
    (tmp_path / LABELS_FILE).write_text(labels_text(target.labels))
    assert typed(json.loads((tmp_path / LABELS_FILE).read_text())) == typed(labels)
    again = TARGETS[kind](dataset, find_adjacent_files(str(tmp_path)).labels)
    assert again.labels == target.labels
    np.testing.assert_array_equal(again.encode(examples), target.encode(examples))
    assert labels_text(again.labels) == (tmp_path / LABELS_FILE).read_text()


def test_labels_of_earlier_versions_are_found(tmp_path):
    (tmp_path / LABELS_FILE).write_text('["0.0", "1.0", "v2.0", "true"]')
    target = TARGETS["classification"](
        ClassificationDataset("table", {}), find_adjacent_files(str(tmp_path)).labels
    )
    examples = read(write(tmp_path / "rows.jsonl", 1, "1.0", "true", 0), "label")
    assert target.encode(examples).tolist() == [1, 1, 3, 0]
    (row,) = read(write(tmp_path / "rows.jsonl", '"v2"'), "label")
    with pytest.raises(InputError, match=r"rows.jsonl:1: label 'v2' is not one of"):
        target.encode([row])


@pytest.mark.parametrize("labels", [np.array([True, False]), [3, -1], [0.5, 2.5], ["1", "0"]])
def test_saved_labels_have_their_types(tmp_path, labels):
    model = albert_tf.TextClassifier.from_preset(write_weights(tmp_path), labels=labels)
    model.save(f"{tmp_path}/saved")
    again = albert_tf.TextClassifier.from_preset(f"{tmp_path}/saved")
    assert typed(again.labels) == typed(model.labels) == typed(np.asarray(labels).tolist())
    assert {*typed(again.predict(["a", "b c"]))} <= {*typed(again.labels)}
    with pytest.raises(InputError, match=r"^`labels`\[1\]: is nan, no label$"):
        model.fit(["a", "b"], [again.labels[0], float("nan")])


@pytest.mark.parametrize("folder", ["~/saved", "a/../sa[v]ed/", pathlib.Path("saved #1")])
def test_a_model_is_saved_where_any_path_says(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    model = albert_tf.TextClassifier.from_preset(write_weights(tmp_path), labels=["a", "b"])
    model.save(folder)
    name = pathlib.Path(folder).name
    assert (tmp_path / name / "labels.json").exists()
    assert not {"~", "a"} & {path.name for path in tmp_path.iterdir()}
    assert albert_tf.TextClassifier.from_preset(folder).labels == ["a", "b"]


@pytest.mark.integration
@pytest.mark.parametrize("target", ["multi_label", *slow("classification")])
def test_trained_labels_have_their_types(tmp_path, target):
    model = albert_tf.TextClassifier.from_preset(write_weights(tmp_path), target=target)
    labels = [7.0, np.int64(30), 7] if target == "classification" else [[7], [30, 7], []]
    model.fit(["a", "b c", "d"], labels, steps=1, verbose=0)
    assert typed(model.labels) == [(int, 7), (int, 30)]
    model.save(f"{tmp_path}/saved")
    assert typed(albert_tf.TextClassifier.from_preset(f"{tmp_path}/saved").labels) == typed([7, 30])


def test_an_export_gives_labels_as_they_were(tmp_path, monkeypatch):
    outputs = {"probabilities": [[0.2, 0.8]], "labels": [[b"false", b"true"]]}
    export = Export.__new__(Export)
    export.settings, export.labels = {}, {}
    monkeypatch.setattr(Export, "__call__", lambda *_: [outputs])
    predict = albert_tf.TextClassifier._predict_exported
    assert predict(export, {"text": ["x"]})[0]["prediction"] == "true"
    (tmp_path / LABELS_FILE).write_text("[false, true]")
    export.labels = {label: label for label in find_adjacent_files(str(tmp_path)).labels}
    assert albert_tf.TextClassifier._predict_exported(export, {"text": ["x"]}) == [
        {"prediction": True, "probabilities": {"false": 0.2, "true": 0.8}}
    ]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "labels"), [("multi_label", [5, "b"]), ("regression", None)])
def test_every_format_says_what_is_predicted(tmp_path, kind, labels):
    weights = write_weights(tmp_path)
    model = albert_tf.TextClassifier.from_preset(weights, target=kind, labels=labels)
    for weight in model.model.weights[-2:]:  # not all answers are the same
        weight.assign(np.linspace(-2, 3, weight.shape.num_elements()).reshape(weight.shape))
    texts = ["the cat", "a"]
    model.save(f"{tmp_path}/saved")
    model.export(f"{tmp_path}/export")
    written = [f"{tmp_path}/export/classifier"]
    for format in ("jax", "google", "huggingface", "albert_tf"):
        output = f"{tmp_path}/{format}"
        if format == "albert_tf":
            output = f"{tmp_path}/keras/model.weights.h5"
        options = ConvertOptions(input=f"{tmp_path}/saved", output=output, to_format=format)
        convert(options)
        written.append(output)
    shutil.copy(tmp_path / "vocab.txt", tmp_path / "keras")
    for path in written:
        again = albert_tf.TextClassifier.from_preset(path)
        assert (again.predict(texts), typed(again.labels)) == (
            pytest.approx(model.predict(texts), rel=1e-6) if not labels else model.predict(texts),
            typed(model.labels),
        ), path
    published = json.loads((tmp_path / "huggingface/config.json").read_text())
    assert published["problem_type"] == {"multi_label": "multi_label_classification"}.get(
        kind, kind
    )
    for name in ("labels.json", "target.json"):
        (tmp_path / "huggingface" / name).unlink(missing_ok=True)
    del published["id2label"]
    if not labels:  # as of most published ones
        del published["problem_type"]
    (tmp_path / "huggingface/config.json").write_text(json.dumps(published))
    back = {"input": f"{tmp_path}/huggingface", "output": f"{tmp_path}/back", "to_format": "jax"}
    convert(ConvertOptions(**back))
    found = [albert_tf.TextClassifier.from_preset(back[name]) for name in ("input", "output")]
    assert found[0].predict(texts) == found[1].predict(texts)
    assert type(found[1].predict(texts)[0]) is type(model.predict(texts)[0])
    assert found[1].labels == found[0].labels == (["LABEL_0", "LABEL_1"] if labels else [])
    (tmp_path / "keras/target.json").write_text('{"kind": "classification"}')
    with pytest.raises(InputError, match=r"keras/target.json belongs to another model$"):
        convert(dataclasses.replace(options, output=f"{tmp_path}/keras/b.weights.h5"))
