"""albert-predict gives the predictions of the text models, row by row, in every format."""

import functools
import json
import math
import pathlib
import re
import sys

import numpy as np
import pytest
from pyarrow import parquet

import albert_tf
from albert_tf.cli import predict as command
from albert_tf.cli.predict import run
from albert_tf.errors import InputError
from albert_tf.files import sha256_of
from albert_tf.interop.adjacent_files import find_adjacent_files
from albert_tf.interop.file_names import LABELS_FILE
from albert_tf.prediction.rows import WRITERS, columns_of, read_chunks, row_writer
from albert_tf.prediction.tasks import PREDICTION_TASKS, Export, PredictOptions
from tests.conftest import refusal
from tests.support.models import write_trained

pytestmark = pytest.mark.integration

TEXTS = ["a fine film.", "b", 'c, "d"', "x y z"]


@pytest.fixture(scope="module")
def models(tmp_path_factory) -> pathlib.Path:
    """Return a folder with a model of each kind."""
    folder = tmp_path_factory.mktemp("models")
    for kind in ("pretraining", "classifier", "encoder"):
        write_trained(folder / kind, kind)
    (folder / "classifier" / "labels.json").write_text(json.dumps(["bad", "good", "so-so"]))
    return folder


@pytest.fixture
def table(tmp_path) -> pathlib.Path:
    path = tmp_path / "table.csv"
    rows = [f'{number},"{text.replace(chr(34), 2 * chr(34))}"' for number, text in enumerate(TEXTS)]
    path.write_text("\n".join(["id,review", *rows]) + "\n")
    return path


def predict(model: pathlib.Path, **flags) -> None:
    run(PredictOptions(model=str(model), **flags))


def json_lines(text: str) -> list[dict]:
    return [json.loads(line) for line in text.splitlines()]


def test_files(tmp_path):
    entity = {"label": "LOC", "start": 0, "end": 5, "text": "Paris", "score": 0.5}
    first = [{"id": "a\tb", "entities": [], "vector": np.float32([1, 0.25])}]
    second = [{"id": "c", "entities": [entity], "vector": np.float32([0, 1 / 3])}]
    for ending in WRITERS:
        with row_writer(str(tmp_path / f"out{ending}")) as writer:
            writer.write(first)
            writer.write(second)
    plain = [
        {**row, "vector": [float(f"{x:.8g}") for x in row["vector"]]} for row in first + second
    ]
    assert json_lines((tmp_path / "out.jsonl").read_text()) == plain
    cells = [json.dumps(entity), json.dumps(plain[1]["vector"])]
    assert (tmp_path / "out.tsv").read_text().splitlines() == [
        "id\tentities\tvector",
        "a b\t[]\t[1.0, 0.25]",
        f"c\t[{cells[0]}]\t{cells[1]}",
    ]
    file = parquet.ParquetFile(tmp_path / "out.parquet")
    assert file.num_row_groups == 2
    assert str(file.schema_arrow.field("vector").type).startswith("fixed_size_list<")
    found = file.read().to_pylist()
    assert [row["id"] for row in found] == ["a\tb", "c"]
    assert [row["entities"] for row in found] == [[], [entity]]
    np.testing.assert_array_equal(found[1]["vector"], second[0]["vector"])


def test_a_table_becomes_a_parquet_file_of_vectors(models, table, tmp_path, monkeypatch):
    monkeypatch.setattr("albert_tf.prediction.rows._BATCHES", 1)
    output = tmp_path / "vectors.parquet"
    predict(models / "encoder", input_file=str(table), text_column="review", batch_size=3,
            normalize=True, output_file=str(output))  # fmt: skip
    encoder = albert_tf.SentenceEncoder.from_preset(str(models / "encoder"))
    file = parquet.ParquetFile(output)
    assert file.num_row_groups == 2
    rows = file.read().to_pydict()
    assert rows["review"] == TEXTS
    np.testing.assert_allclose(rows["vector"], encoder.encode(TEXTS, normalize=True), atol=1e-6)


@pytest.mark.slow
def test_tables_without_rows_have_the_columns_of_others(models, table, tmp_path, capsys):
    def columns(model: str, path: pathlib.Path, ending: str) -> list[str]:
        output = tmp_path / f"out{ending}"
        predict(models / model, input_file=str(path), text_column="review", output_file=str(output))
        if ending == ".tsv":
            (header, *_) = output.read_text().splitlines()
            return header.split("\t")
        return [str(field) for field in parquet.read_schema(output)]

    empty = tmp_path / "empty.csv"
    empty.write_text("id,review\n")
    for model in ("classifier", "encoder"):
        for ending in (".tsv", ".parquet"):
            assert columns(model, empty, ending) == columns(model, table, ending)
            assert "0 rows predicted" in capsys.readouterr().err
    lines = tmp_path / "lines.txt"
    lines.write_text("")
    assert columns("pretraining", lines, ".tsv") == ["text", "prediction", "candidates"]
    empty.write_text("id\n")
    with pytest.raises(InputError, match=r"^.*empty.csv: no column 'review'; the columns are 'id'"):
        columns("classifier", empty, ".tsv")


@pytest.mark.parametrize(
    ("task", "row", "column"),
    [
        ("classify", {"text": None}, "text"),
        ("embed", {"text": float("nan")}, "text"),
        ("classify", {"text": "a", "b": None}, "b"),
        ("answer", {"question": None, "context": "a"}, "question"),
        ("choose", {"question": "a", "context": "b", "options": ["c", None]}, "options"),
    ],
)
def test_null_is_no_text(tmp_path, task, row, column):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row))
    options = PredictOptions(
        model="m", input_file=str(path), text_pair_column="b" if "b" in row else None
    )
    (rows,) = read_chunks(options, PREDICTION_TASKS[task])
    with pytest.raises(InputError, match=f"rows.jsonl:1: column '{column}' must contain a"):
        columns_of(rows, PREDICTION_TASKS[task], options)


class FakeExport:
    """Scores every text by its length."""

    def __init__(self, **settings):
        self.settings, self.labels = settings, {}

    def __call__(self, signature, columns):
        texts = columns["options"] if "options" in columns else zip(*columns.values(), strict=True)
        scores = np.exp([[len(text) for text in row] for row in texts])
        shares = scores / scores.sum(-1, keepdims=True)
        yield {"probabilities": shares, "labels": np.full(shares.shape, b"a")}


def test_an_export_gives_labels_as_they_were(tmp_path, monkeypatch):
    outputs = {"probabilities": [[0.2, 0.8]], "labels": [[b"false", b"true"]]}
    export = Export.__new__(Export)
    export.settings, export.labels = {}, {}
    monkeypatch.setattr(Export, "__call__", lambda *_: [outputs])
    predict = albert_tf.TextClassifier._predict_exported
    assert predict(export, {"text": ["x"]})[0]["prediction"] == "true"
    (tmp_path / LABELS_FILE).write_text("[false, true]")
    export.labels = {label: label for label in find_adjacent_files(str(tmp_path)).labels}
    expected = {"prediction": True, "probabilities": {"false": 0.2, "true": 0.8}}
    assert predict(export, {"text": ["x"]}) == [expected]


def test_choices_of_an_export_do_not_depend_on_other_questions():
    def predicted(*options: list[str], **settings) -> list[dict]:
        columns = {name: ["a"] * len(options) for name in ("question", "context")}
        return albert_tf.MultipleChoice._predict_exported(
            FakeExport(**settings), {**columns, "options": list(options)}
        )

    questions = [["a", "bc"], ["a", "b", "c", "d"], ["abc", ""], ["a", "b", "cd"]]
    together = predicted(*questions, task_name="race")
    assert [len(each["probabilities"]) for each in together] == [2, 4, 2, 3]
    for result, question in zip(together, questions, strict=True):
        (alone,) = predicted(question, task_name="race")
        assert (result["prediction"], result["option"]) == (alone["prediction"], alone["option"])
        assert result["probabilities"] == pytest.approx(alone["probabilities"])
        assert sum(result["probabilities"]) == pytest.approx(1)
    for wrong, message in [(questions, "a choice is empty"), ([["a"]], "1 choices")]:
        with pytest.raises(InputError, match=rf"^`options`\[\d\]: {message}"):
            predicted(*wrong, task_name="json")


