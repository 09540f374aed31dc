"""Files of SQuAD as they are, and as they should not be."""

import copy
import json

import pyarrow
import pytest
from pyarrow import parquet

from albert_tf.tasks.question_answering.readers import Answer, SquadQuestion, read_squad
from tests.conftest import refusal
from tests.support.clue_files import CMRC_CONTEXT, cmrc

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
        ([qa(), {"id": "2", "question": "Who?"}], "1.1", True, False),
    ],
)
def test_what_a_file_says_of_itself(read, questions, version, labeled, version_2):
    file = read(content(*questions, version=version))
    assert (file.labeled, file.version_2) == (labeled, version_2)


def changed(path, value=None):
    """Return a file with one thing changed, or gone."""
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
        ("[]", "set.json: contains no question"),
        ("[1]", "set.json: [0]=1: must be object, not int"),
        (changed(("data",)), "set.json: lacks 'data'"),
        (changed((*SECOND, "id")), "data[0].paragraphs[0].qas[1]: lacks 'id'"),
        (changed((*SECOND, "id"), 7.5), "qas[1].id=7.5: must be int | str, not float"),
        (changed((*SECOND, "answers", 0, "answer_start"), 4.5), "answer_start=4.5: must be a"),
        (
            changed((*SECOND, "answers"), {"text": ["cat"], "answer_start": [4, 5]}),
            "qas[1]: 1 text of answers, but 2 positions",
        ),
        (changed((*SECOND, "id"), 1), "qas[1]: the id '1' is already used at"),
        ('{"id": 1}\n{"id": 2}', "set.json:1: lacks 'paragraphs'"),
        (json.dumps({**qa(), "context": CONTEXT}) + "\n{\n", "set.json:2: not JSON"),
        (changed((*SECOND, "is_impossible"), True), "question '2' has answers, but 'is_impos"),
    ],
)
def test_what_is_wrong_is_named(read, value, message):
    assert message in refusal(read, value)


@pytest.mark.parametrize("id", [0, 12, "12", 2**60])
@pytest.mark.parametrize("start", [4, 4.0])
@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("form", ["articles", "data", "list", "lines", "paragraphs", "parquet"])
def test_the_same_questions_in_every_form(tmp_path, id, start, columns, form):
    answers = {"text": ["cat", "mat"], "answer_start": [start, None if start == 4.0 else -1]}
    # As the Hub stores that there is no answer, and as others do.
    nothing = {"text": [""], "answer_start": [-1]}
    if not columns:
        answers, nothing = ([dict(zip(a, v, strict=True)) for v in zip(*a.values(), strict=True)]
                            for a in (answers, nothing))  # fmt: skip
    questions = [qa(id, answers=answers), qa("x", answers=nothing)]
    rows = [{**question, "context": CONTEXT} for question in questions]
    paragraph = {"context": CONTEXT, "qas": questions}
    path = tmp_path / ("set.parquet" if form == "parquet" else "set.json")
    if form == "parquet":
        rows = [{**row, "id": str(row["id"])} for row in rows] if id != 12 else rows[:1]
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        lines = {
            "articles": [content(*questions)],
            "data": [{"data": rows}],
            "list": [rows],
            "lines": rows,
            "paragraphs": [paragraph],
        }[form]
        text = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
        path.write_text(text + "\n\n" * (form == "lines"), "utf-8")
    file = read_squad(str(path))
    found = (Answer("cat", 4), Answer("mat", -1))
    assert file.questions[0] == SquadQuestion(str(id), "Who sat?", CONTEXT, found)
    assert file.labeled
    if len(rows) > 1:
        assert file.questions[1] == SquadQuestion("x", "Who sat?", CONTEXT, ())
        assert file.version_2


def test_lines_of_json_end_at_line_feeds(tmp_path):
    context = "a cat\u2028\u0085 sat"
    row = {"id": 1, "question": "Who?", "context": context, "answers": []}
    path = tmp_path / "set.jsonl"
    path.write_text("\ufeff" + json.dumps(row, ensure_ascii=False) + "\r\n", "utf-8")
    assert read_squad(str(path)).questions == [SquadQuestion("1", "Who?", context, ())]


@pytest.mark.parametrize(
    "answers",
    [
        [{"text": "", "answer_start": -1}],
        [{"text": " ", "answer_start": 0}],
        [{"text": "CANNOTANSWER", "answer_start": -1}],
        {"text": [], "answer_start": []},
        None,
    ],
)
def test_placeholders_are_no_answers(read, answers):
    file = read(content(qa(), qa("2", answers=answers, is_impossible=True)))
    assert file.questions[1].answers == ()
    assert file.version_2


def test_cmrc_in_both_formats(read):
    start = CMRC_CONTEXT.index("1937")
    file = read(cmrc(("1937年", start)))
    (question,) = file.questions
    assert (question.id, question.answers) == ("TRAIN_0_QUERY_0", (Answer("1937年", start),))
    assert (file.labeled, file.version_2) == (True, False)
    entry = {"query_id": "TRAIN_0_QUERY_0", "query_text": question.text}
    entry["answers"] = ["1937年", 1453.0]
    own = {"context_id": "TRAIN_0", "context_text": CMRC_CONTEXT, "title": "桥", "qas": [entry]}
    (same,) = read([own]).questions
    assert same == question._replace(answers=(Answer("1937年", -1), Answer("1453.0", -1)))
    assert same.placed_answer() == question.placed_answer() == Answer("1937年", start)
    del entry["query_id"]
    assert "set.json: [0].qas[0]: lacks 'query_id'" in refusal(read, [own])


@pytest.mark.parametrize(
    ("answer", "start", "placed"),
    [
        ("米", 17, 17),
        ("米", 20, 17),  # CLUE's baseline looks three characters back
        ("米", 21, None),
        ("米", 16, None),
        ("桥", -1, 2),  # the first of two
        ("桥", 23, 22),  # not the first, but the one nearby
        ("没有", -1, None),
    ],
)
def test_answers_near_their_position_or_without_one(answer, start, placed, read):
    (question,) = read(cmrc((answer, start))).questions
    assert question.placed_answer() == (None if placed is None else Answer(answer, placed))


def test_an_answer_at_its_position_comes_before_one_nearby(read):
    record = cmrc(("米", 18))
    answers = record["data"][0]["paragraphs"][0]["qas"][0]["answers"]
    answers.append({"text": "全长", "answer_start": 11})
    (question,) = read(record).questions
    assert question.placed_answer() == Answer("全长", 11)
