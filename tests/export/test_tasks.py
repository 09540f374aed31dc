"""Served models give what the fine-tuning programs predict, from the same texts."""

import concurrent.futures
import dataclasses

import numpy as np
import pytest
import tensorflow as tf
from scipy.special import softmax

from albert_tf.export import graph_packing
from albert_tf.export.task_export import TrainedModel
from albert_tf.interop.adjacent_files import AdjacentFiles
from albert_tf.interop.heads import create_model
from albert_tf.interop.loading import load_weights
from albert_tf.modeling.losses import MISSING_CHOICE
from albert_tf.task_kinds import kind_of
from albert_tf.tasks.classification.datasets import ClassificationDataset, Example
from albert_tf.tasks.classification.encoding import combined, featurize
from albert_tf.tasks.classification.options import ClassificationSettings
from albert_tf.tasks.classification.targets import TARGETS
from albert_tf.tasks.multiple_choice import task as multiple_choice
from albert_tf.tasks.multiple_choice.choices import BLANK, RACE_BLANK, ChoiceQuestion, fill
from albert_tf.tasks.multiple_choice.export import filled
from albert_tf.tasks.multiple_choice.options import MultipleChoiceSettings
from albert_tf.tasks.question_answering.options import QuestionAnsweringSettings
from albert_tf.tasks.question_answering.readers import SquadQuestion
from albert_tf.tasks.question_answering.spans import ANSWER_HEADS
from albert_tf.tasks.question_answering.windows import make_windows
from albert_tf.tokenizers import Tokenizer, packing
from tests.conftest import slow
from tests.support.models import random_model
from tests.support.served import (
    LABELS,
    LONGEST,
    assert_nothing_is_answered,
    config_for,
    require_tensorflow_text,
    texts,
    write_vocabulary,
)

pytestmark = pytest.mark.integration

require_tensorflow_text()


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    return write_vocabulary(tmp_path_factory.mktemp("vocabulary"))


@pytest.fixture(scope="module")
def trained(tokenizer):
    def create(head, settings, labels=3, adjacent=None):
        model = random_model(head, config_for(tokenizer), labels=labels)
        adjacent = adjacent or AdjacentFiles(labels=LABELS)
        return TrainedModel(head, model, tokenizer, adjacent, settings)

    return create


def signature_of(trained):
    """Return the default signature, without writing and loading it."""
    module = kind_of(trained.head).load("export")(trained, [trained.tokenizer.path])
    return module.signatures()["serving_default"]


@pytest.fixture(scope="module")
def exported(classifier, exported_classifier):
    """Return a classifier of pairs, and its export, loaded."""
    settings = ClassificationSettings(pairs=True, max_seq_length=16)
    tokenizer = Tokenizer.load(str(classifier / "small.model"))
    model = create_model("classifier", config_for(tokenizer), {"classifier/output_weights": (3, 1)})
    load_weights(model, str(classifier))
    given = TrainedModel("classifier", model, tokenizer, AdjacentFiles(labels=LABELS), settings)
    return given, tf.saved_model.load(str(exported_classifier / "export" / "classifier"))


def padded(features, length=LONGEST):
    names = ("input_ids", "input_mask", "segment_ids")
    return {name: value for name, value in features.padded(length).items() if name in names}


def expected_logits(trained, firsts, seconds=None, length=16):
    pairs, long_texts = seconds or [None] * len(firsts), trained.settings.long_texts
    examples = [Example("", *pair, None) for pair in zip(firsts, pairs, strict=True)]
    features = featurize(examples, trained.tokenizer, length, long_texts)
    return combined(trained.model(padded(features))["logits"].numpy(), features, long_texts)


def test_a_classifier_gives_the_probabilities_of_the_program(exported):
    trained, export = exported
    firsts, seconds = texts(40, 12), texts(40, 12, seed=2)
    target = TARGETS["classification"](ClassificationDataset("table", {}), LABELS)
    for name, second in (("pair", seconds), ("single", None)):
        logits = expected_logits(trained, firsts, second)
        inputs = {"text": firsts} | ({"text_pair": second} if second else {})
        given = export.signatures[name](**{k: tf.constant(v) for k, v in inputs.items()})
        np.testing.assert_allclose(given["probabilities"], target.values(logits), atol=1e-6)
        assert [label.decode() for label in given["label"].numpy()] == target.decode(logits)
        assert {tuple(row) for row in given["labels"].numpy()} == {
            tuple(label.encode() for label in LABELS)
        }
        assert_nothing_is_answered(export.signatures[name], given, **dict.fromkeys(inputs, [0]))
        if name == "pair":  # which it was trained for
            default = export.signatures["serving_default"]
            again = default(**{k: tf.constant(v) for k, v in inputs.items()})
            np.testing.assert_array_equal(again["probabilities"], given["probabilities"])


def test_concurrent_requests_get_the_answers_of_single_ones(exported):
    _, export = exported
    signature = export.signatures["single"]
    lines = texts(200, 12, seed=3)

    def ask(line):
        return signature(text=tf.constant([line]))["probabilities"].numpy()[0]

    alone = [ask(line) for line in lines]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        together = list(pool.map(ask, lines))
    np.testing.assert_array_equal(together, alone)
    batch = signature(text=tf.constant(lines))["probabilities"]
    np.testing.assert_allclose(batch, alone, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "outputs", "long_texts"),
    [*slow(("regression", 1, "windows_max")), ("multi_label", 3, "windows")],
)
def test_numbers_and_several_labels(trained, kind, outputs, long_texts):
    settings = ClassificationSettings(kind, False, long_texts, max_seq_length=16)
    given = trained("classifier", settings, outputs)
    served = signature_of(given)
    lines = texts(30, 40)
    logits = expected_logits(given, lines)
    target = TARGETS[kind](ClassificationDataset("table", {}, label_separator="|"), LABELS)
    answer = served(text=tf.constant(lines))
    assert_nothing_is_answered(served, answer, text=[0])
    if kind == "regression":
        assert set(answer) == {"value"}
        np.testing.assert_allclose(answer["value"], target.values(logits)[:, 0], atol=1e-5)
        return
    np.testing.assert_allclose(answer["probabilities"], target.values(logits), atol=1e-6)
    chosen = ["|".join(np.array(LABELS)[row]) for row in answer["chosen"].numpy()]
    assert chosen == target.decode(logits)


