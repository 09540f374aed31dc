"""Reads words and tags in columns: the files of CoNLL's shared tasks, and CoNLL-U.

A line has a word and its tag among other columns, and a blank line ends a sentence. Columns are
separated by tabs or, in lines without one, by other white space of ASCII: words may contain spaces,
such as U+00A0 in the numbers of French.

CoNLL-U numbers its words in the first column. Its other lines are no words and are left out: ranges
(`1-2`, how several words are written) and empty nodes (`5.1`, words that a sentence leaves out).
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import read_lines, shown

_SPACES = " \t\n\v\f\r"
_NUMBER, _NO_WORD = re.compile("[0-9]+"), re.compile(r"[0-9]+[-.][0-9]+")
_CONLLU_COLUMNS = 10
_COMMENT = re.compile(r"# *(newdoc|newpar|sent_id|begin|end)\b|# *[\w.]+ *=")
_BYTE_ORDER_MARK = re.compile(r"^\ufeff(?!\s+\S)")  # which is a word where it has a tag


class Sentence(NamedTuple):
    """The words of a sentence, their tags, if the file has any, and its first line, from 1."""

    line: int
    words: list[str]
    tags: list[str] | None


class _WordLine(NamedTuple):
    """A line: its word, its tag, and its first column."""

    word: str
    tag: str | None
    id: str


def read_columns(
    path: str, word_column: int = 1, tag_column: int = -1, labeled: bool = True
) -> Iterator[Sentence]:
    """Yield the sentences of a file.

    Columns are numbered from 1, or negatively from the last. `labeled`: whether tags are required.

    Raises:
        InputError: If a line has more or fewer columns than the others, or lacks a column.
    """
    lines = [_BYTE_ORDER_MARK.sub("", line) for line in read_lines(path)]
    words = [n for n, line in enumerate(lines) if not line.startswith("#") and _is_word(line)]
    counted = next(iter(words), 0)  # the line that decides how many columns there are
    tags = {_columns_of(lines[number])[-1] for number in words}
    count = len(_columns_of(lines[counted])) if lines else 0
    has_tabs = bool(lines) and "\t" in lines[counted]
    sentence: list[_WordLine] = []
    first = 1
    for line_number, line in enumerate([*lines, ""], start=1):
        columns = _columns_of(line)
        if not _is_word(line):
            if sentence:
                yield _sentence(f"{path}:{first}", first, sentence, count, word_column)
            sentence = []
            continue
        if line.startswith("#"):  # a comment, as of CoNLL-U, or a word
            if has_tabs and "\t" not in line:
                continue
            if not sentence and (len(columns) != count or _is_comment(line, columns[-1], tags)):
                continue
        if len(columns) != count:
            raise InputError(
                f"{path}:{line_number}: {len(columns)} columns in {shown(line.strip())}, but line "
                f"{counted + 1} has {count}; each line must have a word and its tag, and a blank "
                "line must separate sentences"
            )
        word = _column(path, line_number, columns, "word_column", word_column)
        tag = None
        if count > 1:
            tag = _column(path, line_number, columns, "tag_column", tag_column).strip()
        elif labeled:
            raise InputError(f"{path}:{line_number}: no tag after {shown(word)}")
        if not sentence:
            first = line_number
        sentence.append(_WordLine(word, tag, columns[0]))


def _columns_of(line: str) -> list[str]:
    if "\t" in line:
        return re.split(r"\t+", line.strip("\t\r\n"))
    return re.split(f"[{_SPACES}]+", line.strip(_SPACES))


def _is_word(line: str) -> bool:
    """Return whether a line has a word, so neither separates sentences nor documents."""
    return bool(line.strip()) and not line.startswith("-DOCSTART-")


def _is_comment(line: str, tag: str, tags: set[str]) -> bool:
    """Return whether a line is a comment though it has a column where others have their tags."""
    unlike = line.startswith("# ") and tag != tag.upper() and all(t == t.upper() for t in tags)
    return tag not in tags and (unlike or bool(_COMMENT.match(line)))


def _column(path: str, line: int, columns: list[str], argument: str, number: int) -> str:
    index = number - 1 if number > 0 else number
    if number == 0 or not -len(columns) <= index < len(columns):
        raise InputError(f"`{argument}`={number}: {path}:{line} has {len(columns)} columns")
    return columns[index]


def _sentence(
    location: str, first: int, lines: list[_WordLine], count: int, word_column: int
) -> Sentence:
    if _are_numbered(lines):
        if word_column not in (1, -count):
            lines = [line for line in lines if _NUMBER.fullmatch(line.id)]
        elif count == _CONLLU_COLUMNS:
            raise InputError(
                f"`word_column`={word_column}: in {location}, as in CoNLL-U, this column numbers "
                "the words; the words are in `word_column`=2, and their UPOS in `tag_column`=4"
            )
    tags = [line.tag for line in lines if line.tag is not None]
    return Sentence(first, [line.word for line in lines], tags if len(tags) == len(lines) else None)


def _are_numbered(lines: list[_WordLine]) -> bool:
    """Return whether the first column numbers the words of a sentence, as in CoNLL-U."""
    ids = [line.id for line in lines if not _NO_WORD.fullmatch(line.id)]
    return bool(ids) and ids == [str(number) for number in range(1, len(ids) + 1)]
