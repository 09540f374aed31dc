"""What a reader of a corpus format consists of, and what it yields."""

import dataclasses
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.text_units import SIDE_ENDINGS, readable

# The counts are written to the journal after each unit.
MAX_TEMPLATE_NAMES = 500
OTHER_TEMPLATES = "(other names)"


class _Document(NamedTuple):
    name: str
    source: str
    paragraphs: list[str]
    key: str = ""


class Document(_Document):
    """A text whose sentences follow one another, so that their order is meaningful.

    Its texts are valid, whatever they were read from: two halves of a surrogate pair, which escapes
    of JSON, Python and HTML can express, become a character, and a single one U+FFFD.

    Attributes:
        name: name of the text, wherever the corpus is stored.
        source: its origin, such as a package or a book: a label for classification.
        paragraphs: its text; the format defines whether a paragraph is a single sentence.
        key: decides whether it is held out or sampled; the name, if "". No other document of the
            corpus has the same, wherever it is stored.
    """

    __slots__ = ()

    def __new__(cls, name: str, source: str, paragraphs: list[str], key: str = "") -> "Document":
        valid = list(map(valid_text, paragraphs))
        return super().__new__(cls, valid_text(name), valid_text(source), valid, valid_text(key))


def valid_text(text: str) -> str:
    """Return a text with pairs of surrogates joined, and U+FFFD instead of single ones."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


@dataclasses.dataclass
class Counts:
    """What a reader has read and left out, for the summary; counts of units can be added up.

    Attributes:
        input_bytes: bytes read from the input files, before decompression.
        characters: characters of text found, including repeated ones.
        repeated_characters: characters left out because the same paragraph occurred before.
        skipped: files, pages or rows that could not be parsed.
        left_out: what was left out deliberately, by reason: `{"redirects": 12}`.
        unknown_templates: how often text was removed together with a template that no table has,
            by name. Names beyond the first `MAX_TEMPLATE_NAMES` are counted together.
        warnings: damage that the user should know of, one line each.
    """

    input_bytes: int = 0
    characters: int = 0
    repeated_characters: int = 0
    skipped: int = 0
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    unknown_templates: Counter[str] = dataclasses.field(default_factory=Counter)
    warnings: list[str] = dataclasses.field(default_factory=list)

    def __iadd__(self, other: "Counts") -> "Counts":
        self.input_bytes += other.input_bytes
        self.characters += other.characters
        self.repeated_characters += other.repeated_characters
        self.skipped += other.skipped
        self.left_out.update(other.left_out)
        for name, count in other.unknown_templates.items():
            self.add_unknown_template(name, count)
        for line in other.warnings:
            self.warn(line)
        return self

    def as_dict(self) -> dict[str, Any]:
        return vars(self) | {
            "left_out": dict(self.left_out),
            "unknown_templates": dict(
                sorted(self.unknown_templates.items(), key=lambda item: (-item[1], item[0]))
            ),
        }

    def add_unknown_template(self, name: str, count: int = 1) -> None:
        """Count a template that no table has; the frequent ones are among the first names."""
        counted = self.unknown_templates
        names = len(counted) - (OTHER_TEMPLATES in counted)
        if name not in counted and names >= MAX_TEMPLATE_NAMES:
            name = OTHER_TEMPLATES
        counted[name] += count

    def warn(self, line: str) -> None:
        """Add a warning, once; several units may come across the same damage."""
        if line not in self.warnings:
            self.warnings.append(line)


@dataclasses.dataclass(frozen=True)
class ReaderOptions:
    """The fields of `ExtractionOptions` that readers use, under the same names.

    Attributes:
        bad_files: those that have been skipped so far, in this process.
        file_names: names of files of which another one has the base name.
    """

    language: str = "en"
    keep_headings: bool = False
    keep_lists: bool = False
    text_column: str = "text"
    title_column: str | None = None
    document_sentences: int = 0
    templates: str = ""
    skip_bad_files: bool = False
    sample_documents: int = 0
    bad_files: list[str] = dataclasses.field(default_factory=list)
    file_names: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def file_name(self, path: str) -> str:
        """Return a name of a file that no other input file has, wherever they are stored."""
        return self.file_names.get(path, os.path.basename(path))

    def readable(self, paths: Iterable[str], check: Callable[[str], object]) -> list[str]:
        """Return the files that can be read, see `text_units.readable`.

        For a sample, they are not read to know that, so that most are never read.
        """
        if self.sample_documents and not self.skip_bad_files:
            return list(paths)
        return readable(paths, check, self.skip_bad_files, self.bad_files)


class CorpusFormat(NamedTuple):
    """A corpus format: a row of the table `corpora.CORPUS_FORMATS`.

    A corpus is read in units, so that several processes can share the work. A unit is any small
    value that can be pickled, and so must the two functions be (functions of a module are).

    Attributes:
        units: `units(patterns, options)` quickly finds the units of some files or globs, in an
            order that depends on the files only. Raises `InputError` about `input_file`, before
            the first unit where possible: of a pattern that matches nothing, a folder without
            such files, or a file of another kind.
        documents: `documents(unit, options, counts)` yields the documents of a unit and adds what
            it reads, and leaves out, to `counts`. Raises `InputError`, too, of a file that is not
            UTF-8, for example.
        has_sentences: whether every paragraph already is a sentence.
        ending: ending or endings of the files that are read when a folder is named; "" if `units`
            takes folders itself.
    """

    units: Callable[[Sequence[str], ReaderOptions], Iterator[Any]]
    documents: Callable[[Any, ReaderOptions, Counts], Iterator[Document]]
    has_sentences: bool = False
    ending: str | tuple[str, ...] = ""


def names_in(table: str) -> frozenset[str]:
    """Return the names in a table of rows such as `see also|references`."""
    return frozenset(filter(None, table.replace("\n", "|").split("|")))


def expand_folders(
    patterns: Sequence[str], ending: str | tuple[str, ...], argument: str
) -> list[str]:
    """Return the files that match some globs, and those at any depth in folders, sorted.

    Args:
        patterns: files, globs or folders.
        ending: ending or endings of the files to read in folders. Folders without such a file are
            returned themselves, as all are if it is "".

    Raises:
        InputError: If a pattern matches nothing.
    """
    found: set[str] = set()
    for path in files.expand_globs(patterns, argument, SIDE_ENDINGS):
        # Asking a server takes a while, and a name tells nearly always.
        is_file = (files.is_remote(path) and path.endswith(ending)) or not files.is_folder(path)
        below = [] if is_file or not ending else files.files_below(path, ending)
        found.update([file for file in below if not file.endswith(SIDE_ENDINGS)] or [path])
    return sorted(found)


def find_files(
    patterns: Sequence[str], ending: str | tuple[str, ...] = "", what: str = ""
) -> list[str]:
    """Return the files that match some globs, or are in folders.

    Args:
        patterns, ending: as of `expand_folders`.
        what: what the files in folders are called, if not by their ending.

    Raises:
        InputError: If a pattern matches nothing, or a folder without such files.
    """
    found = expand_folders(patterns, ending, "input_file")
    for path in filter(os.path.isdir, found):
        if not ending:
            raise InputError(f"`input_file`={path}: is a folder; name the files in it")
        if not what:
            raise InputError(f"`input_file`: no file matches '{path}/**/*{ending}'")
        raise InputError(f"`input_file`={path}: the folder contains no {what}")
    return found
