"""CLUE's files are read as they are published."""

from __future__ import annotations

import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.classification.clue.tasks import CLUE
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.readers import read_examples
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import read_questions
from albert_tf.tasks.question_answering.readers import Answer, read_squad
from tests.support.clue_files import (
    C3,
    C3_TEST,
    CLASSIFICATION,
    CMRC_CONTEXT,
    LCQMC,
    cmrc,
    write_c3,
    write_classification,
    write_json,
)

NLI = ("contradiction", "entailment", "neutral")


def rows_of(name, folder, split):
    dataset = CLUE[name].located(str(folder), (split,))
    (rows,) = dataset.sets[split]
    examples = read_examples(dataset, rows, labeled=split != "predict")
    return [(each.text, each.text_pair, each.label) for each in examples], rows, dataset


@pytest.mark.parametrize("task", CLASSIFICATION)
def test_texts_and_labels_of_every_task(task, tmp_path):
    write_classification(tmp_path, task)
    fields = {
        "tnews": ("sentence", None),
        "iflytek": ("sentence", None),
        "csl": ("keyword", "abst"),
    }.get(task, ("sentence1", "sentence2"))

    def expected(record):
        first, second = (record.get(name) for name in fields)
        text = " ".join(first) if isinstance(first, list) else first
        return text, second, str(record["label"]) if "label" in record else None

    for split, source in (("train", "train"), ("eval", "train"), ("predict", "test")):
        rows, row_set, dataset = rows_of(task.upper(), tmp_path, split)
        wanted = [expected(each) for each in CLASSIFICATION[task][source]]
        assert rows == [each for each in wanted if each[2] != "-"]
        if split != "predict":
            assert {label for *_, label in rows} <= set(dataset.labels)
            continue
        version = {"tnews": "tnews10", "ocnli": "ocnli_50k"}.get(task, task)
        assert row_set.submission == f"{version}_predict.json"


def test_labels_are_those_of_the_benchmark():
    assert [len(task.labels) for task in CLUE.values()] == [2, 2, 15, 119, 3, 3, 2]
    assert CLUE["TNEWS"].labels[4:7] == ("104", "106", "107")
    assert CLUE["CMNLI"].labels == CLUE["OCNLI"].labels == NLI
    for task in CLUE.values():
        assert task.metrics == ("accuracy",)


def test_lcqmc_is_a_table(tmp_path):
    (tmp_path / "lcqmc").mkdir()
    for split, content in LCQMC.items():
        (tmp_path / f"lcqmc/{split}.tsv").write_text(content, "utf-8")
    rows, _, _ = rows_of("LCQMC", tmp_path, "train")
    assert rows == [('喜欢打"球', "爱打球", "1"), ("天气如何", "几点了", "0")]
    rows, _, _ = rows_of("LCQMC", tmp_path, "predict")
    assert rows == [("多少钱", "什么价", None), ("吃了吗", "去哪儿", None)]


def test_files_of_other_names_and_folders(tmp_path):
    write_classification(tmp_path, "ocnli")
    write_classification(tmp_path, "tnews")
    (tmp_path / "ocnli").rename(tmp_path / "ocnli_public")
    (tmp_path / "ocnli_public/train.json").rename(tmp_path / "ocnli_public/train.50k.json")
    for folder in (tmp_path, tmp_path / "ocnli_public"):
        assert len(rows_of("OCNLI", folder, "train")[0]) == 1
    newer = tmp_path / "tnews/test1.1.json"
    newer.write_text('{"id": 0, "sentence": "新的"}\n', "utf-8")
    rows, row_set, _ = rows_of("TNEWS", tmp_path, "predict")
    assert (rows, row_set.submission) == ([("新的", None, None)], "tnews11_predict.json")
    with pytest.raises(InputError, match="contains no .*/csl/train.json"):
        rows_of("CSL", tmp_path, "train")
    with pytest.raises(InputError, match="`data_dir`: `task_name`=CSL needs the folder of CLUE"):
        CLUE["CSL"].located(None, ("train",))


def test_submissions_number_the_rows():
    def lines(name, *labels):
        ids = [str(900 + row) for row in range(len(labels))]
        return CLUE[name].submitted(ids, labels).splitlines()

    assert lines("AFQMC", "0", "1") == ['{"id": 0, "label": "0"}', '{"id": 1, "label": "1"}']
    assert lines("TNEWS", "101") == ['{"id": 0, "label": "101", "label_desc": ""}']


def test_tasks_of_clue_are_found_by_name(tmp_path):
    write_classification(tmp_path, "afqmc")
    options = ClassificationOptions(
        output_dir="out", task_name="afqmc", data_dir=str(tmp_path), do_train=True
    )
    assert find_dataset(options).name == "AFQMC"
    with pytest.raises(InputError, match="must be one of CoLA, .*, TNEWS, .*, table"):
        find_dataset(ClassificationOptions(output_dir="out", task_name="tnew", do_train=True))


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
