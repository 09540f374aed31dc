"""Files of SQuAD as they are, and as they should not be."""

from __future__ import annotations

import copy
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.squad.squad_files import Answer, SquadQuestion, read_squad

CONTEXT = "The cat sat on the mat."


def qa(id="1", **fields):
    answers = [{"text": "cat", "answer_start": 4}]
    return {"id": id, "question": "Who sat?", "answers": answers, **fields}


def content(*questions, version="1.1"):
    paragraph = {"context": CONTEXT, "qas": list(questions)}
    return {"version": version, "data": [{"title": "Cats", "paragraphs": [paragraph]}]}


@pytest.fixture
def read(tmp_path):
    def read(value):
        path = tmp_path / "set.json"
        path.write_text(value if isinstance(value, str) else json.dumps(value), "utf-8")
        return read_squad(str(path))

    return read


def test_questions_come_in_the_order_of_the_file(read):
    file = read(content(qa("b"), qa("a", question="Where?", answers=[])))
    assert file.questions == [
        SquadQuestion("b", "Who sat?", CONTEXT, (Answer("cat", 4),)),
        SquadQuestion("a", "Where?", CONTEXT, ()),
    ]
    assert read("\ufeff" + json.dumps(content(qa()))).questions[0].id == "1"


@pytest.mark.parametrize(
    ("questions", "version", "labeled", "version_2"),
    [
        ([qa()], "1.1", True, False),
        ([qa()], "v2.0", True, True),
        ([qa(is_impossible=False)], "", True, False),
        ([qa(), qa("2", answers=[])], "1.1", True, True),
        ([qa(), qa("2", answers=[], is_impossible=True)], "", True, True),
        ([qa(answers=[], is_impossible=True)], "", True, True),
        ([qa(answers=[])], "1.1", False, False),
        ([qa(answers=[])], "2.0", False, True),
        ([{"id": "1", "question": "Who?"}], "1.1", False, False),
    ],
)
def test_what_a_file_says_of_itself(read, questions, version, labeled, version_2):
    file = read(content(*questions, version=version))
    assert (file.labeled, file.version_2) == (labeled, version_2)


def test_an_answer_counts_where_it_is():
    def placed(*answers):
        return SquadQuestion(
            "1", "Who?", CONTEXT, tuple(Answer(*a) for a in answers)
        ).placed_answer()

    assert placed(("cat", 4)) == Answer("cat", 4)
    assert placed(("cat", 5), ("sat", 8)) == Answer("sat", 8)
    for start in (3, 8, 400):
        assert placed(("cat", start)) is None
    assert placed() is None


def changed(path, value=None):
    """A file with one thing changed, or gone."""
    whole = copy.deepcopy(content(qa("1"), qa("2")))
    *way, last = path
    part = whole
    for step in way:
        part = part[step]
    if value is None:
        del part[last]
    else:
        part[last] = value
    return whole


PARAGRAPH = ("data", 0, "paragraphs", 0)
SECOND = (*PARAGRAPH, "qas", 1)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{", r"set\.json: not JSON"),
        ("[]", r"set\.json: contains no question"),
        ("[1]", r"set\.json: \[0\]=1: must be object, not int"),
        ("1", r"set\.json: must be object, not int"),
        (changed(("data",)), r"set\.json: lacks 'data'"),
        (changed(("data", 0), 3), r"data\[0\]=3: must be object, not int"),
        (changed((*PARAGRAPH, "context")), r"data\[0\]\.paragraphs\[0\]: lacks 'context'"),
        (changed((*PARAGRAPH, "qas")), r"data\[0\]\.paragraphs\[0\]: lacks 'qas'"),
        (changed((*SECOND, "id")), r"data\[0\]\.paragraphs\[0\]\.qas\[1\]: lacks 'id'"),
        (changed((*SECOND, "id"), 7), r"qas\[1\]\.id=7: must be str, not int"),
        (changed((*SECOND, "question")), r"qas\[1\]: lacks 'question'"),
        (changed((*SECOND, "answers")), r"qas\[1\]: lacks 'answers', which other"),
        (changed((*SECOND, "answers", 0, "text")), r"qas\[1\]\.answers\[0\]: lacks 'text'"),
        (
            changed((*SECOND, "answers", 0, "answer_start"), True),
            r"answers\[0\]\.answer_start=true: must be int, not bool",
        ),
        (changed((*SECOND, "is_impossible"), True), r"question '2' has answers, but 'is_impos"),
        (
            changed((*SECOND, "id"), "1"),
            r"qas\[1\]: the id '1' is already used at data\[0\]\.paragraphs\[0\]\.qas\[0\]",
        ),
        (changed((*PARAGRAPH, "qas"), []), r"set\.json: contains no question"),
    ],
)
def test_what_is_wrong_is_named(read, value, message):
    with pytest.raises(InputError, match=message) as error:
        read(value)
    assert "\n" not in str(error.value)


def test_a_file_that_is_not_there():
    with pytest.raises(InputError, match=r"nowhere\.json: no such file"):
        read_squad("nowhere.json")


def test_real_questions(shared):
    file = read_squad(str(shared("data/squad/squad-v1.1-subset-1190q.json")))
    assert len(file.questions) == 1190
    assert file.labeled
    assert not file.version_2
    assert all(question.placed_answer() for question in file.questions)
