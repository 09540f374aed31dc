"""Scores of answers in scripts without spaces: cases worked out by hand, and a naive oracle."""

import dataclasses
import json
import re
import string

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.finetuning.context import read_sets
from albert_tf.finetuning.run_report import write_predict_results
from albert_tf.tasks.question_answering.metrics import (
    CHARACTERS,
    CMRC,
    METRICS,
    SQUAD,
    best_threshold,
    choose_metric,
    cmrc_segments,
    evaluate,
    exact_match,
    f1,
    normalize_answer,
    question_scores,
)
from albert_tf.tasks.question_answering.options import METRIC_NAMES, QuestionAnsweringOptions
from albert_tf.tasks.question_answering.readers import Answer, SquadQuestion
from albert_tf.tasks.question_answering.task import QuestionAnsweringTask
from tests.conftest import refusal
from tests.support.finetuning import word_pieces

WORDS = st.lists(
    st.sampled_from(["a", "The", "an", "cat", "Cat,", "mat", "...", "then", "a-the", "é", "—", ""]),
    max_size=6,
).map(" ".join)
TEXTS = st.one_of(WORDS, st.text(max_size=20))


def words_of(text):
    """Normalize as published, step by step: lower, punctuation, articles, white space."""
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    pieces = re.split(r"(\W+)", text)
    return "".join(" " if piece in ("a", "an", "the") else piece for piece in pieces).split()


def naive_f1(prediction, truth, version_2):
    prediction, truth = words_of(prediction), words_of(truth)
    if version_2 and not (prediction and truth):
        return float(prediction == truth)
    rest, same = list(truth), 0
    for word in prediction:
        if word in rest:
            rest.remove(word)
            same += 1
    return 2 * same / (len(prediction) + len(truth)) if same else 0.0


@given(TEXTS)
def test_normalization(text):
    assert normalize_answer(text).split() == words_of(text)
    assert normalize_answer(text) == " ".join(words_of(text))
    assert normalize_answer(normalize_answer(text)) == " ".join(words_of(" ".join(words_of(text))))


@given(TEXTS, TEXTS, st.booleans())
def test_f1_and_exact_match(prediction, truth, version_2):
    expected = naive_f1(prediction, truth, version_2)
    assert f1(prediction, truth, SQUAD, version_2) == pytest.approx(expected)
    assert f1(truth, prediction, SQUAD, version_2) == pytest.approx(expected)
    exact = exact_match(prediction, truth, SQUAD)
    assert exact == (words_of(prediction) == words_of(truth))
    if words_of(truth):
        assert f1(prediction, truth, SQUAD, version_2) >= exact


def question(id, *answers):
    return SquadQuestion(str(id), "Who?", "", tuple(Answer(text, -1) for text in answers))


def test_the_best_answer_counts():
    both = question(1, "the gray cat", "cat")
    assert question_scores(both, "Cat", False) == (1, 1)
    assert question_scores(both, "gray dog", False) == (0, pytest.approx(0.5))
    # An answer without words does not count in 2.0; without any other, nothing is the answer.
    assert question_scores(question(1, "the", "cat"), "an", True) == (0, 0)
    assert question_scores(question(1, "the"), "", True) == (1, 1)
    assert question_scores(question(1, "the", "cat"), "an", False) == (1, 0)
    assert question_scores(question(1), "", True) == (1, 1)
    assert question_scores(question(1), "cat", True) == (0, 0)


def test_results_of_a_file():
    questions = [question(1, "cat"), question(2, "gray dog"), question(3)]
    predictions = {"1": "the cat", "2": "dog", "3": "mat"}
    f1_of_two = pytest.approx(100 * (1 + 2 / 3) / 2)
    scores = {"exact_match": 50, "f1": f1_of_two, "total": 2}
    assert evaluate(questions[:2], predictions, False) == scores
    results = evaluate(questions, predictions, True)
    assert results["exact_match"] == pytest.approx(100 / 3)
    assert results["HasAns_f1"] == f1_of_two
    assert (results["HasAns_exact"], results["HasAns_total"]) == (50, 2)
    assert (results["NoAns_exact"], results["NoAns_f1"], results["NoAns_total"]) == (0, 0, 1)
    assert "HasAns_f1" not in evaluate(questions[2:], predictions, True)


# Scores whose sums are exact, so that equal means are equal.
CASES = st.lists(
    st.tuples(st.sampled_from([0.0, 0.25, 1.0]), st.booleans(), st.integers(-3, 3)), min_size=1
)


