"""Extracts a corpus: a sentence a line, a blank line between documents.

    python -m data_prep.extract_corpus --format=books --input_file='books/*.txt' \\
        --output_file=corpus.txt --eval_output_file=held_out.txt --eval_fraction=0.05

Beside each output, such as corpus.txt, a file corpus.sources.tsv has a line for each document, in
the same order: its source (package, book, ...), a tab, its name.
"""

from __future__ import annotations

import contextlib
import dataclasses
import heapq
import os
import tempfile
import time
import zlib
from collections.abc import Iterator
from typing import IO, NamedTuple

from albert_tf.errors import InputError
from albert_tf.options import command, option


@dataclasses.dataclass(frozen=True)
class Options:
    format: str = option(help="What to read: package_docs, books or text.")
    output_file: str = option(help="Text file to write: a sentence a line.")
    input_file: tuple[str, ...] = option(
        (), "Files, globs or folders, separated by commas. Not for package_docs."
    )
    language: str = option("en", "Language code, for splitting sentences.")
    eval_output_file: str | None = option(None, "Text file for the documents held out.")
    eval_fraction: float = option(0.05, "Share of the documents held out, if there is a file.")
    max_document_sentences: int = option(
        0, "Cuts longer documents into several, at ends of paragraphs; 0: never."
    )
    max_megabytes: float = option(
        0, "Keeps documents up to this size, drawn uniformly from the whole corpus; 0: all."
    )
    random_seed: int = option(12345, "Decides which documents are held out, and which are kept.")


class Part(NamedTuple):
    """A document as it is written, or a piece of a long one."""

    name: str
    source: str
    sentences: list[str]

    @property
    def text(self) -> str:
        return "\n".join(self.sentences) + "\n"


@dataclasses.dataclass
class Written:
    """What went into an output."""

    documents: int = 0
    sentences: int = 0
    words: int = 0
    bytes: int = 0


class Output:
    """A text file and the table of its documents; both appear at the end or not at all."""

    def __init__(self, path: str, stack: contextlib.ExitStack):
        from albert_tf import files

        names = path, sources_file(path)
        partial = [stack.enter_context(files.replacing(name)) for name in names]
        # Closed before `replacing` renames: contexts end in reverse order.
        self._text, self._sources = (
            stack.enter_context(files.open_file(name, "w")) for name in partial
        )
        self.path, self.written = path, Written()

    def write(self, source: str, name: str, text: str) -> None:
        self._text.write("\n" + text if self.written.documents else text)
        self._sources.write(f"{source}\t{name}\n")
        self.written.documents += 1
        self.written.sentences += text.count("\n")
        self.written.words += text.count(" ") + text.count("\n")
        self.written.bytes += len(text.encode()) + 1


def sources_file(path: str) -> str:
    """`corpus.txt` -> `corpus.sources.tsv`."""
    return os.path.splitext(path)[0] + ".sources.tsv"


def run(options: Options) -> None:
    from albert_tf import files
    from data_prep.corpora import FORMATS, Counts
    from data_prep.progress import Progress
    from data_prep.sentences import check_language

    _check(options)
    check_language(options.language)
    format = FORMATS[options.format]
    outputs = [path for path in (options.output_file, options.eval_output_file) if path]
    for path, flag in zip(outputs, ("output_file", "eval_output_file"), strict=False):
        files.make_folder(os.path.dirname(path), flag)

    start = time.monotonic()
    counts = Counts()
    with contextlib.ExitStack() as stack:
        train, *held_out = (Output(path, stack) for path in outputs)
        progress = stack.enter_context(Progress("read", "MB"))
        documents = _documents(format, options, counts)
        sample = _Sample(options, stack) if options.max_megabytes else None
        for document in documents:
            progress.update(counts.characters / 1e6)
            for part in _parts(document, format.has_sentences, options):
                if sample:
                    sample.add(part)
                else:
                    _output_for(part.name, train, held_out, options).write(
                        part.source, part.name, part.text
                    )
        for name, source, text in sample or ():
            _output_for(name, train, held_out, options).write(source, name, text)
        for output in (train, *held_out):
            if not output.written.documents:
                raise InputError(_nothing_for(output, options))
    seconds = time.monotonic() - start
    for output in (train, *held_out):
        done = output.written
        print(
            f"{output.path}: {done.documents:,} documents, {done.sentences:,} sentences, "
            f"{done.words:,} words, {done.bytes / 1e6:.1f} MB"
        )
    megabytes = counts.characters / 1e6
    repeated = counts.repeated_characters / max(1, counts.characters)
    print(
        f"read {megabytes:.1f} MB of text in {seconds:.1f} s ({megabytes / seconds:.1f} MB/s); "
        f"{repeated:.1%} of it repeated and left out; {counts.skipped} files skipped"
    )
    if sample and sample.left_out:
        print(
            f"only a part was taken, drawn uniformly: {sample.left_out / 1e6:.1f} MB of sentences "
            f"left out by --max_megabytes={options.max_megabytes:g}"
        )


