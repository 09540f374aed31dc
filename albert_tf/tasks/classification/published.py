"""Tasks of SuperGLUE (arXiv 1905.00537) and data sets of several languages: a row for each.

SuperGLUE is read as published, in JSON lines; the others as published, or as on the Hugging Face
Hub. COPA is a task of multiple choice.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import Row, converted, read_rows, read_tsv
from albert_tf.hub.huggingface import LANGUAGE, PREFIX
from albert_tf.tasks.classification.benchmarks import by_name, single_files
from albert_tf.tasks.classification.datasets import ClassificationDataset, Columns


def _lines(objects: Iterable[dict[str, Any]]) -> str:
    return "".join(f"{json.dumps(each)}\n" for each in objects)


def labels_by_id(ids: Sequence[str], labels: Sequence[str]) -> str:
    """Return the JSON lines that the server of SuperGLUE accepts."""
    pairs = zip(ids, labels, strict=True)
    return _lines({"idx": int(id), "label": label} for id, label in pairs)


def multirc_lines(ids: Sequence[str], labels: Sequence[str]) -> str:
    """Return the JSON lines that the server accepts for MultiRC, one for each passage."""
    passages: dict[int, dict[int, list]] = {}
    for id, label in zip(ids, labels, strict=True):
        passage, question, answer = map(int, id.split("-"))
        answers = passages.setdefault(passage, {}).setdefault(question, [])
        answers.append({"idx": answer, "label": int(label)})
    return _lines(
        {"idx": number, "passage": {"questions": [{"idx": n, "answers": a} for n, a in of.items()]}}
        for number, of in passages.items()
    )


def _inside(row: Row, column: str) -> Iterator[Row]:
    """Yield the objects of a list in a row."""
    objects = converted(row.value(column), f"{row.location}: {column}", list[dict[str, Any]])
    return (Row(row.location, each) for each in objects)


def _multirc_rows(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
    """Yield a row for each answer, which follows its question."""
    for row in read_rows(path, header):
        passage = Row(row.location, converted(row.value("passage"), row.location, dict[str, Any]))
        for question in _inside(passage, "questions"):
            for answer in _inside(question, "answers"):
                levels = (row, question, answer)
                values = {
                    "idx": "-".join(str(level.value("idx")) for level in levels),
                    "answer": f"{question.text('question')} {answer.text('text')}",
                    "text": passage.text("text"),
                }
                label = {"label": str(answer.value("label"))} if "label" in answer.values else {}
                yield Row(row.location, values | label)


def _wic_rows(path: str, header: tuple[str, ...] | None) -> Iterator[Row]:
    """Put the word whose two uses are compared before the first text."""
    for row in read_rows(path, header):
        row.values["sentence1"] = f"{row.text('word')}: {row.text('sentence1')}"
        yield row


def _superglue(name: str, text: str, pair: str, **fields: Any) -> ClassificationDataset:
    """Return a task of SuperGLUE, whose texts are in these columns."""
    return single_files(
        name,
        (("train.jsonl",), ("val.jsonl",), ("test.jsonl",)),
        Columns(text, pair, "label", "idx"),
        submissions={"test.jsonl": f"{name}.jsonl"},
        benchmark="SuperGLUE",
        folders=(name,),
        **{"labels": ("false", "true"), "submitted": labels_by_id, **fields},
    )


_NLI = ("contradiction", "entailment", "neutral")

SUPERGLUE = by_name(
    _superglue("BoolQ", "question", "passage"),
    _superglue("CB", "premise", "hypothesis", labels=_NLI, metrics=("accuracy", "macro_f1")),
    _superglue("WiC", "sentence1", "sentence2", read=_wic_rows),
    _superglue(
        "MultiRC",
        "answer",
        "text",
        read=_multirc_rows,
        labels=("0", "1"),
        metrics=("f1",),  # over all answers
        submitted=multirc_lines,
        grouped=True,
    ),
)


def _xnli_rows(path: str, header: tuple[str, ...] | None, language: str) -> Iterator[Row]:
    """Yield the rows of a language, of which the training set has other columns and labels."""
    found: set[str] = set()
    for row in read_tsv(path, header):
        values = row.values
        if "hypo" in values:
            names = ("sentence1", "sentence2", "gold_label")
            values = dict(zip(names, values.values(), strict=False))
        if values.get("gold_label") == "contradictory":
            values["gold_label"] = "contradiction"
        found.add(values.get("language", language))
        if values.get("language", language) == language:
            yield row._replace(values=values)
    if found and language not in found:
        raise InputError(f"`language`={language}: {path} has only {', '.join(sorted(found))}")


_PAWS_X = Columns("sentence1", "sentence2", "label", "id")

MULTILINGUAL = by_name(
    single_files(
        "XNLI",
        (
            (f"XNLI-MT-1.0/multinli/multinli.train.{LANGUAGE}.tsv",),
            ("XNLI-1.0/xnli.dev.tsv",),
            ("XNLI-1.0/xnli.test.tsv",),
        ),
        Columns("sentence1", "sentence2", "gold_label", "pairID"),
        read=_xnli_rows,  # type: ignore[arg-type] # the language is added
        hub=Columns("premise", "hypothesis", "label"),
        hub_labels=("entailment", "neutral", "contradiction"),
        labels=_NLI,
        benchmark="XTREME",
        folders=("xnli",),
        repository=f"{PREFIX}facebook/xnli",
        languages="ar, bg, de, el, en, es, fr, hi, ru, sw, th, tr, ur, vi, zh",
    ),
    single_files(
        "PAWS-X",
        # The training set is "translated_", except in English.
        ((f"{LANGUAGE}/*train.tsv",), (f"{LANGUAGE}/dev_2k.tsv",), (f"{LANGUAGE}/test_2k.tsv",)),
        _PAWS_X,
        hub=_PAWS_X,
        labels=("0", "1"),
        benchmark="XTREME",
        folders=("x-final",),
        repository=f"{PREFIX}google-research-datasets/paws-x",
        languages="de, en, es, fr, ja, ko, zh",
    ),
    single_files(
        "SIB-200",
        ((f"{LANGUAGE}/train.tsv",), (f"{LANGUAGE}/dev.tsv",), (f"{LANGUAGE}/test.tsv",)),
        Columns("text", None, "category", "index_id"),
        metrics=("accuracy", "macro_f1"),
        labels=(
            *("entertainment", "geography", "health", "politics", "science/technology"),
            *("sports", "travel"),
        ),
        benchmark="SIB-200",
        folders=("data/annotated", "data"),
        repository=f"{PREFIX}Davlan/sib200",
        languages="deu_Latn",
    ),
)
