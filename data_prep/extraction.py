"""Extracts a corpus from its sources with all workers: units to sentences, written in unit order.

Worker processes read units and split their text into sentences; a work folder keeps the result of
each, so a killed run resumes after the last one. When all are known, this process writes what is to
be kept of them in order, so the bytes do not depend on the number of processes.
"""

import dataclasses
import io
import itertools
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Any, NamedTuple

from albert_tf import files
from albert_tf.children import stoppable
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.terminal import ThroughputLine
from data_prep.corpora import CORPUS_FORMATS
from data_prep.corpora.base import CorpusFormat, Counts, Document, ReaderOptions
from data_prep.corpora.templates import check_rows
from data_prep.document_filters import Filters, quality_report, read_filters
from data_prep.extraction_options import (
    ExtractionOptions,
    Source,
    distinct_names,
    find_inputs,
    parse_sources,
    with_files,
)
from data_prep.output_documents import (
    KEY_BYTES,
    OutputDocument,
    make_output_documents,
    publish_files,
    removed_file,
    select,
    sources_file,
    split_paragraphs,
    summary_file,
    tsv_field,
    write_files,
)
from data_prep.work_folder import WorkFolder, fingerprint_of, hidden_folder, move, tool_versions
from data_prep.workers import start_workers

# Incremented whenever the same options and input give another corpus, or the files of unfinished
# work change.
_VERSION = 9
# Packages that decide what is text and where a sentence ends.
_TOOLS = (
    "albert-tf", "sentencex", "langcodes", "mwparserfromhell", "pyarrow", "rensa", "py3langid",
)  # fmt: skip


class _Job(NamedTuple):
    """What every process needs to know.

    A worker process cannot look up the formats of the sources in the table, which may have rows
    that other code has added.
    """

    options: ExtractionOptions
    reader_options: ReaderOptions
    sources: tuple[Source, ...]
    formats: tuple[CorpusFormat, ...]
    filters: Filters


@stoppable()
def extract(options: ExtractionOptions) -> dict[str, Any]:
    """Write a corpus and its summary, and return that.

    Raises:
        InputError: If an option or an input file is invalid, or if an output would be empty.
        OSError: If the output cannot be written. Finished work is kept for the next call.
    """
    start = time.monotonic()
    options.check()
    sources = parse_sources(options)
    filters = read_filters(options)
    outputs = [path for path in (options.output_file, options.eval_output_file) if path]
    argument = "input_file" if options.format else "source"
    # A file of the name of an output that no run has written is the user's, and input.
    is_unfinished = files.exists(hidden_folder(outputs[0], options.work_dir))
    own = [
        side
        for path in outputs
        for side in (path, sources_file(path), summary_file(path), removed_file(path))
        if is_unfinished or files.exists(sources_file(path)) or not files.exists(path)
    ]
    sources = with_files(sources, argument, own)
    inputs = find_inputs(sources, argument)
    own_templates = _read_templates(options)
    by_name = dict(zip(("output_file", "eval_output_file"), outputs, strict=False))
    written = {name: [path, sources_file(path)] for name, path in by_name.items()}
    written["output_file"].append(summary_file(options.output_file))
    if options.decontaminate:
        written["output_file"].append(removed_file(options.output_file))
    read = {argument: inputs, "decontaminate": filters.read, "templates": [options.templates]}
    files.check_outputs(written, read)
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
    job = _Job(options, reader_options, sources, formats, filters)
    input_bytes = sum(identity[0] for identity in inputs.values())
    versions = tool_versions(_TOOLS)
    fingerprint = fingerprint_of(
        dataclasses.asdict(options),
        version=_VERSION,
        inputs=inputs | filters.read,
        templates=own_templates,
        tools=versions,
        filters=filters.summary(),
    )
    with (
        WorkFolder.resume(outputs[0], options.work_dir, fingerprint) as work,
        work.kept_after_error(),
    ):
        units, start = _extract_units(job, work, input_bytes, start)
        counts = Counts()
        if options.quality_report:
            report = quality_report(map(work.require_record, map(_unit_name, range(units))), counts)
            work.remove()
            if not report["documents"]:
                raise InputError(_why_empty("", options, counts))
            return report
        if (
            not options.quality
            and options.language != "en"
            and all(format.has_sentences for format in formats)
        ):
            counts.warn(
                f"`language`={options.language}: only recorded; this format has a sentence per "
                "line (books splits paragraphs into sentences)"
            )
        with work.writing():
            statistics, left_out_bytes = _write(job, work, units, outputs, counts)
        for path in outputs:
            if not statistics[path]["documents"]:
                with work.kept_after_error(is_useful=False):
                    raise InputError(_why_empty(path, options, counts))
        summary_path = summary_file(options.output_file)
        if files.exists(summary_path):  # of an earlier run, and not about the new files
            files.remove(removed_file(options.output_file))
            files.remove(summary_path)
        publish_files(work, outputs)
        if options.decontaminate:
            move(work.file("removed"), removed_file(options.output_file))
        summary = {
            "settings": dataclasses.asdict(options),
            "sources": [source._asdict() for source in parse_sources(options)],
            "inputs": {path: identity[0] for path, identity in inputs.items()},
            "input_checksums": {
                path: checksum for path in inputs if (checksum := published_checksum(path))
            },
            "outputs": statistics,
            **counts.as_dict(),
            "left_out_by_max_megabytes": left_out_bytes,
            **filters.summary(),
            "seconds": round(time.monotonic() - start, 3),
            "versions": versions,
        }
        files.write_text(summary_path, files.to_json(summary, indent=2, ensure_ascii=False) + "\n")
        work.remove()
        return summary