def test_long_texts_keep_the_ends_that_they_keep_in_python():
    ids = [np.arange(length, dtype=np.int32) for length in range(15)]
    for length in range(1, 14):
        found = graph_packing.keep_ends(tf.ragged.constant(ids, dtype=tf.int32), length)
        expected = [packing.keep_ends(each, length).tolist() for each in ids]
        assert found.to_list() == expected


@pytest.mark.parametrize(("race", "blank"), [(True, RACE_BLANK), (False, BLANK)])
def test_blanks_are_filled_as_in_python(race, blank):
    questions = [
        "",
        "_",
        "_ _ _",
        "a_b _",
        "__ is ＿.",
        "_a a_ 1_ é_ _漢",
        " _ ",
        "no blank",
        "_\n_",
    ]
    options = [["x", " y\u3000", r"\1 $0 \\"]] * len(questions)
    given = filled(tf.constant(questions), tf.constant(options), in_names=race).numpy()
    expected = [
        fill(question, option, blank)
        for question, row in zip(questions, options, strict=True)
        for option in row
    ]
    assert [text.decode().strip() for text in given] == [text.strip() for text in expected]


def test_choices_are_those_of_the_program(trained):
    length, most = LONGEST, 8
    given = trained("choice", MultipleChoiceSettings("json", most, max_seq_length=length))
    contexts, asked = texts(12, 30), texts(12, 8, seed=4)
    choices = [[text.strip() or "x" for text in texts(4, 4, seed)] for seed in range(12)]
    choices = [row[: 2 + number % 3] for number, row in enumerate(choices)]
    questions = [
        ChoiceQuestion("", "", "", context, text, tuple(row), 0)
        for context, text, row in zip(contexts, asked, choices, strict=True)
    ]
    features = multiple_choice.featurize(questions, given.tokenizer, length, most)
    logits = given.model(padded(features))["logits"].numpy()
    logits = np.where(features.arrays["choice_mask"] > 0, logits, MISSING_CHOICE)
    options = [row + [""] * (4 - len(row)) for row in choices]
    signature = signature_of(given)
    answer = signature(
        context=tf.constant(contexts), question=tf.constant(asked), options=tf.constant(options)
    )
    for count in (4, 0):
        empty = {"context": [0], "question": [0], "options": [0, count]}
        assert_nothing_is_answered(signature, answer, **empty)
    probabilities = softmax(logits, axis=-1)
    np.testing.assert_allclose(answer["probabilities"], probabilities, atol=1e-6)
    np.testing.assert_array_equal(answer["answer"], probabilities.argmax(axis=-1))


@pytest.mark.slow
@pytest.mark.parametrize("head", ["span", "conditional_span"])
def test_answers_are_those_of_the_program(trained, head):
    settings = QuestionAnsweringSettings(True, 8, 6, 5, max_seq_length=LONGEST)
    given = trained(head, settings)
    contexts = ["", " \n", *texts(48, 60, seed=5)]  # up to a dozen windows
    asked = texts(50, 12, seed=6)
    questions = [
        SquadQuestion(str(number), *pair, ())
        for number, pair in enumerate(zip(asked, contexts, strict=True))
    ]
    windows = make_windows(questions, given.tokenizer, LONGEST, 8, 6)
    assert len(windows.windows) > 150
    how = ANSWER_HEADS["span" if head == "span" else "conditional"]
    outputs = given.model(padded(windows))
    outputs = {name: outputs[name].numpy() for name in how.outputs}
    predictions = how.predict(windows.windows, outputs, 5, 20)
    nulls = [predictions[question.id].null_score for question in questions]
    threshold = float(np.median(nulls))
    expected = [predictions[question.id].answer(threshold) for question in questions]
    assert 10 < sum(map(bool, expected)) < 40

    results = {"null_score_diff_threshold": str(threshold)}
    ways = [(True, AdjacentFiles(results=results))]
    if head == "span":  # with either head the scores are compared in the same place
        ways.append((False, AdjacentFiles()))
    for version_2, adjacent in ways:
        settings = dataclasses.replace(settings, version_2_with_negative=version_2)
        signature = signature_of(given._replace(settings=settings, adjacent=adjacent))
        answer = signature(question=tf.constant(asked), context=tf.constant(contexts))
        if not version_2:
            expected = [predictions[question.id].answer() for question in questions]
        assert [text.decode() for text in answer["answer"].numpy()] == expected
        np.testing.assert_allclose(answer["null_score"], nulls, rtol=1e-5, atol=1e-5)
        edges = zip(answer["start"].numpy(), answer["end"].numpy(), strict=True)
        for text, context, (start, end) in zip(expected, contexts, edges, strict=True):
            assert context[start:end] == text if text else (start, end) == (-1, -1)
        assert_nothing_is_answered(signature, answer, question=[0], context=[0])
        alone = signature(question=tf.constant(asked[:1]), context=tf.constant(contexts[:1]))
        assert alone["answer"].numpy().tolist() == [b""]
