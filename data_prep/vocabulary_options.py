"""The options of `train_vocabulary`."""

from __future__ import annotations

import dataclasses

from albert_tf.errors import InputError
from albert_tf.options import check_limits, option, seed_option
from data_prep.vocabulary_types import VOCABULARY_TYPES
from data_prep.workers import DASK, DASK_SCHEDULER_HELP, check_dask


@dataclasses.dataclass(frozen=True)
class VocabularyOptions:
    """Options of `train_vocabulary`."""

    input_file: tuple[str, ...] = option(help="Text files or globs, separated by commas.")
    output_prefix: str = option(help="Path of the files, without .model, .vocab or .txt.")
    model_type: str = option(
        "unigram",
        "unigram: SentencePiece, as in English ALBERT; wordpiece: as in BERT and Chinese ALBERT.",
        choices=tuple(VOCABULARY_TYPES),
    )
    vocab_size: int = option(30000, "Number of pieces, including special symbols.")
    do_lower_case: bool = option(True, "Lower-case the text.")
    keep_accents: bool | None = option(
        None,
        "Keep accents and other combining marks; by default, unless the text has hardly any, as in "
        "English.",
    )
    character_coverage: float = option(
        0.99995,
        "Fraction of the characters of the text that the vocabulary covers; 0.9995 leaves out the "
        "rarest ones of Chinese or Japanese.",
        minimum=0.9,
        maximum=1.0,
    )
    user_defined_symbols: tuple[str, ...] = option(
        (), "Unigram pieces that text is always split into, separated by commas."
    )
    input_sentence_size: int = option(
        2_000_000, "Train on a uniform sample of this many sentences; 0: on all of them.", minimum=0
    )
    random_seed: int = seed_option(12345, "Seed of the sample of sentences.")
    num_processes: int = option(
        0, "Number of worker processes that read the text; 0: one per core.", minimum=0
    )
    runner: str | None = option(
        None,
        "dask: read the text on a Dask cluster instead of processes of this machine, which trains "
        "the vocabulary in either case.",
        choices=(DASK,),
    )
    dask_scheduler: str | None = option(None, DASK_SCHEDULER_HELP)

    def check(self) -> None:
        """Checks everything that can be checked without reading a file.

        Raises:
            InputError: if a value is out of range.
        """
        check_limits(self)
        min_size = VOCABULARY_TYPES[self.model_type].min_size
        if self.vocab_size < min_size:
            raise InputError(
                f"`vocab_size`={self.vocab_size}: too small; the special symbols alone need "
                f"{min_size - 1}"
            )
        check_dask(self.runner, self.dask_scheduler)
