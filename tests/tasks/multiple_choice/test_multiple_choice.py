"""Multiple choice: layout of the sequences, scores and files of predictions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.finetuning.run_report import write_predict_results
from albert_tf.finetuning.task import ExampleSet
from albert_tf.modeling.losses import MultipleChoiceObjective
from albert_tf.tasks.multiple_choice.choices import ChoiceQuestion
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.task import MultipleChoiceTask, featurize
from tests.conftest import random_inputs
from tests.support.clue_files import write_lines

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
    assert features.candidates_cut == lost_by_candidates
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


def test_what_only_fills_up_is_never_chosen():
    logits, mask = np.float32([[0.3, 0.1, 9.0]] * 2), np.float32([[1, 1, 0], [1, 1, 1]])
    batch = {"input_ids": mask, "choice_mask": mask, "label_ids": np.array([0, 2], "int32")}
    sums = MultipleChoiceObjective().sums({"logits": logits}, batch)
    assert float(sums["multiple_choice_accuracy"]) == 2


@pytest.fixture
def task(tmp_path):
    """Return three questions, the last with two choices only, that are not read by a model."""
    lines = [
        {"context": "1", "question": "2", "choices": choices.split(), "answer": answer, "id": id}
        for id, choices, answer in (("x", "3 4 5", 2), ("y", "3 4 5", 0), ("z", "3 4", 1))
    ]
    path = str(write_lines(tmp_path / "q.jsonl", lines))
    options = MultipleChoiceOptions(
        output_dir=str(tmp_path), albert_config_file="c", spm_model_file="v", task_name="json",
        eval_file=path, predict_file=path, do_train=False, do_predict=True, max_seq_length=16,
        max_qa_length=8,
    )  # fmt: skip
    return MultipleChoiceTask(options, Words())


def set_of(task, split, **values):
    """Return the questions, with a value of each in place of what the file says."""
    ((name, questions),) = task.read(split).items()
    encoded = task.encode(split, questions)
    for field, of_each in values.items():
        pairs = zip(questions, of_each, strict=True)
        questions = [each._replace(**{field: value}) for each, value in pairs]
    return ExampleSet(split, name, questions, encoded)


LOGITS = np.array([[0.0, 1.0, 2.0], [0.0, 1.0, 0.0], [0.0, 1.0, 50.0]], np.float32)


def test_scores_and_files(task, tmp_path):
    scores = task.score(set_of(task, "eval"), {"logits": LOGITS})
    first = np.log(np.exp(LOGITS[0]).sum()) - 2
    second = np.log(np.exp(LOGITS[1]).sum())
    third = np.log(1 + np.e) - 1
    assert scores["eval_accuracy"] == pytest.approx(2 / 3)
    assert scores["eval_loss"] == pytest.approx((first + second + third) / 3, rel=1e-6)
    assert set(scores) == {"eval_accuracy", "eval_loss"}

    outputs = {"logits": LOGITS}
    task.write_predictions(str(tmp_path), set_of(task, "predict"), outputs)
    assert (tmp_path / "predictions.tsv").read_text() == "id\tanswer\nx\tC\ny\tB\nz\tB\n"
    probabilities = np.loadtxt(tmp_path / "test_results.tsv")
    np.testing.assert_allclose(probabilities.sum(axis=-1), 1, atol=1e-6)
    assert probabilities[2, 2] == 0
    results = tmp_path / "predict_results.txt"
    for answers, accuracy in (((2, 1, 0), "0.66666667"), ((2, None, 0), "0.5"), ([None] * 3, "")):
        predicted = set_of(task, "predict", answer=answers)
        write_predict_results(str(tmp_path), task, [(predicted, outputs)])
        assert results.exists() == bool(accuracy)
        assert not accuracy or f"predict_accuracy = {accuracy}\n" in results.read_text()


def test_groups_have_accuracies_of_their_own(task):
    examples = set_of(task, "eval", group=("high", "middle", "high"))
    scores = task.score(examples, {"logits": LOGITS})
    assert scores["eval_accuracy_high"] == 1
    assert scores["eval_accuracy_middle"] == 0
    assert scores["eval_accuracy"] == pytest.approx(2 / 3)


def test_the_most_frequent_letter_is_the_baseline(task):
    baseline = task.baseline(set_of(task, "eval", answer=(2, 1, 1)))
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
    hidden = set_of(task, "predict", answer=[None] * 3)
    (section,) = task.report_sections(hidden, {"logits": LOGITS})
    assert [row[2] for row in section.tables[0].rows] == ["0", "2", "1"]


def test_one_letter_for_all_is_a_collapse(task):
    examples = set_of(task, "eval")
    assert task.collapse(examples, {"logits": LOGITS}) is None
    same = {"logits": LOGITS[:, ::-1] * 0 + [0, 1, 0]}
    assert task.collapse(examples, same) == "every answer is B"
    assert task.collapse(set_of(task, "eval", answer=(1, 1, 1)), same) is None
