"""Data of tasks from the Hugging Face Hub is that of the published files, and cached."""

from __future__ import annotations

import dataclasses
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import pyarrow
import pytest
from pyarrow import parquet

from albert_tf.errors import InputError
from albert_tf.finetuning.run import fine_tune
from albert_tf.tasks.classification.glue.tasks import GLUE
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.readers import read_examples
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import read_questions
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.readers import read_squad
from albert_tf.tasks.question_answering.squad_sets import split_file
from albert_tf.tasks.tagging.options import TaggingOptions
from albert_tf.tasks.tagging.readers import ReadOptions, read_tagged
from tests.conftest import JAX_ENVIRONMENT, ROOT
from tests.support.finetuning import write_files
from tests.support.glue_files import label, texts, write_task
from tests.support.hub import COMMIT, Hub, serving

# Task -> folder, columns of its texts, and names of the labels 0, 1, ... in the Hub's data card.
GLUE_CARD = {
    "CoLA": ("cola", ("sentence",), "unacceptable acceptable"),
    "SST-2": ("sst2", ("sentence",), "negative positive"),
    "MRPC": ("mrpc", ("sentence1", "sentence2"), "not_equivalent equivalent"),
    "STS-B": ("stsb", ("sentence1", "sentence2"), ""),
    "QQP": ("qqp", ("question1", "question2"), "not_duplicate duplicate"),
    "MNLI": ("mnli", ("premise", "hypothesis"), "entailment neutral contradiction"),
    "QNLI": ("qnli", ("question", "sentence"), "entailment not_entailment"),
    "RTE": ("rte", ("sentence1", "sentence2"), "entailment not_entailment"),
    "WNLI": ("wnli", ("sentence1", "sentence2"), "not_entailment entailment"),
    "AX": ("ax", ("premise", "hypothesis"), "entailment neutral contradiction"),
}
# Labels that GLUE's files write as a number, 0 or 1, and the Hub's card as a word.
NUMBERED = {"CoLA", "SST-2", "MRPC", "QQP", "WNLI"}
SPLITS = ("train", "eval", "predict")
HUB_SPLITS = {"train": "train", "eval": "validation", "predict": "test"}


def write_table(path: pathlib.Path, rows: list[dict], **types) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    table = pyarrow.Table.from_pylist(rows)
    for name, kind in types.items():
        index = table.column_names.index(name)
        table = table.set_column(index, name, table[name].cast(kind))
    parquet.write_table(table, path)


def write_hub_task(folder: pathlib.Path, task: str, count: int = 6) -> None:
    """The rows of `write_task`, as the Hub has them."""
    config, columns, names = GLUE_CARD[task]

    def number(row: int, split: str) -> float | int:
        if split.startswith("test"):
            return -1
        if task == "STS-B":
            return float(label(task, row))
        given = label(task, row)
        return int(given) if task in NUMBERED else names.split().index(given)

    for split in ("train", "validation", "test"):
        kinds = ("_matched", "_mismatched") if task == "MNLI" and split != "train" else ("",)
        if task == "AX" and split != "test":
            continue
        for kind in kinds:
            rows = [
                {
                    **dict(zip(columns, texts(row), strict=False)),
                    "label": number(row, split),
                    "idx": 100 + row,
                }
                for row in range(count)
            ]
            kind_of_label = pyarrow.float32() if task == "STS-B" else pyarrow.int64()
            path = folder / config / f"{split}{kind}-00000-of-00001.parquet"
            write_table(path, rows, label=kind_of_label, idx=pyarrow.int32())


def glue_examples(name: str, folder: str | None, split: str) -> list[list[tuple]]:
    dataset = GLUE[name].located(folder, (split,))
    sets = []
    for rows in dataset.sets[split]:
        examples = read_examples(dataset, rows, split != "predict")
        sets.append(
            [
                (
                    each.text,
                    each.text_pair,
                    np.float32(each.label) if name == "STS-B" and each.label else each.label,
                    each.id if split == "predict" else None,
                )
                for each in examples
            ]
        )
    return sets


@pytest.mark.parametrize("name", [*GLUE_CARD, "MisMNLI"])
def test_glue_is_the_same_from_tsv_and_parquet(name, tmp_path):
    task = "MNLI" if name == "MisMNLI" else name
    write_task(tmp_path / "published", task)
    write_hub_task(tmp_path / "hub", task)
    for split in SPLITS if name != "AX" else ("predict",):
        published = glue_examples(name, str(tmp_path / "published"), split)
        assert glue_examples(name, str(tmp_path / "hub"), split) == published
        assert len(published[0]) == 6


