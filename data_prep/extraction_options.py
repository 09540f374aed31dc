"""The options of `extract_corpus`, and the sources and files that they name."""

import contextlib
import dataclasses
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.options import WithPaths, check_limits, option, seed_option
from data_prep.corpora import CORPUS_FORMATS
from data_prep.corpora.base import expand_folders
from data_prep.workers import DASK, DASK_SCHEDULER_HELP, SKIP_BAD_FILES_HELP

_WIKIPEDIA, _TABLE = ("format", "wikipedia"), ("format", "table")


@dataclasses.dataclass(frozen=True)
class ExtractionOptions(WithPaths):
    """Options of `extract_corpus`."""

    output_file: str = option(help="Text file to write, with one sentence per line.", path="file")
    format: str | None = option(
        None,
        f"Format of --input_file: {', '.join(CORPUS_FORMATS)}. See also --source.",
        group="Data",
        common=True,
    )
    input_file: tuple[str, ...] = option(
        (), "Files, globs or folders, separated by commas.", common=True
    )
    source: tuple[str, ...] = option(
        (),
        "Instead of --format and --input_file: FORMAT:FILES@WEIGHT, several separated by commas. "
        "A weight of 0.5 keeps half of the documents, 2 writes each twice; the default is 1.",
    )
    language: str = option(
        "en",
        "Language, for splitting sentences, and for the templates of a wiki whose dump does not "
        "name its language: a BCP 47 tag, a code of ISO 639 or of a Wikipedia.",
        group="Text",
        common=True,
    )
    templates: str | None = option(
        None,
        "wikipedia: text file with rows NAME|NAME -> TEXT, for templates that stand for words and "
        "that the command does not know; see docs/corpora.md.",
        path="any",
        needs=_WIKIPEDIA,
    )
    keep_headings: bool = option(
        False,
        "wikipedia, wikitext: keep headings as paragraphs.",
        needs=("format", "wikipedia", "wikitext"),
    )
    keep_lists: bool = option(False, "wikipedia: keep list items as paragraphs.", needs=_WIKIPEDIA)
    text_column: str = option("text", "table: the column with the text.", needs=_TABLE)
    title_column: str | None = option(
        None, "table: the column with the names of documents.", needs=_TABLE
    )
    document_sentences: int = option(
        0,
        "text, table: number of consecutive lines or rows that form a document, for corpora with a "
        "sentence per line or row; 0: blank lines separate documents, and every row is one.",
        minimum=0,
        needs=("format", "text", "table"),
    )
    skip_bad_files: bool = option(False, SKIP_BAD_FILES_HELP, group="Data")
    eval_output_file: str | None = option(
        None, "Text file for held-out documents.", group="Output", common=True, path="file"
    )
    eval_fraction: float = option(
        0.05,
        "Fraction of documents to hold out, with --eval_output_file.",
        above=0,
        below=1,
        common=True,
        needs=("eval_output_file",),
    )
    hold_out_parts: bool = option(
        False,
        "Whether the parts of a document that --max_document_sentences splits are held out one by "
        "one, for corpora of a few long books; otherwise all are, or none.",
        needs=("eval_output_file",),
    )
    max_document_sentences: int = option(
        0,
        "Split longer documents into several, between paragraphs; 0: never.",
        minimum=0,
        group="Text",
    )
    unique_paragraphs: bool = option(
        False,
        "Leave out paragraphs that occurred before, in any document; in --format=text, lines.",
        common=True,
    )
    near_duplicates: float = option(
        0,
        "Leave out documents with at least this similarity, such as 0.8, to an earlier one: the "
        "share of sequences of five words that both have, with all numbers alike; 0: keep all.",
        minimum=0,
        maximum=1,
        common=True,
    )
    language_share: float = option(
        0,
        "Leave out documents of which a smaller share than this is in --language; 0: keep all.",
        minimum=0,
        maximum=1,
    )
    quality: str | None = option(
        None,
        "Leave out documents that break rules such as those of Gopher, C4 and FineWeb: default for "
        "the packaged ones of --language, or a TOML file that changes them; see docs/corpora.md.",
        path="any",
    )
    quality_report: bool = option(
        False,
        "Write nothing; show which documents --quality would leave out, by rule, with examples.",
        needs=("quality",),
    )
    decontaminate: tuple[str, ...] = option(
        (),
        "Evaluation sets, as files, globs or folders separated by commas: leave out paragraphs "
        "that have 13 words in a row in common with any text in them, and list these paragraphs.",
        path="any",
    )
    max_megabytes: float = option(
        0,
        "Keep at most this much text, sampled uniformly from the whole corpus; 0: keep all.",
        minimum=0,
        group="Output",
        common=True,
    )
    sample_documents: int = option(
        0,
        "For a quick look: end after the first documents, so many, that are not left out each for "
        "itself, without reading or checking the rest of the input; 0: read all.",
        minimum=0,
    )
    random_seed: int = seed_option(12345, "Seed of the choice of held-out and sampled documents.")
    num_processes: int = option(
        0, "Number of worker processes; 0: one per core.", minimum=0, group="Machines", common=True
    )
    runner: str | None = option(
        None, "dask: use a Dask cluster instead of processes of this machine.", choices=(DASK,)
    )
    dask_scheduler: str | None = option(None, DASK_SCHEDULER_HELP, needs=("runner", DASK))
    work_dir: str | None = option(
        None, "Local folder for unfinished work; default: next to the output."
    )

    @property
    def formats(self) -> list[str]:
        """Names of the formats of all sources."""
        given = [source.partition(":")[0] for source in self.source]
        return [*given, self.format] if self.format else given

    def check(self) -> None:
        """Raise InputError for values that are invalid on their own."""
        check_limits(self)
        if self.eval_output_file == self.output_file:
            raise InputError(
                f"`eval_output_file`={self.eval_output_file}: must differ from `output_file`"
            )


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
        with contextlib.suppress(ValueError):  # an @ in the name of a file
            weight = float(after)
            pattern = before or pattern
    if not 0 < weight < 1000:
        raise InputError(
            f"`source`={text}: the weight must be between 0 and 1000 (exclusive); 0.5 keeps half "
            "of the documents, 2 writes each twice"
        )
    return Source(format, (files.normalized(pattern),) if pattern else (), weight)


def find_inputs(sources: Sequence[Source], argument: str) -> dict[str, list[int]]:
    """Find the input files and their identities (see `files.file_identity`), by path.

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
