"""Labels come back as what they were: numbers and bools of JSON, Parquet and Python."""

import dataclasses
import json
import shutil

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.export.build import _choose_head, export_saved_model
from albert_tf.export.export_options import ExportOptions
from albert_tf.export.task_export import task_settings
from albert_tf.finetuning.command import fine_tune
from albert_tf.interop.adjacent_files import find_adjacent_files, labels_text
from albert_tf.interop.convert import ConvertOptions, convert
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.interop.heads import needed
from albert_tf.interop.huggingface import write_weights as write_huggingface_weights
from albert_tf.interop.loading import open_preset
from albert_tf.prediction.rows import row_writer
from albert_tf.prediction.tasks import PredictOptions, load_export
from albert_tf.task_kinds import kind_of
from albert_tf.tasks import classification, question_answering, tagging
from albert_tf.tasks.classification.datasets import (
    ClassificationDataset,
    Columns,
    RowSet,
    TableFile,
    read_examples,
)
from albert_tf.tasks.classification.encoding import class_weights
from albert_tf.tasks.classification.targets import TARGETS
from albert_tf.tasks.classification.task import restore
from tests.conftest import refusal
from tests.support.finetuning import labeled
from tests.support.kinds_of_tasks import write_weights

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
    assert "rows.tsv:5: column 'label' is empty" in refusal(read, path, "label")


@pytest.mark.parametrize(
    ("label", "message"),
    [
        ('{"x": 0.5, "y": 0.4}', 'the probabilities {"x": 0.5, "y": 0.4} add up to 0.9; must be 1'),
        *(
            (f'{{"x": {value}, "y": 1}}', f"the probability of label 'x' is {shown}; must be")
            for value, shown in (("1.5", 1.5), ("-0.5", -0.5), ("NaN", "nan"), ('"1"', "'1'"))
        ),
        ('{"x": 1', "column 'label': not JSON (Expecting ',' delimiter: line 1 column 8 (char 7))"),
    ],
)
def test_what_is_no_distribution_is_named(tmp_path, label, message):
    path = tmp_path / "rows.tsv"
    path.write_text(f"text\tlabel\na\tx\nb\t{label}\n")
    assert refusal(read, path, "label").startswith(f"{path}:3: {message}")


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


def write(path, *labels, text="x"):
    lines = (f'{{"text": {json.dumps(text)}, "label": {each}}}\n' for each in labels)
    path.write_text("".join(lines))
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


SAME_LABELS = ["caf\u00e9 au lait", " cafe\u0301 au lait", "caf\u00e9\u00a0au  lait\t"]


def test_labels_that_look_the_same_are_one_class(tmp_path):
    rows = write(tmp_path / "rows.jsonl", *map(json.dumps, [*SAME_LABELS, "tea"]))
    examples = read(rows, "label")
    target = TARGETS["classification"].learn(DATASET, examples)
    assert target.labels == (SAME_LABELS[0], "tea")
    assert target.encode(examples).tolist() == [0, 0, 0, 1]
    # A model that was trained on labels as they were.
    for label in SAME_LABELS:
        trained = restore(DATASET, None, ["tea", label])
        assert trained.encode(examples).tolist() == [1, 1, 1, 0]
        assert trained.decode(np.eye(2)) == ["tea", label]
    # Of rows with several labels, too.
    several = ClassificationDataset("table", {}, target="multi_label")
    lists = [SAME_LABELS[:1], SAME_LABELS[1:], ["tea", SAME_LABELS[2]]]
    examples = read(write(tmp_path / "rows.jsonl", *map(json.dumps, lists)), "label", several)
    target = TARGETS["multi_label"].learn(several, examples)
    assert target.labels == (SAME_LABELS[0], "tea")
    assert target.encode(examples).tolist() == [[1, 0], [1, 0], [1, 1]]


def test_labels_of_earlier_versions_are_found(tmp_path):
    (tmp_path / LABELS_FILE).write_text('["0.0", "1.0", "v2.0", "true"]')
    labels = find_adjacent_files(str(tmp_path)).labels
    target = TARGETS["classification"](DATASET, labels)
    examples = read(write(tmp_path / "rows.jsonl", 1, "1.0", "true", 0), "label")
    assert target.encode(examples).tolist() == [1, 1, 3, 0]
    (row,) = read(write(tmp_path / "rows.jsonl", '"v2"'), "label")
    with pytest.raises(InputError, match=r"rows.jsonl:1: label 'v2' is not one of"):
        target.encode([row])


