"""Data sets by name beyond GLUE, CLUE and RACE, in tiny files of their published layouts."""

import json

import numpy as np
import pytest

from albert_tf.finetuning.task import ExampleSet
from albert_tf.tasks.classification.datasets import read_examples
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.published import labels_by_id, multirc_lines
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.targets import TARGETS
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import read_questions, submission
from albert_tf.tasks.tagging.options import TaggingOptions
from albert_tf.tasks.tagging.task import TaggingTask
from tests.conftest import refusal
from tests.support.clue_files import write_lines
from tests.support.hub import write_parquet


def write(path, *lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def classification(folder, split="train", **options):
    return ClassificationOptions(
        output_dir="out", data_dir=str(folder), **{f"do_{split}": True}, **options
    )


def examples(folder, split="train", **options):
    """Return text, pair, label and id of every row."""
    dataset = find_dataset(classification(folder, split, **options))
    (rows,) = dataset.sets[split]
    found = read_examples(dataset, rows, split != "predict" or None)
    return [(each.text, each.text_pair, each.label, each.id) for each in found]


XNLI = "language\tgold_label\tsentence1\tsentence2\tpairID"


def test_xnli_as_published_and_on_the_hub(tmp_path):
    write(
        tmp_path / "XNLI-MT-1.0/multinli/multinli.train.de.tsv",
        "premise\thypo\tlabel",
        "Es regnet.\tEs ist trocken.\tcontradictory",
        "Es regnet.\tEs ist nass.\tentailment",
    )
    rows = ("bg\tneutral\tВали.\tКрай.\t1", "de\tneutral\tEs regnet.\tEnde.\t2")
    for split in ("dev", "test"):
        write(tmp_path / f"XNLI-1.0/xnli.{split}.tsv", XNLI, *rows)
    german = {"task_name": "xnli", "language": "de"}
    assert examples(tmp_path, **german) == [
        ("Es regnet.", "Es ist trocken.", "contradiction", "0"),
        ("Es regnet.", "Es ist nass.", "entailment", "1"),
    ]
    for split in ("eval", "predict"):
        assert examples(tmp_path, split, **german) == [("Es regnet.", "Ende.", "neutral", "2")]
    french = refusal(examples, tmp_path, "eval", **{**german, "language": "fr"})
    assert french.startswith("`language`=fr: ")
    assert french.endswith("xnli.dev.tsv has only bg, de")
    hub = tmp_path / "hub"
    row = {"premise": "Il pleut.", "hypothesis": "Fin.", "label": 2}
    write_parquet(hub / "fr/validation-00000-of-00001.parquet", [row])
    assert examples(hub, "eval", task_name="XNLI", language="fr") == [
        ("Il pleut.", "Fin.", "contradiction", "0")
    ]


def test_paws_x_and_sib_200(tmp_path):
    header = "id\tsentence1\tsentence2\tlabel"
    write(tmp_path / "x-final/de/translated_train.tsv", header, "7\tEins.\tZwei.\t0")
    write(tmp_path / "x-final/en/train.tsv", header, "8\tOne.\tTwo.\t1")
    for language, row in (("de", ("Eins.", "Zwei.", "0", "0")), ("en", ("One.", "Two.", "1", "0"))):
        (found,) = examples(tmp_path, task_name="pawsx", language=language)
        assert found[:3] == row[:3]
    write(
        tmp_path / "data/annotated/fin_Latn/dev.tsv",
        "index_id\tcategory\ttext",
        "3\tscience/technology\tAurinko paistaa.",
    )
    assert examples(tmp_path, "eval", task_name="SIB-200", language="fin_Latn") == [
        ("Aurinko paistaa.", None, "science/technology", "3")
    ]


SUPERGLUE = {
    "BoolQ": {"question": "is it", "passage": "It is.", "idx": 4, "label": True},
    "CB": {"premise": "It is.", "hypothesis": "it is not", "idx": 4, "label": "contradiction"},
    "WiC": {
        **{"word": "bank", "sentence1": "A bank.", "sentence2": "Banks.", "idx": 4, "label": False},
        **{"start1": 2, "end1": 6, "start2": 0, "end2": 5, "version": 1.1},
    },
}
READ = {
    "BoolQ": ("is it", "It is.", "true", "4"),
    "CB": ("It is.", "it is not", "contradiction", "4"),
    "WiC": ("bank: A bank.", "Banks.", "false", "4"),
}


@pytest.mark.parametrize("name", SUPERGLUE)
def test_superglue(tmp_path, name):
    row = SUPERGLUE[name]
    for split, file in (("train", "train"), ("eval", "val"), ("predict", "test")):
        hidden = {key: each for key, each in row.items() if key != "label" or split != "predict"}
        write_lines(tmp_path / f"{name}/{file}.jsonl", [hidden])
        label = None if split == "predict" else READ[name][2]
        expected = (*READ[name][:2], label, "4")
        assert examples(tmp_path, split, task_name=name.upper()) == [expected]
    dataset = find_dataset(classification(tmp_path, "predict", task_name=name, submission=True))
    assert dataset.sets["predict"][0].submission == f"{name}.jsonl"
    assert dataset.submitted(["4"], [READ[name][2]]) == labels_by_id(["4"], [READ[name][2]])


def multirc(*labels):
    answers = [{"idx": n, "text": f"Answer {n}.", "label": each} for n, each in enumerate(labels)]
    questions = [
        {"idx": 7, "question": "Which?", "answers": answers[:2]},
        {"idx": 8, "question": "Why?", "answers": answers[2:]},
    ]
    return {"idx": 3, "version": 1.1, "passage": {"text": "A text.", "questions": questions}}


def test_multirc_is_scored_by_answer_and_by_question(tmp_path):
    write_lines(tmp_path / "MultiRC/val.jsonl", [multirc(1, 0, 0, 1)])
    found = examples(tmp_path, "eval", task_name="MultiRC")
    assert found[0] == ("Which? Answer 0.", "A text.", "1", "3-7-0")
    assert [each[3] for each in found[1:]] == ["3-7-1", "3-8-2", "3-8-3"]
    options = classification(tmp_path, "eval", task_name="MultiRC")
    dataset = find_dataset(options)
    task = ClassificationTask(options, None, TARGETS["classification"](dataset, ("0", "1")))
    ((name, rows),) = task.read("eval").items()

    class Labels:
        arrays = {"label_ids": np.array([1, 0, 0, 1])}
        first_windows = np.arange(4)

    logits = np.eye(2, dtype=np.float32)[[1, 0, 1, 1]]  # all of the first question are right
    scores = task.score(ExampleSet("eval", name, rows, Labels()), {"logits": logits})
    assert (scores["eval_f1"], scores["eval_exact_match"]) == (pytest.approx(0.8), 0.5)
    line = multirc_lines([each[3] for each in found], ["1", "0", "1", "1"])
    questions = json.loads(line)["passage"]["questions"]
    assert json.loads(line)["idx"] == 3
    assert questions[1] == {"idx": 8, "answers": [{"idx": 2, "label": 1}, {"idx": 3, "label": 1}]}


def choices(folder, split, **options):
    flags = MultipleChoiceOptions(output_dir="out", data_dir=str(folder), **options)
    return read_questions(flags, split)


COPA = {"premise": "It rained.", "choice1": "I got wet.", "choice2": "I ate.", "question": "effect"}
BELEBELE = {
    **{"link": "https://a.b/c", "question_number": 2, "flores_passage": "Kissa istui.", "ds": "x"},
    **{"question": "Kuka istui?", "correct_answer_num": "3", "dialect": "fin_Latn"},
    **{f"mc_answer{n}": f"Vastaus {n}" for n in range(1, 5)},
}


def test_copa_and_belebele(tmp_path):
    write_lines(tmp_path / "COPA/val.jsonl", [{**COPA, "idx": 5, "label": 1}])
    write_lines(tmp_path / "COPA/test.jsonl", [{**COPA, "idx": 6}])
    (known,) = choices(tmp_path, "eval", task_name="copa")
    assert (known.id, known.context, known.answer) == ("5", "It rained.", 1)
    assert known.candidates[0] == "What happened as a result? I got wet."
    hidden = choices(tmp_path, "predict", task_name="copa")
    assert [each.answer for each in hidden] == [None]
    options = MultipleChoiceOptions(output_dir="out", task_name="COPA")
    assert submission(options, hidden, [1]) == ("COPA.jsonl", [{"idx": 6, "label": 1}])
    write_lines(tmp_path / "data/fin_Latn.jsonl", [BELEBELE])
    for split in ("eval", "predict"):
        (found,) = choices(tmp_path, split, task_name="belebele", language="fin_Latn")
        assert (found.id, found.context, found.answer) == ("https://a.b/c#2", "Kissa istui.", 2)


def tagged(folder, split, **options):
    """Return the words and tags of every text."""
    flags = TaggingOptions(output_dir="out", data_dir=str(folder), do_train=True, **options)
    flags.check()
    task = TaggingTask(flags, None)
    return [(each.shown_words, each.tags) for each in task.read(split)[""]]


def test_wikiann_and_ud_pos(tmp_path):
    lines = ("de:Köln\tB-LOC", "de:: \tO", "", "de:Ja\tO")
    write(tmp_path / "de/train", *lines)
    german = tagged(tmp_path, "train", task_name="WikiANN", language="de")
    assert german == [(["Köln", ": "], ["B-LOC", "O"]), (["Ja"], ["O"])]
    row = {"tokens": ["Lyon", "!"], "ner_tags": [5, 0], "langs": ["fr"] * 2, "spans": ["LOC: Lyon"]}
    write_parquet(tmp_path / "fr/train-00000-of-00001.parquet", [row])
    french = tagged(tmp_path, "train", task_name="wikiann", language="fr")
    assert french == [(["Lyon", "!"], ["B-LOC", "O"])]
    columns = "\t".join("_" * 6)
    write(
        tmp_path / "ud-treebanks-v2.15/UD_German-GSD/de_gsd-ud-train.conllu",
        *("# sent_id = 1", f"1-2\tZum\t_\t_\t{columns}", f"1\tZu\tzu\tADP\t{columns}"),
        *(f"2\tdem\tder\tDET\t{columns}", ""),
    )
    treebank = tagged(tmp_path, "train", task_name="UD-POS", language="de_gsd")
    assert treebank == [(["Zu", "dem"], ["ADP", "DET"])]


@pytest.mark.parametrize(
    ("read", "options", "message"),
    [
        (examples, {"task_name": "xnli"}, "`language`: must be one of ar, bg, "),
        (examples, {"task_name": "xnli", "language": "fi"}, "`language`=fi: must be one of ar, "),
        (examples, {"task_name": "sib200"}, "`language`: must be a code such as deu_Latn"),
        (examples, {"task_name": "sib200", "language": "../x"}, "`language`=../x: must be a code"),
        (examples, {"task_name": "sib200", "language": "fin_Latn"}, "contains no "),
        (examples, {"task_name": "CB", "language": "de"}, "has a single language"),
        (examples, {"task_name": "table", "language": "de", "data_dir": None}, "a single language"),
        (examples, {"task_name": "boolq"}, "/BoolQ/train.jsonl"),
        (choices, {"task_name": "belebele"}, "`language`: must be a code such as deu_Latn"),
        (
            choices,
            {"task_name": "belebele", "language": "deu_Latn"},
            "`do_train`: the data set has",
        ),
        (choices, {"task_name": "copa"}, "COPA/train.jsonl"),
        (tagged, {"task_name": "wikiann"}, "`language`: must be a code such as de"),
        (tagged, {"task_name": "ud-pos", "language": "de_x"}, "de_x-ud-train.conllu"),
        (tagged, {"language": "de"}, "`language`=de: needs `task_name`"),
    ],
)
def test_a_missing_or_unknown_language_is_one_clear_line(tmp_path, read, options, message):
    folder = options.get("data_dir", tmp_path)
    error = refusal(read, folder, "train", **{k: options[k] for k in options if k != "data_dir"})
    assert message in error
    assert "\n" not in error


@pytest.mark.parametrize(
    ("file", "row", "task", "message"),
    [
        ("COPA/val.jsonl", {**COPA, "idx": 1}, "copa", "no column 'label'"),
        ("COPA/val.jsonl", {**COPA, "idx": 1, "label": 2}, "copa", "label=2: must be one of 0, 1"),
        ("COPA/val.jsonl", {**COPA, "idx": 1, "label": 1, "question": "x"}, "copa", "=x: must be"),
        ("MultiRC/val.jsonl", {"idx": 1}, "MultiRC", "no column 'passage'"),
        (
            "MultiRC/val.jsonl",
            {"idx": 1, "passage": {"questions": [1]}},
            "MultiRC",
            ":1: questions",
        ),
        ("WiC/val.jsonl", {"sentence1": "a", "sentence2": "b"}, "WiC", "no column 'word'"),
    ],
)
def test_faults_of_rows_are_named(tmp_path, file, row, task, message):
    write_lines(tmp_path / file, [row])
    read = choices if task == "copa" else examples
    assert message in refusal(read, tmp_path, "eval", task_name=task)
