"""Exports of fine-tuned models answer as the program that trained them predicted."""

from __future__ import annotations

import json
import random
import re

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.build import export_saved_model
from albert_tf.export.export_options import ExportOptions
from albert_tf.export.graph_tokenizers import tensorflow_text
from albert_tf.finetuning.run import fine_tune
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.task import QuestionAnsweringTask
from albert_tf.tasks.tagging.options import TaggingOptions
from albert_tf.tasks.tagging.task import TaggingTask
from tests.support import finetuning

try:
    tensorflow_text()
except InputError as error:
    pytest.skip(str(error), allow_module_level=True)

pytestmark = pytest.mark.manual

WORDS = [word for words in finetuning.WORDS.values() for word in words]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    finetuning.write_files(folder)
    return folder


def exported(output_dir, name):
    """The signature of an export that nothing is said of but where the weights are."""
    path = f"{output_dir}-export"
    options = ExportOptions(
        init_checkpoint=str(output_dir), export_path=path, measure_latency=False
    )
    export_saved_model(options)
    return tf.saved_model.load(f"{path}/{name}").signatures["serving_default"]


def common(files, output_dir):
    return {
        "albert_config_file": str(files / "config.json"),
        "vocab_file": str(files / "vocab.txt"),
        "output_dir": str(output_dir),
        "max_seq_length": finetuning.LENGTH,
        "train_batch_size": 8,
        "train_step": 12,
        "warmup_step": 0,
        "learning_rate": 0.01,
        "do_train": True,
        "do_eval": True,
        "do_predict": True,
    }


def test_probabilities(files, tmp_path):
    options = finetuning.options_of(files, tmp_path / "out", train_step=12, do_predict=True)
    fine_tune(options, ClassificationTask)
    lines = (files / "predict.tsv").read_text().splitlines()[1:]
    answer = exported(tmp_path / "out", "classifier")(
        text=tf.constant([line.split("\t")[0] for line in lines])
    )
    expected = np.loadtxt(tmp_path / "out" / "test_results.tsv")
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-6)
    predicted = (tmp_path / "out" / "predictions.tsv").read_text().splitlines()[1:]
    labels = [label.decode() for label in answer["label"].numpy()]
    assert labels == [line.split("\t")[1] for line in predicted]


@pytest.mark.parametrize("with_none", [False, True])
def test_answers(files, tmp_path, with_none):
    draw = random.Random(3)
    questions = []
    for number in range(24):
        context = draw.choices(WORDS, k=draw.randint(8, 60))
        place = draw.randrange(len(context))
        start = len(" ".join([*context[:place], ""]))
        answers = [{"text": context[place], "answer_start": start}]
        entry = {"id": str(number), "question": " ".join(draw.choices(WORDS, k=3))}
        entry["answers"] = [] if with_none and number % 3 == 0 else answers
        questions.append((" ".join(context), entry))
    paragraphs = [{"context": context, "qas": [entry]} for context, entry in questions]
    file = files / f"squad_{with_none}.json"
    version = "v2.0" if with_none else "1.1"
    file.write_text(json.dumps({"version": version, "data": [{"paragraphs": paragraphs}]}))
    options = QuestionAnsweringOptions(
        **common(files, tmp_path / "out"),
        train_file=str(file),
        predict_file=str(file),
        max_query_length=4,
        doc_stride=5,
        max_answer_length=3,
    )
    fine_tune(options, QuestionAnsweringTask)
    answer = exported(tmp_path / "out", "squad")(
        question=tf.constant([entry["question"] for _, entry in questions]),
        context=tf.constant([context for context, _ in questions]),
    )
    expected = json.loads((tmp_path / "out" / "predictions.json").read_text())
    assert [text.decode() for text in answer["answer"].numpy()] == list(expected.values())
    if with_none:
        odds = json.loads((tmp_path / "out" / "null_odds.json").read_text())
        np.testing.assert_allclose(answer["null_score"], list(odds.values()), rtol=1e-5)


def test_choices(files, tmp_path):
    draw = random.Random(4)
    records = [
        {
            "context": " ".join(draw.choices(WORDS, k=20)),
            "question": "cat _ dog",
            "choices": draw.sample(WORDS, 3),
            "answer": draw.randrange(3),
        }
        for _ in range(24)
    ]
    file = files / "choices.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    options = MultipleChoiceOptions(
        **common(files, tmp_path / "out"),
        task_name="json",
        train_file=str(file),
        eval_file=str(file),
        predict_file=str(file),
        max_qa_length=6,
    )
    fine_tune(options, MultipleChoiceTask)
    answer = exported(tmp_path / "out", "choice")(
        **{
            name: tf.constant([record[there] for record in records])
            for name, there in (("context",) * 2, ("question",) * 2, ("options", "choices"))
        }
    )
    expected = np.loadtxt(tmp_path / "out" / "test_results.tsv")
    np.testing.assert_allclose(answer["probabilities"], expected, atol=1e-6)


@pytest.mark.parametrize("unit", ["words", "text"])
def test_entities(files, tmp_path, unit):
    draw = random.Random(5)
    sentences = [draw.choices([*WORDS, ".", "O'Neil"], k=draw.randint(0, 60)) for _ in range(24)]
    texts = ["\n ".join(words) for words in sentences]
    rows = []
    for words, text in zip(sentences, texts, strict=True):
        if unit == "words":
            tags = [draw.choice(["O", "B-X", "I-X", "B-Y"]) for _ in words]
            rows.append({"tokens": words, "tags": tags})
        else:
            places = [match.span() for match in re.finditer(r"\S+", text)]
            spans = [
                {"start": start, "end": end, "label": draw.choice("XY")} for start, end in places
            ]
            rows.append({"text": text, "entities": spans})
    train, raw = files / f"{unit}.jsonl", files / "raw.jsonl"
    train.write_text("".join(json.dumps(row) + "\n" for row in rows))
    raw.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts))
    options = TaggingOptions(
        **common(files, tmp_path / "out"),
        train_file=str(train),
        eval_file=str(train),
        predict_file=str(raw),
    )
    fine_tune(options, TaggingTask)
    answer = exported(tmp_path / "out", "tagger")(text=tf.constant(texts))
    lines = (tmp_path / "out" / "predictions.jsonl").read_text().splitlines()
    expected = [json.loads(line)["entities"] for line in lines]
    assert sum(map(len, expected)) > 20
    empty = {"label": b"", "start": -1, "end": -1, "text": b"", "score": 0}
    for number, entities in enumerate(expected):
        for name in empty:
            given = answer[name].numpy()[number]
            values = [entity[name] for entity in entities]
            if name == "score":
                np.testing.assert_allclose(given[: len(values)], values, atol=1e-6)
            else:
                values = [v.encode() if isinstance(v, str) else v for v in values]
                assert given[: len(values)].tolist() == values
            assert all(given[len(values) :] == empty[name])
