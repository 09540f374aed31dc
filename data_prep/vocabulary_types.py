"""The types of vocabularies and how they are trained: SentencePiece unigram and WordPiece.

Unigram vocabularies are trained with the settings of the original ALBERT. WordPiece vocabularies
have the format of BERT and Chinese ALBERT, one piece per line.
"""

import collections
import functools
import io
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, NamedTuple

from albert_tf.errors import InputError
from albert_tf.tokenizers import normalization, wordpiece
from albert_tf.tokenizers.normalization import Normalization

CONTROL_SYMBOLS = ("[CLS]", "[SEP]", "[MASK]")
USER_DEFINED_SYMBOLS = ("(", ")", '"', "-", ".", "–", "£", "€")

# SentencePiece ignores longer sentences, and those with a character that it uses itself.
_MAX_BYTES, _MAX_CHARACTERS = 4192, 4192 // 4
_RESERVED = "\u2585"

# Of WordPiece's trainer, which takes texts.
_MAX_REPEATS_PER_TEXT = 10_000


class VocabularyType(NamedTuple):
    """A type of vocabulary: a row of the table.

    Attributes:
        prepare: `prepare(line, normalization)` returns the text as the trainer and the tokenizer
            see it.
        unicode_form: of text with accents.
        bare: returns a word as the tokenizer sees it if accents are not kept.
        train: `train(sentences, vocab_size, character_coverage, user_defined_symbols)` returns the
            contents of the files, of prepared sentences; the coverage is the fraction of the
            characters of the text that the vocabulary covers, whose rarest ones are unknown, or
            with `byte_fallback`, which only unigram has, written in bytes. Raises `InputError`,
            which names a size that works, if the text does not yield that many pieces.
        endings: endings of the files; first that of the file that other commands read.
        min_size: the smallest possible number of pieces.
        huggingface_class: the class of `transformers` that reads the vocabulary.
    """

    prepare: Callable[[str, Normalization], str]
    unicode_form: Literal["NFC", "NFKC"]
    bare: Callable[[str], str]
    train: Callable[..., list[bytes]]
    endings: tuple[str, ...]
    min_size: int
    huggingface_class: str


def train_unigram(
    sentences: list[str],
    vocab_size: int,
    character_coverage: float = 0.99995,
    user_defined_symbols: tuple[str, ...] = (),
    byte_fallback: bool = False,
) -> list[bytes]:
    """Train a unigram model, see `VocabularyType.train`; text is always split at the symbols."""
    import sentencepiece

    sentences = [part for sentence in sentences for part in _cut_long(sentence)]
    train_model = functools.partial(
        _train_unigram_model,
        sentences,
        character_coverage=character_coverage,
        user_defined_symbols=[*dict.fromkeys((*USER_DEFINED_SYMBOLS, *user_defined_symbols))],
        byte_fallback=byte_fallback,
    )
    try:
        model = train_model(vocab_size)
    except RuntimeError as error:
        raise InputError(_explain(str(error), len(sentences), vocab_size, train_model)) from None
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    vocabulary = "".join(
        f"{processor.id_to_piece(id)}\t{processor.get_score(id):g}\n"
        for id in range(processor.get_piece_size())
    )
    return [model, vocabulary.encode()]


def _cut_long(sentence: str) -> list[str]:
    """Cut a long sentence, which SentencePiece would ignore, at spaces if there are any."""
    sentence = sentence.replace(_RESERVED, " ")
    parts = []
    while len(sentence) > _MAX_CHARACTERS and len(sentence.encode()) > _MAX_BYTES:
        beginning = sentence.encode()[:_MAX_BYTES].decode(errors="ignore")
        end = beginning.rfind(" ") + 1 or len(beginning)
        parts.append(sentence[:end].strip())
        sentence = sentence[end:]
    return [*parts, sentence]


def _train_unigram_model(sentences: list[str], vocab_size: int, **settings: Any) -> bytes:
    """Train a model; raise RuntimeError if SentencePiece cannot make so many, or few, pieces."""
    import sentencepiece

    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(sentences),
        model_writer=model,
        model_type="unigram",
        vocab_size=vocab_size,
        pad_id=0,
        unk_id=1,
        bos_id=-1,
        eos_id=-1,
        control_symbols=list(CONTROL_SYMBOLS),
        # Fixed, because sums over another number of threads round differently: the same text must
        # give the same model on any machine.
        num_threads=16,
        shuffle_input_sentence=False,
        minloglevel=3,
        **settings,
    )
    return model.getvalue()


def _explain(
    reason: str, sentences: int, vocab_size: int, train_model: Callable[[int], bytes]
) -> str:
    if required := re.search(r"smaller than required_chars\. \d+ vs (\d+)", reason):
        return (
            f"`vocab_size`={vocab_size}: too small; special symbols, the characters of this text "
            f"and, with `byte_fallback`, 256 bytes alone need {required[1]}"
        )
    size = _largest_size(train_model, vocab_size, reason)
    return f"`vocab_size`={vocab_size}: too large for this text ({sentences:,} sentences); " + (
        f"{size} works" if size else "more text is needed"
    )