@given(CASES)
def test_the_best_threshold_is_found(cases):
    answered = np.array([score for score, _, _ in cases])
    has_answer = np.array([has for _, has, _ in cases])
    nulls = np.array([float(null) for _, _, null in cases])

    def mean_at(threshold):
        given = [score if null <= threshold else float(not has) for score, has, null in cases]
        return 100 * sum(given) / len(given)

    best, threshold = best_threshold(answered, has_answer, nulls)
    tried = {value: mean_at(value) for value in (-99.0, *nulls)}
    assert best == pytest.approx(max(tried.values()))
    assert mean_at(threshold) == pytest.approx(best)
    lower = [value for value in tried if value < threshold and value != -99.0]
    assert all(tried[value] < best - 1e-9 for value in lower)
    if threshold not in nulls:
        assert threshold < nulls.min()


# Prediction, answer, exact match; longest common run, and segments of both. The official script
# gives the same for all of them.
CMRC_CASES = [
    ("任天堂游戏谜之村雨城", "村雨城", 0, 3, 10, 3),
    ("《村雨城》。", "村雨城", 1, 3, 3, 3),
    ("", "村雨城", 0, 0, 0, 3),
    ("，。", "、", 1, 0, 0, 0),  # nothing is left of both, which scores 0 but is equal
    ("２０１０年", "2010年", 0, 1, 2, 2),  # full width is another word
    ("苹果iPhone手机", "iPhone", 0, 1, 5, 1),
    ("1-2", "12", 1, 1, 1, 1),
    ("人。", "人.", 0, 1, 1, 2),  # only full-width punctuation is removed
    ("……", "…", 0, 0, 1, 1),  # an ellipsis is not
    ("don't", "do not", 0, 1, 2, 2),
    ("ゲーム機", "ゲーム", 0, 1, 2, 1),  # kana are words, as Latin letters
    (" 北京 ", "北京", 1, 2, 2, 2),
    ("北 京", "北京", 0, 2, 2, 2),  # a space inside counts for exact match only
    ("A：B", "a:b", 1, 1, 1, 1),
]


@pytest.mark.parametrize(
    ("prediction", "answer", "exact", "common", "predicted", "true"), CMRC_CASES
)
def test_scores_of_cmrc(prediction, answer, exact, common, predicted, true):
    assert (len(cmrc_segments(prediction)), len(cmrc_segments(answer))) == (predicted, true)
    expected = 2 * common / (predicted + true) if common else 0
    assert f1(prediction, answer, CMRC) == pytest.approx(expected)
    assert exact_match(prediction, answer, CMRC) == exact


# Few characters, so that texts have runs in common.
@given(st.text("村雨城ab 1，.", max_size=8), st.text("村雨城ab 1，.", max_size=8))
def test_the_longest_run_is_found(prediction, answer):
    one, other = cmrc_segments(prediction), cmrc_segments(answer)
    runs = {tuple(one[i:j]) for i in range(len(one)) for j in range(i + 1, len(one) + 1)}
    others = {tuple(other[i:j]) for i in range(len(other)) for j in range(i + 1, len(other) + 1)}
    longest = max(map(len, runs & others), default=0)
    expected = 2 * longest / (len(one) + len(other)) if longest else 0
    assert f1(prediction, answer, CMRC) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("prediction", "answer", "exact", "score"),
    [
        ("東京タワー", "タワー", 0, 6 / 8),
        ("ＧＰＳ衛星", "GPS衛星", 1, 1),
        ("星衛", "衛星", 0, 1),  # in any order
        ("New York市", "york 市", 0, 4 / 5),
        ("กข", "ขคง", 0, 2 / 5),
        ("", "東京", 0, 0),
    ],
)
def test_scores_per_character(prediction, answer, exact, score):
    assert f1(prediction, answer, CHARACTERS) == pytest.approx(score)
    assert exact_match(prediction, answer, CHARACTERS) == exact


@pytest.mark.parametrize(
    ("answers", "metric", "reason"),
    [
        (["the cat", "1998"], SQUAD, ""),
        (["Beijing, 北京"], SQUAD, "22.2%"),
        (["村雨城", "2010年", "iPad", "任天堂游戏谜之村雨城"], CMRC, "63.6%"),
        (["任天堂", "1998年", "ゲーム機"], CHARACTERS, "66.7%"),
        (["กรุงเทพ"], CHARACTERS, "100.0%"),
        ([], SQUAD, ""),
    ],
)
def test_the_metric_follows_from_the_answers(answers, metric, reason):
    chosen, why = choose_metric(answers)
    assert chosen == metric
    assert why.startswith(f"{reason} of the letters and digits" if reason else "")
    assert bool(why) == bool(reason), "words with spaces need no reason"


