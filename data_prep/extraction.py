"""Makes a corpus out of sources, on all cores: units to sentences, written in the order of units.

Worker processes read units and split their text into sentences; this process writes what they
return, in order, so the bytes never depend on how many there are. After each unit a journal says
how far the files are (see `unfinished`).
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from albert_tf import files
from albert_tf.errors import InputError
from data_prep import parallel
from data_prep.corpora import FORMATS, Counts, Document, ReaderOptions
from data_prep.parts import Paragraph, Part, make_parts, split_document
from data_prep.progress import Progress
from data_prep.sampling import Sample
from data_prep.sources import Source, find_inputs, fingerprint, parse_sources, tool_versions
from data_prep.unfinished import Unfinished

if TYPE_CHECKING:
    from data_prep.extract_corpus import Options

# A process of its own takes a second to start.
_BYTES_WORTH_A_PROCESS = 2_000_000


class _Plan(NamedTuple):
    """What every process knows."""

    options: Options
    reader_options: ReaderOptions
    sources: tuple[Source, ...]


class _Extracted(NamedTuple):
    """What a unit gives.

    Attributes:
        parts: what to write, for most formats.
        documents: the documents, where it takes all units to tell what is to be written.
        weight: of their source.
        counts: what was read.
    """

    parts: list[Part]
    documents: list[tuple[Document, list[Paragraph]]]
    weight: float
    counts: Counts


def extract(options: Options) -> dict[str, Any]:
    """Writes the corpus and its summary, and returns the summary.

    Raises:
        InputError: a flag or an input is not what it should be, or gives no text.
        OSError: the output cannot be written. What is done is kept for the same command to go on.
    """
    start = time.monotonic()
    sources = parse_sources(options)
    outputs = [path for path in (options.output_file, options.eval_output_file) if path]
    for path, flag in zip(outputs, ("output_file", "eval_output_file"), strict=False):
        files.make_folder(os.path.dirname(path), flag)
    inputs = find_inputs(sources, "input_file" if options.format else "source")
    unique = any(FORMATS[source.format].unique_paragraphs for source in sources)
    work = Unfinished(
        outputs,
        options.work_dir,
        fingerprint(options, inputs),
        resumable=not unique and not options.max_megabytes,
    )
    names = {field.name for field in dataclasses.fields(ReaderOptions)}
    settings = {name: getattr(options, name) for name in names}
    plan = _Plan(options, ReaderOptions(**settings), sources)
    input_bytes = sum(identity[0] for identity in inputs.values())
    run = _Run(plan, work, input_bytes, start)
    try:
        if not work.state.get("done"):
            run.write_all()
        return run.finish(inputs)
    except InputError:
        work.close()
        work.remove()  # this input would end the same way again
        raise
    except BaseException:
        work.give_up()
        raise


class _Run:
    """A run, from where an earlier one was ended."""

    def __init__(self, plan: _Plan, work: Unfinished, input_bytes: int, start: float):
        self._plan, self._work, self._input_bytes = plan, work, input_bytes
        self._counts = Counts.from_dict(work.state.get("counts", {}))
        self._start = start - work.state.get("seconds", 0)
        self._seen: set[bytes] = set()
        self._left_out_bytes = 0

    def write_all(self) -> None:
        """Writes what is not written yet.

        Raises:
            InputError: there is no text for an output.
        """
        options, work = self._plan.options, self._work
        # Without files of the user, nobody knows how much there will be before it is found.
        known = all(source.patterns for source in self._plan.sources)
        processes = parallel.process_count(options.num_processes)
        if known:
            processes = min(processes, 1 + self._input_bytes // _BYTES_WORTH_A_PROCESS)
        work.open()
        units_done = work.state.get("units", 0)
        with contextlib.ExitStack() as stack:
            sample = None
            if options.max_megabytes:
                sample = stack.enter_context(
                    Sample(options.max_megabytes, options.random_seed, work.folder)
                )
            workers = stack.enter_context(parallel.Workers(processes, _prepare, (self._plan,)))
            total = self._input_bytes / 1e6 if known else None
            before = self._counts.input_bytes / 1e6
            progress = stack.enter_context(Progress("read", "MB", total, before))
            tasks = itertools.islice(_tasks(self._plan), units_done, None)
            for extracted in workers.map(_extract, tasks):
                units_done += 1
                self._counts += extracted.counts
                with work.writing():
                    for part in self._parts(extracted):
                        sample.add(part) if sample else work.write(part)
                    if not sample:
                        work.save(self._state(units_done))
                done = self._counts.input_bytes if known else self._counts.characters
                documents = work.outputs[0].written["documents"]
                progress.update(done / 1e6, f"{documents:,} documents" if documents else "")
            with work.writing():
                for part in sample or ():
                    work.write(part)
            self._left_out_bytes = sample.left_out if sample else 0
        for output in work.outputs:
            if not output.written["documents"]:
                raise InputError(_nothing_for(output.path, options, self._counts))
        with work.writing():
            work.save(self._state(units_done) | {"done": True})
        work.close()

    def _parts(self, extracted: _Extracted) -> Iterator[Part]:
        yield from extracted.parts
        for document, paragraphs in extracted.documents:
            new = []
            for paragraph in paragraphs:
                if paragraph.key in self._seen:
                    self._counts.repeated_characters += paragraph.characters
                else:
                    self._seen.add(paragraph.key)
                    new.append(paragraph)
            yield from make_parts(document, new, extracted.weight, self._plan.options)

    def _state(self, units: int) -> dict[str, Any]:
        return {
            "units": units,
            "counts": self._counts.as_dict(),
            "seconds": time.monotonic() - self._start,
        }

    def finish(self, inputs: dict[str, list[Any]]) -> dict[str, Any]:
        """Puts the files in their places, and the summary after them."""
        path = summary_file(self._plan.options.output_file)
        files.remove(path)  # soon it would not fit its files
        for output in self._work.outputs:
            output.take_place()
        summary = {
            "settings": dataclasses.asdict(self._plan.options),
            "sources": [source._asdict() for source in self._plan.sources],
            "inputs": {path: identity[0] for path, identity in inputs.items()},
            "outputs": {output.path: output.written for output in self._work.outputs},
            **self._counts.as_dict(),
            "left_out_by_max_megabytes": self._left_out_bytes,
            "seconds": round(time.monotonic() - self._start, 3),
            "versions": tool_versions(),
        }
        files.write_text(path, json.dumps(summary, indent=2, ensure_ascii=False) + "\n")
        self._work.remove()
        return summary


def summary_file(output_file: str) -> str:
    """`corpus.txt` -> `corpus.corpus.json`; `.manifest.json` is that of TFRecord files."""
    return os.path.splitext(output_file)[0] + ".corpus.json"


def _tasks(plan: _Plan) -> Iterator[tuple[int, Any]]:
    for number, source in enumerate(plan.sources):
        try:
            for unit in FORMATS[source.format].units(source.patterns, plan.reader_options):
                yield number, unit
        except InputError as error:
            if plan.options.source:
                raise InputError(str(error).replace("--input_file:", "--source:")) from None
            raise


_plan: _Plan


def _prepare(plan: _Plan) -> None:
    global _plan
    _plan = plan


def _extract(task: tuple[int, Any]) -> _Extracted:
    """Reads a unit and splits it into sentences, in any process."""
    number, unit = task
    source, options = _plan.sources[number], _plan.options
    format = FORMATS[source.format]
    counts = Counts()
    parts: list[Part] = []
    documents = []
    for document in format.documents(unit, _plan.reader_options, counts):
        paragraphs = split_document(document, options.language, format.has_sentences, counts)
        if format.unique_paragraphs:
            documents.append((document._replace(paragraphs=[]), list(paragraphs)))
        else:
            parts += make_parts(document, paragraphs, source.weight, options)
    return _Extracted(parts, documents, source.weight, counts)


def _nothing_for(path: str, options: Options, counts: Counts) -> str:
    if path == options.eval_output_file:
        return (
            f"--eval_fraction: no document was drawn for {path} with "
            f"{options.eval_fraction}; raise it, or cut long documents with "
            "--max_document_sentences"
        )
    if options.max_megabytes and counts.characters:
        return (
            f"--max_megabytes: no document fits in {options.max_megabytes}; raise it, or cut long "
            "documents with --max_document_sentences"
        )
    named = ", ".join(options.input_file or options.source) or "the packages"
    return f"--{'source' if options.source else 'input_file'}: no text found in {named}"
