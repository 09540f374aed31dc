"""Extracts a corpus from its sources with all workers: units to sentences, written in unit order.

Worker processes read units and split their text into sentences. This process writes the results in
order, so the bytes do not depend on the number of processes. After each unit, a journal records the
sizes of the files (see `corpus_files`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

from albert_tf import files
from albert_tf.children import stoppable
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.progress import ThroughputLine
from data_prep.corpora.base import CorpusFormat, Counts, Document, ReaderOptions
from data_prep.corpora.formats import CORPUS_FORMATS
from data_prep.corpora.templates import check_rows
from data_prep.corpus_files import CorpusFiles, sources_file
from data_prep.extraction_options import ExtractionOptions
from data_prep.languages import check_known, language_share, resolve_language
from data_prep.output_documents import (
    OutputDocument,
    Paragraph,
    make_output_documents,
    split_paragraphs,
)
from data_prep.sampling import DocumentSample
from data_prep.sources import (
    TOOLS,
    Source,
    distinct_names,
    find_inputs,
    fingerprint,
    parse_sources,
    with_files,
)
from data_prep.work_folder import WorkFolder, hidden_folder, tool_versions
from data_prep.workers import start_workers


class _Job(NamedTuple):
    """What every process needs to know.

    Attributes:
        options: the options of the run.
        reader_options: the options of the readers.
        sources: the sources of the corpus.
        formats: the format of each source. (A worker process cannot look them up in the table,
            which may have rows that other code has added.)
    """

    options: ExtractionOptions
    reader_options: ReaderOptions
    sources: tuple[Source, ...]
    formats: tuple[CorpusFormat, ...]


class _ExtractedUnit(NamedTuple):
    """The content of a unit.

    Attributes:
        output: what to write.
        documents: instead, documents and their paragraphs, of which new ones are written.
        weight: weight of the source.
        counts: what was read.
    """

    output: list[OutputDocument]
    documents: list[tuple[Document, list[Paragraph]]]
    weight: float
    counts: Counts


@stoppable()
def extract(options: ExtractionOptions) -> dict[str, Any]:
    """Write a corpus and its summary.

    Returns:
        The summary.

    Raises:
        InputError: If an option or an input file is invalid, or if an output would be empty.
        OSError: If the output cannot be written. Finished work is kept for the next call.
    """
    start = time.monotonic()
    options.check()
    sources = parse_sources(options)
    language = resolve_language(options.language)
    if options.language_share:
        check_known(language)
    outputs = [path for path in (options.output_file, options.eval_output_file) if path]
    argument = "input_file" if options.format else "source"
    # A file of the name of an output that no run has written is the user's, and input.
    is_unfinished = files.exists(hidden_folder(outputs[0], options.work_dir))
    own = [
        side
        for path in outputs
        for side in (path, sources_file(path), summary_file(path))
        if is_unfinished or files.exists(sources_file(path)) or not files.exists(path)
    ]
    sources = with_files(sources, argument, own)
    inputs = find_inputs(sources, argument)
    own_templates = _read_templates(options)
    by_name = dict(zip(("output_file", "eval_output_file"), outputs, strict=False))
    written = {name: [path, sources_file(path)] for name, path in by_name.items()}
    written["output_file"].append(summary_file(options.output_file))
    files.check_outputs(written, {argument: inputs, "templates": [options.templates]})
    for name, path in by_name.items():
        twin = path.removesuffix(".txt") if path.endswith(".txt") else f"{path}.txt"
        if files.exists(twin) and not files.is_folder(twin):
            raise InputError(
                f"`{name}`={path}: the files next to it have the names of those of {twin}; choose "
                "another name"
            )
        files.make_folder(os.path.dirname(path), name)
    formats = tuple(CORPUS_FORMATS[source.format] for source in sources)
    values = vars(options) | {
        "bad_files": [],
        "templates": own_templates,
        "file_names": distinct_names(inputs),
    }
    names = [field.name for field in dataclasses.fields(ReaderOptions)]
    reader_options = ReaderOptions(**{name: values[name] for name in names})
    job = _Job(options, reader_options, sources, formats)
    input_bytes = sum(identity[0] for identity in inputs.values())
    identity = fingerprint(options, inputs, own_templates)
    with (
        WorkFolder.resume(
            outputs[0], options.work_dir, identity, is_kept=not options.max_megabytes
        ) as work,
        work.kept_after_error(),
        CorpusFiles(
            work, outputs, bool(options.near_duplicates), options.unique_paragraphs
        ) as corpus,
    ):
        extraction = _Extraction(job, work, corpus, input_bytes, start)
        if not corpus.state.get("done"):
            extraction.write_all()
        return extraction.finish(inputs)


def _read_templates(options: ExtractionOptions) -> str:
    """Return the content of the user's table of templates, which workers may not reach.

    Raises:
        InputError: If it is invalid.
    """
    if not options.templates:
        return ""
    try:
        rows = files.read_text(options.templates)
    except InputError as error:
        raise InputError(f"`templates`={error}") from None
    check_rows(rows, options.templates)
    return rows


class _Extraction:
    """A run, which may continue an interrupted one.

    Args:
        job: what to extract.
        work: the folder of unfinished work.
        corpus: the files in it.
        input_bytes: size of all input files.
        start: start time of the run, by `time.monotonic`.
    """

    def __init__(
        self, job: _Job, work: WorkFolder, corpus: CorpusFiles, input_bytes: int, start: float
    ):
        self._job, self._work, self._corpus, self._input_bytes = job, work, corpus, input_bytes
        self._counts = Counts.from_dict(corpus.state.get("counts", {}))
        language = job.options.language
        if language != "en" and all(format.has_sentences for format in job.formats):
            self._counts.warn(
                f"`language`={language}: only recorded; this format has a sentence per line (books "
                "splits paragraphs into sentences)"
            )
        self._start = start - corpus.state.get("seconds", 0)
        self._left_out_bytes = 0

    def write_all(self) -> None:
        """Write everything that is not written yet.

        Raises:
            InputError: If there is no text for an output.
        """
        options, work, corpus = self._job.options, self._work, self._corpus
        units_done = corpus.state.get("units", 0)
        with contextlib.ExitStack() as stack:
            sample = None
            if options.max_megabytes:
                sample = stack.enter_context(
                    DocumentSample(options.max_megabytes, options.random_seed, work.path)
                )
            workers = stack.enter_context(
                start_workers(options, self._input_bytes, _prepare, (self._job,))
            )
            before = self._counts.input_bytes / 1e6
            progress = stack.enter_context(
                ThroughputLine("read", "MB", self._input_bytes / 1e6, before)
            )
            write = sample.add if sample else corpus.write
            collect = corpus.store if options.near_duplicates else write
            tasks = itertools.islice(_tasks(self._job), units_done, None)
            for extracted in workers.map(_extract_unit, tasks):
                units_done += 1
                self._counts += extracted.counts
                with work.writing():
                    for document in self._output_of(extracted):
                        collect(document)
                    if not sample:
                        corpus.save(self._state(units_done))
                documents = corpus.stored or corpus.written[0]["documents"]
                progress.update(
                    self._counts.input_bytes / 1e6, f"{documents:,} documents" if documents else ""
                )
            if bad_files := self._job.reader_options.bad_files:
                self._counts.left_out["files that cannot be read"] = len(bad_files)
            with work.writing():
                if corpus.stored:
                    kept = 0
                    for document in corpus.without_near_duplicates(options.near_duplicates):
                        write(document)
                        kept += 1
                    self._counts.left_out["near duplicates"] = corpus.stored - kept
                for document in sample or ():
                    corpus.write(document)
            self._left_out_bytes = sample.left_out_bytes if sample else 0
        for path, written in zip(corpus.paths, corpus.written, strict=True):
            if not written["documents"]:
                with work.kept_after_error(is_useful=False):
                    raise InputError(_why_empty(path, options, self._counts))
        with work.writing():
            corpus.finish(self._state(units_done))

    def _output_of(self, extracted: _ExtractedUnit) -> Iterator[OutputDocument]:
        yield from extracted.output
        for document, paragraphs in extracted.documents:
            new = filter(self._is_new, paragraphs)
            yield from make_output_documents(document, new, extracted.weight, self._job.options)

    def _is_new(self, paragraph: Paragraph) -> bool:
        is_new = self._corpus.is_new(paragraph.key)
        self._counts.repeated_characters += 0 if is_new else paragraph.characters
        return is_new

    def _state(self, units: int) -> dict[str, Any]:
        return {
            "units": units,
            "counts": self._counts.as_dict(),
            "seconds": time.monotonic() - self._start,
        }

    def finish(self, inputs: dict[str, list[int]]) -> dict[str, Any]:
        """Move the files to their final names, then write the summary, and return it."""
        path = summary_file(self._job.options.output_file)
        files.remove(path)  # it does not describe the new files
        self._corpus.publish()
        summary = {
            "settings": dataclasses.asdict(self._job.options),
            "sources": [source._asdict() for source in parse_sources(self._job.options)],
            "inputs": {path: identity[0] for path, identity in inputs.items()},
            "input_checksums": {
                path: checksum for path in inputs if (checksum := published_checksum(path))
            },
            "outputs": dict(zip(self._corpus.paths, self._corpus.written, strict=True)),
            **self._counts.as_dict(),
            "left_out_by_max_megabytes": self._left_out_bytes,
            "seconds": round(time.monotonic() - self._start, 3),
            "versions": tool_versions(TOOLS),
        }
        files.write_text(path, files.to_json(summary, indent=2, ensure_ascii=False) + "\n")
        self._work.remove()
        return summary


def summary_file(output_file: str) -> str:
    """`corpus.txt` -> `corpus.corpus.json` (`.manifest.json` belongs to TFRecord files)."""
    return output_file.removesuffix(".txt") + ".corpus.json"


def _tasks(job: _Job) -> Iterator[tuple[int, Any]]:
    argument = "input_file" if job.options.format else "source"
    sources = zip(job.sources, job.formats, strict=True)
    with arguments_renamed(input_file=argument):
        found = [format.units(source.patterns, job.reader_options) for source, format in sources]
        # The first unit of each source, so that all files are checked before the work begins.
        first = [list(itertools.islice(units, 1)) for units in found]
        for number, units in enumerate(found):
            for unit in itertools.chain(first[number], units):
                yield number, unit


_job: _Job


def _prepare(job: _Job) -> None:
    global _job
    _job = job


def _extract_unit(task: tuple[int, Any]) -> _ExtractedUnit:
    number, unit = task
    source, format, options = _job.sources[number], _job.formats[number], _job.options
    counts = Counts()
    output: list[OutputDocument] = []
    documents = []
    for document in format.documents(unit, _job.reader_options, counts):
        if not _is_in_language(document, options):
            counts.left_out["documents in other languages"] += 1
            continue
        paragraphs = split_paragraphs(document, options.language, format.has_sentences, counts)
        if options.unique_paragraphs:
            documents.append((document._replace(paragraphs=[]), list(paragraphs)))
        else:
            output += make_output_documents(document, paragraphs, source.weight, options)
    return _ExtractedUnit(output, documents, source.weight, counts)


def _is_in_language(document: Document, options: ExtractionOptions) -> bool:
    if not options.language_share:
        return True
    language = resolve_language(options.language)
    return language_share(document.paragraphs, language) >= options.language_share


def _why_empty(path: str, options: ExtractionOptions, counts: Counts) -> str:
    if path == options.eval_output_file:
        return (
            f"`eval_fraction`={options.eval_fraction}: no document was drawn for {path}; raise "
            "it, or hold out parts of documents with `max_document_sentences` and "
            "`hold_out_parts`"
        )
    if options.max_megabytes and counts.characters:
        return (
            f"`max_megabytes`={options.max_megabytes}: no document fits; raise it, or split long "
            "documents with `max_document_sentences`"
        )
    inputs = ", ".join(options.input_file or options.source)
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in counts.left_out.items())
    return (
        f"`{'source' if options.source else 'input_file'}`: no text found in {inputs}"
        + f" (left out: {left_out})" * bool(left_out)
    )


def published_checksum(path: str) -> str | None:
    """Return the checksum that a server publishes for a file.

    Returns:
        `sha256:...` for large files of the Hugging Face Hub, `etag:...` for other servers; None for
        local files and for servers that publish none.
    """
    info = files.info_of(path) if files.is_read_only(path) else None
    if info and (lfs := info.get("lfs")):
        return f"sha256:{lfs.sha256}"
    tag = info and (info.get("ETag") or info.get("blob_id"))
    return f"etag:{tag.strip(chr(34))}" if tag else None
