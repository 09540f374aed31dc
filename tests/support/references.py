"""Text that the original's code was run on, and where to find what it computed.

`own_text` is in the repository. The English vocabulary of the published models and what was
computed with it are other people's text; they lie next to the repository, or nowhere. Where no
result of the original is needed, a test trains a vocabulary of its own within milliseconds.
"""

import io
import json
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import sentencepiece

from tests.conftest import GOLDEN

OWN_TEXT = GOLDEN / "own_text"
OWN_VOCABULARY = OWN_TEXT / "vocabulary.model"
ENGLISH_VOCABULARY = "data/albert_en_vocab/30k-clean.model"

NAMES = ("own_text", "en_30k")


class TokenizerReference(NamedTuple):
    """A vocabulary and what the original's tokenizer makes of some texts with it.

    Attributes:
        vocabulary: a SentencePiece model.
        examples: dictionaries with `text`, and under `lower` and `cased` what the original's
            `preprocess_text` and `FullTokenizer` return: `preprocessed`, `tokens` and `ids`.
    """

    vocabulary: pathlib.Path
    examples: list[dict]


def tokenizer_reference(name: str, shared: Callable[[str], pathlib.Path]) -> TokenizerReference:
    """Return the reference of a name; the test is skipped where it needs data that is missing."""
    if name == "own_text":
        content = (OWN_TEXT / "tokenization.json").read_text("utf-8")
        examples = json.loads(content)["examples"]
        for example in examples:
            for case in (example["lower"], example["cased"]):
                # What the rule for digits before a comma means, rather than what it does where
                # pieces are bytes (the page in the folder explains).
                case["tokens"] = case.get("tokens_stripped", case["tokens"])
                case["ids"] = case.get("ids_stripped", case["ids"])
        return TokenizerReference(OWN_VOCABULARY, examples)
    content = shared("golden/tokenization/tokenization_en_30k.json").read_text("utf-8")
    return TokenizerReference(shared(ENGLISH_VOCABULARY), json.loads(content)["examples"])


class RecordsReference(NamedTuple):
    """A run of the original's data script.

    Attributes:
        text: the text it read.
        records: the TFRecord file it wrote.
        vocabulary: the SentencePiece model it used.
        max_seq_length, max_predictions_per_seq, dupe_factor: its settings.
        examples: how many examples are in the file.
    """

    text: pathlib.Path
    records: pathlib.Path
    vocabulary: pathlib.Path
    max_seq_length: int
    max_predictions_per_seq: int
    dupe_factor: int
    examples: int


def records_reference(name: str, shared: Callable[[str], pathlib.Path]) -> RecordsReference:
    """Return the reference of a name; the test is skipped where it needs data that is missing."""
    if name == "own_text":
        text, records = OWN_TEXT / "records_text.txt", OWN_TEXT / "original.tfrecord"
        return RecordsReference(text, records, OWN_VOCABULARY, 64, 10, 1, 115)
    text, records = shared("golden/tfrecord/input.txt"), shared("golden/tfrecord/en_30k.tfrecord")
    return RecordsReference(text, records, shared(ENGLISH_VOCABULARY), 128, 20, 2, 216)


def trained_sentencepiece(
    lines: Iterable[str],
    vocab_size: int,
    control_symbols: str | None = "[CLS],[SEP],[MASK]",
    **settings: Any,
) -> bytes:
    """Return a small model, serialized: `<pad>` 0, `<unk>` 1 and, if possible, so many pieces."""
    model = io.BytesIO()
    if control_symbols:
        settings["control_symbols"] = control_symbols
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=vocab_size, pad_id=0,
        unk_id=1, bos_id=-1, eos_id=-1, hard_vocab_limit=False, minloglevel=3, **settings,
    )  # fmt: skip
    return model.getvalue()
