"""N-gram whole-word masking (ALBERT paper, section 4.1) as one compiled loop; no TensorFlow.

An example's masks depend on its own 64-bit seed and nothing else, so they are the same whichever
process draws them, and in whatever order. Data preparation draws them once per copy of an example;
training can draw them anew at every visit with the same function.

Differences from the original, all of them faults there: n-gram lengths come from the given seed;
spans never overlap; a span never runs across `[SEP]` from one segment into the other; and a length
is drawn before its place, so that what fits where cannot change how often a length is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numba
import numpy as np

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

# How a token can be covered.
_MASKED, _PERMUTED = 1, 2


class Masking(NamedTuple):
    """How many tokens to mask, and in spans of what length.

    Attributes:
        max_predictions: the most tokens masked in one example.
        masked_lm_prob: share of the tokens to mask, `[CLS]` and `[SEP]` counted.
        ngram: longest span, in words.
        favor_shorter_ngram: whether a span of n words has a probability proportional to 1/n
            (6/11, 3/11, 2/11 for `ngram` 3); otherwise these probabilities are reversed.
        do_permutation: whether as many tokens again, in spans drawn the same way, change places
            with one another and are predicted too, as far as `max_predictions` allows.
        whole_words: whether words are masked whole; otherwise each token counts as a word.
    """

    max_predictions: int
    masked_lm_prob: float = 0.15
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_permutation: bool = False
    whole_words: bool = True

    def length_probabilities(self) -> np.ndarray:
        """float64 `[ngram]`: probability of a span of 1, 2, ... words."""
        weights = 1.0 / np.arange(1, self.ngram + 1)
        return (weights if self.favor_shorter_ngram else weights[::-1]) / weights.sum()


class MaskedBatch(NamedTuple):
    """Masked examples, and what was drawn for them.

    Attributes:
        input_ids: int32 `[batch, seq]`, with the masks in it.
        positions: int32 `[batch, max_predictions]`, ascending, padded with 0.
        ids: int32 `[batch, max_predictions]`, the tokens that stood there, padded with 0.
        weights: float32 `[batch, max_predictions]`, 1 for a prediction and 0 for padding.
        drawn_lengths: int64 `[ngram]`, how often a span of 1, 2, ... words was drawn. The last
            span of an example may have been cut, or left out, to stay within its budget.
        masked_lengths: int64 `[ngram]`, how many spans of 1, 2, ... words were masked.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    ids: np.ndarray
    weights: np.ndarray
    drawn_lengths: np.ndarray
    masked_lengths: np.ndarray


def draw_masks(
    input_ids: np.ndarray,
    lengths: np.ndarray,
    word_starts: np.ndarray,
    seeds: np.ndarray,
    masking: Masking,
    special_ids: tuple[int, ...],
    mask_id: int,
    replacement_ids: np.ndarray,
) -> MaskedBatch:
    """Masks a batch of examples.

    Of the masked tokens 80 % become `[MASK]`, 10 % stay, 10 % become a random piece.

    Args:
        input_ids: int32 `[batch, seq]`, unchanged by this.
        lengths: int32 `[batch]`, tokens of each example before its padding.
        word_starts: `[batch, seq]`, nonzero where a word begins. The first token after a special
            one begins a word in any case.
        seeds: uint64 `[batch]`, from `derive_seeds`.
        masking: the settings.
        special_ids: ids that are never masked, `[CLS]` and `[SEP]`.
        mask_id: id of `[MASK]`.
        replacement_ids: int32, ids from which random replacements are drawn.
    """
    batch = len(input_ids)
    masked = MaskedBatch(
        input_ids=np.array(input_ids, np.int32),
        positions=np.zeros((batch, masking.max_predictions), np.int32),
        ids=np.zeros((batch, masking.max_predictions), np.int32),
        weights=np.zeros((batch, masking.max_predictions), np.float32),
        drawn_lengths=np.zeros(masking.ngram, np.int64),
        masked_lengths=np.zeros(masking.ngram, np.int64),
    )
    _mask_batch(
        masked.input_ids,
        np.asarray(lengths, np.int32),
        np.asarray(word_starts, np.bool_) | (not masking.whole_words),
        np.asarray(seeds, np.uint64),
        masking.masked_lm_prob,
        np.cumsum(masking.length_probabilities()),
        masking.do_permutation,
        np.asarray(special_ids, np.int32),
        np.int32(mask_id),
        np.asarray(replacement_ids, np.int32),
        *masked[1:],
    )
    return masked


def derive_seeds(seed: int | np.ndarray, *numbers: int | np.ndarray) -> np.ndarray:
    """Independent 64-bit seeds for numbered things, such as the examples of a corpus.

    Args:
        seed: the run's seed (any integer), or seeds from here as an array.
        numbers: one or more integers or integer arrays, broadcast against each other.

    Returns:
        uint64, of the broadcast shape: always the same for the same numbers.
    """
    mixed = seed if isinstance(seed, np.ndarray) else np.asarray(seed % 2**64, np.uint64)
    for number in numbers:
        with np.errstate(over="ignore"):  # wrapping around is the point
            mixed = _mix(
                mixed + (np.asarray(number).astype(np.uint64) + np.uint64(1)) * _GOLDEN_GAMMA
            )
    return mixed


