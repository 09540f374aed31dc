"""Questions and their contexts as sequences: `[CLS] question [SEP] part of the context [SEP]`.

A context that is too long is read in parts that overlap. Tokens know their characters in the
context as it was given, so answers are cut from it, never put together from tokens.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.finetuning.squad.squad_files import Answer, Question
from albert_tf.input.examples import Features
from albert_tf.tokenizers import Tokenizer


class Part(NamedTuple):
    """A part of a context: its first token, and how many there are."""

    first: int
    length: int


def parts_of(tokens: int, room: int, stride: int) -> list[Part]:
    """The parts of a context, in order; the last one ends where the context ends.

    Args:
        tokens: in the context; without any there is one empty part.
        room: tokens that a part can have.
        stride: tokens from the start of a part to that of the next, at most `room`.
    """
    parts, first = [], 0
    while first + room < tokens:
        parts.append(Part(first, room))
        first += min(room, stride)
    return [*parts, Part(first, tokens - first)]


def max_context(parts: Sequence[Part], tokens: int) -> np.ndarray:
    """In which part each token is read with the most context, int `[tokens]`.

    What counts is the smaller of its numbers of tokens before and after, and a little the length
    of the part; the first of equals is taken, as in BERT.
    """
    first, length = np.array(parts)[:, :, None].swapaxes(0, 1)
    before = np.arange(tokens) - first
    after = length - 1 - before
    inside = (before >= 0) & (after >= 0)
    return np.where(inside, np.minimum(before, after) + 0.01 * length, -1.0).argmax(axis=0)


def tokens_of(answer: Answer, offsets: np.ndarray) -> tuple[int, int] | None:
    """First and last of the tokens that hold the characters of an answer.

    Args:
        answer: in the context.
        offsets: int `[tokens, 2]`, first character of each token, and the one after its last.

    Returns:
        None where no token stands for any of them.
    """
    stripped = answer.text.strip()
    start = answer.start + answer.text.find(stripped)
    end = start + len(stripped)
    starts, ends = offsets.T
    inside = np.flatnonzero((starts < end) & (ends > start) & (starts < ends))
    return (int(inside[0]), int(inside[-1])) if len(inside) else None


class Window(NamedTuple):
    """What a sequence holds of a context.

    Attributes:
        question: that it belongs to.
        position: of the part's first token in the sequence.
        first: its first token, by number in the context.
        offsets: int `[length, 2]`, characters of the part's tokens in the context.
        may_start: bool `[length]`, whether this is the window with the most context of a token.
    """

    question: Question
    position: int
    first: int
    offsets: np.ndarray
    may_start: np.ndarray


@dataclasses.dataclass
class Windows:
    """The windows of questions, those of a question one after the other.

    Attributes:
        features: what the model reads; where answers were asked for with `start_positions`,
            `end_positions` and `is_impossible`, int32 `[windows]`: a window that does not hold the
            whole answer points to `[CLS]` and is called impossible.
        windows: as many.
        cut_questions: questions that lost their end.
        answers_in_no_window: answers that are longer than a window, or lie across the ends of two.
        left_out: questions without windows, since no token stands for any of the answer.
    """

    features: Features
    windows: list[Window]
    cut_questions: int
    answers_in_no_window: int
    left_out: list[Question]


def make_windows(
    questions: Sequence[Question],
    tokenizer: Tokenizer,
    max_seq_length: int,
    max_query_length: int,
    doc_stride: int,
    answers: Sequence[Answer | None] | None = None,
) -> Windows:
    """The windows of questions.

    Args:
        questions: with their contexts.
        tokenizer: of the model.
        max_seq_length: tokens in a sequence, at most.
        max_query_length: tokens of a question that are kept.
        doc_stride: tokens from the start of a part to that of the next.
        answers: of each question, in its context, or None for none; without them there are no
            positions among the features.
    """
    # Questions on the same context follow one another.
    encode = functools.lru_cache(maxsize=64)(tokenizer.encode_with_offsets)
    encoded = tokenizer.encode_batch([question.text for question in questions])
    windows, sequences, positions, left_out, cut, lost = [], [], [], [], 0, 0
    for number, (question, query) in enumerate(zip(questions, encoded, strict=True)):
        ids, offsets = encode(question.context)
        answer = answers[number] if answers is not None else None
        span = tokens_of(answer, offsets) if answer is not None else None
        if answer is not None and span is None:
            left_out.append(question)
            continue
        cut += len(query) > max_query_length
        start = [tokenizer.cls_id, *query[:max_query_length], tokenizer.sep_id]
        parts = parts_of(len(ids), max_seq_length - len(start) - 1, doc_stride)
        best = max_context(parts, len(ids))
        found = False
        for place, (first, length) in enumerate(parts):
            part = slice(first, first + length)
            sequence = [*start, *ids[part], tokenizer.sep_id]
            sequences.append((sequence, [0] * len(start) + [1] * (length + 1)))
            may_start = best[part] == place
            windows.append(Window(question, len(start), first, offsets[part], may_start))
            if span is not None and first <= span[0] and span[1] < first + length:
                positions.append([token - first + len(start) for token in span])
                found = True
            else:
                positions.append([0, 0])
        lost += span is not None and not found
    arrays = {}
    if answers is not None:
        starts, ends = np.array(positions, np.int32).reshape(-1, 2).T
        arrays = {
            "start_positions": starts,
            "end_positions": ends,
            "is_impossible": (starts == 0).astype(np.int32),
        }
    features = Features(sequences, tokenizer.pad_id, arrays=arrays)
    return Windows(features, windows, cut, lost, left_out)