def test_masks_and_what_ends_without_a_file(models, tmp_path, monkeypatch, capfd):
    masks = ["a [MASK] b.", "[MASK] [MASK]"]
    predict(models / "pretraining", text=masks[1], top_k=2)
    (row,) = json_lines(capfd.readouterr().out)
    masked_lm = albert_tf.MaskedLM.from_preset(str(models / "pretraining"))
    expected = masked_lm.fill_mask(masks[1], top_k=2)
    assert row["prediction"] == [mask[0].text for mask in expected]
    assert [[c["text"] for c in mask] for mask in row["candidates"]] == [
        [c.text for c in mask] for mask in expected
    ]
    # The error of a row in a later chunk.
    monkeypatch.setattr("albert_tf.prediction.rows._BATCHES", 1)
    lines = tmp_path / "lines.txt"
    lines.write_text("\n".join([*masks, "no mask"]))
    for ending in (".jsonl", ".parquet"):
        flags = {"input_file": str(lines), "output_file": str(tmp_path / f"out{ending}")}
        message = refusal(predict, models / "pretraining", batch_size=2, **flags)
        assert message == f"{lines}:3: contains no [MASK]"
    assert [path.name for path in tmp_path.iterdir()] == ["lines.txt"]


def predict_stream(monkeypatch, path: pathlib.Path, content: bytes, **flags) -> None:
    path.write_bytes(content)
    with path.open() as stdin, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        run(PredictOptions(input_file="-", **flags))


@pytest.mark.parametrize(
    ("ending", "content"),
    [
        ("", b"a\nb\ncaf\xe9\n\xff\nd\n"),
        (".jsonl", b"\xff\n"),
        (".tsv", b"\xff\nb\ncaf\xe9\n\xff\nd\n"),
        (".tsv", b"\xff\n"),
        (".parquet", b"\xff\nb\ncaf\xe9\n\xff\nd\n"),
    ],
)
def test_a_bad_line_of_standard_input_is_the_error_of_its_row(
    models, tmp_path, monkeypatch, capfd, ending, content
):
    output = tmp_path / f"out{ending}"
    predict_stream(monkeypatch, tmp_path / "in", content, model=str(models / "encoder"),
                   batch_size=2, output_file=str(output) if ending else "-")  # fmt: skip
    if ending == ".parquet":
        rows = parquet.read_table(output).to_pylist()
    elif ending == ".tsv":
        header, *lines = output.read_text().splitlines()
        rows = [dict(zip(header.split("\t"), line.split("\t"), strict=True)) for line in lines]
    else:
        rows = json_lines(output.read_text() if ending else capfd.readouterr().out)
    lines = content.splitlines()
    texts = [None if re.search(rb"[\x80-\xff]", line) else line.decode() for line in lines]
    assert [row.get("text") or None for row in rows] == texts
    vectors = [str(row.get("vector") or math.nan) for row in rows]
    assert ["nan" not in vector for vector in vectors] == [text is not None for text in texts]
    assert [row.get("error") or None for row in rows] == [
        None if text else f"standard input, line {number}: not UTF-8 (byte 0x{line[-1]:02x})"
        for number, (line, text) in enumerate(zip(lines, texts, strict=True), 1)
    ]


_PAIRS = (albert_tf.TextClassifier, {"pairs": True})
_SINGLE = (albert_tf.TextClassifier, {"pairs": False})
_ANY = (albert_tf.TextClassifier, {"pairs": None})  # of an earlier version
_CHOICES = (albert_tf.MultipleChoice, {"task_name": "json"})


def _choice(*options: str, **more: str) -> str:
    return json.dumps({"question": "q", "context": "c", "options": options, **more})