def _read_templates(options: ExtractionOptions) -> str:
    """Return the content of the user's table of templates, which workers may not reach."""
    if not options.templates:
        return ""
    try:
        rows = files.read_text(options.templates)
    except InputError as error:
        raise InputError(f"`templates`={error}") from None
    check_rows(rows, options.templates)
    return rows


def _unit_name(number: int) -> str:
    return f"unit-{number:06d}"


def _extract_units(
    job: _Job, work: WorkFolder, input_bytes: int, start: float
) -> tuple[int, float]:
    """Extract the units that are not in the work folder yet.

    Returns:
        Their number, and when the run started, had it not been interrupted.
    """
    units = read = found = 0
    limit = job.options.sample_documents or math.inf
    while record := work.record(_unit_name(units)):
        units += 1
        found += len(record["pieces"])
        read += record["counts"]["input_bytes"]
        start -= record["seconds"]
    begin, documents = time.monotonic(), 0
    with (
        start_workers(job.options, input_bytes, _prepare, (job,)) as workers,
        ThroughputLine("read", "MB", input_bytes / 1e6, read / 1e6) as progress,
    ):
        tasks = itertools.islice(_tasks(job), units, None if found < limit else units)
        for record in workers.map(_extract_unit, tasks):
            record["seconds"], begin = time.monotonic() - begin, time.monotonic()
            with work.writing():
                work.finish(_unit_name(units), record)
            units += 1
            read += record["counts"]["input_bytes"]
            documents += len(record["documents"])
            progress.update(read / 1e6, f"{documents:,} documents" if documents else "")
            found += len(record["pieces"])
            if found >= limit:
                break
    return units, start


