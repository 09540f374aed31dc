"""Which documents and paragraphs of a corpus are left out for what they contain, each for itself.

Worker processes decide it; what depends on other documents (`near_duplicates`, repeated paragraphs)
is decided when all are known.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from albert_tf import files
from data_prep.corpora.base import Counts, Document
from data_prep.extraction_options import ExtractionOptions, Source, find_inputs
from data_prep.languages import check_known, language_share, resolve_language
from data_prep.output_documents import document_hash

if TYPE_CHECKING:  # these load numba
    from data_prep.decontamination import EvaluationSets
    from data_prep.quality import Quality

_EXAMPLES = 10  # of a rule, in a report
_EXAMPLE_CHARACTERS = 120
ANY_RULE = "any rule"


class Filters(NamedTuple):
    """What the documents of a corpus must be like.

    Attributes:
        read: identities (see `files.file_identity`) of the files that say so, by path.
        evaluation_sets: text that no paragraph may contain.
    """

    options: ExtractionOptions
    language: str
    read: dict[str, list[int]]
    evaluation_sets: "EvaluationSets | None"
    quality: "Quality | None"

    def apply(self, document: Document, counts: Counts, removed: list[list[str]]) -> Document:
        """Return what is kept of a document, which has no paragraphs if nothing is.

        Args:
            counts: what is left out is counted in it.
            removed: a row for each paragraph with text of evaluation sets is added to it; for a
                report of quality, examples, while nothing is kept.
        """
        nothing = document._replace(paragraphs=[])
        minimum = self.options.language_share
        if minimum and language_share(document.paragraphs, self.language) < minimum:
            counts.left_out["documents in other languages"] += 1
            return nothing
        broken = self.quality.broken(document.paragraphs) if self.quality else {}
        if self.options.quality_report:
            counts.left_out.update([*broken, ANY_RULE] if broken else [])
            order = document_hash(document.key or document.name, "example", 0)
            shown = " ".join(document.paragraphs)[:_EXAMPLE_CHARACTERS]
            for rule, value in broken.items():
                row = [rule, f"{order:.15f}", f"{value:.3g}", document.name, shown]
                _add_example(removed, row)
            return nothing
        if broken:
            counts.left_out[f"documents by {next(iter(broken))}"] += 1
            return nothing
        if self.evaluation_sets:
            from data_prep.decontamination import decontaminated

            document, rows = decontaminated(document, self.evaluation_sets, counts)
            removed += rows
        return document

    def summary(self) -> dict[str, Any]:
        """Return what is known of the filters before the work begins."""
        return {
            "evaluation_sets": self.evaluation_sets.statistics if self.evaluation_sets else {},
            "quality": self.quality.limits if self.quality else {},
        }


def quality_report(records: Iterable[dict[str, Any]], counts: Counts) -> dict[str, Any]:
    """Add up the counts of the records of all units, and join the examples of broken rules."""
    examples: list[list[str]] = []
    documents = 0
    for record in records:
        counts += Counts(**record["counts"])
        documents += len(record["pieces"])
        for row in record["removed"]:
            _add_example(examples, row)
    return counts.as_dict() | {"documents": documents, "examples": sorted(examples)}


def _add_example(rows: list[list[str]], row: list[str]) -> None:
    """Add a row [rule, random number, ...] to those with the smallest numbers of each rule."""
    rows.append(row)
    same = sorted(each for each in rows if each[0] == row[0])
    if len(same) > _EXAMPLES:
        rows.remove(same[-1])


def read_filters(options: ExtractionOptions) -> Filters:
    """Read what the options name.

    Raises:
        InputError: If a file is missing or invalid, or a language unknown.
    """
    language = resolve_language(options.language)
    if options.language_share:
        check_known(language)
    evaluation_sets = None
    read: dict[str, list[int]] = {}
    if options.decontaminate:
        from data_prep.decontamination import read_evaluation_sets

        read = find_inputs([Source("", options.decontaminate)], "decontaminate")
        evaluation_sets = read_evaluation_sets(options.decontaminate)
    quality = None
    if options.quality:
        from data_prep.quality import PACKAGED, read_quality

        quality = read_quality(options.quality, language)
        if options.quality != PACKAGED:
            read[options.quality] = files.file_identity(options.quality)
    return Filters(options, language, read, evaluation_sets, quality)
