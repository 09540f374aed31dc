"""The passages of SQuAD and RACE, on which the ALBERT paper monitors pretraining.

Section 4.2.1 of the paper measures masked-word and sentence-order accuracy on the development sets
of both. In their published form, SQuAD (1.1 or 2.0) is a JSON file of articles, and RACE a folder
with one JSON file per passage, such as `RACE/dev/high/75.txt`.
"""

import dataclasses
import io
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.files import converted, parse_json
from data_prep.corpora.base import Counts, Document, ReaderOptions, find_files
from data_prep.corpora.table import one_line, paragraphs

ENDINGS = (".txt", ".json")


def units(patterns: Sequence[str], options: ReaderOptions) -> Iterator[tuple[str, ...]]:
    """Yield all files as one unit, because a passage that two files contain is one document."""
    found = find_files(patterns, ENDINGS, ".txt or .json file")
    yield tuple(options.readable(found, lambda path: list(_passages(path))))


def documents(unit: tuple[str, ...], options: ReaderOptions, counts: Counts) -> Iterator[Document]:
    """Yield each distinct passage as one document, whose lines are the paragraphs."""
    seen: set[tuple[str, ...]] = set()
    names: Counter[str] = Counter()
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
                names[name] += 1  # articles may have no title, or the same
                key = f"{name}#{names[name]}" if names[name] > 1 else ""
                yield Document(one_line(name), one_line(source), found, key)


def _passages(path: str) -> Iterator[tuple[str, str, list[str]]]:
    """Yield name, source and paragraphs of the passages of one file."""
    try:
        for content in _json_objects(path):
            # Recognized by content: the endings of published files vary.
            if "data" in content:
                yield from _squad(converted(content, path, _SquadFile))
            else:
                yield _race(path, converted(content, path, _RacePassage))
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(
            f"{path}: neither SQuAD ('data', 'paragraphs', 'context') nor RACE ('article'), or "
            f"damaged ({reason})"
        ) from None


def _json_objects(path: str) -> list[dict[str, Any]]:
    """Return the JSON objects of a file, which contains a single one or one per line."""
    text = files.read_text(path).removeprefix("\ufeff")
    try:
        return [parse_json(text, path, dict[str, Any], allows_halves=True)]
    except InputError:
        lines = [line for line in io.StringIO(text, newline=None) if line.strip()]
        if len(lines) < 2:
            raise
        return [parse_json(line, path, dict[str, Any], allows_halves=True) for line in lines]


@dataclasses.dataclass(frozen=True)
class _Paragraph:
    context: str


@dataclasses.dataclass(frozen=True)
class _Article:
    paragraphs: list[_Paragraph]
    title: str | None = None


@dataclasses.dataclass(frozen=True)
class _SquadFile:
    data: list[_Article]


@dataclasses.dataclass(frozen=True)
class _RacePassage:
    article: str
    id: str | int | None = None


def _squad(content: _SquadFile) -> Iterator[tuple[str, str, list[str]]]:
    for article in content.data:
        title = article.title or "squad"
        for number, paragraph in enumerate(article.paragraphs, start=1):
            yield f"{title}:{number}", title, paragraphs(paragraph.context)


def _race(path: str, content: _RacePassage) -> tuple[str, str, list[str]]:
    level = os.path.basename(os.path.dirname(path)) or "race"  # "high" or "middle" school
    name = content.id or f"{level}:{os.path.basename(path)}"
    return str(name), level, paragraphs(content.article)
