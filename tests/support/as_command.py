"""Text models do what the commands do, on either backend; run as a program, all checks.

KERAS_BACKEND=jax python -m tests.support.as_command FOLDER
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random
import shutil
import sys

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.finetuning.run import fine_tune
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.keras_weights import write_keras_weights
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.task import QuestionAnsweringTask
from tests.support import finetuning

# Otherwise, the two draw other masks.
NO_DROPOUT = {"albert_dropout": 0.0, "classifier_dropout": 0.0}
WORDS = sum(finetuning.WORDS.values(), [])


def write_weights(folder: pathlib.Path) -> str:
    """Random weights of the encoder with their vocabulary, as a folder of published weights."""
    finetuning.write_files(folder)
    weights = folder / "weights"
    weights.mkdir()
    config = AlbertConfig.from_json_file(str(folder / "config.json"))
    (weights / "albert_config.json").write_text(config.to_json())
    shutil.copy(folder / "vocab.txt", weights)
    path = str(weights / "model.weights.h5")
    write_keras_weights(path, albert_tf.AlbertEncoder(config))
    return path


def trains_alike(weights: str, output_dir: str) -> dict:
    """Options of a command that trains for 20 steps, and evaluates and predicts."""
    return {
        "output_dir": output_dir,
        "init_checkpoint": weights,
        "engine": keras.backend.backend(),
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


FIT = {
    "steps": 20,
    "batch_size": 8,
    "learning_rate": 1e-4,
    "warmup_proportion": 0.1,
    "verbose": 0,
}


def check_same_weights(model: keras.Model, other: keras.Model) -> None:
    for mine, its in zip(model.weights, other.weights, strict=True):
        assert mine.path == its.path
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(mine),
            keras.ops.convert_to_numpy(its),
            rtol=0,
            atol=1e-5,
            err_msg=mine.path,
        )


def results_in(folder: pathlib.Path) -> dict[str, float]:
    """The results of an evaluation, except the step."""
    lines = (folder / "eval_results.txt").read_text().splitlines()
    results = {name: float(value) for name, value in (line.split(" = ") for line in lines)}
    results.pop("global_step")
    return results


def rows(folder: pathlib.Path, split: str) -> tuple[list[str], list[str]]:
    lines = (folder / f"{split}.tsv").read_text().splitlines()[1:]
    texts, labels = zip(*(line.split("\t") for line in lines), strict=True)
    return list(texts), list(labels)


def classification(folder: pathlib.Path) -> None:
    weights, out = write_weights(folder), folder / "out"
    options = finetuning.options_of(folder, out, albert_config_file=None, vocab_file=None)
    fine_tune(dataclasses.replace(options, **trains_alike(weights, str(out))), ClassificationTask)

    classifier = albert_tf.TextClassifier.from_preset(
        weights, max_seq_length=finetuning.LENGTH, **NO_DROPOUT
    )
    history = classifier.fit(*rows(folder, "train"), validation_data=rows(folder, "eval"), **FIT)
    assert history.epoch == [0, 1, 2]
    trained = albert_tf.TextClassifier.from_preset(str(out))
    check_same_weights(classifier.model, trained.model)

    (texts, _), evaluated = rows(folder, "predict"), trained.evaluate(*rows(folder, "eval"))
    probabilities = trained.predict_proba(np.array(texts))
    expected = np.loadtxt(out / "test_results.tsv")
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)
    assert evaluated == pytest.approx(results_in(out), abs=1e-6)
    assert history.history["val_accuracy"][-1] == pytest.approx(evaluated["eval_accuracy"])
    assert history.history["val_loss"][-1] == pytest.approx(evaluated["eval_loss"], abs=1e-5)


def saved_folders(folder: pathlib.Path) -> None:
    weights, saved, converted = write_weights(folder), folder / "saved", folder / "converted"
    classifier = albert_tf.TextClassifier.from_preset(weights, ["animal", "tool"])
    texts, _ = rows(folder, "predict")
    probabilities = classifier.predict_proba(texts)
    classifier.save(str(saved))
    with pytest.raises(albert_tf.InputError, match="already exists; remove it"):
        classifier.save(str(saved))
    predicts = {"do_train": False, "do_predict": True, "engine": keras.backend.backend()}
    unset = dict.fromkeys(("albert_config_file", "vocab_file", "max_seq_length"))
    fine_tune(finetuning.options_of(folder, saved, **predicts, **unset), ClassificationTask)
    expected = np.loadtxt(saved / "test_results.tsv")
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)
    assert classifier.evaluate(*rows(folder, "eval")) == pytest.approx(results_in(saved), abs=1e-6)
    convert(ConvertOptions(input=str(saved), output=str(converted), to_format="huggingface"))
    for path in (saved, converted):
        again = albert_tf.TextClassifier.from_preset(str(path))
        assert again.labels == ["animal", "tool"]
        np.testing.assert_allclose(again.predict_proba(texts), probabilities, rtol=0, atol=1e-6)


def question_answering(folder: pathlib.Path) -> None:
    weights, draw = write_weights(folder), random.Random(1)
    windows = {"max_query_length": 8, "doc_stride": 6, "start_n_top": 3, "end_n_top": 3}
    for version_2 in (False, True):
        paragraphs = []
        for number in range(30):
            context = "  " + " ".join(draw.choices(WORDS, k=draw.randint(3, 40)))
            answer = {"text": draw.choice(context.split())}
            answer["answer_start"] = context.index(answer["text"])
            answers = [] if version_2 and number % 3 == 0 else [answer]
            question = f"{answer['text']} {draw.choice(WORDS)}"
            entry = {"id": str(number), "question": question, "answers": answers}
            paragraphs.append({"context": context, "qas": [entry]})
        file = folder / f"{version_2}.json"
        file.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
        out = folder / f"out-{version_2}"
        options = QuestionAnsweringOptions(
            train_file=str(file),
            predict_file=str(file),
            **windows,
            **trains_alike(weights, str(out)),
        )
        fine_tune(options, QuestionAnsweringTask)

        entries = [(p["qas"][0], p["context"]) for p in paragraphs]
        questions, contexts = [e["question"] for e, _ in entries], [c for _, c in entries]
        answers = [[(a["text"], a["answer_start"]) for a in e["answers"]] for e, _ in entries]
        answerer = albert_tf.QuestionAnswerer.from_preset(
            weights, max_seq_length=finetuning.LENGTH, **windows, **NO_DROPOUT
        )
        part = (questions[:9], contexts[:9], answers[:9])
        history = answerer.fit(questions, contexts, answers, validation_data=part, **FIT)
        assert "val_loss" in history.history
        trained = albert_tf.QuestionAnswerer.from_preset(str(out))
        check_same_weights(answerer.model, trained.model)

        found = trained.predict(questions, contexts)
        assert {str(n): a.text for n, a in enumerate(found)} == json.loads(
            (out / "predictions.json").read_text()
        )
        for context, each in zip(contexts, found, strict=True):
            assert context[each.start : each.end] == each.text
        evaluated = trained.evaluate(questions, contexts, answers)
        assert evaluated == pytest.approx(results_in(out), abs=1e-5)
        trained.save(str(folder / f"saved-{version_2}"))
        again = albert_tf.QuestionAnswerer.from_preset(str(folder / f"saved-{version_2}"))
        assert again.predict(questions, contexts) == found
        assert again.null_threshold == trained.null_threshold


def multiple_choice(folder: pathlib.Path) -> None:
    weights, draw, out = write_weights(folder), random.Random(1), folder / "out"
    records = []
    for number in range(30):
        choices = draw.choices(WORDS, k=draw.choice([2, 3, 4]))
        record = {
            "question": "cat _ dog" if number % 2 else "cat",
            "context": " ".join(draw.choices(WORDS, k=draw.randint(1, 20))),
            "choices": choices,
            "answer": draw.randrange(len(choices)),
        }
        records.append(record)
    file = folder / "questions.jsonl"
    file.write_text("".join(f"{json.dumps(record)}\n" for record in records))
    files = dict.fromkeys(("train_file", "eval_file", "predict_file"), str(file))
    options = trains_alike(weights, str(out))
    fine_tune(
        MultipleChoiceOptions(task_name="json", max_qa_length=8, **files, **options),
        MultipleChoiceTask,
    )

    *asked, answers = ([each[name] for each in records] for name in records[0])
    chooser = albert_tf.MultipleChoice.from_preset(
        weights, max_seq_length=finetuning.LENGTH, max_qa_length=8, **NO_DROPOUT
    )
    chooser.fit(*asked, answers, **FIT)
    trained = albert_tf.MultipleChoice.from_preset(str(out))
    check_same_weights(chooser.model, trained.model)
    probabilities = trained.predict_proba(*asked)
    expected = np.loadtxt(out / "test_results.tsv")
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-6)
    assert trained.predict(*asked) == expected.argmax(axis=-1).tolist()
    assert trained.evaluate(*asked, answers) == pytest.approx(results_in(out), abs=1e-6)
    trained.save(str(folder / "saved"))
    again = albert_tf.MultipleChoice.from_preset(str(folder / "saved"))
    np.testing.assert_array_equal(again.predict_proba(*asked), probabilities)


CHECKS = {
    check.__name__: check
    for check in (classification, saved_folders, question_answering, multiple_choice)
}

if __name__ == "__main__":
    for name in sys.argv[2:]:
        place = pathlib.Path(sys.argv[1], name)
        place.mkdir()
        CHECKS[name](place)
    assert keras.backend.backend() == "tensorflow" or "tensorflow" not in sys.modules
    print("equal")
