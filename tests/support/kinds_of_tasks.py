"""What every kind of task has in common: its command, its model on strings and its export agree."""

import json
import pathlib
import random
import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.cli.predict import run
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.command import fine_tune
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.keras_weights import write_keras_weights
from albert_tf.interop.loading import open_preset
from albert_tf.prediction.tasks import PredictOptions
from albert_tf.task_kinds import TaskKind, heads
from albert_tf.tasks import classification, multiple_choice, question_answering, sentences, tagging
from albert_tf.text_models.task_model import TaskModel
from tests.end_to_end.conftest import json_lines, results_of
from tests.support import finetuning

WORDS = sum(finetuning.WORDS.values(), [])
# Otherwise, the two draw other masks.
NO_DROPOUT = {"albert_dropout": 0.0, "classifier_dropout": 0.0}
TRAINS_ALIKE = {
    "max_seq_length": finetuning.LENGTH,
    "train_batch_size": 8,
    "train_step": 20,
    "warmup_step": 2,
    "learning_rate": 1e-4,
    "do_train": True,
    "do_eval": True,
    "do_predict": True,
    **NO_DROPOUT,
}
FIT = {"steps": 20, "batch_size": 8, "learning_rate": 1e-4, "warmup_proportion": 0.1, "verbose": 0}


class Case(NamedTuple):
    """A kind of task with data.

    Attributes:
        kind: the kind.
        settings: options of the command, which `from_preset` takes as well.
        files: options of the command that name the data, and what the data are.
        columns: labeled examples, as `fit` takes them.
        inputs: the same examples as albert-predict reads them, by name.
        written: reads what the command predicted, as rows of albert-predict with some columns.
        fit: what `fit` gets in addition.
    """

    kind: TaskKind
    settings: dict[str, Any]
    files: dict[str, Any]
    columns: Sequence[Sequence]
    inputs: dict[str, list]
    written: Callable[[pathlib.Path], list[dict]]
    fit: Mapping[str, Any] = {}


def write_weights(folder: pathlib.Path) -> str:
    """Write a folder of published weights: random ones, with their vocabulary."""
    finetuning.write_files(folder)
    weights = folder / "weights"
    weights.mkdir()
    config = AlbertConfig.from_json_file(str(folder / "config.json"))
    (weights / "albert_config.json").write_text(config.to_json())
    shutil.copy(folder / "vocab.txt", weights)
    random.seed(1)  # Keras draws the seeds of its initializers from it
    path = str(weights / "model.weights.h5")
    write_keras_weights(path, albert_tf.AlbertEncoder(config))
    return path


def _write_lines(path: pathlib.Path, names: Sequence[str], rows: Iterable[Sequence]) -> str:
    lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def _classification(folder: pathlib.Path, pairs: bool) -> Case:
    rows = [line.split("\t") for line in (folder / "eval.tsv").read_text().splitlines()[1:]]
    texts, labels = zip(*rows, strict=True)
    examples, options, inputs = texts, {}, {"text": texts}
    if not pairs:  # some labels are not certain
        other = dict(zip(finetuning.WORDS, reversed(finetuning.WORDS), strict=True))
        labels = [{a: 0.7, other[a]: 0.3} if n % 3 else a for n, a in enumerate(labels)]
    else:
        inputs["text_pair"] = texts[1:] + texts[:1]
        examples, options = [*zip(*inputs.values(), strict=True)], {"text_pair_column": "text_pair"}
    rows = zip(*inputs.values(), labels, strict=True)
    file = _write_lines(folder / "texts.jsonl", (*inputs, "label"), rows)

    def written(out: pathlib.Path) -> list[dict]:
        names = json.loads((out / "labels.json").read_text())
        predicted = (out / "predictions.tsv").read_text().splitlines()[1:]
        return [
            {"prediction": line.split("\t")[1], "probabilities": dict(zip(names, row, strict=True))}
            for line, row in zip(predicted, np.loadtxt(out / "test_results.tsv"), strict=True)
        ]

    files = dict.fromkeys(("train_file", "eval_file", "predict_file"), file) | options
    fit = {"class_weights": "balanced"} if pairs else {}
    settings = {"long_texts": "head_tail" if pairs else "windows"}
    columns = examples, labels
    return Case(classification.KIND, settings, files | fit, columns, inputs, written, fit=fit)


