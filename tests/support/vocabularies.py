"""Small SentencePiece models, trained within milliseconds."""

import io
from collections.abc import Iterable
from typing import Any

import sentencepiece


def trained_sentencepiece(
    lines: Iterable[str],
    vocab_size: int,
    control_symbols: str | None = "[CLS],[SEP],[MASK]",
    **settings: Any,
) -> bytes:
    """Return a serialized model with `<pad>` 0, `<unk>` 1 and, if possible, so many pieces."""
    model = io.BytesIO()
    if control_symbols:
        settings["control_symbols"] = control_symbols
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_writer=model, vocab_size=vocab_size, pad_id=0,
        unk_id=1, bos_id=-1, eos_id=-1, hard_vocab_limit=False, minloglevel=3, **settings,
    )  # fmt: skip
    return model.getvalue()