def test_every_task_of_glue_is_on_the_hub():
    assert {*GLUE_CARD, "MisMNLI"} == set(GLUE)


def test_rows_of_mnli_without_a_label_are_skipped_others_refused(tmp_path):
    for task in ("MNLI", "RTE"):
        write_hub_task(tmp_path, task)
        config, columns, _ = GLUE_CARD[task]
        rows = [{**dict(zip(columns, texts(r), strict=True)), "label": r - 1} for r in range(2)]
        write_table(tmp_path / config / "train-00000-of-00001.parquet", rows)
    ((only,),) = glue_examples("MNLI", str(tmp_path), "train")
    assert only[:3] == (*texts(1), "entailment")
    write_table(
        tmp_path / "rte/train-00000-of-00001.parquet",
        [{"sentence1": "a", "sentence2": "b", "label": 2}],
    )
    with pytest.raises(InputError, match=r"parquet:1: label 2 must be a number from 0 to 1, or -1"):
        glue_examples("RTE", str(tmp_path), "train")


CONTEXT = "The cat sat on the mat."


def squad_paragraph(context: str, *questions: tuple[str, list[tuple[str, int]]]) -> dict:
    return {
        "context": context,
        "qas": [
            {
                "id": id,
                "question": f"Who {id}?",
                "answers": [{"text": text, "answer_start": start} for text, start in answers],
                "is_impossible": not answers,
            }
            for id, answers in questions
        ],
    }


def write_squad(folder: pathlib.Path, config: str, version: int) -> dict[str, str]:
    """The same questions as published and as on the Hub; split of the Hub -> published file."""
    published = {}
    for split, name in (("train", "train"), ("validation", "dev")):
        answers = [("cat", 4), ("The cat", 0)] if split == "validation" else [("cat", 4)]
        paragraphs = [
            squad_paragraph(CONTEXT, (f"{split}-1", answers), (f"{split}-2", [("mat", 19)]))
        ]
        if version == 2:
            paragraphs.append(squad_paragraph("A dog.", (f"{split}-3", [])))
        path = folder / f"{name}-v{version}.json"
        content = {"version": str(version), "data": [{"title": "T", "paragraphs": paragraphs}]}
        path.write_text(json.dumps(content))
        published[split] = str(path)
        rows = [
            {
                "id": entry["id"], "title": "T", "context": paragraph["context"],
                "question": entry["question"],
                "answers": {
                    key: [answer[key] for answer in entry["answers"]]
                    for key in ("text", "answer_start")
                },
            }
            for paragraph in paragraphs for entry in paragraph["qas"]
        ]  # fmt: skip
        write_table(folder / f"hub/{config}/{split}-00000-of-00001.parquet", rows)
    return published


@pytest.mark.parametrize(("name", "version"), [("squad", 1), ("SQuAD_v2", 2)])
def test_squad_is_the_same_from_json_and_parquet(name, version, tmp_path):
    config = "plain_text" if version == 1 else "squad_v2"
    published = write_squad(tmp_path, config, version)
    options = QuestionAnsweringOptions(
        output_dir="out", task_name=name, data_dir=str(tmp_path / "hub")
    )
    for split, hub_split in (("train", "train"), ("eval", "validation"), ("predict", "validation")):
        ours = read_squad(split_file(options, split))
        expected = read_squad(published[hub_split])
        assert ours.questions == expected.questions
        assert (ours.labeled, ours.version_2) == (expected.labeled, expected.version_2)
        assert ours.version_2 == (version == 2)
    assert split_file(dataclasses.replace(options, predict_file="my.json"), "eval") == "my.json"
    for changed, message in (
        ({"task_name": "squad3"}, "`task_name`=squad3: must be one of squad, squad_v1, squad_v2"),
        ({"task_name": None}, "`train_file`: `do_train` needs a file, or `task_name`=squad"),
        ({"data_dir": str(tmp_path)}, r"contains no .*/train-\*.parquet or .*/train-v\d.\d.json"),
    ):
        with pytest.raises(InputError, match=message):
            split_file(dataclasses.replace(options, **changed), "train")


