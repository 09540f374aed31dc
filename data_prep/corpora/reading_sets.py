"""The passages of SQuAD and RACE, on which the ALBERT paper monitors pretraining.

Section 4.2.1 of the paper measures masked-word and sentence-order accuracy on the development sets
of both. In their published form, SQuAD (1.1 or 2.0) is a JSON file of articles, and RACE a folder
with one JSON file per passage, such as `RACE/dev/high/75.txt`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora.base import Counts, Document, ReaderOptions
from data_prep.corpora.table import one_line, paragraphs

_ENDINGS = (".txt", ".json")


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[tuple[str, ...]]:
    """Yields all files as one unit, because a passage that two files contain is one document.

    Args:
        patterns: files, globs, or folders, in which all `.txt` and `.json` files are read.
        options: unused.

    Raises:
        InputError: if a pattern matches nothing, or a folder contains no such file.
    """
    paths: set[str] = set()
    for pattern in patterns:
        for path in files.expand_globs([pattern], "input_file"):
            found = _files_below(path) if os.path.isdir(path) else [path]
            if not found:
                raise InputError(f"`input_file`={path}: the folder contains no .txt or .json file")
            paths.update(found)
    yield tuple(sorted(paths))


def documents(unit: tuple[str, ...], options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yields each distinct passage as one document, whose lines are the paragraphs.

    Args:
        unit: the files.
        options: unused.
        counts: updated with what is read; characters of repeated passages are counted as such.

    Raises:
        InputError: if a file is neither SQuAD nor RACE.
    """
    seen: set[tuple[str, ...]] = set()
    for path in unit:
        counts.input_bytes += files.size(path)
        for name, source, found in _passages(path):
            characters = sum(map(len, found))
            counts.characters += characters
            if not found:
                counts.left_out["passages without text"] += 1
            elif tuple(found) in seen:
                counts.repeated_characters += characters
            else:
                seen.add(tuple(found))
                yield Document(one_line(name), one_line(source), found)


def _files_below(folder: str) -> list[str]:
    """The files below a folder, without hidden ones (which archives created on a Mac contain)."""
    return [
        os.path.join(parent, name)
        for parent, _, names in os.walk(folder)
        for name in names
        if name.endswith(_ENDINGS) and not name.startswith(".")
    ]


def _passages(path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yields name, source and paragraphs of the passages of one file.

    Raises:
        InputError: if it is neither SQuAD nor RACE.
    """
    try:
        for content in _json_values(files.read_text(path).removeprefix("\ufeff")):
            # Recognized by content: the endings of published files vary.
            if "data" in content:
                yield from _squad(content)
            else:
                yield _race(path, content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise InputError(
            f"{path}: neither SQuAD ('data', 'paragraphs', 'context') nor RACE ('article'), or "
            "damaged"
        ) from None


def _json_values(text: str) -> list[Any]:
    """The JSON values of a file, which contains a single one or one per line."""
    try:
        return [json.loads(text)]
    except json.JSONDecodeError:
        if not text.strip():
            raise
        return [json.loads(line) for line in text.splitlines() if line.strip()]


def _squad(content: dict[str, Any]) -> Iterator[tuple[str, str, list[str]]]:
    for article in content["data"]:
        title = article.get("title") or "squad"
        for number, paragraph in enumerate(article["paragraphs"], start=1):
            yield f"{title}:{number}", title, paragraphs(paragraph["context"])


def _race(path: str, content: dict[str, Any]) -> tuple[str, str, list[str]]:
    level = os.path.basename(os.path.dirname(path)) or "race"  # "high" or "middle" school
    name = content.get("id") or f"{level}:{os.path.basename(path)}"
    return name, level, paragraphs(content["article"])