def _mix(bits: np.ndarray) -> np.ndarray:
    """The output function of SplitMix64 (Steele, Lea and Flood, 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


def compiled(function: Callable) -> Callable:
    """Compiles with numba, cached on disk wherever the cache folder can be written."""
    try:
        return numba.njit(function, cache=True, nogil=True)
    except RuntimeError:  # no writable place for the cache: compile anew in each process
        return numba.njit(function, nogil=True)


_mix_compiled = compiled(_mix)


@compiled
def random_unit(state):
    """The next float64 in [0, 1) of a SplitMix64 stream; `state` is uint64 `[1]`."""
    state[0] += _GOLDEN_GAMMA
    return np.float64(_mix_compiled(state[0]) >> np.uint64(11)) / 9007199254740992.0  # 2**53


@compiled
def random_below(state, limit):
    """The next integer in [0, limit)."""
    return np.int64(random_unit(state) * limit)


@compiled
def _mask_batch(
    input_ids, lengths, word_starts, seeds, masked_lm_prob, cumulative, do_permutation,
    special_ids, mask_id, replacement_ids, positions, ids, weights, drawn_lengths, masked_lengths,
):  # fmt: skip
    batch, seq = input_ids.shape
    max_predictions = positions.shape[1]
    covered = np.empty(seq, np.uint8)  # 0: as it is, or how it is covered
    begin = np.empty(seq, np.int64)  # words as ranges of tokens: begin[w] up to end[w]
    end = np.empty(seq, np.int64)
    order = np.empty(seq, np.int64)
    state = np.empty(1, np.uint64)

    for row in range(batch):
        tokens, length = input_ids[row], lengths[row]
        state[0] = seeds[row]
        words = _find_words(tokens, length, word_starts[row], special_ids, begin, end)
        covered[:] = 0
        budget = min(max_predictions, max(1, int(round(length * masked_lm_prob))))
        left = _cover_spans(
            covered, _MASKED, budget, words, begin, end, order, cumulative, state,
            drawn_lengths, masked_lengths,
        )  # fmt: skip
        if do_permutation:
            _cover_spans(
                covered, _PERMUTED, min(budget, max_predictions - (budget - left)), words, begin,
                end, order, cumulative, state, drawn_lengths, masked_lengths,
            )  # fmt: skip

        prediction = 0
        for position in range(length):
            if not covered[position]:
                continue
            positions[row, prediction] = position
            ids[row, prediction] = tokens[position]
            weights[row, prediction] = 1.0
            prediction += 1
            if covered[position] == _PERMUTED:
                continue
            kind = random_unit(state)
            if kind < 0.8:
                tokens[position] = mask_id
            elif kind >= 0.9:
                tokens[position] = replacement_ids[random_below(state, len(replacement_ids))]
        if do_permutation:
            _permute(tokens, covered, length, order, state)


@compiled
def _cover_spans(
    covered, how, budget, words, begin, end, order, cumulative, state, drawn_lengths,
    masked_lengths,
):  # fmt: skip
    """Marks free spans of words in `covered` with `how`; returns what is left of the budget."""
    for word in range(words):
        order[word] = word
    for last in range(words - 1, 0, -1):
        other = random_below(state, last + 1)
        order[last], order[other] = order[other], order[last]

    ngram = len(cumulative)
    span_words = 0  # words of the span that is looking for a place; 0: to be drawn
    # Spans try the words in random order. A second round fills what is left with single words.
    for attempt in range(2 * words):
        if budget == 0:
            break
        if span_words == 0:
            drawn = random_unit(state)
            span_words = 1
            while span_words < ngram and drawn >= cumulative[span_words - 1]:
                span_words += 1
            drawn_lengths[span_words - 1] += 1
        first = order[attempt % words]
        last = first + (span_words if attempt < words else 1) - 1
        if last >= words or not _is_free(covered, begin, end, first, last):
            continue
        while last >= first and end[last] - begin[first] > budget:
            last -= 1  # the end of the budget: as much of the span as fits
        if last < first:
            continue
        covered[begin[first] : end[last]] = how
        budget -= end[last] - begin[first]
        masked_lengths[last - first] += 1
        span_words = 0
    return budget


@compiled
def _permute(tokens, covered, length, places, state):
    """Shuffles the tokens that are covered as permuted among themselves."""
    count = 0
    for position in range(length):
        if covered[position] == _PERMUTED:
            places[count] = position
            count += 1
    for last in range(count - 1, 0, -1):
        other = random_below(state, last + 1)
        here, there = places[last], places[other]
        tokens[here], tokens[there] = tokens[there], tokens[here]


@compiled
def _find_words(tokens, length, word_starts, special_ids, begin, end):
    """Fills `begin` and `end` with the words between special tokens; returns how many."""
    words = 0
    inside = False  # whether a word may go on at this position
    for position in range(length):
        is_special = False
        for special in special_ids:
            is_special = is_special or tokens[position] == special
        if is_special:
            inside = False
            continue
        if not inside or word_starts[position]:
            begin[words] = position
            words += 1
        end[words - 1] = position + 1
        inside = True
    return words


@compiled
def _is_free(covered, begin, end, first, last):
    """Whether the words `first` to `last` stand side by side and none is masked yet."""
    for word in range(first, last + 1):
        if covered[begin[word]] or (word > first and begin[word] != end[word - 1]):
            return False
    return True
