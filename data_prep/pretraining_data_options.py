"""The options of `create_pretraining_data`, and what can be checked before anything is read."""

import dataclasses

from albert_tf.errors import InputError
from albert_tf.options import WithPaths, check_limits, option, seed_option
from albert_tf.pair_objectives import PAIR_OBJECTIVES
from data_prep.workers import DASK, DASK_SCHEDULER_HELP, SKIP_BAD_FILES_HELP


@dataclasses.dataclass(frozen=True)
class PretrainingDataOptions(WithPaths):
    """Options of `create_pretraining_data`; names and defaults are the original project's."""

    input_file: tuple[str, ...] = option(help="Text files or globs, separated by commas.")
    output_file: tuple[str, ...] = option(
        help="TFRecord file, or several separated by commas; examples are spread evenly over them.",
        path="file",
    )
    spm_model_file: str | None = option(None, "SentencePiece model.", group="Data", common=True)
    vocab_file: str | None = option(
        None,
        "Vocabulary file. With --spm_model_file, only checked to match the model.",
        common=True,
    )
    do_lower_case: bool | None = option(
        None, "Lower-case the text; by default as recorded, else unless its pieces have capitals."
    )
    do_whole_word_mask: bool = option(
        True, "Mask whole words instead of single tokens.", group="Masking"
    )
    max_seq_length: int = option(
        512,
        "Length of an example in tokens, including [CLS] and two [SEP].",
        minimum=5,
        group="Examples",
        common=True,
    )
    max_predictions_per_seq: int = option(
        20, "Maximum number of masked tokens per example.", minimum=1, group="Masking", common=True
    )
    random_seed: int = seed_option(
        12345, "Random seed; the same seed and input give the same bytes.", group="Examples"
    )
    dupe_factor: int = option(
        40,
        "Number of times each document is used, each time with different cuts and masks.",
        minimum=1,
        common=True,
    )
    masked_lm_prob: float = option(
        0.15, "Fraction of tokens to mask.", minimum=0, maximum=1, group="Masking"
    )
    short_seq_prob: float = option(
        0.1,
        "Fraction of documents cut to a random shorter length.",
        minimum=0,
        maximum=1,
        group="Examples",
    )
    ngram: int = option(3, "Maximum length of a masked span, in words.", minimum=1, group="Masking")
    favor_shorter_ngram: bool = option(
        True, "Draw spans of n words with probability proportional to 1/n; otherwise reversed."
    )
    do_permutation: bool = option(False, "Also permute, and predict, as many tokens as are masked.")
    masking: str = option(
        "static",
        "static: the files contain masks, different ones in every copy of a document; dynamic: "
        "the files contain unmasked text in order, and training draws new masks, and which pairs "
        "are swapped, at every visit.",
        choices=("static", "dynamic"),
        common=True,
    )
    pair_objective: str | None = option(
        None,
        "sop: predict whether the two segments are in order (default); nsp: predict whether the "
        "second segment is from the same document; none: a single segment.",
        choices=tuple(PAIR_OBJECTIVES),
        group="Examples",
        common=True,
    )
    random_next_sentence: bool = option(False, "The original's name for --pair_objective=nsp.")
    one_segment_chunks: str = option(
        "split",
        "What to do with a chunk of a single sentence: split it inside the sentence, or drop it.",
        choices=("split", "drop"),
    )
    document_sentences: int = option(
        0,
        "For files with a sentence per line and no blank lines: number of lines that are taken as "
        "a document; 0: blank lines separate documents.",
        minimum=0,
    )
    packing: str = option(
        "original",
        "original: collect sentences until the length is reached, then cut tokens off the longer "
        "segment; fit: stop before a sentence that does not fit, which starts the next example, "
        "and with --pack_rows where examples together fill rows.",
        choices=("original", "fit"),
        common=True,
    )
    pack_rows: bool = option(
        False,
        "Put several examples into each row of --max_seq_length tokens, so that there is hardly "
        "any padding; --max_predictions_per_seq is then of a row. The original cannot read rows.",
        common=True,
    )
    word_segmenter: str | None = option(
        None,
        "Mask whole words, which a segmenter finds, where no spaces separate them, rather than "
        "single characters or pieces. icu: Chinese, Japanese, Thai, Lao, Khmer, Burmese; jieba: "
        "Chinese.",
        choices=("icu", "jieba"),
        group="Masking",
        common=True,
        needs=("do_whole_word_mask",),
    )
    skip_bad_files: bool = option(False, SKIP_BAD_FILES_HELP, group="Data")
    num_shards: int = option(
        0,
        "Write --output_file as this many files, NAME-00000-of-00008 and so on; 0: write exactly "
        "the files named.",
        minimum=0,
        maximum=99_999,
        group="Output",
        common=True,
    )
    num_processes: int = option(
        0, "Number of worker processes; 0: one per core.", minimum=0, group="Machines", common=True
    )
    work_dir: str | None = option(
        None, "Local folder for unfinished work; default: next to the output."
    )
    runner: str | None = option(
        None,
        "dask: use a Dask cluster instead of the processes of this machine.",
        choices=(DASK,),
    )
    dask_scheduler: str | None = option(None, DASK_SCHEDULER_HELP, needs=("runner", DASK))

    @property
    def output_files(self) -> tuple[str, ...]:
        """The files to write, with `num_shards` taken into account."""
        if not self.num_shards:
            return self.output_file
        (name,) = self.output_file
        return tuple(f"{name}-{n:05d}-of-{self.num_shards:05d}" for n in range(self.num_shards))

    @property
    def objective(self) -> str:
        """What is predicted about a pair of segments, one of `PAIR_OBJECTIVES`."""
        return self.pair_objective or ("nsp" if self.random_next_sentence else "sop")

    @property
    def swapped_in_training(self) -> bool:
        """Whether training draws which pairs are swapped; the files have all of them in order."""
        return self.masking == "dynamic" and self.objective == "sop"

    def check(self) -> None:
        """Raise InputError for missing values, or ones out of range or that contradict others."""
        if not (self.spm_model_file or self.vocab_file):
            raise InputError(
                "`spm_model_file`: no vocabulary given; name a .model file, or a WordPiece "
                "vocab.txt with `vocab_file`"
            )
        if not self.input_file or not self.output_file:
            raise InputError("`input_file` and `output_file`: each must name at least one file")
        if len(set(self.output_file)) < len(self.output_file):
            raise InputError(
                f"`output_file`={','.join(self.output_file)}: the same file is named twice"
            )
        if self.num_shards and len(self.output_file) > 1:
            raise InputError(
                f"`num_shards`={self.num_shards}: requires a single name in `output_file`, not "
                f"{len(self.output_file)}"
            )
        if self.random_next_sentence and self.pair_objective not in (None, "nsp"):
            raise InputError(
                f"`random_next_sentence`: contradicts `pair_objective`={self.pair_objective}; it "
                "means nsp"
            )
        if self.work_dir and "://" in self.work_dir:
            raise InputError(f"`work_dir`={self.work_dir}: must be a local folder")
        check_limits(self)
        if self.max_predictions_per_seq > self.max_seq_length:
            raise InputError(
                f"`max_predictions_per_seq`={self.max_predictions_per_seq}: must be at most "
                f"`max_seq_length`={self.max_seq_length}"
            )