@pytest.mark.integration
@pytest.mark.parametrize("labels", [np.array([True, False]), [3, -1], [0.5, 2.5], ["1", "0"]])
def test_saved_labels_have_their_types(tmp_path, labels):
    model = albert_tf.TextClassifier.from_preset(write_weights(tmp_path), labels=labels)
    model.save(f"{tmp_path}/saved")
    again = albert_tf.TextClassifier.from_preset(f"{tmp_path}/saved")
    assert typed(again.labels) == typed(model.labels) == typed(np.asarray(labels).tolist())
    assert {*typed(again.predict(["a", "b c"]))} <= {*typed(again.labels)}
    with pytest.raises(InputError, match=r"^`labels`\[1\]: is nan, no label$"):
        model.fit(["a", "b"], [again.labels[0], float("nan")])


@pytest.mark.slow
@pytest.mark.parametrize("target", ["multi_label", "classification"])
def test_trained_labels_have_their_types(tmp_path, target):
    model = albert_tf.TextClassifier.from_preset(write_weights(tmp_path), target=target)
    labels = [7.0, np.int64(30), 7] if target == "classification" else [[7], [30, 7], []]
    model.fit(["a", "b c", "d"], labels, steps=1, verbose=0)
    assert typed(model.labels) == [(int, 7), (int, 30)]
    model.save(f"{tmp_path}/saved")
    assert typed(albert_tf.TextClassifier.from_preset(f"{tmp_path}/saved").labels) == typed([7, 30])


def published(tmp_path, architecture, *outputs, **fields) -> str:
    """Return a Hugging Face folder of a random model, as transformers writes it: no idle pooler."""
    encoder = open_preset(write_weights(tmp_path))
    model = getattr(albert_tf, architecture)(encoder.config, *outputs)
    paths = needed([each.path for each in model.weights], model)
    weights = (each for each in model.weights if each.path in paths)
    values = {each.path: keras.ops.convert_to_numpy(each) for each in weights}
    folder, fields = f"{tmp_path}/published", {"architectures": [architecture], **fields}
    shutil.copytree(encoder.folder, folder, ignore=shutil.ignore_patterns("*.h5", "albert_*"))
    write_huggingface_weights(folder, values, encoder.config, fields)
    return folder


def test_numbered_labels_are_those_of_a_data_set_by_its_numbers():
    numbered = ("LABEL_0", "LABEL_1")
    target = restore(dataclasses.replace(DATASET, labels=("0", "1")), None, numbered)
    assert target.labels == ("0", "1")
    target = restore(DATASET, None, numbered)
    assert target.labels == numbered
    assert target.encode(labeled("1", "LABEL_0")).tolist() == [1, 0]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "labels", "tags"),
    [
        (classification.KIND, None, None),
        (tagging.KIND, ["O", "B-X", "I-X"], "entities"),
    ],
)
def test_a_published_model_predicts_whatever_its_labels_are(tmp_path, kind, labels, tags):
    names = {"id2label": {str(id): label for id, label in enumerate(labels)}} if labels else {}
    folder = published(tmp_path, kind.heads[0].huggingface, 3, **names)
    (tmp_path / "texts.jsonl").write_text('{"text": "saw cat"}\n')
    files = {"predict_file": f"{tmp_path}/texts.jsonl", "output_dir": f"{tmp_path}/out"}
    options = kind.load("options")(do_predict=True, init_checkpoint=folder, **files)
    fine_tune(options, kind.load("task"))
    fine_tune(dataclasses.replace(options, init_checkpoint=None), kind.load("task"))
    expected = labels or ["LABEL_0", "LABEL_1", "LABEL_2"]
    written = "predictions.conll" if tags else "predictions.tsv"
    assert (tmp_path / "out" / written).read_text().split()[-1] in expected
    # As an export does.
    (tmp_path / "out" / kind.settings_file).write_text('{"max_seq_length": 9}')
    model = kind.load("text_model").from_preset(files["output_dir"])
    assert model.labels == expected
    assert not tags or model.task.settings.tags == tags
    model.predict(["saw cat"])


@pytest.mark.integration
def test_a_published_span_model_stays_one_whatever_it_is_asked(tmp_path):
    asked = [{"id": "1", "question": "cat", "answers": [], "is_impossible": True}]
    content = {"data": [{"paragraphs": [{"context": "saw cat", "qas": asked}]}]}
    (tmp_path / "asked.json").write_text(json.dumps(content))
    files = {"predict_file": f"{tmp_path}/asked.json", "output_dir": f"{tmp_path}/out"}
    kind, lengths = question_answering.KIND, {"max_seq_length": 12, "max_query_length": 4}
    folder = published(tmp_path, "AlbertForQuestionAnswering")
    options = kind.load("options")(do_predict=True, init_checkpoint=folder, **files, **lengths)
    fine_tune(options, kind.load("task"))
    assert json.loads((tmp_path / "out/predictions.json").read_text()).keys() == {"1"}
    model = albert_tf.QuestionAnswerer.from_preset(f"{tmp_path}/out", **lengths)
    assert type(model.model) is albert_tf.AlbertForQuestionAnswering


