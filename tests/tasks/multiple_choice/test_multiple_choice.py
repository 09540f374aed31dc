"""Multiple choice: layout of the sequences, scores, files of predictions, and the loss."""

import dataclasses
import json
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.finetuning.task import ExampleSet
from albert_tf.modeling.heads import AlbertForMultipleChoice
from albert_tf.modeling.losses import MultipleChoiceObjective
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import ChoiceQuestion
from albert_tf.tasks.multiple_choice.task import MultipleChoiceTask, featurize
from tests.conftest import random_inputs
from tests.support.tiny import CONFIG

CLS, SEP, PAD = 2, 3, 0


class Words:
    """A tokenizer whose texts are numbers."""

    cls_id, sep_id, pad_id = CLS, SEP, PAD

    def encode_batch(self, texts):
        return [np.array([int(word) for word in text.split()], np.int32) for text in texts]


def numbers(count, first=10):
    return " ".join(str(first + number) for number in range(count))


def question(context=5, candidates=(3, 3), answer=0, group="", name="q"):
    texts = tuple(numbers(count, 20) for count in candidates)
    return ChoiceQuestion("f:1", name, group, numbers(context), "", texts, answer)


@random_inputs(50)
@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.lists(st.integers(1, 20), min_size=2, max_size=4)),
        min_size=1,
        max_size=4,
    ),
    st.integers(1, 13),
)
def test_layout_is_the_originals(shapes, max_qa_length):
    questions = [question(context, candidates) for context, candidates in shapes]
    features = featurize(questions, Words(), 16, max_qa_length)
    padded = features.padded(16)
    most = max(len(candidates) for _, candidates in shapes)
    assert padded["input_ids"].shape == (len(shapes), most, 16)
    lost_by_candidates = sum(n > max_qa_length for _, counts in shapes for n in counts)
    assert features.candidates_truncated == lost_by_candidates
    for row, each in enumerate(questions):
        lost = 0
        for choice in range(most):
            ids, segments, mask = (
                padded[name][row, choice].tolist()
                for name in ("input_ids", "segment_ids", "input_mask")
            )
            assert padded["choice_mask"][row, choice] == (choice < len(each.choices))
            if choice >= len(each.choices):
                assert sum(mask) == 3, "what fills up costs nothing"
                continue
            context = [int(word) for word in each.context.split()]
            candidate = [int(word) for word in each.candidates[choice].split()]
            end = candidate[-max_qa_length:]
            start = context[: 16 - 3 - len(end)]
            tokens = [CLS, *start, SEP, *end, SEP]
            assert ids == tokens + [PAD] * (16 - len(tokens))
            assert mask == [1] * len(tokens) + [0] * (16 - len(tokens))
            ones = [0] * (len(start) + 2) + [1] * (len(end) + 1)
            assert segments == ones + [0] * (16 - len(tokens))
            lost = max(lost, len(context) + len(candidate) - len(start) - len(end))
        assert features.tokens_cut[row] == lost


@pytest.mark.parametrize(("length", "message"), [(0, "at least 1"), (14, "at most 13")])
def test_lengths_that_leave_no_room_are_named(length, message):
    with pytest.raises(InputError, match=f"`max_qa_length`={length}: must be {message}"):
        featurize([question()], Words(), 16, length)


def batch(choices, seed=0):
    """Return random examples with as many choices each."""
    draw = np.random.default_rng(seed)
    shape = (3, choices, 8)
    return {
        "input_ids": draw.integers(5, 60, shape).astype("int32"),
        "input_mask": np.ones(shape, "int32"),
        "segment_ids": (np.arange(8) > np.full(shape, 4)).astype("int32"),
        "choice_mask": np.ones((3, choices), "float32"),
        "label_ids": draw.integers(0, choices, 3).astype("int32"),
    }


def loss_and_gradients(model, batch):
    objective = MultipleChoiceObjective()
    batch = {name: tf.constant(value) for name, value in batch.items()}
    with tf.GradientTape() as tape:
        sums = objective.sums(model(batch), batch)
        loss = objective.loss(sums, objective.weights(batch))
    gradients = tape.gradient(loss, [weight.value for weight in model.trainable_weights])
    return sums, float(loss), [tf.convert_to_tensor(each).numpy() for each in gradients]


def test_choices_that_only_fill_up_change_nothing():
    keras.utils.set_random_seed(1)
    model = AlbertForMultipleChoice(CONFIG)
    plain = batch(3)
    filled = {
        name: np.concatenate([value, np.zeros_like(value[:, :2])], axis=1)
        if value.ndim > 1
        else value
        for name, value in plain.items()
    }
    filled["input_ids"][:, 3:] = 7
    filled["input_mask"][:, 3:, :3] = 1
    sums, loss, gradients = loss_and_gradients(model, plain)
    sums_2, loss_2, gradients_2 = loss_and_gradients(model, filled)
    assert loss > 0.1
    assert loss_2 == pytest.approx(loss, rel=1e-5)
    assert float(sums_2["multiple_choice_accuracy"]) == float(sums["multiple_choice_accuracy"])
    for one, other in zip(gradients, gradients_2, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)


