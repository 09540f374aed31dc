"""Which documents and paragraphs of a corpus are left out for what they contain, each for itself.

Worker processes decide it; what depends on other documents (`near_duplicates`, repeated paragraphs)
is decided when all are known.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

from data_prep.corpora.base import Counts, Document
from data_prep.extraction_options import ExtractionOptions, Source, find_inputs
from data_prep.languages import check_known, language_share, resolve_language

if TYPE_CHECKING:  # these load numba
    from data_prep.decontamination import EvaluationSets


class Filters(NamedTuple):
    """What the documents of a corpus must be like.

    Attributes:
        options: the options of the run.
        language: code of `options.language`.
        files: identities (see `files.file_identity`) of the files that say so, by path.
        evaluation_sets: text that no paragraph may contain.
    """

    options: ExtractionOptions
    language: str
    files: dict[str, list[int]]
    evaluation_sets: "EvaluationSets | None"

    def apply(
        self, document: Document, counts: Counts, removed: list[list[str]]
    ) -> Document | None:
        """Return what is kept of a document; None if nothing is.

        Args:
            counts: what is left out is counted in it.
            removed: a row for each paragraph with text of evaluation sets is added to it.
        """
        minimum = self.options.language_share
        if minimum and language_share(document.paragraphs, self.language) < minimum:
            counts.left_out["documents in other languages"] += 1
            return None
        if self.evaluation_sets:
            from data_prep.decontamination import decontaminated

            document, rows = decontaminated(document, self.evaluation_sets, counts)
            removed += rows
        return document

    def summary(self) -> dict[str, Any]:
        """Return what is known of the filters before the work begins."""
        return {"evaluation_sets": self.evaluation_sets.statistics if self.evaluation_sets else {}}


def read_filters(options: ExtractionOptions) -> Filters:
    """Read what the options name.

    Raises:
        InputError: If a file is missing or invalid, or a language unknown.
    """
    language = resolve_language(options.language)
    if options.language_share:
        check_known(language)
    evaluation_sets, read = None, {}
    if options.decontaminate:
        from data_prep.decontamination import read_evaluation_sets

        read = find_inputs([Source("", options.decontaminate)], "decontaminate")
        evaluation_sets = read_evaluation_sets(options.decontaminate)
    return Filters(options, language, read, evaluation_sets)
