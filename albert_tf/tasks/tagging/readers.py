"""Reads and writes tagged texts: CoNLL columns, JSON lines and Parquet files."""

import dataclasses
import itertools
import json
import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.logs import counted
from albert_tf.tasks.tagging.columns import read_columns
from albert_tf.tasks.tagging.tags import (
    OUTSIDE,
    PLAIN_TAGS,
    SCHEMES,
    Entity,
    chunks,
    iob2,
    kind_of,
    split_tag,
)
from albert_tf.tasks.tagging.windows import TEXT, WORDS

logger = logging.getLogger(__name__)


class TaggedText(NamedTuple):
    """A text to tag.

    Attributes:
        location: "file:line", for errors.
        id: identifies its predictions.
        text: as given, or the given words joined by single spaces.
        words: characters of each word in `text`; None for a raw text, which is not split yet.
        tags: of the words, as in the file; None for a raw text, and if they are unknown.
        entities: in a raw text; None if they are unknown, or if there are tags.
    """

    location: str
    id: str | int
    text: str
    words: tuple[tuple[int, int], ...] | None = None
    tags: tuple[str, ...] | None = None
    entities: tuple[Entity, ...] | None = None

    @property
    def unit(self) -> str:
        return TEXT if self.words is None else WORDS


class TaggedExample(NamedTuple):
    """A text with its words.

    Attributes:
        source: as read.
        words: characters of each word in the text.
        tags: IOB2 tags of the words, whatever the scheme of the file; or their plain tags. None if
            they are unknown.
        entities: in the text; None if they are unknown, or tags are plain.
    """

    source: TaggedText
    words: Sequence[tuple[int, int]]
    tags: list[str] | None
    entities: list[Entity] | None

    @property
    def shown_words(self) -> list[str]:
        """The words themselves."""
        return [self.source.text[start:end] for start, end in self.words]


class ReadOptions(NamedTuple):
    """How files are read.

    Attributes:
        word_column: number of the column with the words, from 1; negative from the last.
        tag_column: the same for the tags.
        tag_names: the tags that numbers stand for, in their order.
        labeled: whether tags or entities are required.
        prefix: removed from words in columns: their language, in WikiANN.
    """

    word_column: int = 1
    tag_column: int = -1
    tag_names: tuple[str, ...] = ()
    labeled: bool = True
    prefix: str = ""


def read_tagged(path: str, options: ReadOptions) -> list[TaggedText]:
    """Read a file; its ending selects the format: .json and .jsonl, .parquet, else columns.

    Raises:
        InputError: If the file is missing or invalid, or contains no text.
    """
    if not files.exists(path):
        raise InputError(f"{path}: no such file")
    read = next((READERS[end] for end in READERS if path.endswith(end)), _read_columns)
    texts = list(read(path, options))
    if not texts:
        raise InputError(f"{path}: contains no text")
    units = {each.unit for each in texts}
    if len(units) > 1 and options.labeled:
        raise InputError(
            f"{path}: some lines have 'text', others 'tokens'; must be the same in all"
        )
    return texts


def from_words(
    location: str, id: str | int, words: Sequence[str], tags: Sequence[str] | None = None
) -> TaggedText:
    """Return a text of given words."""
    ends = list(itertools.accumulate(len(word) + 1 for word in words))
    spans = tuple((end - 1 - len(word), end - 1) for word, end in zip(words, ends, strict=True))
    tags = None if tags is None else tuple(tags)
    return TaggedText(location, id, " ".join(words), spans, tags)


def _read_columns(path: str, options: ReadOptions) -> Iterator[TaggedText]:
    sentences = read_columns(path, options.word_column, options.tag_column, options.labeled)
    for number, sentence in enumerate(sentences):
        words = [word.removeprefix(options.prefix) for word in sentence.words]
        yield from_words(f"{path}:{sentence.line}", number, words, sentence.tags)


@dataclasses.dataclass(frozen=True)
class Span:
    """An entity as files contain it: characters of a text, and a label."""

    start: int
    end: int
    label: str


@dataclasses.dataclass(frozen=True)
class TaggedRow:
    """What JSON lines and Parquet files may contain; other fields are ignored."""

    id: Any = None
    text: str | None = None
    tokens: list[str] | None = None
    ner_tags: list[str | int] | None = None
    tags: list[str | int] | None = None
    entities: list[Span] | None = None
    spans: list[Span | str] | None = None  # texts in WikiANN, next to tokens
    label: Any = None


