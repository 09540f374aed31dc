"""Trains a subword vocabulary on text with one sentence per line.

    albert-train-vocabulary --input_file=corpus.txt --output_prefix=vocabulary/30k

writes the SentencePiece model vocabulary/30k.model and its list of pieces, vocabulary/30k.vocab;
with --model_type=wordpiece, vocabulary/30k.txt.
"""

import collections
import contextlib
import dataclasses
import itertools
import json
import logging
import os
import time
import unicodedata
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from albert_tf import files
from albert_tf.children import stoppable
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.logs import counted
from albert_tf.options import WithPaths, check_limits, command, option, seed_option
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import CONFIG_FILE, Normalization, read_normalization
from data_prep.vocabulary_types import VOCABULARY_TYPES, VocabularyType
from data_prep.work_folder import WorkFolder, fingerprint_of
from data_prep.workers import DASK, DASK_SCHEDULER_HELP, SKIP_BAD_FILES_HELP

logger = logging.getLogger(__name__)

# Incremented whenever the same text gives another sample, or the files of unfinished work change.
_SAMPLE_VERSION = 2

# The original removes accents, of which English has next to none. Elsewhere they are part of words
# (of the vowels in Thai and Tibetan, for example), and words become the same without them.
# They are kept if more words than this could be affected: of words in small letters (or of a script
# without capitals), and of words with a capital letter, which may be foreign names. In English
# novels, 0.01 and 0.1 % are; in 97 articles of the English Wikipedia, 0.1 and 1.1 %.
_MAX_SHARE, _MAX_SHARE_OF_CAPITALIZED = 0.0015, 0.02
_MAX_SENTENCES = 100_000
_MOST_SHOWN, _LONGEST_SHOWN = 5, 20