def test_other_labels_than_those_of_a_published_model_are_refused(tmp_path):
    names = {"0": "b", "1": "a"}
    folder = published(tmp_path, "AlbertForSequenceClassification", 2, id2label=names)
    load = albert_tf.TextClassifier.from_preset
    assert load(folder, labels=["b", "a"]).labels == ["b", "a"]
    (tmp_path / "n").mkdir()
    fields = {"id2label": {"0": 1, "1": 0}}
    numbers = published(tmp_path / "n", "AlbertForSequenceClassification", 2, **fields)
    assert load(numbers).labels == [1, 0]
    for labels in (["a", "b"], ["c", "d"]):
        assert "was trained with ('b', 'a')" in refusal(load, folder, labels=labels)
    for label, same in ((" a", "a"), ("a\tb", "a b"), ("e\u0301", "\xe9")):
        found = refusal(load, folder, labels=["b", label])
        assert found == f"`labels`[1]: is {label!r}; must be {same!r}, as labels are compared"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("outputs", "fields", "expected"),
    [
        (3, {"problem_type": "multi_label_classification"}, "multi_label"),
        (1, {"problem_type": "multi_label_classification"}, "multi_label"),
        (3, {"problem_type": "single_label_classification"}, "classification"),
        (3, {}, "classification"),
        (1, {"problem_type": "regression"}, "regression"),
        (1, {"problem_type": "single_label_classification"}, "regression"),
        (1, {"id2label": {"0": "score"}}, "regression"),
        (3, {"problem_type": "regression"}, None),
    ],
)
def test_all_agree_on_what_published_outputs_mean(tmp_path, outputs, fields, expected):
    folder = published(tmp_path, "AlbertForSequenceClassification", outputs, **fields)
    source = open_preset(folder)
    options = ExportOptions(init_checkpoint=folder, export_path=f"{tmp_path}/export")

    def exported(_):
        return task_settings(kind_of(_choose_head(options, source)), options, source).kind

    def loaded(path):
        return albert_tf.TextClassifier.from_preset(path).task.target.kind

    for read in (exported, loaded):
        if expected:
            assert read(folder) == expected
        else:
            assert refusal(read, folder) == f"`name`={folder}: predicts 3 numbers; must be one"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("fields", "warning"),
    [
        ({"id2label": {"0": "a", "1": "b"}}, "2 labels are recorded, but the head has 3 outputs"),
        ({"id2label": {"1": "a", "2": "b", "3": "c"}}, "id2label={'1': 'a', "),
        ({"id2label": {"0": "a", "1": "b", "2": "a"}}, "is not a distinct name for each of 0, 1"),
        ({"problem_type": "foo"}, "problem_type=foo: must be one of regression, single_label"),
    ],
)
def test_records_that_cannot_be_right_are_ignored_with_a_warning(tmp_path, caplog, fields, warning):
    folder = published(tmp_path, "AlbertForSequenceClassification", 3, **fields)
    model = albert_tf.TextClassifier.from_preset(folder)
    assert model.labels == ["LABEL_0", "LABEL_1", "LABEL_2"]
    assert warning in caplog.text


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
    formats = {"jax": "jax", "google": "google", "huggingface": "huggingface"}
    for format, name in (formats | {"albert_tf": "keras/model.weights.h5"}).items():
        written.append(f"{tmp_path}/{name}")
        options = ConvertOptions(input=f"{tmp_path}/saved", output=written[-1], to_format=format)
        convert(options)
    shutil.copy(tmp_path / "vocab.txt", tmp_path / "keras")
    for path in written:
        again = albert_tf.TextClassifier.from_preset(path)
        assert (again.predict(texts), typed(again.labels)) == (
            pytest.approx(model.predict(texts), rel=1e-6) if not labels else model.predict(texts),
            typed(model.labels),
        ), path
    published = json.loads((tmp_path / "huggingface/config.json").read_text())
    assert published["problem_type"] == (f"{kind}_classification" if labels else kind)
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
    again = {"export_path": f"{tmp_path}/again", "head": "classifier"}
    export_saved_model(ExportOptions(init_checkpoint=back["input"], **again))
    rows = load_export("classify", PredictOptions(model=again["export_path"], text="x"))
    answers = [row["prediction"] for row in rows({"text": texts})]
    expected = found[0].predict(texts)
    assert answers == (expected if labels else pytest.approx(expected, rel=1e-6))
    assert type(found[1].predict(texts)[0]) is type(model.predict(texts)[0])
    assert found[1].labels == found[0].labels == (["LABEL_0", "LABEL_1"] if labels else [])
    (tmp_path / "keras/target.json").write_text('{"kind": "classification"}')
    with pytest.raises(InputError, match=r"keras/target.json belongs to another model$"):
        convert(dataclasses.replace(options, output=f"{tmp_path}/keras/b.weights.h5"))
