"""Extracts a corpus: a sentence a line, a blank line between documents.

    python -m data_prep.extract_corpus --format=books --input_file='books/*.txt' \\
        --output_file=corpus.txt --eval_output_file=held_out.txt --eval_fraction=0.05

    python -m data_prep.extract_corpus --source=wikipedia:dump.xml.bz2,books:novels/*.txt@2 \\
        --output_file=corpus.txt

Beside each output, such as corpus.txt, a file corpus.sources.tsv has a line for each document, in
the same order: its source (package, book, ...), a tab, its name. corpus.corpus.json says what was
made of what. A run that was ended goes on when the same command is started again.
"""

from __future__ import annotations

import dataclasses
import sys

from albert_tf.errors import InputError
from albert_tf.options import command, option


@dataclasses.dataclass(frozen=True)
class Options:
    output_file: str = option(help="Text file to write: a sentence a line.")
    format: str | None = option(
        None,
        "What to read: wikipedia, books, text, table, reading_sets or package_docs. "
        "With --input_file.",
    )
    input_file: tuple[str, ...] = option(
        (), "Files, globs or folders, separated by commas. Not for package_docs."
    )
    source: tuple[str, ...] = option(
        (),
        "Instead of --format and --input_file: FORMAT:FILES@WEIGHT, several separated by commas. "
        "A weight of 0.5 keeps half of the documents, 2 writes each twice; without one it is 1.",
    )
    language: str = option("en", "Language code, for splitting sentences.")
    keep_headings: bool = option(False, "wikipedia: headings are paragraphs too.")
    keep_lists: bool = option(False, "wikipedia: items of lists are paragraphs too.")
    text_column: str = option("text", "table: the column with the text.")
    title_column: str | None = option(None, "table: the column with names of documents.")
    package_list: str | None = option(
        None,
        "package_docs: text file with the names of the packages to read, one per line, python "
        "for the standard library; without it, all that are installed.",
    )
    eval_output_file: str | None = option(None, "Text file for the documents held out.")
    eval_fraction: float = option(0.05, "Share of the documents held out, if there is a file.")
    max_document_sentences: int = option(
        0, "Cuts longer documents into several, at ends of paragraphs; 0: never."
    )
    max_megabytes: float = option(
        0, "Keeps documents up to this size, drawn uniformly from the whole corpus; 0: all."
    )
    random_seed: int = option(12345, "Decides which documents are held out, and which are kept.")
    num_processes: int = option(0, "Worker processes; 0: one for each core.")
    work_dir: str | None = option(
        None, "Local folder for unfinished work, instead of one beside the output."
    )


def run(options: Options) -> None:
    from data_prep.extraction import extract

    check(options)
    summary = extract(options)
    for path, done in summary["outputs"].items():
        print(
            f"{path}: {done['documents']:,} documents, {done['sentences']:,} sentences, "
            f"{done['words']:,} words, {done['bytes'] / 1e6:.1f} MB"
        )
    megabytes, seconds = summary["characters"] / 1e6, summary["seconds"]
    line = f"read {megabytes:.1f} MB of text in {seconds:.1f} s ({megabytes / seconds:.1f} MB/s)"
    if summary["repeated_characters"]:
        repeated = summary["repeated_characters"] / summary["characters"]
        line += f"; {repeated:.1%} of it repeated and left out"
    print(line)
    left_out = [f"{count:,} {what}" for what, count in sorted(summary["left_out"].items())]
    if summary["skipped"]:
        left_out.append(f"{summary['skipped']:,} that could not be parsed")
    if left_out:
        print(f"left out: {', '.join(left_out)}")
    if summary["left_out_by_max_megabytes"]:
        print(
            f"only a part was taken, drawn uniformly: "
            f"{summary['left_out_by_max_megabytes'] / 1e6:.1f} MB of sentences left out by "
            f"--max_megabytes={options.max_megabytes:g}"
        )
    for warning in summary["warnings"]:
        print(f"warning: {warning}", file=sys.stderr)


def check(options: Options) -> None:
    """Raises an `InputError` for a flag that makes no sense, whatever the input."""
    from data_prep.sentences import check_language
    from data_prep.sources import parse_sources

    parse_sources(options)
    check_language(options.language)
    if options.eval_output_file and not 0 < options.eval_fraction < 1:
        raise InputError(f"--eval_fraction: {options.eval_fraction} is not between 0 and 1")
    for name in ("max_document_sentences", "max_megabytes"):
        if getattr(options, name) < 0:
            raise InputError(f"--{name}: {getattr(options, name)} is negative; 0 means no limit")
    if options.num_processes < 0:
        raise InputError(f"--num_processes: {options.num_processes} is negative; 0 means all cores")
    if options.eval_output_file == options.output_file:
        raise InputError(f"--eval_output_file: {options.output_file} is --output_file as well")


cli = command(Options, run)

if __name__ == "__main__":
    cli()
