"""Encodes questions and contexts: `[CLS] question [SEP] part of the context [SEP]`.

A context that is too long is split into overlapping parts. The character offsets of tokens are
kept, so that answers are substrings of the original context, never joined tokens.
"""

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.input.examples import Features
from albert_tf.tasks.question_answering.readers import Answer, SquadQuestion
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.packing import sequence


def parts_of(tokens: int, room: int, stride: int) -> list[tuple[int, int]]:
    """Return the parts of a context, each its first token and its length; the last one ends it.

    Args:
        tokens: number of tokens in the context; 0 gives one empty part.
        room: maximum tokens of a part.
        stride: tokens from the start of one part to the start of the next, at most `room`.
    """
    parts, first = [], 0
    while first + room < tokens:
        parts.append((first, room))
        first += min(room, stride)
    return [*parts, (first, tokens - first)]


def max_context(parts: Sequence[tuple[int, int]], tokens: int) -> np.ndarray:
    """Return the part in which each token has the most context, int `[tokens]`.

    The score is the smaller of the numbers of tokens before and after it, plus 0.01 times the
    length of the part; the first of equals wins, as in BERT.
    """
    part, most = np.zeros(tokens, np.int64), np.full(tokens, -1.0)
    for number, (first, length) in enumerate(parts):
        before, own = np.arange(length), slice(first, first + length)
        context = np.minimum(before, before[::-1]) + 0.01 * length
        part[own] = np.where(context > most[own], number, part[own])
        most[own] = np.maximum(context, most[own])
    return part


def tokens_of(answer: Answer, offsets: np.ndarray) -> tuple[int, int] | None:
    """Return the first and last of the tokens with characters of an answer; None without any.

    Offsets are int `[tokens, 2]`, the first character of each token, and the one after its last.
    """
    stripped = answer.text.strip()
    start = answer.start + answer.text.find(stripped)
    end = start + len(stripped)
    starts, ends = offsets.T
    inside = np.flatnonzero((starts < end) & (ends > start) & (starts < ends))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


class Window(NamedTuple):
    """The part of a context that a sequence contains.

    Attributes:
        question: that it belongs to.
        position: of the part's first token in the sequence.
        first: index of this token in the context.
        offsets: int `[length, 2]`, characters of the part's tokens in the context.
        may_start: bool `[length]`, whether this window has the most context of each token.
    """

    question: SquadQuestion
    position: int
    first: int
    offsets: np.ndarray
    may_start: np.ndarray


class Windows(Features):
    """The windows of questions as features, those of a question next to each other.

    With answers there are `start_positions`, `end_positions` and `is_impossible`, int32
    `[windows]`: a window that does not contain the whole answer points to `[CLS]` and is
    impossible.

    Attributes:
        windows: what each row of the features contains.
        questions_truncated: number of questions that lost their end.
        answers_in_no_window: number of answers longer than a window, or across the ends of two.
        skipped: questions without windows, because no token covers any of the answer.
    """

    windows: list[Window]
    questions_truncated: int
    answers_in_no_window: int
    skipped: list[SquadQuestion]


def make_windows(
    questions: Sequence[SquadQuestion],
    tokenizer: Tokenizer,
    max_seq_length: int,
    max_query_length: int,
    doc_stride: int,
    answers: Sequence[Answer | None] | None = None,
) -> Windows:
    """Encode questions as windows of at most `max_seq_length` tokens.

    Args:
        max_query_length: maximum tokens of a question.
        doc_stride: tokens from the start of one part to the start of the next.
        answers: of each question, in its context, or None for none; without them the features
            contain no positions.
    """
    # Questions on the same context are next to each other.
    encode = functools.lru_cache(maxsize=64)(tokenizer.encode_with_offsets)
    encoded = tokenizer.encode_batch([question.text for question in questions])
    windows: list[Window] = []
    sequences, positions, first_windows, skipped, truncated, lost = [], [], [], [], 0, 0
    for number, (question, query) in enumerate(zip(questions, encoded, strict=True)):
        ids, offsets = encode(question.context)
        answer = answers[number] if answers is not None else None
        span = tokens_of(answer, offsets) if answer is not None else None
        if answer is not None and span is None:
            skipped.append(question)
            continue
        truncated += len(query) > max_query_length
        query = query[:max_query_length]
        position = len(query) + 2
        parts = parts_of(len(ids), max_seq_length - position - 1, doc_stride)
        best = max_context(parts, len(ids))
        found = False
        first_windows.append(len(windows))
        for place, (first, length) in enumerate(parts):
            part = slice(first, first + length)
            sequences.append(sequence(tokenizer, query, ids[part]))
            may_start = best[part] == place
            windows.append(Window(question, position, first, offsets[part], may_start))
            if span is not None and first <= span[0] and span[1] < first + length:
                positions.append([token - first + position for token in span])
                found = True
            else:
                positions.append([0, 0])
        lost += span is not None and not found
    result = Windows(sequences, tokenizer.pad_id, first_windows=first_windows)
    if answers is not None:
        starts, ends = np.array(positions, np.int32).reshape(-1, 2).T
        result.arrays |= {
            "start_positions": starts,
            "end_positions": ends,
            "is_impossible": (starts == 0).astype(np.int32),
        }
    result.windows, result.skipped = windows, skipped
    result.questions_truncated, result.answers_in_no_window = truncated, lost
    return result
