"""run_squad.py on a tiny model, as a user would call it."""

import dataclasses
import json
import pathlib
import random

import pytest

from albert_tf.finetuning.command import fine_tune
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.task import QuestionAnsweringTask
from tests.conftest import refusal
from tests.end_to_end.conftest import call, flags_of, results_of

pytestmark = pytest.mark.integration

COLORS = ("red", "blue", "green", "gray", "black", "white")
THINGS = ("cat", "dog", "house", "tree", "boat", "hat")


def write_squad(path, count, impossible=0, seed=0, **changes):
    """Write contexts on the colors of things, and questions, some on other things."""
    draw = random.Random(seed)
    paragraphs = []
    for number in range(count):
        things = draw.sample(THINGS, 4)
        parts = [f"the {thing} is {draw.choice(COLORS)}" for thing in things]
        context = ". ".join(parts) + "."
        asked = draw.choice(things)
        color = context.split(f"the {asked} is ")[1].split(".")[0]
        start = context.index(f"the {asked} is ") + len(f"the {asked} is ")
        question = {"id": f"q{number}", "answers": [{"text": color, "answer_start": start}]}
        if number < impossible:
            asked = next(thing for thing in THINGS if thing not in things)
            question |= {"answers": [], "is_impossible": True}
        question["question"] = f"What color is the {asked}?"
        paragraphs.append({"context": context, "qas": [question | changes]})
    path.write_text(json.dumps({"data": [{"title": "", "paragraphs": paragraphs}]}))
    return str(path)


@pytest.fixture
def options(project, tmp_path):
    files = tmp_path / "files"
    files.mkdir()
    return QuestionAnsweringOptions(
        albert_config_file=str(project.config),
        spm_model_file=str(project.model),
        output_dir=str(tmp_path / "out"),
        train_file=write_squad(files / "train.json", 12),
        predict_file=write_squad(files / "dev.json", 6, seed=1),
        max_seq_length=32,
        max_query_length=16,
        doc_stride=8,
        max_answer_length=6,
        n_best_size=4,
        train_batch_size=8,
        train_step=3,
        learning_rate=0.001,
        pad_to_max_length=True,
        do_train=True,
        do_eval=True,
        do_predict=True,
    )


def contents_of(folder, name):
    return json.loads((folder / name).read_text("utf-8"))


def test_every_question_has_an_answer(options, pretrained, tmp_path):
    train = contents_of(tmp_path, "files/train.json")
    first = train["data"][0]["paragraphs"][0]["qas"][0]
    first["answers"][0]["answer_start"] -= 1
    pathlib.Path(options.train_file).write_text(json.dumps(train))
    words = flags_of(dataclasses.replace(options, init_checkpoint=str(pretrained)))
    unused = ("--train_feature_file=unused", "--predict_feature_file=unused")
    printed = call("run_squad.py", *words, *unused)
    assert "skipped 1 of 12 questions, because the context does not contain" in printed
    assert f"  {first['id']}: " in printed
    assert "f1 = " in printed
    assert "left at initial values: cls/squad/output_weights" in printed
    folder = tmp_path / "out"
    results = results_of(folder)
    assert set(results) == {"exact_match", "f1", "total", "global_step"}
    assert (results["total"], results["global_step"]) == (6, 3)
    answers = contents_of(folder, "predictions.json")
    paragraphs = contents_of(tmp_path, "files/dev.json")["data"][0]["paragraphs"]
    contexts = {each["qas"][0]["id"]: each["context"] for each in paragraphs}
    assert list(answers) == list(contexts)
    assert all(answers[id] and answers[id] in context for id, context in contexts.items())
    for id, best in contents_of(folder, "nbest_predictions.json").items():
        assert best[0]["text"] == answers[id]
        assert len({each["text"] for each in best}) == len(best) == 4
        assert sum(each["probability"] for each in best) == pytest.approx(1)
        scores = [each["start_log_prob"] + each["end_log_prob"] for each in best]
        assert scores == sorted(scores, reverse=True)
    assert not (folder / "null_odds.json").exists()

    # The folder alone, without what it was trained on and without padding, gives the same again.
    again = dataclasses.replace(
        options, do_train=False, do_eval=False, train_file=None, pad_to_max_length=False
    )
    fine_tune(again, QuestionAnsweringTask)
    assert contents_of(folder, "predictions.json") == answers
    scores = (folder / "predict_results.txt").read_text().replace("predict_", "")
    assert set(scores.splitlines()) < set((folder / "eval_results.txt").read_text().splitlines())


def test_bad_input_is_named(options, tmp_path):
    def message(**changes) -> str:
        return refusal(fine_tune, dataclasses.replace(options, **changes), QuestionAnsweringTask)

    files = tmp_path / "files"
    assert "`predict_file`: `do_eval` needs a file" in message(predict_file=None)
    assert "`train_file`: `do_train` needs a file" in message(train_file=None)
    unlabeled = write_squad(files / "test.json", 2, answers=[])
    assert "contains no answers, which `do_eval` needs" in message(predict_file=unlabeled)
    assert "contains no answers, which `do_train` needs" in message(train_file=unlabeled)
    negative = write_squad(files / "negative.json", 4, impossible=3)
    assert "3 of 4 questions have no answer" in message(
        predict_file=negative, version_2_with_negative=False
    )
    elsewhere = write_squad(files / "bad.json", 2, answers=[{"text": "pink", "answer_start": 3}])
    assert "none of its 2 questions is usable: the context does not contain the answer" in message(
        train_file=elsewhere
    )
    assert "`max_seq_length`=19: must exceed `max_query_length`=16 + 3" in message(
        max_seq_length=19
    )
    assert "`start_n_top`=33: must be at most `max_seq_length`=32" in message(start_n_top=33)
    assert "nothing to do" in message(do_train=False, do_eval=False, do_predict=False)
    assert not (tmp_path / "out").exists(), "nothing is left of what never began"