def test_what_is_wrong_in_a_table_of_squad_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    row = {"id": "1", "question": "Who?", "context": CONTEXT}
    answers = {"text": ["cat", "mat"], "answer_start": [4]}
    for rows, message in (
        ([{**row, "answers": answers}], "a.parquet: row 1: 2 texts of answers, but 1 positions"),
        ([{"id": "1", "question": "Who?"}], "a.parquet:1: lacks 'context'"),
        ([{**row, "id": 1.5}], r"a.parquet:1: id=1.5: must be int \| str, not float"),
        ([row, row], "row 2: the id '1' is already used at row 1"),
    ):
        write_table(path, rows)
        with pytest.raises(InputError, match=message):
            read_squad(str(path))


def write_race(folder: pathlib.Path) -> None:
    """Articles as published, and on the Hub in another order."""
    for split, hub_split in (("train", "train"), ("dev", "validation"), ("test", "test")):
        for level in ("middle", "high"):
            rows: list[dict] = []
            for number in (7, 10):
                article = {
                    "id": f"{level}{number}.txt",
                    "article": f"{split} {number}",
                    "questions": ["Who _ ?", "What?"],
                    "options": [["a", "b", "", "d"], ["e", "f", "g", "h"]],
                    "answers": ["A", "D"],
                }
                path = folder / f"published/RACE/{split}/{level}/{number}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(article))
                rows += [
                    {
                        "example_id": article["id"], "article": article["article"],
                        "answer": article["answers"][q], "question": article["questions"][q],
                        "options": article["options"][q],
                    }
                    for q in range(2)
                ]  # fmt: skip
            write_table(folder / f"hub/{level}/{hub_split}-00000-of-00001.parquet", rows)


def race_options(data_dir: pathlib.Path | None, **changes) -> MultipleChoiceOptions:
    folder = None if data_dir is None else str(data_dir)
    return MultipleChoiceOptions(output_dir="out", data_dir=folder, **changes)


@pytest.mark.parametrize("levels", [{}, {"high_only": True}])
def test_race_is_the_same_from_text_and_parquet(levels, tmp_path):
    write_race(tmp_path)
    for split in SPLITS:
        published, hub = (
            [
                each._replace(location="")
                for each in read_questions(race_options(tmp_path / form, **levels), split)
            ]
            for form in ("published", "hub")
        )
        assert hub == published
        assert len(hub) == (4 if levels else 8)
    with pytest.raises(InputError, match=r"no .txt file in train/middle; RACE contains"):
        read_questions(race_options(tmp_path), "train")


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """A function that serves a folder as a data set, for an empty cache."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    with ExitStack() as stack:

        def start(folder: pathlib.Path, repository: str) -> Hub:
            hub = stack.enter_context(serving(folder, f"datasets/{repository}"))
            monkeypatch.setattr(constants, "ENDPOINT", hub.endpoint)
            path = constants.HUGGINGFACE_CO_URL_TEMPLATE.partition("{")
            address = f"{hub.endpoint}/{''.join(path[1:])}"
            monkeypatch.setattr(constants, "HUGGINGFACE_CO_URL_TEMPLATE", address)
            return hub

        yield start


def offline(monkeypatch) -> None:
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)


def test_glue_by_name_is_fetched_once_and_there_offline(serve, tmp_path, monkeypatch):
    for task in ("MRPC", "RTE"):
        write_hub_task(tmp_path / "glue", task)
    hub = serve(tmp_path / "glue", "nyu-mll/glue")
    expected = glue_examples("MRPC", str(tmp_path / "glue"), "train")
    options = ClassificationOptions(output_dir="out", task_name="mrpc", do_train=True)
    assert "nyu-mll" in find_dataset(options).sets["train"][0].files[0].path
    assert hub.requests == 1  # of the three files of the task
    offline(monkeypatch)
    assert glue_examples("MRPC", None, "train") == expected
    # The cache has a part of the data set.
    for name, split in (("MRPC", "eval"), ("RTE", "train")):
        with pytest.raises(InputError) as error:
            glue_examples(name, None, split)
        assert str(error.value).startswith("`data_dir`=hf://datasets/nyu-mll/glue: no")
        assert "hf download nyu-mll/glue --repo-type=dataset" in str(error.value)
    assert hub.requests == 1


@pytest.mark.parametrize("name", ["conll2003", "msra_ner"])
def test_tagged_words_by_name_are_those_of_the_published_files(name, serve, tmp_path):
    row = {"tokens": ["Anna", "in", "Oslo"], "ner_tags": [1, 0, 5]}
    for shard in range(2):
        write_table(tmp_path / f"hub/{name}/train/{shard:04d}.parquet", [{"id": shard, **row}])
    published = tmp_path / "published" / name
    published.mkdir(parents=True)
    file = published / ("eng.train" if name == "conll2003" else "msra_train_bio.txt")
    file.write_text("Anna\tB-PER\nin\tO\nOslo\tB-LOC\n\n" * 2)
    options = TaggingOptions(output_dir="out", task_name=name, do_train=True)
    assert options.tag_set is not None
    serve(tmp_path / "hub", options.tag_set.hub.removeprefix("hf://datasets/").split("@")[0])
    from_hub, from_files = (
        [
            each._replace(location="")
            for path in dataclasses.replace(options, data_dir=data_dir).split_files("train")
            for each in read_tagged(path, ReadOptions(tag_names=options.tag_set.tag_names))
        ]
        for data_dir in (None, str(tmp_path / "published"))
    )
    assert from_hub == from_files
    assert len(from_hub) == 2


Read = Callable[[], object]
BY_NAME: dict[str, Read] = {
    "nyu-mll/glue": lambda: GLUE["CoLA"].located(None, ("eval",)),
    "rajpurkar/squad": lambda: split_file(
        QuestionAnsweringOptions(output_dir="o", task_name="squad"), "train"
    ),
    "rajpurkar/squad_v2": lambda: split_file(
        QuestionAnsweringOptions(output_dir="o", task_name="squad_v2"), "eval"
    ),
    "ehovy/race": lambda: read_questions(race_options(None), "train"),
}


@pytest.mark.parametrize("repository", BY_NAME)
def test_offline_without_a_cache_the_way_around_is_named(repository, tmp_path, monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    offline(monkeypatch)
    with pytest.raises(InputError) as error:
        BY_NAME[repository]()
    assert str(error.value).startswith(f"`data_dir`=hf://datasets/{repository}: ")
    assert "HF_HUB_OFFLINE is set" in str(error.value)
    assert f"hf download {repository} --repo-type=dataset" in str(error.value)


def test_what_reads_no_files_fetches_none(tmp_path, monkeypatch):
    """Such as predictions of standard input."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    offline(monkeypatch)
    options = ClassificationOptions(
        output_dir="out", task_name="mrpc", do_predict=True, predict_file="-"
    )
    assert find_dataset(options).pairs