def _question_answering(folder: pathlib.Path, version_2: bool) -> Case:
    draw, paragraphs = random.Random(1), []
    for number in range(30):
        context = "  " + " ".join(draw.choices(WORDS, k=draw.randint(3, 40)))
        answer = {"text": draw.choice(context.split())}
        answer["answer_start"] = context.index(answer["text"])
        answers = [] if version_2 and number % 3 == 0 else [answer]
        question = f"{answer['text']} {draw.choice(WORDS)}"
        entry = {"id": str(number), "question": question, "answers": answers}
        paragraphs.append({"context": context, "qas": [entry]})
    file = folder / "squad.json"
    file.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    entries = [paragraph["qas"][0] for paragraph in paragraphs]
    questions = [entry["question"] for entry in entries]
    contexts = [paragraph["context"] for paragraph in paragraphs]
    answers = [[(a["text"], a["answer_start"]) for a in entry["answers"]] for entry in entries]

    def written(out: pathlib.Path) -> list[dict]:
        return [
            {"prediction": text}
            for text in json.loads((out / "predictions.json").read_text()).values()
        ]

    settings = {"max_query_length": 8, "doc_stride": 6, "start_n_top": 3, "end_n_top": 3}
    files = {"train_file": str(file), "predict_file": str(file)}
    inputs = {"question": questions, "context": contexts}
    return Case(
        question_answering.KIND, settings, files, (questions, contexts, answers), inputs, written
    )


def _multiple_choice(folder: pathlib.Path) -> Case:
    draw = random.Random(1)
    rows = []
    for number in range(30):
        choices = draw.choices(WORDS, k=draw.choice([2, 3, 4]))
        question = "cat _ dog" if number % 2 else "cat"
        context = " ".join(draw.choices(WORDS, k=draw.randint(1, 20)))
        rows.append((question, context, choices, draw.randrange(len(choices))))
    names = ("question", "context", "choices", "answer")
    file = _write_lines(folder / "a.jsonl", names, rows)
    questions, contexts, choices, answers = zip(*rows, strict=True)

    def written(out: pathlib.Path) -> list[dict]:
        pairs = zip(np.loadtxt(out / "test_results.tsv"), choices, strict=True)
        return [{"probabilities": list(row[: len(options)])} for row, options in pairs]

    files = dict.fromkeys(("train_file", "eval_file", "predict_file"), file)
    files["task_name"] = "json"
    inputs = {"question": questions, "context": contexts, "options": choices}
    columns = (questions, contexts, choices, answers)
    return Case(multiple_choice.KIND, {"max_qa_length": 8}, files, columns, inputs, written)


def _tagging(folder: pathlib.Path, unit: str) -> Case:
    draw = random.Random(5)
    sentences = [draw.choices([*WORDS, ".", "O'Neil"], k=draw.randint(1, 60)) for _ in range(24)]
    texts = [("\n " if unit == "text" else " ").join(words) for words in sentences]
    if unit == "words":
        names, examples = ("tokens", "tags"), sentences
        labels = [[draw.choice(["O", "B-X", "I-X", "B-Y"]) for _ in words] for words in sentences]
        written_labels = labels
    else:
        names, examples = ("text", "entities"), texts
        places = [[match.span() for match in re.finditer(r"\S+", text)] for text in texts]
        labels = [[(*place, draw.choice("XY")) for place in row] for row in places]
        keys = ("start", "end", "label")
        written_labels = [[dict(zip(keys, span, strict=True)) for span in row] for row in labels]
    rows = zip(examples, written_labels, strict=True)
    train = _write_lines(folder / "train.jsonl", names, rows)
    raw = _write_lines(folder / "raw.jsonl", ["text"], ([text] for text in texts))

    def written(out: pathlib.Path) -> list[dict]:
        return [{"entities": row["entities"]} for row in json_lines(out / "predictions.jsonl")]

    files = {"train_file": train, "eval_file": train, "predict_file": raw}
    return Case(tagging.KIND, {}, files, (examples, labels), {"text": texts}, written)


def _sentences(folder: pathlib.Path) -> Case:
    draw = random.Random(3)
    # Some first texts belong to two others, and some second ones are first ones, too.
    texts = [" ".join(draw.choices(WORDS, k=draw.randint(1, 20))) for _ in range(40)]
    firsts, seconds = texts[:30] + texts[:4], texts[10:40] + texts[6:10]
    names = ("text", "text_pair", "negative")
    rows = [*zip(firsts, seconds, draw.choices(texts, k=len(firsts)), strict=True)]
    file = _write_lines(folder / "pairs.jsonl", names, rows)

    def written(out: pathlib.Path) -> list[dict]:
        return [
            {"similarity": float(line)} for line in (out / "predictions.tsv").read_text().split()
        ]

    files = dict.fromkeys(("train_file", "eval_file", "predict_file"), file)
    files["negative_column"] = "negative"
    inputs = {"text": firsts, "text_pair": seconds}
    return Case(sentences.KIND, {}, files, (rows,), inputs, written)


CASES: dict[str, Callable[[pathlib.Path], Case]] = {
    "classification": lambda folder: _classification(folder, False),
    "classification_of_pairs": lambda folder: _classification(folder, True),
    "question_answering": lambda folder: _question_answering(folder, False),
    "question_answering_2": lambda folder: _question_answering(folder, True),
    "multiple_choice": _multiple_choice,
    "tagging": lambda folder: _tagging(folder, "words"),
    "tagging_of_texts": lambda folder: _tagging(folder, "text"),
    "sentences": _sentences,
}