def test_the_loss_is_the_mean_cross_entropy_of_real_examples():
    model = AlbertForMultipleChoice(CONFIG)
    examples = batch(3)
    examples["choice_mask"][1, 2] = 0
    examples["label_ids"][:] = [2, 1, 0]
    examples["is_real_example"] = np.array([1, 1, 0], "int32")
    logits = np.array([[1.0, 2.0, 0.5], [0.3, 0.1, 9.0], [5.0, 1.0, 1.0]], "float32")
    objective = MultipleChoiceObjective()
    sums = objective.sums({"logits": tf.constant(logits)}, examples)
    weights = objective.weights(examples)

    def nll(row, label, of):
        return np.log(np.exp(logits[row, of]).sum()) - logits[row, label]

    expected = (nll(0, 2, [0, 1, 2]) + nll(1, 1, [0, 1])) / 2
    assert float(objective.loss(sums, weights)) == pytest.approx(expected, rel=1e-5)
    assert float(weights["multiple_choice"]) == 2
    assert float(sums["multiple_choice_accuracy"]) == 0
    assert model.config is CONFIG


@pytest.fixture
def task(tmp_path):
    """Return three questions, the last with two choices only, that are not read by a model."""
    lines = [
        {"context": "1", "question": "2", "choices": ["3", "4", "5"], "answer": 2, "id": "x"},
        {"context": "1", "question": "2", "choices": ["3", "4", "5"], "answer": 0, "id": "y"},
        {"context": "1", "question": "2", "choices": ["3", "4"], "answer": 1, "id": "z"},
    ]
    path = tmp_path / "q.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    options = MultipleChoiceOptions(
        output_dir=str(tmp_path), albert_config_file="c", spm_model_file="v", task_name="json",
        eval_file=str(path), predict_file=str(path), do_train=False, do_predict=True,
        max_seq_length=16, max_qa_length=8,
    )  # fmt: skip
    return MultipleChoiceTask(options, Words())


def set_of(task, split):
    ((name, questions),) = task.read(split).items()
    return ExampleSet(split, name, questions, task.encode(split, questions))


LOGITS = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 0.0], [0.0, 1.0, 50.0]], np.float32)


def test_scores_and_files(task, tmp_path):
    examples = set_of(task, "eval")
    scores = task.score(examples, {"logits": LOGITS})
    first = np.log(np.exp(LOGITS[0]).sum()) - 2
    second = np.log(np.exp(LOGITS[1]).sum())
    third = np.log(1 + np.e) - 1
    assert scores["eval_accuracy"] == pytest.approx(2 / 3)
    assert scores["eval_loss"] == pytest.approx((first + second + third) / 3, rel=1e-6)
    assert set(scores) == {"eval_accuracy", "eval_loss"}

    task.write_predictions(str(tmp_path), set_of(task, "predict"), {"logits": LOGITS})
    assert (tmp_path / "predictions.tsv").read_text() == "id\tanswer\nx\tC\ny\tB\nz\tB\n"
    probabilities = np.loadtxt(tmp_path / "test_results.tsv")
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1, atol=1e-6)
    assert probabilities[2, 2] == 0
    results = (tmp_path / "predict_results.txt").read_text().splitlines()
    assert results[0] == "predict_accuracy = 0.66666667"


def test_groups_have_accuracies_of_their_own(task):
    examples = set_of(task, "eval")
    questions = [
        each._replace(group=group)
        for each, group in zip(examples.examples, ("high", "middle", "high"), strict=True)
    ]
    examples = SimpleNamespace(features=examples.features, examples=questions)
    scores = task.score(examples, {"logits": LOGITS})
    assert scores["eval_accuracy_high"] == 1
    assert scores["eval_accuracy_middle"] == 0
    assert scores["eval_accuracy"] == pytest.approx(2 / 3)


def test_the_most_frequent_letter_is_the_baseline(task):
    examples = set_of(task, "eval")
    questions = [
        each._replace(answer=answer)
        for each, answer in zip(examples.examples, (2, 1, 1), strict=True)
    ]
    baseline = task.baseline(dataclasses.replace(examples, examples=questions))
    assert baseline.answer == "always B"
    assert baseline.results["eval_accuracy"] == pytest.approx(2 / 3)


def test_a_report_counts_letters(task):
    *_, letters, _, errors = task.report_sections(set_of(task, "eval"), {"logits": LOGITS})
    assert letters.tables[0].rows == [
        ("A", "1", "0", "", "0.0%", "0.0%"),
        ("B", "1", "2", "50.0%", "100.0%", "66.7%"),
        ("C", "1", "1", "100.0%", "100.0%", "100.0%"),
    ]
    assert [each.title for each in errors.cards] == ["2"]
    examples = set_of(task, "predict")
    hidden = [each._replace(answer=None) for each in examples.examples]
    (section,) = task.report_sections(
        dataclasses.replace(examples, examples=hidden), {"logits": LOGITS}
    )
    assert [row[2] for row in section.tables[0].rows] == ["0", "2", "1"]


def test_one_letter_for_all_is_a_collapse(task):
    examples = set_of(task, "eval")
    assert task.collapse(examples, {"logits": LOGITS}) is None
    same = {"logits": LOGITS[:, ::-1] * 0 + [0, 1, 0]}
    assert task.collapse(examples, same) == "every answer is B"
    one = dataclasses.replace(examples, examples=examples.examples[:1])
    assert task.collapse(one, {"logits": same["logits"][:1]}) is None
