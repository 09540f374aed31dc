"""CLUE's files are read as they are published."""

import dataclasses

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.task import ExampleSet
from albert_tf.tasks.classification.benchmarks import CLUE
from albert_tf.tasks.classification.datasets import read_examples
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.task import ClassificationTask
from tests.support.clue_files import CLASSIFICATION, LCQMC, write_classification

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
    task = ClassificationTask(dataclasses.replace(options, do_eval=True), None)
    assert task.data_name(ExampleSet("eval", "", [], None)) == "CLUE AFQMC, dev.json"
    with pytest.raises(InputError, match="must be one of CoLA, .*, TNEWS, .*, table"):
        find_dataset(ClassificationOptions(output_dir="out", task_name="tnew", do_train=True))
