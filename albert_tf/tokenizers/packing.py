"""Packs the tokens of texts and pairs of texts into sequences for a model."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import check_unicode

# Room for three special symbols and a token of each text.
MIN_LENGTH = 5


def keep_start(tokens: np.ndarray, length: int) -> np.ndarray:
    """Return the first `length` tokens of a text, or all if there are fewer."""
    return tokens[:length]


def keep_ends(tokens: np.ndarray, length: int) -> np.ndarray:
    """Return the first quarter of `length` tokens of a text, and the rest of them from its end.

    Of 510, these are 128 and 382, which Sun et al. (arXiv 1905.05583, section 5.3.1) found best.
    """
    length = min(len(tokens), length)
    first = (length + 3) // 4
    return np.concatenate([tokens[:first], tokens[len(tokens) - (length - first) :]])


def window_starts(tokens: int, room: int) -> np.ndarray:
    """Return the first token of each window of at most `room` tokens, int `[windows]`.

    Windows overlap by half; the last one ends where the text ends. One without tokens has one.
    """
    last = max(tokens - room, 0)
    return np.append(np.arange(0, last, max(room // 2, 1)), last)


def truncate(
    first: np.ndarray,
    second: np.ndarray | None,
    max_length: int,
    shorten: Callable[[np.ndarray, int], np.ndarray] = keep_start,
) -> tuple[np.ndarray, np.ndarray | None]:
    """Remove tokens of a text, or of a pair, so that they fit into a sequence.

    Args:
        first: ids or offsets of a text, `[tokens, ...]`.
        second: those of the second text of a pair; None for a single text.
        max_length: length of the sequence in tokens, special symbols included.
        shorten: returns at most a number of tokens of a text.

    Returns:
        What remains of both. Of a pair, the longer text loses tokens first, as in the original's
        `_truncate_seq_pair`.
    """
    if second is None:
        return shorten(first, max_length - 2), None
    first_length, second_length = truncated_lengths(len(first), len(second), max_length - 3)
    return shorten(first, first_length), shorten(second, second_length)


def truncated_lengths(first: Any, second: Any, room: int, ops: Any = np) -> tuple[Any, Any]:
    """Return lengths of two texts after removing tokens from the longer one until both fit.

    Texts of equal length lose a token from the second. Lengths are numbers or arrays; `ops` is
    `tensorflow` for tensors.
    """
    excess = ops.maximum(first + second - room, 0)
    # First down to the length of the other, then alternately.
    longer = first - second
    one, other = (ops.minimum(excess, ops.maximum(more, 0)) for more in (longer, -longer))
    rest = excess - one - other
    return first - one - rest // 2, second - other - (rest - rest // 2)


def join(first: np.ndarray, second: np.ndarray | None, begin: Any, end: Any) -> np.ndarray:
    """Join texts as `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`.

    Args:
        first, second: as of `truncate`.
        begin, end: what stands for `[CLS]` and `[SEP]`: their ids or offsets.

    Returns:
        int32 `[seq, ...]`.
    """
    parts: list[Any] = [[begin], first, [end]]
    if second is not None:
        parts += [second, [end]]
    return np.concatenate(parts).astype(np.int32)


def segment_ids(first: np.ndarray, second: np.ndarray | None) -> np.ndarray:
    """Segment ids of the sequence that `join` returns, int32 `[seq]`."""
    in_second = 0 if second is None else len(second) + 1
    return np.repeat(np.array([0, 1], np.int32), [len(first) + 2, in_second])


def sequence(
    tokenizer: Any, first: np.ndarray, second: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the token ids of a text, or of a pair, as a model reads them, and the segment ids."""
    return join(first, second, tokenizer.cls_id, tokenizer.sep_id), segment_ids(first, second)


def pack(
    firsts: Sequence[tuple],
    seconds: Sequence[tuple],
    max_length: int | None,
    cls: int,
    sep: int,
    offsets: bool,
) -> dict[str, list[np.ndarray]]:
    """Return the rows of `Tokenizer.__call__` without padding.

    Args:
        firsts: ids and offsets of each text.
        seconds: those of the second text of each pair; None twice for a single text.
        max_length: of the sequences in tokens; None for no limit.
        cls, sep: the ids around texts.
        offsets: whether to return these, too.
    """
    names = ("input_ids", "input_mask", "segment_ids", *(("offsets",) if offsets else ()))
    rows: dict[str, list[np.ndarray]] = {name: [] for name in names}
    for (ids, spans), (more_ids, more_spans) in zip(firsts, seconds, strict=True):
        if max_length is not None:
            ids, more_ids = truncate(ids, more_ids, max_length)
            spans, more_spans = truncate(spans, more_spans, max_length)
        joined = join(ids, more_ids, cls, sep)
        rows["input_ids"].append(joined)
        rows["input_mask"].append(np.ones_like(joined))
        rows["segment_ids"].append(segment_ids(ids, more_ids))
        if offsets:
            rows["offsets"].append(join(spans, more_spans, (0, 0), (0, 0)))
    return rows


def pad(rows: Sequence[np.ndarray], length: int, value: int = 0) -> np.ndarray:
    """Pad rows `[seq, ...]` at their ends to one array, int32 `[rows, length, ...]`."""
    inner = rows[0].shape[1:] if rows else ()
    padded = np.full((len(rows), length, *inner), value, np.int32)
    for number, row in enumerate(rows):
        padded[number, : len(row)] = row
    return padded


def check_padding(padding: Any, max_length: int | None) -> None:
    """Raise InputError if these arguments of `Tokenizer.__call__` are invalid."""
    if max_length is not None and max_length < MIN_LENGTH:
        raise InputError(f"`max_length`={max_length}: must be at least {MIN_LENGTH}")
    if padding not in ("longest", "max_length", False):
        raise InputError(f"`padding`={padding}: must be 'longest', 'max_length' or False")
    if padding == "max_length" and max_length is None:
        raise InputError("`padding`='max_length': needs `max_length`")


def checked_pairs(texts: Any, pairs: Any) -> tuple[list[str], list[str] | None]:
    """Return these arguments of `Tokenizer.__call__` as lists; raise InputError if invalid."""
    firsts = checked_texts(texts, "texts")
    seconds = None if pairs is None else checked_texts(pairs, "pairs")
    if seconds is not None and len(seconds) != len(firsts):
        raise InputError(f"`pairs`: must be as many as `texts`, {len(firsts)}, not {len(seconds)}")
    return firsts, seconds


def checked_texts(texts: Any, argument: str) -> list[str]:
    """Return texts, which errors call `argument`, as a list; raise InputError if one is invalid."""
    texts = [texts] if isinstance(texts, str) else texts
    if not isinstance(texts, Iterable) or isinstance(texts, bytes | Mapping):
        raise InputError(
            f"`{argument}`={texts!r}: must be a text or a sequence of texts, not "
            f"{type(texts).__name__}"
        )
    texts = list(texts)
    for number, text in enumerate(texts):
        if not isinstance(text, str):
            raise InputError(
                f"`{argument}`[{number}]={text!r}: must be a text, not {type(text).__name__}"
            )
        check_unicode(text, f"`{argument}`[{number}]")
    return texts