def test_results_have_the_name_of_the_metric():
    questions = [question("1", "村雨城", "谜之村雨城"), question("2", "。", "北京"), question("3")]
    predictions = {"1": "游戏谜之村雨城", "2": "", "3": ""}
    scores = question_scores(questions[0], predictions["1"], True, CMRC)
    assert scores == (0, pytest.approx(10 / 12))
    # As for words: an answer of which nothing is left does not count in 2.0.
    assert question_scores(questions[1], "", True, CMRC) == (0, 0)
    results = evaluate(questions, predictions, True, CMRC)
    assert results["cmrc_f1"] == pytest.approx(100 * (10 / 12 + 0 + 1) / 3)
    assert (results["HasAns_cmrc_exact"], results["NoAns_cmrc_f1"]) == (0, 100)
    assert set(evaluate(questions[:2], predictions, False, CHARACTERS)) == {
        "character_exact_match", "character_f1", "total",
    }  # fmt: skip
    assert tuple(METRICS) == METRIC_NAMES


def write_squad(path, context, questions):
    """Write questions and their answers, each an id -> a question and answers."""
    qas = [{"id": id, **each} for id, each in questions.items()]
    path.write_text(json.dumps({"data": [{"paragraphs": [{"context": context, "qas": qas}]}]}))
    return str(path)


def options_of(folder, **changes):
    return QuestionAnsweringOptions(
        output_dir=str(folder), predict_file=f"{folder}/dev.json", squad_head="span",
        max_seq_length=32, max_query_length=8, do_eval=True, **changes,
    )  # fmt: skip


@pytest.mark.parametrize("version_2", [False, True])
def test_a_task_scores_and_reports_by_the_chosen_metric(tmp_path, caplog, version_2):
    context, answers = "任天堂游戏谜之村雨城。", [{"text": "村雨城", "answer_start": 7}]
    asked = {"1": {"question": "是什么？", "answers": answers}}
    if version_2:
        asked["2"] = {"question": "什么？", "answers": [], "is_impossible": True}
    write_squad(tmp_path / "dev.json", context, asked)
    options, tokenizer = options_of(tmp_path), word_pieces(tmp_path, f"{context}是什么？")
    with caplog.at_level("INFO"):
        task = QuestionAnsweringTask(options, tokenizer)
    assert "answer_metric=cmrc, because 100.0% of the letters" in caplog.text
    (examples,) = read_sets(task)
    questions = examples.examples
    # "游戏谜之村雨城", and for the second question, that there is none.
    start, end = np.zeros([2, len(questions), 32], np.float32)
    start[0, 6 + 3] = end[0, 6 + 9] = 9
    start[1:, 0] = end[1:, 0] = 9
    outputs = {"start_logits": start, "end_logits": end}
    results = task.score(examples, outputs)
    expected = 100 * (2 * 3 / (3 + 7) + version_2) / len(questions)
    assert results[task.metric] == results["cmrc_f1"] == pytest.approx(expected)
    assert results["cmrc_exact_match"] == 100 * version_2 / len(questions)
    if version_2:
        assert results["best_cmrc_f1"] == pytest.approx(expected)
        options = task.options
        task.options = dataclasses.replace(options, null_score_diff_threshold=-1000.0)
        given = task.score(examples, outputs)
        for each in (results, given):  # that of the flag is not for later predictions
            assert each["null_score_diff_threshold"] == results["best_cmrc_f1_thresh"]
        assert given["cmrc_f1"] == 100 / len(questions)
        task.options = options
        # Predictions are scored as they are written: by the threshold of the last evaluation.
        (tmp_path / "eval_results.txt").write_text("null_score_diff_threshold = -1000\n")
        del given["null_score_diff_threshold"]
        assert task.score_at(examples, outputs, [0, 1]) == given
    sections = task.report_sections(examples, outputs)
    assert sections[0].text.startswith("answer_metric=cmrc, because 100.0% of")
    # A folder with its settings is scored by the same metric when there are no answers.
    (settings,) = task.adjacent_files().items()
    (tmp_path / settings[0]).write_text(settings[1])
    write_squad(tmp_path / "dev.json", context, {"1": {"question": "是什么？"}})
    predicting = dataclasses.replace(options, do_eval=False, do_predict=True)
    assert QuestionAnsweringTask(predicting, task.tokenizer).metric == "cmrc_f1"
    flagged = dataclasses.replace(predicting, answer_metric="characters")
    assert QuestionAnsweringTask(flagged, task.tokenizer).metric == "character_f1"