def test_squad_and_race_by_name(serve, tmp_path):
    published = write_squad(tmp_path, "squad_v2", 2)
    serve(tmp_path / "hub", "rajpurkar/squad_v2")
    options = QuestionAnsweringOptions(output_dir="out", task_name="squad_v2")
    for split, hub_split in (("train", "train"), ("predict", "validation")):
        file = read_squad(split_file(options, split))
        assert file.questions == read_squad(published[hub_split]).questions
    write_race(tmp_path / "race")
    serve(tmp_path / "race/hub", "ehovy/race")
    expected = read_questions(race_options(tmp_path / "race/published"), "eval")
    questions = read_questions(race_options(None), "eval")
    assert [each.id for each in questions] == [each.id for each in expected]


def test_files_and_folders_of_any_data_set(serve, tmp_path):
    write_hub_task(tmp_path / "served/mine", "CoLA")
    write_task(tmp_path / "served", "SST-2")
    hub = serve(tmp_path / "served", "org/name")
    expected = glue_examples("CoLA", str(tmp_path / "served/mine"), "train")
    for place in ("org/name/mine", f"org/name@{COMMIT}/mine/", "org/name/mine/cola"):
        assert glue_examples("CoLA", f"hf://datasets/{place}", "train") == expected
    served = glue_examples("SST-2", str(tmp_path / "served"), "eval")
    assert glue_examples("SST-2", "hf://datasets/org/name", "eval") == served
    options = ClassificationOptions(
        output_dir="out",
        train_file="hf://datasets/org/name/SST-2/train.tsv",
        class_files=("a.txt", "hf://datasets/org/name/mine/cola/test-*.parquet"),
    )
    local = options.with_local_files()
    assert (
        pathlib.Path(local.train_file).read_text()
        == (tmp_path / "served/SST-2/train.tsv").read_text()
    )
    assert local.class_files[0] == "a.txt"
    assert local.class_files[1].endswith("/cola/test-00000-of-00001.parquet")
    assert hub.requests == 3  # two of the files have the same content
    for path, message in (
        ("org/name/none.tsv", "`train_file`=hf://datasets/org/name/none.tsv: no none.tsv in"),
        ("org/other/a.tsv", "`train_file`=hf://datasets/org/other/a.tsv: .*no data set of this"),
        ("org/name/SST-2/*", "matches 3 files; must name a single one"),
        ("org/name", "names a data set; must name a file of it"),
        ("name", "must be hf://datasets/ORGANIZATION/NAME/PATH"),
    ):
        wrong = dataclasses.replace(options, train_file=f"hf://datasets/{path}")
        with pytest.raises(
            InputError, match=message.replace("*", r"\*") if "/*" in path else message
        ):
            wrong.with_local_files()


