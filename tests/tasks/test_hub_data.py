"""Data of tasks from the Hugging Face Hub is that of the published files, and cached."""

import dataclasses
import json
import pathlib
from collections.abc import Callable
from contextlib import ExitStack

import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.command import fine_tune
from albert_tf.tasks.classification.benchmarks import GLUE
from albert_tf.tasks.classification.datasets import read_examples
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import read_questions
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.readers import read_squad
from albert_tf.tasks.tagging.options import TaggingOptions
from albert_tf.tasks.tagging.readers import ReadOptions, read_tagged
from tests.conftest import refusal
from tests.support.glue_files import write_hub_task, write_task
from tests.support.hub import COMMIT, Hub, serving, write_parquet

SPLITS = ("train", "eval", "predict")
CONTEXT = "The cat sat on the mat."


def read_glue(name: str, data_dir: str | None, split: str) -> list:
    dataset = GLUE[name].located(data_dir, (split,))
    return [
        [
            each._replace(location="", id=each.id if split == "predict" else "")
            for each in read_examples(dataset, rows, split != "predict")
        ]
        for rows in dataset.sets[split]
    ]


def squad_options(name: str, data_dir: str | None = None) -> QuestionAnsweringOptions:
    return QuestionAnsweringOptions(output_dir="out", task_name=name, data_dir=data_dir)


def squad(name: str, config: str, version: str) -> tuple[Callable, Callable]:
    def write(published: pathlib.Path, hub: pathlib.Path) -> None:
        published.mkdir()
        for split, name in (("train", "train"), ("validation", "dev")):
            several = [("cat", 4), ("The cat", 0)][: 1 if split == "train" else 2]
            rows = [(CONTEXT, several), (CONTEXT, [("mat", 19)])]
            rows += [("A dog.", [])] if version == "v2.0" else []
            paragraphs, table = [], []
            for number, (context, answers) in enumerate(rows):
                entry = {"id": f"{split}-{number}", "question": f"Who {number}?"}
                starts = [{"text": text, "answer_start": start} for text, start in answers]
                qas = [{**entry, "answers": starts, "is_impossible": not answers}]
                paragraphs.append({"context": context, "qas": qas})
                columns = {key: [each[key] for each in starts] for key in ("text", "answer_start")}
                table.append({**entry, "title": "T", "context": context, "answers": columns})
            content = {"version": version, "data": [{"title": "T", "paragraphs": paragraphs}]}
            (published / f"{name}-{version}.json").write_text(json.dumps(content))
            write_parquet(hub / f"{config}/{split}-00000-of-00001.parquet", table)

    def read(data_dir: str | None, split: str) -> list:
        file = read_squad(squad_options(name, data_dir).split_file(split))
        assert file.version_2 == (version == "v2.0")
        return [*file.questions, file.labeled]

    return write, read


def write_race(published: pathlib.Path, hub: pathlib.Path) -> None:
    """Articles in the order of their numbers, and on the Hub in that of their names."""
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
                path = published / f"RACE/{split}/{level}/{number}.txt"
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(article))
                names = {"questions": "question", "options": "options", "answers": "answer"}
                of_all = {"example_id": article["id"], "article": article["article"]}
                rows += [
                    {**of_all, **{one: article[all][q] for all, one in names.items()}}
                    for q in range(2)
                ]
            write_parquet(hub / f"{level}/{hub_split}-00000-of-00001.parquet", rows)


def race_reader(count: int, **levels: bool) -> Callable[[str | None, str], list]:
    def read(data_dir: str | None, split: str) -> list:
        options = MultipleChoiceOptions(output_dir="out", data_dir=data_dir, **levels)
        questions = [each._replace(location="") for each in read_questions(options, split)]
        assert len(questions) == count
        return questions

    return read


def tags(folder: str, *files: str) -> tuple[Callable, Callable]:
    """Return what writes and what reads files of train, perhaps validation, and test."""

    def write(published: pathlib.Path, hub: pathlib.Path) -> None:
        (published / folder).mkdir(parents=True)
        splits = {"train": files[0], "test": files[-1]}
        splits |= {"validation": files[1]} if len(files) == 3 else {}
        for split, name in splits.items():
            text = f"Anna\tB-PER\n{split}\tO\nOslo\tB-LOC\n\n" * 2
            (published / folder / name).write_text(text)
            row = {"tokens": ["Anna", split, "Oslo"], "ner_tags": [1, 0, 5]}
            for shard in range(2):
                path = hub / f"{folder}/{split}/{shard:04d}.parquet"
                write_parquet(path, [{"id": str(shard), **row}])

    def read(data_dir: str | None, split: str) -> list:
        options = TaggingOptions(output_dir="out", task_name=folder, data_dir=data_dir)
        names, paths = ReadOptions(tag_names=options.tag_set.tag_names), options.split_files(split)
        return [e._replace(location="", id="") for path in paths for e in read_tagged(path, names)]

    return write, read


# Its repository on the Hub; what writes the published files, and those of the Hub, into a folder
# each; and what reads the rows of a split in `data_dir`, or by name.
HUB_DATA = {
    "squad": ("rajpurkar/squad", *squad("squad", "plain_text", "v1.1")),
    "squad_v2": ("rajpurkar/squad_v2", *squad("SQuAD_v2", "squad_v2", "v2.0")),
    "race": ("ehovy/race", write_race, race_reader(8)),
    "race, high only": ("ehovy/race", write_race, race_reader(4, high_only=True)),
    "conll2003": ("eriktks/conll2003", *tags("conll2003", "eng.train", "eng.testa", "eng.testb")),
    "msra_ner": ("levow/msra_ner", *tags("msra_ner", "msra_train_bio.txt", "msra_test_bio.txt")),
}