def _read_json(path: str, options: ReadOptions) -> Iterator[TaggedText]:
    for number, (location, line) in enumerate(files.located_lines(path)):
        yield tagged_text(location, number, files.parse_json(line, location, TaggedRow), options)


def _read_parquet(path: str, options: ReadOptions) -> Iterator[TaggedText]:
    if not options.tag_names:
        options = options._replace(tag_names=_names_in_parquet(path))
    for number, (location, values) in enumerate(files.parquet_rows(path)):
        yield tagged_text(location, number, files.converted(values, location, TaggedRow), options)


READERS: dict[str, Callable[[str, ReadOptions], Iterator[TaggedText]]] = {
    ".json": _read_json,
    ".jsonl": _read_json,
    ".parquet": _read_parquet,
}


def _names_in_parquet(path: str) -> tuple[str, ...]:
    """Return the names of tags, which the datasets library stores with the schema, if any."""
    with files.open_parquet(path) as table:
        text = (table.schema_arrow.metadata or {}).get(b"huggingface", b"{}").decode()

    def inside(value: Any, *names: str) -> Any:
        for name in names:
            value = value.get(name) if isinstance(value, dict) else None
        return value

    stored = files.parse_json(text, f"{path}: metadata", dict[str, Any])
    features = inside(stored, "info", "features")
    tags = inside(features, "ner_tags") or inside(features, "tags")
    # Of a list, the names are those of its items.
    return tuple(inside(tags, "names") or inside(tags, "feature", "names") or ())


def tagged_text(location: str, number: int, row: TaggedRow, options: ReadOptions) -> TaggedText:
    """Return the text of a row, whose id is by default its number.

    Raises:
        InputError: If the row lacks something, or its parts contradict each other.
    """
    id = row.id if isinstance(row.id, (str, int)) else number
    if row.tokens is not None:
        tags = row.ner_tags if row.ner_tags is not None else row.tags
        if tags is None and options.labeled:
            raise InputError(f"{location}: lacks 'ner_tags' (or 'tags'), a tag for each token")
        if tags is not None and len(tags) != len(row.tokens):
            raise InputError(
                f"{location}: {counted(len(row.tokens), 'token')}, but {counted(len(tags), 'tag')}"
            )
        tag_names = options.tag_names
        names = None if tags is None else [_tag_name(location, tag, tag_names) for tag in tags]
        return from_words(location, id, row.tokens, names)
    if row.text is None:
        raise InputError(f"{location}: must have 'tokens' or 'text'")
    spans: Any = row.entities if row.entities is not None else row.spans
    if spans and isinstance(spans[0], str):
        spans = None
    if spans is None and isinstance(row.label, dict):
        spans = _cluener_spans(location, row.label)
    if spans is None and options.labeled:
        raise InputError(
            f"{location}: lacks 'entities' (or 'spans'), a list of {{start, end, label}}"
        )
    found = None if spans is None else tuple(entity_of(location, row.text, s) for s in spans)
    return TaggedText(location, id, row.text, entities=found)


def _tag_name(location: str, tag: str | int, names: tuple[str, ...]) -> str:
    if isinstance(tag, str):
        return tag
    if not 0 <= tag < len(names):
        valid = f"0 to {len(names) - 1}, the numbers of `tag_names`" if names else "texts"
        hint = "" if names else "; name what the numbers stand for with `tag_names`"
        raise InputError(f"{location}: tag {tag}: tags must be {valid}{hint}")
    return names[tag]


def entity_of(location: str, text: str, span: Span) -> Entity:
    """Return an entity of a text, without white space at its edges.

    Raises:
        InputError: If the span is not in the text, or is white space, or has no label.
    """
    start, end, problem = span.start, span.end, None
    if not 0 <= start < end <= len(text):
        problem = f"must be characters of the text, 0 to {len(text)}, the end not included"
    elif not text[start:end].strip():
        problem = "is white space"
    elif not span.label.strip():
        problem = "must have a label"
    if problem:
        where = f"entity {files.shown(span.label)} from {start} to {end}"
        raise InputError(f"{location}: {where}: {problem}")
    start += len(text[start:end]) - len(text[start:end].lstrip())
    covered = text[start:end].rstrip()
    return Entity(span.label, start, start + len(covered), covered)


