"""The options of `extract_corpus`, and what can be checked before anything is read."""

import dataclasses

from albert_tf.errors import InputError
from albert_tf.options import WithPaths, check_limits, option, seed_option
from data_prep.corpora import CORPUS_FORMATS
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
        "Leave out paragraphs, in --format=text lines, that occurred before, in any document.",
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
    max_megabytes: float = option(
        0,
        "Keep at most this much text, sampled uniformly from the whole corpus; 0: keep all.",
        minimum=0,
        group="Output",
        common=True,
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
        """Check the values that can be checked on their own.

        Raises:
            InputError: If one is out of range.
        """
        check_limits(self)
        if self.eval_output_file == self.output_file:
            raise InputError(
                f"`eval_output_file`={self.eval_output_file}: must differ from `output_file`"
            )