def _largest_size(train_model: Callable[[int], bytes], vocab_size: int, reason: str) -> int:
    """Return a size below `vocab_size` that was tried and works; 0 if there is none.

    SentencePiece names a limit in its message ("... a value <= 812."), but it is not always right.
    """
    size = vocab_size
    while True:
        named = re.search(r"<= (\d+)", reason)
        size = min(size - 1, int(named[1]) if named else size * 9 // 10)
        if size < VOCABULARY_TYPES["unigram"].min_size:
            return 0
        try:
            train_model(size)
            return size
        except RuntimeError as error:
            reason = str(error)


def prepare_wordpiece(line: str, normalization: Normalization) -> str:
    """Return the words of a line as the tokenizer will see them, separated by spaces."""
    return " ".join(wordpiece.words(line, wordpiece.resolved(normalization)))


def train_wordpiece(
    sentences: list[str],
    vocab_size: int,
    character_coverage: float = 0.99995,
    user_defined_symbols: tuple[str, ...] = (),
) -> list[bytes]:
    """Train a WordPiece vocabulary, see `VocabularyType.train`; the symbols are whole words."""
    counts: collections.Counter[str] = collections.Counter()
    for sentence in sentences:
        counts.update(word for word in sentence.split() if len(word) <= wordpiece.LONGEST_WORD)
    characters = _covered(counts, character_coverage)
    counts = collections.Counter(
        {word: counts[word] for word in sorted(counts) if characters.issuperset(word)}
    )
    inner = {character for word in counts for character in word[1:]}
    alphabet = [
        *sorted(characters),
        *(wordpiece.CONTINUES + character for character in sorted(inner)),
    ]
    first = [*dict.fromkeys((*wordpiece.SPECIAL_SYMBOLS, *user_defined_symbols, *alphabet))]
    required = len(first)
    if vocab_size < required:
        raise InputError(
            f"`vocab_size`={vocab_size}: too small; the characters and special symbols of this "
            f"text alone need {required}"
        )
    pieces = _train_wordpiece_model(counts, first, vocab_size)
    if len(pieces) < vocab_size:
        raise InputError(
            f"`vocab_size`={vocab_size}: too large for this text ({len(sentences):,} sentences); "
            f"{len(pieces)} works"
        )
    return ["".join(f"{piece}\n" for piece in pieces).encode()]


def _covered(counts: collections.Counter[str], coverage: float) -> set[str]:
    """Return the most frequent characters, which make up `coverage` of the text."""
    frequencies: collections.Counter[str] = collections.Counter()
    for word, count in counts.items():
        for character in word:
            frequencies[character] += count
    wanted = frequencies.total() * coverage
    covered: set[str] = set()
    for character, count in sorted(frequencies.items(), key=lambda item: (-item[1], item[0])):
        if wanted <= 0:
            break
        covered.add(character)
        wanted -= count
    return covered


def _train_wordpiece_model(
    counts: collections.Counter[str], first_pieces: list[str], vocab_size: int
) -> list[str]:
    """Return the pieces by id: `first_pieces`, then learned ones, at most `vocab_size` in all."""
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece
    from tokenizers.pre_tokenizers import WhitespaceSplit
    from tokenizers.trainers import WordPieceTrainer

    tokenizer = Tokenizer(WordPiece(unk_token=wordpiece.SPECIAL_SYMBOLS[1]))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    trainer = WordPieceTrainer(
        vocab_size=vocab_size,
        min_frequency=2,
        # By itself, the trainer numbers ##a, ##b, ... in the order of a hash table, which differs
        # between runs, and breaks ties between pairs by these numbers.
        special_tokens=first_pieces,
        limit_alphabet=len(first_pieces),
        continuing_subword_prefix=wordpiece.CONTINUES,
        show_progress=False,
    )
    tokenizer.train_from_iterator(_repeated(counts.items()), trainer)
    ids = tokenizer.get_vocab()
    return sorted(ids, key=ids.__getitem__)


def _repeated(counts: Iterable[tuple[str, int]]) -> Iterator[str]:
    """Yield each word as often as it was counted, since the trainer takes texts, not counts."""
    for word, count in counts:
        while count > 0:
            yield " ".join([word] * min(count, _MAX_REPEATS_PER_TEXT))
            count -= _MAX_REPEATS_PER_TEXT


VOCABULARY_TYPES: dict[str, VocabularyType] = {
    "unigram": VocabularyType(
        prepare=normalization.preprocess,
        unicode_form="NFKC",
        # As SentencePiece's own normalizer composes what remains.
        bare=lambda word: unicodedata.normalize("NFKC", normalization.without_accents(word)),
        train=train_unigram,
        endings=(".model", ".vocab"),
        # <pad>, <unk>, the symbols, and at least one learned piece.
        min_size=2 + len(CONTROL_SYMBOLS) + len(USER_DEFINED_SYMBOLS) + 1,
        huggingface_class="AlbertTokenizer",
    ),
    "wordpiece": VocabularyType(
        prepare=prepare_wordpiece,
        unicode_form="NFC",
        bare=wordpiece.without_accents,
        train=train_wordpiece,
        endings=(".txt",),
        min_size=len(wordpiece.SPECIAL_SYMBOLS) + 1,
        huggingface_class="BertTokenizer",
    ),
}