def _cluener_spans(location: str, label: dict[str, Any]) -> list[Span]:
    """Return spans of CLUENER, type -> text -> positions, whose ends are the last characters."""
    kind = dict[str, dict[str, list[tuple[int, int]]]]
    by_type = files.converted(label, f"{location}: label", kind)
    spans = [
        Span(start, end + 1, type_)
        for type_, by_text in by_type.items()
        for places in by_text.values()
        for start, end in places
    ]
    return sorted(spans, key=lambda span: (span.start, span.end, span.label))


def as_example(
    text: TaggedText, words: Sequence[tuple[int, int]], finds_entities: bool
) -> TaggedExample:
    """Return the tags of some words of a text, and its entities, if it is these that tags mean."""
    if not finds_entities:
        return TaggedExample(text, words, None if text.tags is None else [*text.tags], None)
    if text.tags is not None and all(map(split_tag, text.tags)):
        found = chunks(text.tags)
        spans = [(label, words[i][0], words[j - 1][1]) for label, i, j in found]
        entities = [Entity(label, i, j, text.text[i:j]) for label, i, j in spans]
        return TaggedExample(text, words, iob2(found, len(words)), entities)
    if text.entities is None:
        return TaggedExample(text, words, None, None)
    entities = sorted(text.entities, key=lambda each: (each.start, -each.end))
    found = [(each.label, *_words_of(each, words)) for each in entities]
    return TaggedExample(text, words, iob2(found, len(words)), entities)


def kind_of_tags(texts: Sequence[TaggedText], scheme: str = "auto") -> Literal["entities", "plain"]:
    """Return whether the tags of a file are those of entities, by `--tag_scheme`, and log why.

    Raises:
        InputError: If some are, and others are not, or are not of the scheme.
    """
    places = {tag: text for text in texts for tag in text.tags or ()}
    kind, reason = kind_of(places, scheme)
    prefixes = SCHEMES.get(scheme, "")
    if scheme == "auto" and any(split_tag(tag) and "-" in tag for tag in places):
        prefixes = "BIESMLUW"
    for tag in places if prefixes else ():
        if tag != OUTSIDE and not (split_tag(tag) and tag[0] in prefixes and tag[1:] != "-"):
            valid = ", ".join(f"{prefix}-" for prefix in "BIESMLUW" if prefix in prefixes)
            raise InputError(
                f"{places[tag].location}: tag {files.shown(tag)}: must be O, or {valid} with a "
                "type, as other tags in the file; `tag_scheme`=plain takes any tags"
            )
    if places:
        logger.info("tags: %s, because %s", kind, reason)
    return kind


def labels_of(texts: Sequence[TaggedText], kind: str) -> list[str]:
    """Return the tags to learn, in the order of their ids."""
    if kind == PLAIN_TAGS:
        return sorted({tag for text in texts for tag in text.tags or ()})
    types = {label for text in texts for label, _, _ in chunks(text.tags or ())}
    types |= {entity.label for text in texts for entity in text.entities or ()}
    if not types:
        raise InputError(f"{texts[0].location}: neither this nor any other text has an entity")
    return [OUTSIDE, *(f"{prefix}-{type_}" for type_ in sorted(types) for prefix in "BI")]


def _words_of(entity: Entity, words: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """Return the first word that an entity overlaps, and the one after the last."""
    inside = [
        number
        for number, (start, end) in enumerate(words)
        if start < entity.end and end > entity.start
    ]
    return inside[0], inside[-1] + 1


def conll_lines(words: Sequence[str], *tags: Sequence[str]) -> str:
    """Return a line for each word: the word, and one tag of each sequence, separated by spaces."""
    shown_words = ("_".join(word.split()) or "_" for word in words)
    return "".join(f"{' '.join(row)}\n" for row in zip(shown_words, *tags, strict=True))


def cluener_line(id: str | int, entities: Iterable[Entity]) -> str:
    """Return the JSON object of CLUENER: type -> text -> first and last character of each place."""
    label: dict[str, dict[str, list[tuple[int, int]]]] = {}
    for each in entities:
        places = label.setdefault(each.label, {}).setdefault(each.text, [])
        places.append((each.start, each.end - 1))
    return json.dumps({"id": id, "label": label}, ensure_ascii=False)