def _documents(format, options: Options, counts) -> Iterator:
    from data_prep.corpora import ReaderOptions

    reader_options = ReaderOptions(options.language)
    seen: set[str] = set()
    for unit in format.units(options.input_file, reader_options):
        for document in format.documents(unit, reader_options, counts):
            if format.unique_paragraphs:
                new = []
                for paragraph in document.paragraphs:
                    if paragraph in seen:
                        counts.repeated_characters += len(paragraph)
                    else:
                        seen.add(paragraph)
                        new.append(paragraph)
                document = document._replace(paragraphs=new)
            yield document


def _check(options: Options) -> None:
    from data_prep.corpora import FORMATS

    if options.format not in FORMATS:
        raise InputError(f"--format: {options.format!r} is not one of {', '.join(FORMATS)}")
    if FORMATS[options.format].needs_input and not options.input_file:
        raise InputError(f"--input_file: --format={options.format} needs files, globs or folders")
    if not FORMATS[options.format].needs_input and options.input_file:
        raise InputError(f"--input_file: --format={options.format} reads no files of yours")
    if options.eval_output_file and not 0 < options.eval_fraction < 1:
        raise InputError(f"--eval_fraction: {options.eval_fraction} is not between 0 and 1")
    for name in ("max_document_sentences", "max_megabytes"):
        if getattr(options, name) < 0:
            raise InputError(f"--{name}: {getattr(options, name)} is negative; 0 means no limit")
    if options.eval_output_file == options.output_file:
        raise InputError(f"--eval_output_file: {options.output_file} is --output_file as well")


def _parts(document, has_sentences: bool, options: Options) -> Iterator[Part]:
    """The document in sentences; a long one in several parts, cut at ends of paragraphs."""
    from data_prep.sentences import split_sentences

    if has_sentences:
        # A line is a sentence, and any line may end a part.
        paragraphs = ([sentence] for sentence in document.paragraphs)
    else:
        paragraphs = (split_sentences(text, options.language) for text in document.paragraphs)
    limit = options.max_document_sentences
    sentences: list[str] = []
    number = 1
    for paragraph in paragraphs:
        if limit and sentences and len(sentences) + len(paragraph) > limit:
            yield Part(f"{document.name}#{number}", document.source, sentences)
            sentences = []
            number += 1
        sentences += paragraph
    if sentences:
        name = document.name if number == 1 else f"{document.name}#{number}"
        yield Part(name, document.source, sentences)


def _share(name: str, purpose: str, seed: int) -> float:
    """A number in [0, 1) that depends on the name of a document alone, not on its place."""
    import hashlib

    digest = hashlib.blake2b(f"{seed}\t{purpose}\t{name}".encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def _output_for(name: str, train: Output, held_out: list[Output], options: Options) -> Output:
    if held_out and _share(name, "held out", options.random_seed) < options.eval_fraction:
        return held_out[0]
    return train


class _Sample:
    """Keeps the documents of the smallest hashes that fit in `max_megabytes`, in their order.

    Every document has the same chance, wherever it stands. Texts wait in a temporary file, so that
    memory holds a few numbers a document.
    """

    def __init__(self, options: Options, stack: contextlib.ExitStack):
        self._seed, self._room = options.random_seed, int(options.max_megabytes * 1e6)
        # Beside the output there is room for it; a remote output leaves the system's folder.
        folder = os.path.dirname(os.path.abspath(options.output_file))
        folder = folder if os.path.isdir(folder) else None
        self._file: IO[bytes] = stack.enter_context(tempfile.TemporaryFile(dir=folder))  # noqa: SIM115
        self._kept: list[tuple] = []  # heap of (-hash, offset, size, length, name, source)
        self._limit = 1.0
        self.left_out = 0  # bytes

    def add(self, part: Part) -> None:
        share = _share(part.name, "kept", self._seed)
        text = part.text.encode()
        if share >= self._limit:
            self.left_out += len(text) + 1
            return
        packed = zlib.compress(text, 1)
        offset = self._file.seek(0, os.SEEK_END)
        self._file.write(packed)
        heapq.heappush(
            self._kept, (-share, offset, len(packed), len(text) + 1, part.name, part.source)
        )
        self._room -= len(text) + 1
        while self._room < 0:
            dropped = heapq.heappop(self._kept)
            self._room += dropped[3]
            self.left_out += dropped[3]
            self._limit = -dropped[0]

    def __iter__(self) -> Iterator[tuple[str, str, str]]:
        for _, offset, size, _, name, source in sorted(self._kept, key=lambda kept: kept[1]):
            self._file.seek(offset)
            yield name, source, zlib.decompress(self._file.read(size)).decode()


def _nothing_for(output: Output, options: Options) -> str:
    if output.path == options.eval_output_file:
        return (
            f"--eval_fraction: no document was drawn for {output.path} with "
            f"{options.eval_fraction}; raise it, or cut long documents with "
            "--max_document_sentences"
        )
    if options.max_megabytes:
        return (
            f"--max_megabytes: no document fits in {options.max_megabytes}; raise it, or cut long "
            "documents with --max_document_sentences"
        )
    return f"--input_file: no text found in {', '.join(options.input_file) or 'the packages'}"


cli = command(Options, run)

if __name__ == "__main__":
    cli()
