"""Files of GLUE and CLUE as published, GLUE's on the Hub, and what GLUE's server takes."""

import dataclasses
import json
import zipfile

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.task import ExampleSet
from albert_tf.tasks.classification import glue_submission
from albert_tf.tasks.classification.benchmarks import CLUE, GLUE
from albert_tf.tasks.classification.datasets import read_examples
from albert_tf.tasks.classification.glue_submission import (
    SUBMISSION_ROWS,
    SubmissionOptions,
    gather,
)
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.task import ClassificationTask
from tests.conftest import refusal, run_python
from tests.support.clue_files import CLASSIFICATION, LCQMC, write_classification
from tests.support.glue_files import LABELS, label, texts, write_hub_task, write_task
from tests.support.hub import write_parquet

SINGLE_TEXTS = {"CoLA", "SST-2"}
SPLITS = ("train", "eval", "predict")


def examples_of(name, folder, split):
    task = GLUE[name].located(str(folder), (split,))
    return [read_examples(task, each, split != "predict") for each in task.sets[split]]


@pytest.mark.parametrize("write", [write_task, write_hub_task])
@pytest.mark.parametrize("name", GLUE)
def test_texts_labels_and_ids_of_every_task(name, write, tmp_path):
    task = "MNLI" if name == "MisMNLI" else name
    write(tmp_path, task)
    for split in SPLITS if name != "AX" else ("predict",):
        for examples in examples_of(name, tmp_path, split):
            for row, example in zip(range(6), examples, strict=True):
                text, pair = texts(row)
                assert example.text == text
                assert example.text_pair == (None if name in SINGLE_TEXTS else pair)
                if split == "predict":
                    assert (example.label, example.id) == (None, str(100 + row))
                else:
                    convert = float if name == "STS-B" else str
                    assert convert(example.label) == convert(label(task, row))


def test_mnli_has_two_sets_of_which_the_matched_comes_first(tmp_path):
    write_task(tmp_path, "MNLI")
    task = GLUE["MNLI"].located(str(tmp_path), SPLITS)
    for split in ("eval", "predict"):
        names = {each.name: each.suffix for each in task.sets[split]}
        assert [*names.items()] == [("matched", ""), ("mismatched", "_mismatched")]
    assert [each.submission for each in task.sets["predict"]] == ["MNLI-m.tsv", "MNLI-mm.tsv"]
    (only,) = GLUE["MisMNLI"].located(str(tmp_path), ("eval",)).sets["eval"]
    assert only.files[0].path.endswith("dev_mismatched.tsv")
    assert only.suffix == ""


def test_a_model_of_another_origin_has_the_labels_in_its_own_order(tmp_path):
    write_task(tmp_path, "MNLI")
    out = tmp_path / "out"
    out.mkdir()
    options = ClassificationOptions(
        output_dir=str(out), task_name="mnli", data_dir=str(tmp_path), do_train=True, do_eval=True
    )

    def trained_with(*labels):
        (out / "labels.json").write_text(json.dumps(labels))
        return ClassificationTask(options, None)

    task = trained_with("entailment", "NEUTRAL", "contradiction")
    for split in ("eval", "train"):  # training resumes in that order
        for examples in task.read(split).values():
            assert [each.label for each in examples[:3]] == list(LABELS["MNLI"])
            assert task.target.encode(examples).tolist() == [2, 0, 1] * 2
    logits = np.eye(3)
    assert task.target.submitted(logits) == ["entailment", "neutral", "contradiction"]
    other = trained_with("entailment", "neutral", "other")
    for use in (lambda: other.target, lambda: other.read("train")):
        assert "contains a classifier of other labels" in refusal(use)


def test_rows_nobody_could_label_are_left_out_of_mnli(tmp_path, capsys):
    write_task(tmp_path, "MNLI", rows=3)
    path = tmp_path / "MNLI/dev_matched.tsv"
    path.write_text(path.read_text("utf-8").replace("\tentailment", "\t-"), "utf-8")
    matched, _ = examples_of("MNLI", tmp_path, "eval")
    assert [example.label for example in matched] == ["contradiction", "neutral"]
    assert "skipped 1 row without an agreed label" in capsys.readouterr().out