@pytest.fixture
def serve(tmp_path, monkeypatch):
    """Yield a function that serves a folder as a data set, for an empty cache."""
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


@pytest.mark.integration
@pytest.mark.parametrize("name", HUB_DATA)
def test_data_of_the_hub_is_that_of_the_published_files(name, serve, tmp_path):
    repository, write, read = HUB_DATA[name]
    published, hub = tmp_path / "published", tmp_path / "hub"
    write(published, hub)
    serve(hub, repository)
    for split in SPLITS:
        expected = read(str(published), split)
        assert expected
        assert read(str(hub), split) == read(None, split) == expected


@pytest.mark.parametrize("name", HUB_DATA)
def test_offline_without_a_cache_the_way_around_is_named(name, serve, monkeypatch):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    repository, _, read = HUB_DATA[name]
    error = refusal(read, None, "train")
    assert error.startswith(f"`data_dir`=hf://datasets/{repository}")
    assert "HF_HUB_OFFLINE is set" in error
    assert f"hf download {repository} --repo-type=dataset" in error


def test_glue_by_name_is_fetched_once_and_there_offline(serve, tmp_path, monkeypatch):
    for task in ("MRPC", "RTE"):
        write_hub_task(tmp_path / "glue", task)
    hub = serve(tmp_path / "glue", "nyu-mll/glue")
    options = ClassificationOptions(output_dir="out", task_name="mrpc", do_train=True)
    assert "nyu-mll" in find_dataset(options).sets["train"][0].files[0].path
    assert hub.requests == 1  # of the three files of the task
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    assert read_glue("MRPC", None, "train") == read_glue("MRPC", str(tmp_path / "glue"), "train")
    # The cache has a part of the data set.
    for name, split in (("MRPC", "eval"), ("RTE", "train")):
        error = refusal(read_glue, name, None, split)
        assert error.startswith("`data_dir`=hf://datasets/nyu-mll/glue: no")
        assert "hf download nyu-mll/glue --repo-type=dataset" in error
    assert hub.requests == 1


def test_what_reads_no_files_fetches_none(serve, monkeypatch):
    """Such as predictions of standard input."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    options = ClassificationOptions(
        output_dir="out", task_name="mrpc", do_predict=True, predict_file="-"
    )
    assert find_dataset(options).pairs


def test_the_files_of_squad_by_name(tmp_path):
    options = squad_options("squad", str(tmp_path))
    assert dataclasses.replace(options, predict_file="my.json").split_file("eval") == "my.json"
    for changed, message in (
        ({"task_name": "squad3"}, "`task_name`=squad3: must be one of squad, squad_v1, squad_v2"),
        ({"task_name": None}, "`train_file`: `do_train` needs a file, or `task_name`=squad"),
        ({}, r"`data_dir`=.*: contains no .*/train-\*.parquet or .*/train-v\d.\d.json"),
    ):
        with pytest.raises(InputError, match=message):
            dataclasses.replace(options, **changed).split_file("train")


def test_what_is_wrong_in_a_table_of_squad_is_named(tmp_path):
    path = tmp_path / "a.parquet"
    row = {"id": "1", "question": "Who?", "context": CONTEXT}
    for rows, message in (
        ([{"id": "1", "question": "Who?"}], "a.parquet:1: lacks 'context'"),
        ([row, row], "row 2: the id '1' is already used at row 1"),
    ):
        write_parquet(path, rows)
        with pytest.raises(InputError, match=message):
            read_squad(str(path))


@pytest.mark.integration
def test_files_and_folders_of_any_data_set(serve, tmp_path):
    write_hub_task(tmp_path / "served/mine", "CoLA")
    write_task(tmp_path / "served", "SST-2")
    hub = serve(tmp_path / "served", "org/name")
    expected = read_glue("CoLA", str(tmp_path / "served/mine"), "train")
    for place in ("org/name/mine", f"org/name@{COMMIT}/mine/", "org/name/mine/cola"):
        assert read_glue("CoLA", f"hf://datasets/{place}", "train") == expected
    served = read_glue("SST-2", str(tmp_path / "served"), "eval")
    assert read_glue("SST-2", "hf://datasets/org/name", "eval") == served
    options = ClassificationOptions(
        output_dir="out",
        train_file="hf://datasets/org/name/SST-2/train.tsv",
        class_files=("a.txt", "hf://datasets/org/name/mine/cola/test-*.parquet"),
    )
    local = options.with_local_files()
    served_file = tmp_path / "served/SST-2/train.tsv"
    assert pathlib.Path(local.train_file).read_text() == served_file.read_text()
    assert local.class_files[0] == "a.txt"
    assert local.class_files[1].endswith("/cola/test-00000-of-00001.parquet")
    assert hub.requests == 3  # two of the files have the same content
    for path, message in (
        ("org/name/none.tsv", "`train_file`=hf://datasets/org/name/none.tsv: no none.tsv in"),
        ("org/other/a.tsv", "no data set of this"),
        ("org/name/SST-2/*", "matches 3 files; must name a single one"),
        ("org/name", "names a data set; must name a file of it"),
        ("name", "must be hf://datasets/ORGANIZATION/NAME/PATH"),
    ):
        wrong = dataclasses.replace(options, train_file=f"hf://datasets/{path}")
        assert message in refusal(wrong.with_local_files)


def test_fine_tuning_takes_such_files():
    options = ClassificationOptions(
        output_dir="out", do_train=True, train_file="hf://datasets/name"
    )
    with pytest.raises(InputError, match="`train_file`=hf://datasets/name: must be hf://"):
        fine_tune(options, ClassificationTask)
