"""C3 is read as CLUE and as its authors publish it."""

import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import read_questions
from tests.support.clue_files import C3, C3_TEST, write_c3, write_json


def c3_questions(folder, split):
    options = MultipleChoiceOptions(output_dir="out", task_name="c3", data_dir=str(folder))
    return read_questions(options, split)


def test_c3_as_clue_and_as_its_authors_publish_it(tmp_path):
    write_c3(tmp_path)
    questions = c3_questions(tmp_path, "train")
    assert [each.id for each in questions] == ["d-1-2-1", "m-1-2-1", "m-1-2-2"]
    assert [each.group for each in questions] == ["dialogue", "mixed", "mixed"]
    assert [each.answer for each in questions] == [1, 0, 0]
    assert questions[0].context == "女：雨这么大，带伞了吗？\n男：带了，就在包里。"
    assert questions[0].candidates == ("伞在哪儿？ 家里", "伞在哪儿？ 包里", "伞在哪儿？ 车上")
    # As in the official baseline, no blank is filled.
    assert questions[2].candidates[1] == "文中__处应填： 晚"
    hidden = c3_questions(tmp_path, "predict")
    assert [each.answer for each in hidden] == [None, None]
    assert [len(each.choices) for each in hidden] == [4, 2]
    for letter, documents in C3.items():
        for split in ("train", "test"):
            write_json(tmp_path / f"theirs/c3-{letter}-{split}.json", documents)
    theirs = c3_questions(tmp_path / "theirs", "train")
    assert [each._replace(location="") for each in theirs] == [
        each._replace(location="") for each in questions
    ]
    assert [each.answer for each in c3_questions(tmp_path / "theirs", "predict")] == [1, 0, 0]


def test_what_is_wrong_with_files_of_c3_is_named(tmp_path):
    with pytest.raises(InputError, match=r"contains d-train\.json and m-train\.json or c3-d-"):
        c3_questions(tmp_path, "train")
    write_c3(tmp_path)
    write_json(tmp_path / "c3/d-dev.json", C3_TEST)
    with pytest.raises(InputError, match=r'\[0\]\[1\]\[0\]: answer "" is none of the choices, '):
        c3_questions(tmp_path, "eval")
    write_json(tmp_path / "c3/d-dev.json", [[["text"]]])
    with pytest.raises(InputError, match=r"d-dev\.json: \[0\]: must be a list of sentences, "):
        c3_questions(tmp_path, "eval")
    write_json(tmp_path / "c3/d-dev.json", [[["text"], [{"question": "?"}], "1"]])
    with pytest.raises(InputError, match=r"d-dev\.json: \[0\]\[1\]: \[0\]: lacks 'choice'"):
        c3_questions(tmp_path, "eval")