def test_on_the_hub_rows_of_mnli_without_a_label_are_skipped_others_refused(tmp_path):
    rows = [{"premise": f"p{n}", "hypothesis": f"h{n}", "label": n - 1} for n in range(2)]
    write_parquet(tmp_path / "mnli/train-00000-of-00001.parquet", rows)
    ((only,),) = examples_of("MNLI", tmp_path, "train")
    assert (only.text, only.text_pair, only.label) == ("p1", "h1", "entailment")
    path = tmp_path / "rte/train-00000-of-00001.parquet"
    message = "parquet:1: label .* must be a number from 0 to 1, or -1 for none"
    for value in (2, ["0"]):
        write_parquet(path, [{"sentence1": "a", "sentence2": "b", "label": value}])
        with pytest.raises(InputError, match=message):
            examples_of("RTE", tmp_path, "train")


def test_qqp_rows_with_missing_fields_are_counted_others_refused(tmp_path, capsys):
    for name in ("QQP", "RTE"):
        write_task(tmp_path, name)
        path = tmp_path / name / "train.tsv"
        lines = path.read_text("utf-8").split("\n")
        lines[2] = lines[2].rsplit("\t", 1)[0]
        path.write_text("\n".join(lines), "utf-8")
    (examples,) = examples_of("QQP", tmp_path, "train")
    assert [example.text for example in examples] == [texts(r)[0] for r in (0, 2, 3, 4, 5)]
    assert "skipped 1 row, the first at " in capsys.readouterr().out
    assert "train.tsv:3: 3 fields instead of 4" in refusal(examples_of, "RTE", tmp_path, "train")
    (tmp_path / "QQP/test.tsv").write_text("id\tquestion1\tquestion2\n0\tonly one?\n", "utf-8")
    with pytest.raises(InputError, match="test.tsv:2: 2 fields"):  # the server wants every row
        examples_of("QQP", tmp_path, "predict")


def test_empty_texts_are_texts_in_glue(tmp_path):
    write_task(tmp_path, "QQP")
    path = tmp_path / "QQP/test.tsv"
    path.write_text("id\tquestion1\tquestion2\n7\t\twhat?\n", "utf-8")
    ((example,),) = examples_of("QQP", tmp_path, "predict")
    assert (example.id, example.text, example.text_pair) == ("7", "", "what?")


def test_mrpc_as_it_was_published(tmp_path):
    folder = tmp_path / "MRPC"
    folder.mkdir()
    for name, rows in (("train", 6), ("test", 2)):
        lines = ["\ufeffQuality\t#1 ID\t#2 ID\t#1 String\t#2 String"]
        for row in range(rows):
            text, pair = texts(row)
            lines.append(f"{row % 2}\t{700 + row}\t{800 + row}\t{text}\t{pair}")
        (folder / f"msr_paraphrase_{name}.txt").write_text("\n".join(lines) + "\n", "utf-8")

    def rows(split):
        (examples,) = examples_of("MRPC", tmp_path, split)
        return [(example.text, example.label, example.id) for example in examples]

    every = [(texts(row)[0], str(row % 2), str(row)) for row in range(6)]
    assert rows("train") == every
    assert rows("eval") == every[:2]  # no development rows: the published test set
    assert rows("predict") == [(text, None, id) for text, _, id in every[:2]]
    (folder / "dev_ids.tsv").write_text("702\t802\n705\t805\n703\t809\n")
    assert [text for text, _, _ in rows("train")] == [texts(row)[0] for row in (0, 1, 3, 4)]
    assert [text for text, _, _ in rows("eval")] == [texts(row)[0] for row in (2, 5)]
    write_task(tmp_path, "MRPC", rows=1)  # GLUE's files come first
    assert len(rows("train")) == 1


def test_missing_files_are_named(tmp_path):
    assert refusal(GLUE["MRPC"].located, str(tmp_path), SPLITS) == (
        f"`data_dir`={tmp_path}: contains no {tmp_path}/MRPC/train.tsv or "
        f"{tmp_path}/MRPC/msr_paraphrase_train.txt or {tmp_path}/mrpc/train-*.parquet"
    )
    with pytest.raises(InputError, match="contains no .*diagnostic.tsv"):
        GLUE["AX"].located(str(tmp_path), ("predict",))


def test_every_file_of_the_server_belongs_to_a_task():
    submissions = [each.submission for task in GLUE.values() for each in task.sets["predict"]]
    assert set(submissions) == set(SUBMISSION_ROWS)