def test_fine_tuning_takes_such_files():
    options = ClassificationOptions(
        output_dir="out", do_train=True, train_file="hf://datasets/name"
    )
    with pytest.raises(InputError, match="`train_file`=hf://datasets/name: must be hf://"):
        fine_tune(options, ClassificationTask)


@pytest.mark.integration
def test_a_killed_download_is_not_used(serve, tmp_path, monkeypatch):
    write_hub_task(tmp_path / "glue", "MRPC")
    hub = serve(tmp_path / "glue", "nyu-mll/glue")
    program = (
        "from albert_tf.tasks.classification.glue.tasks import GLUE; "
        "GLUE['MRPC'].located(None, ('train',))"
    )
    environment = os.environ | {
        "HF_ENDPOINT": hub.endpoint, "HF_HUB_CACHE": str(tmp_path / "cache"),
    }  # fmt: skip
    hub.pause_after = 1000
    process = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, env=environment)
    assert hub.paused.wait(120)
    process.kill()
    process.wait()
    hub.pause_after = 0
    with monkeypatch.context() as context:
        offline(context)
        with pytest.raises(InputError, match="data_dir`=hf://datasets/nyu-mll/glue: no"):
            glue_examples("MRPC", None, "train")
    expected = glue_examples("MRPC", str(tmp_path / "glue"), "train")
    assert glue_examples("MRPC", None, "train") == expected


@pytest.mark.slow
def test_the_command_trains_by_name_after_a_broken_download(tmp_path):
    """Killed while it fetched, then without the network, then with it, then from the cache."""
    write_files(tmp_path)
    write_task(tmp_path / "published", "MRPC", 16)
    write_hub_task(tmp_path / "glue", "MRPC", 16)

    def command(name: str, *flags: str) -> list[str]:
        return [
            sys.executable, "run_classifier.py", "--engine=jax", "--task_name=MRPC", "--do_train",
            "--do_eval", "--train_step=4", "--train_batch_size=4", "--max_seq_length=24",
            f"--albert_config_file={tmp_path}/config.json", f"--vocab_file={tmp_path}/vocab.txt",
            f"--output_dir={tmp_path}/{name}", *flags,
        ]  # fmt: skip

    with serving(tmp_path / "glue", "datasets/nyu-mll/glue") as hub:
        environment = os.environ | JAX_ENVIRONMENT | {
            "HF_ENDPOINT": hub.endpoint, "HF_HUB_CACHE": str(tmp_path / "cache"),
        }  # fmt: skip

        def run(name: str, *flags: str, **more: str) -> subprocess.CompletedProcess:
            return subprocess.run(
                command(name, *flags), cwd=ROOT, env=environment | more, capture_output=True,
                text=True, timeout=300,
            )  # fmt: skip

        hub.pause_after = 1000
        killed = subprocess.Popen(command("hub"), cwd=ROOT, env=environment)
        assert hub.paused.wait(120)
        killed.kill()
        killed.wait()
        hub.pause_after = 0
        alone = run("hub", HF_HUB_OFFLINE="1")
        assert alone.returncode == 1
        assert alone.stderr.count("\n") == 1
        assert "run_classifier.py: error: --data_dir=hf://datasets/nyu-mll/glue: " in alone.stderr
        assert run("hub").returncode == 0
        served = hub.served
        assert run("cached", HF_HUB_OFFLINE="1").returncode == 0
        assert hub.served == served
    assert run("local", f"--data_dir={tmp_path}/published").returncode == 0
    results = [(tmp_path / name / "eval_results.txt").read_text() for name in ("hub", "local")]
    assert results[0] == results[1]