def test_predictions_are_scored_where_answers_are_known(tmp_path):
    answers = {
        text: [{"text": text, "answer_start": start}] for text, start in (("c", 4), ("b", 2))
    }
    asked = {text: {"question": "a", "answers": each} for text, each in answers.items()}
    write_squad(tmp_path / "dev.json", "a b c d", asked | {"x": {"question": "a"}})
    options, tokenizer = options_of(tmp_path), word_pieces(tmp_path, "abcd")
    message = refusal(QuestionAnsweringTask, options, tokenizer)
    assert message.endswith(".qas[2]: lacks 'answers', which other questions have")
    options = dataclasses.replace(options, do_eval=False, do_predict=True)

    def results():
        task = QuestionAnsweringTask(options, tokenizer)
        (examples,) = read_sets(task)
        logits = np.zeros([len(examples.examples), 32], np.float32)
        logits[:, 5] = 9  # "c"
        outputs = {"start_logits": logits, "end_logits": logits}
        write_predict_results(str(tmp_path), task, [(examples, outputs)])
        path = tmp_path / "predict_results.txt"
        return path.read_text() if path.exists() else None

    assert results() == "predict_exact_match = 50\npredict_f1 = 50\npredict_total = 2\n"
    write_squad(tmp_path / "dev.json", "a b c d", {"x": {"question": "a"}})
    assert results() is None


@pytest.mark.parametrize(
    ("trained", "in_training", "unanswered", "may_be_none"),
    [
        (False, None, 1, False),
        (True, None, 0, True),
        (None, None, 1, True),
        (None, None, 0, False),
        (None, 0, 1, False),
        (None, 1, 0, True),
    ],
)
def test_what_a_model_learned_says_whether_there_may_be_no_answer(
    tmp_path, trained, in_training, unanswered, may_be_none
):
    def write(name, without):
        answers = [[], [{"text": "c", "answer_start": 4}]]
        asked = {str(n): {"question": "a", "answers": answers[n >= without]} for n in range(3)}
        return write_squad(tmp_path / name, "a b c d", asked)

    if trained is not None:
        settings = {"version_2_with_negative": trained, "squad_head": "span"}
        (tmp_path / "question_answering.json").write_text(json.dumps(settings))
    write("dev.json", unanswered)
    options, tokenizer = options_of(tmp_path, do_predict=True), word_pieces(tmp_path, "abcd")
    if in_training is not None:
        file = write("train.json", in_training)
        options = dataclasses.replace(options, do_train=True, train_file=file)
    if trained is not None:
        with pytest.raises(InputError, match="^`squad_head`=conditional: .* trained with span$"):
            QuestionAnsweringTask(dataclasses.replace(options, squad_head="conditional"), tokenizer)
    task = QuestionAnsweringTask(options, tokenizer)
    *_, examples = read_sets(task)
    start = end = np.zeros([3, 32], np.float32)
    start[:, 0], start[:, 5] = 9, 8  # no answer is better than "c"
    outputs = {"start_logits": start, "end_logits": end}
    task.write_predictions(str(tmp_path), examples, outputs)
    predictions = json.loads((tmp_path / "predictions.json").read_text())
    assert set(predictions.values()) == {"" if may_be_none else "c"}
    assert (tmp_path / "null_odds.json").exists() == may_be_none
    if may_be_none:  # the threshold that an evaluation found, then that of the flag
        (tmp_path / "eval_results.txt").write_text("null_score_diff_threshold = 2.5\n")
        for threshold, answer in ((None, "c"), (1.5, "")):
            changes = {"null_score_diff_threshold": threshold}
            task.options = dataclasses.replace(task.options, **changes)
            task.write_predictions(str(tmp_path), examples, outputs)
            predictions = json.loads((tmp_path / "predictions.json").read_text())
            assert set(predictions.values()) == {answer}
    else:
        assert task.score(examples, outputs)["f1"] == pytest.approx(100 * (3 - unanswered) / 3)