# Rows of the published files: training, development and test.
COUNTS = {
    "CoLA": (8551, 1043, 1063),
    "RTE": (2490, 277, 3000),
    "SST-2": (67349, 872, 1821),
    "WNLI": (635, 71, 146),
}


@pytest.mark.integration
@pytest.mark.parametrize("name", COUNTS)
def test_the_real_files(name, shared):
    folder = shared("data/glue")
    counts = []
    for split in SPLITS:
        (examples,) = examples_of(name, folder, split)
        counts.append(len(examples))
        if split == "predict":
            assert [example.id for example in examples] == [str(i) for i in range(len(examples))]
            assert len(examples) == SUBMISSION_ROWS[f"{name}.tsv"]
        else:
            assert {example.label for example in examples} == set(GLUE[name].labels)
    assert tuple(counts) == COUNTS[name]


def test_the_real_diagnostics(shared):
    (examples,) = examples_of("AX", shared("data/glue"), "predict")
    assert len(examples) == SUBMISSION_ROWS["AX.tsv"]
    assert examples[0].text == "The cat sat on the mat."


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


@pytest.fixture
def rows(monkeypatch):
    """Test sets of three rows and two tasks, instead of hundreds of thousands."""
    rows = {"CoLA.tsv": 3, "AX.tsv": 2}
    monkeypatch.setattr(glue_submission, "SUBMISSION_ROWS", rows)
    return rows


def write(folder, name, count, header="index\tprediction"):
    folder = folder / "submission"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [header, *(f"{row}\t1" for row in range(count))]
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def options(tmp_path):
    return SubmissionOptions(output_dirs=(f"{tmp_path}/*",), submission_file=f"{tmp_path}/glue.zip")


@pytest.mark.slow
def test_as_a_command(tmp_path):
    write(tmp_path / "wnli", "WNLI.tsv", glue_submission.SUBMISSION_ROWS["WNLI.tsv"])
    words = ("-m", "albert_tf.tasks.classification.glue_submission", f"--output_dirs={tmp_path}/*")
    done = run_python(*words, f"--submission_file={tmp_path}/glue.zip", "--incomplete")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "glue.zip") as file:
        assert file.namelist() == ["WNLI.tsv"]


def test_all_files_in_one_unless_some_are_missing(rows, options, tmp_path, capsys):
    write(tmp_path / "cola", "CoLA.tsv", 3)
    assert "no AX.tsv; the server accepts only all" in refusal(gather, options)
    assert not (tmp_path / "glue.zip").exists()
    gather(dataclasses.replace(options, incomplete=True))
    assert "missing: AX.tsv" in capsys.readouterr().out
    with zipfile.ZipFile(options.submission_file) as file:
        assert file.namelist() == ["CoLA.tsv"]
    write(tmp_path / "mnli", "AX.tsv", 2)
    gather(options)
    with zipfile.ZipFile(options.submission_file) as file:
        assert sorted(file.namelist()) == ["AX.tsv", "CoLA.tsv"]
        assert file.read("AX.tsv") == b"index\tprediction\n0\t1\n1\t1\n"
    assert "missing" not in capsys.readouterr().out
    first = (tmp_path / "glue.zip").read_bytes()
    gather(options)
    assert (tmp_path / "glue.zip").read_bytes() == first


def test_what_the_server_would_refuse_is_named(rows, options, tmp_path):
    def message(**changes):
        return refusal(gather, dataclasses.replace(options, **changes))

    (tmp_path / "empty").mkdir()
    assert "no submission/*.tsv in any" in message()
    write(tmp_path / "mnli", "AX.tsv", 2)
    write(tmp_path / "cola", "CoLA.tsv", 4)
    assert "CoLA.tsv: 4 predictions; the server expects 3" in message()
    write(tmp_path / "cola", "CoLA.tsv", 3, header="id\tlabel")
    assert "CoLA.tsv:1: must be" in message()
    write(tmp_path / "other", "CoLA.tsv", 3)
    assert "`output_dirs`: both " in message()
    assert "no file matches" in message(output_dirs=(f"{tmp_path}/nowhere",))
    assert "must end in .zip" in message(submission_file="glue.tar")
    assert not (tmp_path / "glue.zip").exists()