def check(folder: pathlib.Path, name: str) -> None:
    """Train a kind of task by its command and by `fit`, and compare all ways to predict.

    What is the same for all forms of a kind's data, or on both engines, is left to one of them.
    """
    weights, case, out = write_weights(folder), CASES[name](folder), folder / "out"
    is_variant = "_of_" in name or name.endswith("_2")
    options_class, task = case.kind.load("options"), case.kind.load("task")
    options = {**case.files, **case.settings, "engine": keras.backend.backend()}
    fine_tune(
        options_class(output_dir=str(out), init_checkpoint=weights, **TRAINS_ALIKE, **options), task
    )
    expected = case.written(out)
    # Who has learned next to nothing had better answer no question of SQuAD 2.0.
    assert len({json.dumps(row) for row in expected}) > 3 or name == "question_answering_2"

    # `fit` is the command.
    settings = {**case.settings, "max_seq_length": finetuning.LENGTH}
    text_model: type[TaskModel] = case.kind.load("text_model")
    no_dropout = {name: rate for name, rate in NO_DROPOUT.items() if name in text_model.settings}
    fitted = text_model.from_preset(weights, **settings, **no_dropout)
    part = tuple(column[:9] for column in case.columns)
    history = fitted.fit(*case.columns, validation_data=part, **FIT, **case.fit)
    assert "val_loss" in history.history
    trained = text_model.from_preset(str(out))
    check_same_weights(fitted.model, trained.model)

    # Results and predictions are those of the command.
    results = results_of(out)
    results.pop("global_step", None)
    assert trained.evaluate(*case.columns) == pytest.approx(results, abs=1e-5)

    def predicted(model: TaskModel) -> list[dict]:
        return model._predict_rows(case.inputs, 32)

    check_close(predicted(trained), expected)

    # From a teacher alone, a student learns as from its probabilities as labels; test_teacher.py
    # has the other kinds.
    on_tensorflow = keras.backend.backend() == "tensorflow"
    if on_tensorflow and name == "classification":
        student = str(folder / "student")
        by_teacher = {"teacher": str(out), "teacher_weight": 1.0, "teacher_temperature": 1.0}
        fine_tune(
            options_class(output_dir=student, init_checkpoint=weights, **TRAINS_ALIKE, **options,
                          **by_teacher), task
        )  # fmt: skip
        taught = text_model.from_preset(student)
        rows = trained.predict_proba(case.columns[0])
        soft = [dict(zip(trained.labels, row, strict=True)) for row in rows]
        fitted = text_model.from_preset(weights, **settings, **no_dropout)
        fitted.fit(case.columns[0], soft, **FIT)
        check_same_weights(fitted.model, taught.model)
        assert len(list(folder.glob("student/teacher-*.npz"))) == 1

    # A saved folder is one of the command, for Python and for the command.
    saved = folder / "saved"
    trained.save(str(saved))
    with pytest.raises(albert_tf.InputError, match="already exists; remove it"):
        trained.save(str(saved))
    check_close(predicted(text_model.from_preset(str(saved))), expected)
    if not on_tensorflow:
        return

    # A model together with itself predicts as alone.
    if not is_variant:
        members = (str(out), str(saved))
        both = {**case.files, "train_file": None, "do_eval": True, "do_predict": True}
        both |= {"engine": "tensorflow", "do_train": False, "ensemble": members}
        fine_tune(options_class(output_dir=f"{folder}/both", **both), task)
        check_close(case.written(folder / "both"), expected)
        together = results_of(folder / "both")
        (single,) = (key for key in together if key.startswith("single_2_"))
        assert together[single] == pytest.approx(results[single.removeprefix("single_2_")])

    # In the format of Hugging Face, it is the same model.
    if not is_variant and heads()[open_preset(str(saved)).head].huggingface:
        converted = str(folder / "converted")
        convert(ConvertOptions(input=str(saved), output=converted, to_format="huggingface"))
        check_close(predicted(text_model.from_preset(converted, **settings)), expected)

    # albert-predict predicts by the weights and by an export, which knows nothing but the folder.
    model = out
    if not is_variant:
        model = folder / "export"
        trained.export(str(model), preprocess=False)
    rows = zip(*case.inputs.values(), strict=True)
    file = _write_lines(folder / "rows.jsonl", [*case.inputs], rows)
    results = folder / "results.jsonl"
    columns = {f"{name}_column": name for name in case.inputs}
    run(PredictOptions(model=str(model), input_file=file, output_file=str(results), **columns))
    check_close(json_lines(results), expected)


def check_same_weights(model: keras.Model, other: keras.Model) -> None:
    for mine, its in zip(model.weights, other.weights, strict=True):
        assert mine.path == its.path
        mine_and_its = map(keras.ops.convert_to_numpy, (mine, its))
        np.testing.assert_allclose(*mine_and_its, rtol=0, atol=1e-5, err_msg=mine.path)


def check_close(found: Any, expected: Any, tolerance: float = 2e-6) -> None:
    """Compare rows of results; those that are found may have more columns."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            check_close(found[name], value, tolerance)
    elif isinstance(expected, list):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            check_close(one, other, tolerance)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, abs=tolerance)
    else:
        assert found == expected
