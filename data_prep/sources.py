"""The sources of a corpus (formats, files, weights), and the fingerprint that identifies a run."""

import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.corpora import CORPUS_FORMATS
from data_prep.corpora.base import expand_folders
from data_prep.extraction_options import ExtractionOptions
from data_prep.work_folder import fingerprint_of, tool_versions

# Incremented whenever the same options and input give another corpus, or the files of unfinished
# work change.
_VERSION = 7
# Packages that decide what is text and where a sentence ends.
TOOLS = ("albert-tf", "sentencex", "langcodes", "mwparserfromhell", "pyarrow", "rensa", "py3langid")


class Source(NamedTuple):
    """A part of the corpus.

    Attributes:
        format: name of the format, see `corpora.CORPUS_FORMATS`.
        patterns: its files, globs or folders.
        weight: how often its documents are written, on average.
    """

    format: str
    patterns: tuple[str, ...]
    weight: float = 1.0


def parse_sources(options: ExtractionOptions) -> tuple[Source, ...]:
    """Return the sources that the options name, with `format` and `input_file` or with `source`.

    Raises:
        InputError: If neither or both ways are used, a format does not exist, or files are missing.
    """
    if bool(options.format) == bool(options.source):
        raise InputError(
            "`format`: name one format with `input_file`, or several with "
            "`source`=FORMAT:FILES@WEIGHT,...; "
            + ("both are given" if options.source else "neither is given")
        )
    if options.source and options.input_file:
        raise InputError("`input_file`: requires `format`; `source` names its files itself")
    sources = (
        (Source(options.format, options.input_file),)
        if options.format
        else tuple(map(_parse_source, options.source))
    )
    names_format, names_files = ("format", "input_file") if options.format else ("source", "source")
    for source in sources:
        if source.format not in CORPUS_FORMATS:
            raise InputError(
                f"`{names_format}`={source.format}: must be one of {', '.join(CORPUS_FORMATS)}"
            )
        if not source.patterns:
            raise InputError(f"`{names_files}`: {source.format} needs files, globs or folders")
    return sources


def _parse_source(text: str) -> Source:
    """Parse `table:gs://bucket/x.parquet@0.5`."""
    format, _, pattern = text.strip().partition(":")
    weight = 1.0
    before, separator, after = pattern.rpartition("@")
    if separator:
        try:
            weight = float(after)
        except ValueError:
            before = ""  # the file name contains an @
    if separator and before:
        pattern = before
    if not 0 < weight < 1000:
        raise InputError(
            f"`source`={text}: the weight must be between 0 and 1000 (exclusive); 0.5 keeps half "
            "of the documents, 2 writes each twice"
        )
    return Source(format, (files.normalized(pattern),) if pattern else (), weight)


def find_inputs(sources: Sequence[Source], argument: str) -> dict[str, list[int]]:
    """Find the input files and their identities (see `files.file_identity`), by path.

    Args:
        sources: the sources.
        argument: the argument that named them, for the error.

    Raises:
        InputError: If a pattern matches nothing.
    """
    found: dict[str, list[int]] = {}
    for source in sources:
        for path in files.expand_globs(source.patterns, argument):
            is_folder = not files.is_remote(path) and os.path.isdir(path)
            for file in files.files_below(path) if is_folder else [path]:
                found[file] = files.file_identity(file)
    return found


def with_files(
    sources: Iterable[Source], argument: str, outputs: Iterable[str] = ()
) -> tuple[Source, ...]:
    """Return the sources with the files that their globs and folders stand for.

    Args:
        sources: the sources.
        argument: the argument that named them, for errors.
        outputs: what the run writes, which only a name of its own makes an input.

    Raises:
        InputError: If a pattern matches nothing.
    """
    written = set(map(os.path.realpath, outputs))
    found = []
    for source in sources:
        patterns, ending = source.patterns, CORPUS_FORMATS[source.format].ending
        paths = expand_folders(patterns, ending, argument) if patterns else []
        kept = [p for p in paths if p in patterns or os.path.realpath(p) not in written]
        found.append(source._replace(patterns=tuple(kept or paths)))
    return tuple(found)


def distinct_names(paths: Iterable[str]) -> dict[str, str]:
    """Return names of the files of which others have the base name: paths below their folder."""
    alike: dict[str, list[str]] = {}
    for path in paths:
        alike.setdefault(os.path.basename(path), []).append(path)
    names = {}
    for group in alike.values():
        start = os.path.commonprefix(group).rfind("/") + 1
        names.update({path: path[start:] for path in group if len(group) > 1})
    return names


def fingerprint(
    options: ExtractionOptions, inputs: dict[str, list[int]], templates: str = ""
) -> str:
    """Return a hash of everything that affects the corpus.

    Args:
        options: the options of the run.
        inputs: the input files, as `find_inputs` returns them.
        templates: content of the file `options.templates`.
    """
    return fingerprint_of(
        dataclasses.asdict(options),
        version=_VERSION,
        inputs=inputs,
        templates=templates,
        tools=tool_versions(TOOLS),
    )