@pytest.mark.parametrize("ending", [".jsonl", ".parquet"])
@pytest.mark.parametrize(
    ("export", "lines", "errors"),
    [
        (_CHOICES, [_choice("a", "b"), _choice(), _choice("b", "c"), _choice("a")],
         {1: "0 choices; a question must have 2", 3: "1 choices; a question must have 2"}),
        (_CHOICES, [_choice("a", "b", prediction="c"), _choice("d", "e")],
         {0: "column 'prediction' has the name of a result; rename it"}),
        (_PAIRS, ["a\tb", "alone", "c\td"], {1: "the model reads pairs of texts, not single"}),
        (_PAIRS, ["alone"], {0: "the model reads pairs of texts, not single texts"}),
        (_ANY, ["a\tb", "c\td"], {}),
        (_ANY, ["single"], {}),
        (_SINGLE, ["a\tb", "single"], {0: "the model reads single texts, not pairs of texts"}),
        (None, ["a [MASK] b.", "no mask", f"[MASK] {'a ' * 99}", "[MASK]"],
         {1: "contains no [MASK]", 2: "102 tokens; the model reads at most"}),
    ],
)  # fmt: skip
def test_what_a_model_refuses_is_the_error_of_its_line(
    models, tmp_path, monkeypatch, export, lines, errors, ending
):
    if export:
        model, settings = export
        task = "choose" if model is albert_tf.MultipleChoice else "classify"
        predictor = functools.partial(model._predict_exported, FakeExport(**settings))
        monkeypatch.setattr(command, "_predictor", lambda options: (task, predictor))
    output = tmp_path / f"out{ending}"
    predict_stream(monkeypatch, tmp_path / "in", "\n".join(lines).encode(),
                   model=str(models / "pretraining"), output_file=str(output))  # fmt: skip
    is_table = ending == ".parquet"
    rows = parquet.read_table(output).to_pylist() if is_table else json_lines(output.read_text())
    assert len(rows) == len(lines)
    for number, row in enumerate(rows):
        assert bool(row.get("error")) == (number in errors)
        assert bool(row.get("prediction")) == (number not in errors)
        if number in errors:
            assert row["error"].startswith(f"standard input, line {number + 1}: {errors[number]}")


def test_a_flag_that_is_invalid_for_every_line_ends_a_stream(models, tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"^`targets`\[0\]='a b': must be one token"):
        predict_stream(monkeypatch, tmp_path / "in", b"[MASK]\n[MASK]", targets=("a b",),
                       model=str(models / "pretraining"))  # fmt: skip


def test_invalid_flags_and_rows_are_named(models, table, tmp_path):
    encoder, export, other = models / "encoder", tmp_path / "export", tmp_path / "other.txt"
    own = encoder / "vocab.txt"
    other.write_text(own.read_text().replace("b\nc\n", "c\nb\n"))
    (export / "classifier").mkdir(parents=True)
    (export / "classifier/saved_model.pb").touch()
    made_from = {"vocabulary": sha256_of(str(own)), "normalization": {"do_lower_case": False}}
    (export / "export.json").write_text(json.dumps({"made_from": made_from}))
    other_file = {"text": "a", "spm_model_file": str(other)}
    for model, flags, message in [
        (encoder, other_file, f"`spm_model_file`={other}: is not the vocabulary of the weights in"),
        (export, other_file, f"`spm_model_file`={other}: is not the vocabulary of {export}"),
        (
            export,
            {"text": "a", "do_lower_case": True, "spm_model_file": str(own)},
            "`do_lower_case`=True: is fixed in an export; name the trained folder",
        ),
        (encoder, {}, "`input_file`: required, or `text`, or `question` and `context`"),
        (encoder, {"text": "a", "input_file": "b"}, "`input_file` and `text` exclude each other"),
        (encoder, {"input_file": "a.png"}, "`input_file`=a.png: must end in .tsv, .csv, .jsonl"),
        (encoder, {"text": "a", "output_file": "a.csv"}, "`output_file`=a.csv: must end in .jsonl"),
        (encoder, {"input_file": str(table)}, f"{table}:2: no column 'text'; the columns are 'id'"),
        (
            encoder,
            {"text": "a", "task": "classify"},
            f"`task`=classify: the weights of {encoder} are of kind encoder; must be embed",
        ),
        (tmp_path / "none", {"text": "a"}, f"`model`={tmp_path}/none: "),
        (encoder, {"text": "a\ud800"}, "`text`: contains \\ud800, half of a surrogate pair"),
    ]:
        assert refusal(predict, model, **flags).startswith(message)