def _write(
    job: _Job, work: WorkFolder, units: int, outputs: list[str], counts: Counts
) -> tuple[dict[str, Counter[str]], int]:
    """Write the documents of all units, but for those to leave out, into the work folder.

    Returns:
        What was written, see `write_files`, and the size of what `max_megabytes` leaves out.
    """
    options = job.options
    kept: Iterable[bool] = itertools.repeat(True)
    near_duplicates = left_out_bytes = 0
    if options.near_duplicates or options.max_megabytes:
        found = _documents(job, work, units, Counts())
        kept, near_duplicates, left_out_bytes = select(found, options, work.path)
        job = job._replace(options=dataclasses.replace(options, near_duplicates=0))
    with open(work.file("removed"), "wb") as removed:
        documents = itertools.compress(_documents(job, work, units, counts, removed), kept)
        written = write_files(documents, work, outputs)
    if bad_files := job.reader_options.bad_files:
        counts.left_out["files that cannot be read"] = len(bad_files)
    if options.near_duplicates:
        counts.left_out["near duplicates"] = near_duplicates
    return written, left_out_bytes


def _documents(
    job: _Job, work: WorkFolder, units: int, counts: Counts, removed: IO[bytes] | None = None
) -> Iterator[OutputDocument]:
    """Yield the documents of all units, of whose equal paragraphs only the first remains.

    The paragraphs with text of evaluation sets are written to `removed`.
    """
    options = job.options
    seen: set[bytes] = set()

    def new_paragraphs(text: bytes, keys: bytes, characters: list[int]) -> Iterator[list[str]]:
        paragraphs = zip(characters, text.decode().split("\n\n"), strict=True)
        for number, (length, paragraph) in enumerate(paragraphs):
            key = keys[number * KEY_BYTES : (number + 1) * KEY_BYTES]
            if key in seen:
                counts.repeated_characters += length
            else:
                seen.add(key)
                yield paragraph.split("\n") if paragraph else []

    free = options.sample_documents
    for unit in range(units):
        record = work.require_record(_unit_name(unit))
        counts += Counts(**record["counts"])
        if removed:
            rows = ["\t".join(map(tsv_field, row)) + "\n" for row in record["removed"]]
            removed.write("".join(rows).encode("utf-8", "replace"))
        weight = job.sources[record["source"]].weight
        content = io.BytesIO(record.get("content", b""))
        pieces = record["pieces"]
        if options.sample_documents:
            pieces, free = pieces[:free], free - len(pieces)
        for size, *fields in record["documents"][: sum(pieces)]:
            text = content.read(size)
            if not options.unique_paragraphs:
                yield OutputDocument(text, *fields)
                continue
            name, source, key, characters = fields
            paragraphs = new_paragraphs(text, content.read(KEY_BYTES * len(characters)), characters)
            document = Document(name, source, [], key)
            yield from make_output_documents(document, paragraphs, weight, options)


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


def _extract_unit(task: tuple[int, Any]) -> dict[str, Any]:
    """Return the record of a unit, with the texts of its documents one after the other.

    Paragraphs that must be unique are separated by blank lines, and followed by their keys.
    """
    number, unit = task
    source, format, options = _job.sources[number], _job.formats[number], _job.options
    counts = Counts()
    found: list[tuple] = []
    removed: list[list[str]] = []
    content: list[bytes] = []
    pieces: list[int] = []  # of each document
    for document in format.documents(unit, _job.reader_options, counts):
        document, before = _job.filters.apply(document, counts, removed), len(found)
        paragraphs = split_paragraphs(document, options, format.has_sentences, counts)
        if not options.unique_paragraphs:
            sentences = (paragraph.sentences for paragraph in paragraphs)
            for output in make_output_documents(document, sentences, source.weight, options):
                found.append((len(output.text), *output[1:]))
                content.append(output.text)
        elif columns := list(zip(*paragraphs, strict=True)):
            keys, characters, split = columns
            text = "\n\n".join(map("\n".join, split)).encode()
            found.append((len(text), document.name, document.source, document.key, characters))
            content += text, *keys
        if len(found) > before or options.quality_report:
            pieces.append(len(found) - before)
        if 0 < len(pieces) == options.sample_documents:
            break
    record = {"source": number, "counts": vars(counts), "documents": found, "pieces": pieces}
    return record | {"removed": removed, "content": b"".join(content)}


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
