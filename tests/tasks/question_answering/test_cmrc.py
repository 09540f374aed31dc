"""CMRC 2018 is read in both formats, with answers near their positions."""

import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.question_answering.readers import Answer, read_squad
from tests.support.clue_files import CMRC_CONTEXT, cmrc, write_json


def test_cmrc_in_both_formats(tmp_path):
    path = tmp_path / "cmrc2018_train.json"
    start = CMRC_CONTEXT.index("1937")
    write_json(path, cmrc(("1937年", start)))
    file = read_squad(str(path))
    (question,) = file.questions
    assert (question.id, question.answers) == ("TRAIN_0_QUERY_0", (Answer("1937年", start),))
    assert (file.labeled, file.version_2) == (True, False)
    own = {
        "context_id": "TRAIN_0",
        "context_text": CMRC_CONTEXT,
        "title": "桥",
        "qas": [
            {
                "query_id": "TRAIN_0_QUERY_0",
                "query_text": question.text,
                "answers": ["1937年", 1453.0],
            }
        ],
    }
    write_json(path, [own])
    (same,) = read_squad(str(path)).questions
    assert same == question._replace(answers=(Answer("1937年", -1), Answer("1453.0", -1)))
    assert same.placed_answer() == question.placed_answer() == Answer("1937年", start)
    del own["qas"][0]["query_id"]
    write_json(path, [own])
    with pytest.raises(InputError, match=r"train\.json: \[0\]\.qas\[0\]: lacks 'query_id'"):
        read_squad(str(path))


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
def test_answers_near_their_position_or_without_one(answer, start, placed, tmp_path):
    path = tmp_path / "train.json"
    write_json(path, cmrc((answer, start)))
    (question,) = read_squad(str(path)).questions
    assert question.placed_answer() == (None if placed is None else Answer(answer, placed))


def test_an_answer_at_its_position_comes_before_one_nearby(tmp_path):
    record = cmrc(("米", 18))
    record["data"][0]["paragraphs"][0]["qas"][0]["answers"].append(
        {"text": "全长", "answer_start": 11}
    )
    write_json(tmp_path / "dev.json", record)
    (question,) = read_squad(str(tmp_path / "dev.json")).questions
    assert question.placed_answer() == Answer("全长", 11)