@dataclasses.dataclass(frozen=True)
class VocabularyOptions(WithPaths):
    """Options of `train_vocabulary`."""

    input_file: tuple[str, ...] = option(help="Text files or globs, separated by commas.")
    output_prefix: str = option(
        help="Path of the files, without .model, .vocab or .txt.", path="file"
    )
    model_type: str = option(
        "unigram",
        "unigram: SentencePiece, as in English ALBERT; wordpiece: as in BERT and Chinese ALBERT.",
        choices=tuple(VOCABULARY_TYPES),
        group="Vocabulary",
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
    byte_fallback: bool = option(
        False,
        "Write characters that get no piece as the bytes of their UTF-8, for which there are 256 "
        "pieces, instead of an unknown token.",
        needs=("model_type", "unigram"),
    )
    user_defined_symbols: tuple[str, ...] = option(
        (),
        "Pieces for texts of your own, separated by commas. unigram: text is always split at them, "
        "also inside words; wordpiece: words, without punctuation.",
    )
    input_sentence_size: int = option(
        2_000_000,
        "Train on a uniform sample of this many sentences; 0: on all of them.",
        minimum=0,
        group="Data",
    )
    skip_bad_files: bool = option(False, SKIP_BAD_FILES_HELP)
    random_seed: int = seed_option(12345, "Seed of the sample of sentences.")
    num_processes: int = option(
        0,
        "Number of worker processes that read the text; 0: one per core.",
        minimum=0,
        group="Machines",
    )
    runner: str | None = option(
        None,
        "dask: read the text on a Dask cluster instead of processes of this machine, which trains "
        "the vocabulary in either case.",
        choices=(DASK,),
    )
    dask_scheduler: str | None = option(None, DASK_SCHEDULER_HELP, needs=("runner", DASK))

    def check(self) -> None:
        """Raise InputError for values out of range."""
        check_limits(self)
        min_size = VOCABULARY_TYPES[self.model_type].min_size
        if self.vocab_size < min_size:
            raise InputError(
                f"`vocab_size`={self.vocab_size}: too small; the special symbols alone need "
                f"{min_size - 1}"
            )


@stoppable()
def train_vocabulary(options: VocabularyOptions) -> str:
    """Train a vocabulary and write its files, and its normalization to `tokenizer_config.json`.

    What an interrupted run has read of the same text is kept for the next one.

    Returns:
        Path of the file that other commands read.

    Raises:
        InputError: If an option is invalid, a file is missing, the folder contains a vocabulary
            with another normalization, or the text does not yield a vocabulary of the requested
            size.
    """
    options.check()
    from data_prep.sentence_sample import sample_sentences  # loads numba
    from data_prep.text_units import readable, text_files

    endings = VOCABULARY_TYPES[options.model_type].endings
    paths = text_files(options.input_file)
    folder = os.path.dirname(options.output_prefix)
    outputs = [options.output_prefix + ending for ending in endings]
    record = os.path.join(folder, CONFIG_FILE)
    files.check_outputs({"output_prefix": [*outputs, record]}, {"input_file": paths})
    files.make_folder(folder, "output_prefix")
    paths = readable(paths, files.check_utf8, options.skip_bad_files, [])
    size, seed = options.input_sentence_size, options.random_seed
    fingerprint = fingerprint_of(
        {"input_sentence_size": size, "random_seed": seed},
        version=_SAMPLE_VERSION,
        input=[[path, *files.file_identity(path)] for path in paths],
    )
    with arguments_renamed(output_file="output_prefix", work_dir="output_prefix"):
        work = WorkFolder.resume(outputs[0], None, fingerprint)
    with work:
        with work.kept_after_error():
            sentences = sample_sentences(paths, size, seed, options, work)
            _train(options, sentences, outputs, work)
        work.remove()
    return outputs[0]


def _train(
    options: VocabularyOptions,
    sentences: list[str],
    outputs: list[str],
    work: WorkFolder,
) -> None:
    vocabulary_type = VOCABULARY_TYPES[options.model_type]
    folder = os.path.dirname(options.output_prefix)
    normalization = _normalization(options, vocabulary_type, sentences)
    _check_symbols(options, vocabulary_type, normalization)
    with work.kept_after_error(is_useful=False):  # another folder is needed
        _check_folder(folder, outputs, normalization)
    for number, sentence in enumerate(sentences):  # in place: the sample may fill the memory
        sentences[number] = vocabulary_type.prepare(sentence, normalization)
    sentences = [sentence for sentence in sentences if sentence]
    if not sentences:
        raise InputError(f"`input_file`: no text in {', '.join(options.input_file)}")
    megabytes = sum(len(sentence.encode()) for sentence in sentences) / 1e6
    logger.info("training on %s, %.1f MB", counted(len(sentences), "sentence"), megabytes)
    contents = vocabulary_type.train(
        sentences,
        options.vocab_size,
        options.character_coverage,
        options.user_defined_symbols,
        **({"byte_fallback": True} if options.byte_fallback else {}),
    )
    config = {"tokenizer_class": vocabulary_type.huggingface_class, **normalization.to_dict()}
    contents.append((json.dumps(config, indent=2) + "\n").encode())
    written = [*outputs, os.path.join(folder, CONFIG_FILE)]
    with contextlib.ExitStack() as renamed_at_exit:
        for path, content in zip(written, contents, strict=True):
            partial = renamed_at_exit.enter_context(files.replacing(path))
            with files.open_file(partial, "wb") as file:
                file.write(content)
        if read_normalization(folder) != normalization:
            for path in outputs:  # a vocabulary is never next to the record of another one
                files.remove(path)


def _normalization(
    options: VocabularyOptions, vocabulary_type: VocabularyType, sentences: list[str]
) -> Normalization:
    """Return the normalization that the options name; without one for accents, the text decides."""
    keep_accents = options.keep_accents
    if keep_accents is None:
        loss = accent_loss(sentences, vocabulary_type.unicode_form, vocabulary_type.bare)
        keep_accents = not loss.is_negligible
        logger.info("%s", loss.describe(keep_accents))
    return Normalization(
        do_lower_case=options.do_lower_case,
        keep_accents=keep_accents,
        unicode_form=vocabulary_type.unicode_form if keep_accents else None,
    )


class AccentLoss(NamedTuple):
    """What a text would lose without accents.

    Attributes:
        words, affected: number of words in small letters, and of those with accents.
        capitalized, capitalized_affected: the same of words with a capital letter.
        merged: words that become another word of the text without accents, and that word, the most
            frequent first.
        changed: words with accents and what remains of them, the most frequent first.
    """

    words: int
    affected: int
    capitalized: int
    capitalized_affected: int
    merged: list[tuple[str, str]]
    changed: list[tuple[str, str]]

    @property
    def is_negligible(self) -> bool:
        """Whether the losses, also in text that was not seen, are below the limits.

        In a short text, a single accent cannot be told from a frequent one: the upper end of the
        95 % confidence interval decides (Clopper and Pearson).
        """
        if not (self.affected or self.capitalized_affected):
            return True
        return (
            _largest_share(self.affected, self.words) < _MAX_SHARE
            and _largest_share(self.capitalized_affected, self.capitalized)
            < _MAX_SHARE_OF_CAPITALIZED
        )

    def describe(self, kept: bool) -> str:
        """Return a line on what was decided, and why."""
        words, affected = self.words + self.capitalized, self.affected + self.capitalized_affected
        shown = [f"{a} → {b}" for a, b in (self.merged or self.changed)[:_MOST_SHOWN]]
        examples = f", such as {', '.join(shown)}" if shown else ""
        merged = " (another word of the text)" if self.merged else ""
        return (
            f"accents are {'kept' if kept else 'removed'}: {affected:,} of {words:,} words "
            f"({affected / max(words, 1):.2%}) change without them{examples}{merged}; "
            f"--{'no' if kept else ''}keep_accents {'removes' if kept else 'keeps'} them"
        )


def accent_loss(
    sentences: Sequence[str], form: Literal["NFC", "NFKC"], bare: Callable[[str], str]
) -> AccentLoss:
    """Measure what sentences would lose, on at most 100,000 of them.

    Args:
        form: the Unicode form of words with accents.
        bare: removes the accents of a word.
    """
    step = max(len(sentences) // _MAX_SENTENCES, 1)
    counts = collections.Counter(
        itertools.chain.from_iterable(map(str.split, itertools.islice(sentences, 0, None, step)))
    )
    totals, affected = [0, 0], [0, 0]
    changed: dict[str, str] = {}
    variants: dict[str, set[str]] = collections.defaultdict(set)
    for word, count in counts.items():
        capitalized = word != word.lower()
        totals[capitalized] += count
        kept = unicodedata.normalize(form, word)
        without = word if word.isascii() else bare(word)
        if without != kept:
            affected[capitalized] += count
            changed[word] = without
        variants[without.lower()].add(kept.lower())

    def shown(words: Sequence[str]) -> list[tuple[str, str]]:
        short = sorted(words, key=lambda word: (len(word) > _LONGEST_SHOWN, -counts[word], word))
        return [
            (word[:_LONGEST_SHOWN], changed[word][:_LONGEST_SHOWN]) for word in short[:_MOST_SHOWN]
        ]

    merged = [word for word, without in changed.items() if len(variants[without.lower()]) > 1]
    return AccentLoss(
        totals[False],
        affected[False],
        totals[True],
        affected[True],
        shown(merged),
        shown(list(changed)),
    )


def _largest_share(count: int, total: int) -> float:
    from scipy.stats import binomtest

    return binomtest(count, total).proportion_ci().high if total else 0.0


def _check_symbols(
    options: VocabularyOptions, vocabulary_type: VocabularyType, normalization: Normalization
) -> None:
    for symbol in options.user_defined_symbols:
        normalized = vocabulary_type.prepare(symbol, normalization)
        if normalized != symbol or " " in symbol:
            raise InputError(
                f"`user_defined_symbols`={symbol}: never occurs in normalized text, in which it is "
                f"{normalized!r}"
            )


def _check_folder(folder: str, outputs: list[str], normalization: Normalization) -> None:
    """Raise InputError if the folder has another vocabulary, which is normalized otherwise."""
    for path in files.files_in(folder, "*"):
        if path in outputs or not _may_be_vocabulary(path):
            continue
        try:
            found = Tokenizer.load(path).normalization
        except InputError:  # a file of another program
            continue
        if found != normalization.otherwise(found):
            raise InputError(
                f"`output_prefix`={outputs[0]}: {path} in the same folder is normalized otherwise "
                f"({found.to_json().strip()}, here {normalization.to_json().strip()}); choose "
                "another folder"
            )


def _may_be_vocabulary(path: str) -> bool:
    if path.endswith(".model"):
        return True
    if not path.endswith(".txt"):
        return False
    with files.open_file(path, "rb") as file:
        return file.read(5) == b"[PAD]"


def run(options: VocabularyOptions) -> None:
    start = time.monotonic()
    output_file = train_vocabulary(options)
    print(f"{output_file}: {options.vocab_size:,} pieces in {time.monotonic() - start:.1f} s")


cli = command(VocabularyOptions, run)

if __name__ == "__main__":
    cli()
