"""What a corpus is made of: formats, files, weights; and whether that is what it was before."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from importlib import metadata
from typing import TYPE_CHECKING, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError

if TYPE_CHECKING:
    from data_prep.extract_corpus import Options

# Raised when the same flags and input come to give another corpus.
_VERSION = 1
# Flags that decide where and how fast, not what is made.
_WITHOUT_EFFECT = {"num_processes", "work_dir"}
# What decides where a sentence ends, and what is text.
_TOOLS = ("albert-tf", "sentencex", "mwparserfromhell", "mwxml", "pyarrow")


class Source(NamedTuple):
    """A part of the corpus.

    Attributes:
        format: a name in the table of formats.
        patterns: its files, globs or folders.
        weight: how often its documents are written, on average.
    """

    format: str
    patterns: tuple[str, ...]
    weight: float = 1.0


def parse_sources(options: Options) -> tuple[Source, ...]:
    """The sources that the flags name, by `--format` or by `--source`.

    Raises:
        InputError: both or none of the flags are there, a format does not exist, or files are
            missing where they are needed or given where they are not.
    """
    from data_prep.corpora import FORMATS

    if bool(options.format) == bool(options.source):
        raise InputError(
            "--format: name one with --input_file, or several with "
            "--source=FORMAT:FILES@WEIGHT,...; "
            + ("both are there" if options.source else "neither is there")
        )
    if options.source and options.input_file:
        raise InputError("--input_file: belongs to --format; --source names its files itself")
    if options.format:
        flag, sources = "input_file", (Source(options.format, options.input_file),)
    else:
        flag, sources = "source", tuple(map(_parse_source, options.source))
    for source in sources:
        if source.format not in FORMATS:
            name = "format" if options.format else "source"
            raise InputError(f"--{name}: {source.format!r} is not one of {', '.join(FORMATS)}")
        needed = FORMATS[source.format].needs_input
        named = f"--format={source.format}" if options.format else source.format
        if needed and not source.patterns:
            raise InputError(f"--{flag}: {named} needs files, globs or folders")
        if not needed and source.patterns:
            raise InputError(f"--{flag}: {named} reads no files of yours")
    return sources


def _parse_source(text: str) -> Source:
    """`table:gs://bucket/x.parquet@0.5` -> the three parts of it."""
    format, _, pattern = text.strip().partition(":")
    weight = 1.0
    before, at, after = (pattern or format).rpartition("@")
    if at:
        try:
            weight = float(after)
        except ValueError:
            before = ""  # the file has an @ in its name
    if at and before:
        format, pattern = (format, before) if pattern else (before, "")
    if not 0 < weight < 1000:
        raise InputError(
            f"--source: the weight in {text!r} is not between 0 and 1000; 0.5 keeps half of the "
            "documents, 2 writes each twice"
        )
    return Source(format, (pattern,) if pattern else (), weight)


def find_inputs(sources: Sequence[Source], flag: str) -> dict[str, list[int]]:
    """The size of each input file, and its time of change where a file system keeps one.

    Raises:
        InputError: a pattern matches nothing; the message names `flag`.
    """
    from data_prep.corpora import FORMATS

    found: dict[str, list[int]] = {}
    for source in sources:
        for path in files.expand_globs(source.patterns, flag):
            for file in _files_below(path, FORMATS[source.format].ending):
                found[file] = files.file_identity(file)
    return found


def _files_below(path: str, ending: str) -> Iterator[str]:
    if files.is_remote(path) or not os.path.isdir(path):
        yield path
        return
    for folder, subfolders, names in os.walk(path):
        yield from (os.path.join(folder, name) for name in sorted(names) if name.endswith(ending))
        # Deeper ones, too, where any file may belong to the input; in the same order everywhere.
        subfolders[:] = [] if ending else sorted(subfolders)


def fingerprint(options: Options, inputs: dict[str, list[int]]) -> str:
    """A hash that differs where the corpus might."""
    settings = dataclasses.asdict(options)
    made_from = {
        "version": _VERSION,
        "settings": {k: v for k, v in settings.items() if k not in _WITHOUT_EFFECT},
        "inputs": inputs,
        "tools": tool_versions(),
    }
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def tool_versions() -> dict[str, str]:
    versions = {}
    for name in _TOOLS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions
