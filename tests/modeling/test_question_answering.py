"""The head for questions without an answer, against its formulas in NumPy."""

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.modeling.question_answering import (
    AlbertForConditionalQuestionAnswering,
    AlbertForQuestionAnswering,
    ConditionalSpanObjective,
    SpanObjective,
)
from tests.modeling.test_forward_pass import PLAIN, randomise
from tests.support.backends import as_numpy, forward, gradient_function

CONFIG = AlbertConfig(
    **PLAIN, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, initializer_range=0.3
)
LENGTH = 13
# Tokens of the question and of the context: a full sequence, a short one, one without a context.
SIZES = ((3, 7), (2, 4), (2, 0))


def read_features():
    """Return three sequences and the original's `p_mask`: 1 where no answer can be."""
    random = np.random.default_rng(3)
    count = len(SIZES)
    features = {
        name: np.zeros((count, LENGTH), "int32")
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    p_mask = np.ones((count, LENGTH))
    for row, (query, context) in enumerate(SIZES):
        start, total = query + 2, query + context + 3
        features["input_ids"][row, :total] = random.integers(0, CONFIG.vocab_size, total)
        features["input_mask"][row, :total] = 1
        features["segment_ids"][row, start:total] = 1
        p_mask[row, 0] = 0
        p_mask[row, start : start + context] = 0
    labels = {
        "start_positions": np.array([6, 5, 0], "int32"),
        "end_positions": np.array([9, 5, 0], "int32"),
        "is_impossible": np.array([0, 0, 1], "int32"),
    }
    return features, p_mask, labels


def log_softmax(values):
    return values - np.log(np.exp(values - values.max()).sum()) - values.max()


class HeadOracle:
    """The head on one sequence, one position at a time."""

    def __init__(self, oracle, sequence, p_mask):
        self.dense, self.norm = oracle.dense, oracle.norm
        self.kernel = oracle.weights["answer_class/dense_1/kernel"]
        self.sequence, self.p_mask = sequence, p_mask

    def log_probs(self, logits):
        return log_softmax(logits * (1 - self.p_mask) - 1e30 * self.p_mask)

    def starts(self):
        return self.log_probs(self.dense("start_logits/dense", self.sequence)[:, 0])

    def ends(self, start):
        logits = []
        for position in range(len(self.sequence)):
            pair = np.concatenate([self.sequence[position], self.sequence[start]])
            hidden = self.norm(
                "end_logits/LayerNorm", np.tanh(self.dense("end_logits/dense_0", pair))
            )
            logits.append(self.dense("end_logits/dense_1", hidden)[0])
        return self.log_probs(np.array(logits))

    def cls(self):
        start = np.exp(self.starts()) @ self.sequence
        pair = np.concatenate([start, self.sequence[0]])
        return (np.tanh(self.dense("answer_class/dense_0", pair)) @ self.kernel)[0]


def oracles(model, features, p_mask):
    oracle = randomise(model)
    rows = zip(*(features[n] for n in ("input_ids", "input_mask", "segment_ids")), strict=True)
    sequences = [oracle.encode(*row)[-1] for row in rows]
    return [HeadOracle(oracle, *each) for each in zip(sequences, p_mask, strict=True)]


# More starts and ends than positions, and fewer.
@pytest.mark.parametrize(("starts", "ends"), [(20, 15), (3, 2)])
def test_predictions_are_those_of_the_formulas(starts, ends):
    features, p_mask, _ = read_features()
    model = AlbertForConditionalQuestionAnswering(CONFIG, start_n_top=starts, end_n_top=ends)
    rows = oracles(model, features, p_mask)
    outputs = forward(model, features)
    for row, oracle in enumerate(rows):
        close = {"rtol": 1e-5, "atol": 1e-5}
        np.testing.assert_allclose(outputs["cls_logits"][row], oracle.cls(), **close)
        log_probs = oracle.starts()
        possible = int((p_mask[row] == 0).sum())  # beyond it, all are equally impossible
        count, each = min(starts, possible), min(ends, possible)
        best = np.argsort(-log_probs)[:count]
        np.testing.assert_array_equal(outputs["start_top_index"][row][:count], best)
        np.testing.assert_allclose(
            outputs["start_top_log_probs"][row][:count], log_probs[best], **close
        )
        assert (outputs["start_top_log_probs"][row][possible:] < -1e29).all()
        for number, start in enumerate(best):
            log_probs = oracle.ends(start)
            places = slice(ends * number, ends * number + each)
            expected = np.argsort(-log_probs)[:each]
            np.testing.assert_array_equal(outputs["end_top_index"][row][places], expected)
            np.testing.assert_allclose(
                outputs["end_top_log_probs"][row][places], log_probs[expected], **close
            )
    assert outputs["end_top_index"].dtype == np.int32
    assert outputs["end_top_index"].shape == (3, starts * ends)


def objective_of(model, objective, features, labels):
    def loss(outputs, batch):
        sums = objective.sums(outputs, batch)
        value = objective.loss(sums, objective.weights(batch))
        return value, {"loss": value, **sums}

    function = gradient_function(model, loss, training=True)
    sums, gradients = function({**features, **labels})
    return as_numpy(sums), as_numpy(gradients)


def test_training_is_given_the_true_start():
    features, p_mask, labels = read_features()
    model = AlbertForConditionalQuestionAnswering(CONFIG, classifier_dropout=0.0)
    rows = oracles(model, features, p_mask)
    sums, gradients = objective_of(model, ConditionalSpanObjective(), features, labels)
    spans, answerability, right, told = [], [], [], []
    for oracle, start, end, impossible in zip(rows, *labels.values(), strict=True):
        starts, ends, logit = oracle.starts(), oracle.ends(start), oracle.cls()
        spans.append(-(starts[start] + ends[end]) / 2)
        probability = 1 / (1 + np.exp(-logit))
        answerability.append(-np.log(probability if impossible else 1 - probability) / 2)
        right.append(starts.argmax() == start and ends.argmax() == end)
        told.append((logit > 0) == bool(impossible))
    expected = {
        "span_loss": sum(spans),
        "answerability_loss": sum(answerability),
        "span_accuracy": sum(right),
        "answerability_accuracy": sum(told),
        "loss": (sum(spans) + sum(answerability)) / 3,
    }
    assert sums == {name: pytest.approx(value, rel=1e-5) for name, value in expected.items()}
    paths = [weight.path for weight in model.trainable_variables]
    for path, gradient in zip(paths, gradients, strict=True):
        assert np.isfinite(gradient).all(), path
        if path.startswith(("start_logits", "end_logits", "answer_class")):
            # A bias that moves all logits alike changes nothing.
            alike = path.endswith(("logits/dense/bias", "logits/dense_1/bias", "beta"))
            assert (np.abs(gradient).max() > 1e-5) != alike, path


def test_dropout_acts_on_the_class_alone():
    features, _, labels = read_features()
    model = AlbertForConditionalQuestionAnswering(CONFIG, classifier_dropout=0.5)
    first, second = (as_numpy(model({**features, **labels}, training=True)) for _ in range(2))
    assert not np.allclose(first["cls_logits"], second["cls_logits"])
    np.testing.assert_array_equal(first["end_log_probs"], second["end_log_probs"])


def test_spans_that_are_found_apart():
    features, _, labels = read_features()
    model = AlbertForQuestionAnswering(CONFIG)
    randomise(model)
    outputs = forward(model, features)
    sums, _ = objective_of(model, SpanObjective(), features, labels)
    total, right = 0.0, 0
    for row in range(3):
        guesses = []
        for kind in ("start", "end"):
            label = labels[f"{kind}_positions"][row]
            log_probs = log_softmax(np.float64(outputs[f"{kind}_logits"][row]))
            total -= log_probs[label] / 2
            guesses.append(log_probs.argmax() == label)
        right += all(guesses)
    assert sums["span_loss"] == pytest.approx(total, rel=1e-5)
    assert sums["span_accuracy"] == right
    assert sums["loss"] == pytest.approx(total / 3, rel=1e-5)


@pytest.mark.integration
def test_examples_that_only_fill_up_a_batch_do_not_count():
    features, _, labels = read_features()
    model = AlbertForConditionalQuestionAnswering(CONFIG, classifier_dropout=0.0)
    randomise(model)
    whole, _ = objective_of(model, ConditionalSpanObjective(), features, labels)
    labels["is_real_example"] = np.array([1, 1, 0], "int32")
    part, _ = objective_of(model, ConditionalSpanObjective(), features, labels)
    two = {name: values[:2] for name, values in {**features, **labels}.items()}
    alone, _ = objective_of(model, ConditionalSpanObjective(), two, {})
    assert part == {name: pytest.approx(value, rel=1e-5) for name, value in alone.items()}
    assert part["loss"] != pytest.approx(whole["loss"], rel=1e-3)
