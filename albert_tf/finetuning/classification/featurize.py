"""Texts to the features that a model reads: `[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]`."""

from __future__ import annotations

import json
from collections.abc import Sequence

from albert_tf.errors import InputError
from albert_tf.finetuning.cache import cached_arrays
from albert_tf.finetuning.classification.tasks import Example
from albert_tf.input.examples import Features
from albert_tf.tokenizers import Tokenizer


def featurize(
    examples: Sequence[Example],
    tokenizer: Tokenizer,
    max_seq_length: int,
    cached_dir: str | None = None,
) -> Features:
    """Encodes examples, at most at a given length.

    A text that is too long loses its end; of a pair, the longer one loses tokens first, as in the
    original's `_truncate_seq_pair`.

    Args:
        examples: with pairs of texts, or all without.
        tokenizer: of the model.
        max_seq_length: tokens of an example at most, special symbols included.
        cached_dir: where they are kept for the next time; None for nowhere.

    Raises:
        InputError: `max_seq_length` has no room for a text.
    """
    if max_seq_length < 5:
        raise InputError(f"--max_seq_length={max_seq_length}: must be at least 5")
    arrays = cached_arrays(
        cached_dir,
        [json.dumps([(e.text, e.text_pair) for e in examples]).encode(), tokenizer.path]
        if cached_dir
        else [],
        {
            "features": "text and pair",
            "max_seq_length": max_seq_length,
            "do_lower_case": tokenizer.do_lower_case,
        },
        lambda: _encode(examples, tokenizer, max_seq_length).to_arrays(),
    )
    return Features.from_arrays(arrays)


def _encode(examples: Sequence[Example], tokenizer: Tokenizer, max_seq_length: int) -> Features:
    texts = tokenizer.encode_batch([example.text for example in examples])
    has_pair = examples[0].text_pair is not None
    pairs = tokenizer.encode_batch([example.text_pair or "" for example in examples])
    room = max_seq_length - (3 if has_pair else 2)
    sequences = []
    cut = []
    for text, pair in zip(texts, pairs, strict=True):
        text_length, pair_length = shortened(len(text), len(pair), room)
        cut.append(len(text) + len(pair) - text_length - pair_length)
        first = [tokenizer.cls_id, *text[:text_length], tokenizer.sep_id]
        second = [*pair[:pair_length], tokenizer.sep_id] if has_pair else []
        sequences.append((first + second, [0] * len(first) + [1] * len(second)))
    return Features(sequences, tokenizer.pad_id, tokens_cut=cut)


def shortened(first: int, second: int, room: int) -> tuple[int, int]:
    """Lengths of two texts after tokens are taken from the longer one until both fit.

    Equal lengths lose from the second.
    """
    excess = max(first + second - room, 0)
    # First down to the other's length, then in turns.
    cut = min(excess, abs(first - second))
    first, second = (first - cut, second) if first > second else (first, second - cut)
    rest = excess - cut
    return first - rest // 2, second - (rest - rest // 2)
