"""N-gram whole-word masking (ALBERT paper, section 4.1) as one compiled loop; no TensorFlow.

The masks of an example depend only on its own 64-bit seed, not on the process that draws them or on
the order. Data preparation draws them once per copy of an example; training can draw new ones at
every visit with the same function.

Differences from the original, which correct faults there: n-gram lengths come from the given seed;
spans never overlap; a span never crosses `[SEP]` from one segment into the other; and the length of
a span is drawn before its position, so the available space does not bias the lengths.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.environment import compiled
from albert_tf.input.rows import Places

_GOLDEN_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)

# The marks of covered tokens.
_MASKED, _PERMUTED = 1, 2


class Masking(NamedTuple):
    """How many tokens to mask, in spans of which lengths.

    Attributes:
        max_predictions: maximum number of masked tokens per example.
        masked_lm_prob: fraction of tokens to mask, counting `[CLS]` and `[SEP]`.
        ngram: maximum length of a span, in words.
        favor_shorter_ngram: whether spans of n words have a probability proportional to 1/n (6/11,
            3/11, 2/11 for `ngram` 3); otherwise these probabilities are reversed.
        do_permutation: whether as many tokens again, in spans drawn the same way, are permuted and
            predicted too, as far as `max_predictions` allows.
        whole_words: whether to mask whole words; otherwise every token counts as a word.
    """

    max_predictions: int
    masked_lm_prob: float = 0.15
    ngram: int = 3
    favor_shorter_ngram: bool = True
    do_permutation: bool = False
    whole_words: bool = True

    def length_probabilities(self) -> np.ndarray:
        """Return the probabilities of spans of 1, 2, ... words, float64 `[ngram]`."""
        weights = 1.0 / np.arange(1, self.ngram + 1)
        return (weights if self.favor_shorter_ngram else weights[::-1]) / weights.sum()

    def row_budgets(self, lengths: np.ndarray, max_seq_length: int) -> np.ndarray:
        """Return the predictions of examples, int64, in a row of `max_seq_length` tokens.

        Examples have as many as alone, or, if that is too much for all examples of a full row, what
        their `lengths` are of it.
        """
        kinds = 1 + self.do_permutation
        if self.max_predictions >= kinds * round(max_seq_length * self.masked_lm_prob):
            wanted = kinds * np.maximum(np.rint(lengths * self.masked_lm_prob), 1).astype(np.int64)
        else:
            wanted = np.maximum(
                lengths.astype(np.int64) * self.max_predictions // max_seq_length, 1
            )
        return np.minimum(wanted, self.max_predictions)

    def shortfall(self, max_seq_length: int) -> str | None:
        """Return a line if `max_predictions` allows less than `masked_lm_prob` of an example."""
        wanted = round(max_seq_length * self.masked_lm_prob)
        if self.max_predictions >= wanted:
            return None
        return (
            f"note: `max_predictions_per_seq`={self.max_predictions} masks at most "
            f"{self.max_predictions / max_seq_length:.1%} of `max_seq_length`={max_seq_length} "
            f"tokens; `masked_lm_prob`={self.masked_lm_prob:g} needs {wanted}"
        )


class Masks(NamedTuple):
    """How masks are drawn with the ids of a vocabulary.

    Attributes:
        special_ids: ids that are never masked, `[CLS]` and `[SEP]`.
        replacement_ids: int32 `[ids]`, the ids from which random replacements are drawn.
        swap_segments: whether the segments of all pairs in the files are in order, and training
            also draws which pairs are swapped.
    """

    masking: Masking
    special_ids: tuple[int, ...]
    mask_id: int
    replacement_ids: np.ndarray
    swap_segments: bool = False


class MaskedBatch(NamedTuple):
    """Masked examples, or rows of them, and statistics of their spans.

    Attributes:
        input_ids: int32 `[batch, seq]`, with masked tokens replaced.
        positions, ids: int32 `[batch, max_predictions]`, ascending positions and the original ids
            there, padded with 0.
        weights: float32 `[batch, max_predictions]`, 1 for a prediction and 0 for padding.
        drawn_lengths: int64 `[ngram]`, number of spans of 1, 2, ... words that were drawn. The last
            span of an example may have been shortened or omitted to stay within the budget.
        masked_lengths: int64 `[ngram]`, number of spans of 1, 2, ... words that were masked.
    """

    input_ids: np.ndarray
    positions: np.ndarray
    ids: np.ndarray
    weights: np.ndarray
    drawn_lengths: np.ndarray
    masked_lengths: np.ndarray

    def features(self) -> dict[str, np.ndarray]:
        """Return the features that masking changes or adds."""
        names = ("input_ids", "masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
        return dict(zip(names, self, strict=False))


def draw_masks(
    input_ids: np.ndarray,
    lengths: np.ndarray,
    word_starts: np.ndarray,
    seeds: np.ndarray,
    masks: Masks,
    places: Places | None = None,
) -> MaskedBatch:
    """Mask a batch of examples, or of rows of them.

    80 % of the masked tokens become `[MASK]`, 10 % are kept, 10 % become a random piece.

    Args:
        input_ids: int32 `[batch, seq]`; not modified.
        lengths: int32 `[examples]`, number of tokens.
        word_starts: `[batch, seq]`, nonzero where a word starts. A token after a special one always
            starts a word.
        seeds: uint64 `[examples]`, from `derive_seeds`.
        masks: how to draw them.
        places: of the examples in rows, which share `max_predictions`; None: examples, each with
            padding after it.
    """
    batch, masking = len(input_ids), masks.masking
    if places is None:
        places = Places.alone(np.asarray(lengths, np.int32))
        budgets = np.full(batch, masking.max_predictions)
    else:
        budgets = masking.row_budgets(places.length, input_ids.shape[1])
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
        places,
        np.asarray(word_starts, np.bool_) | (not masking.whole_words),
        np.asarray(seeds, np.uint64),
        budgets,
        masking.masked_lm_prob,
        np.cumsum(masking.length_probabilities()),
        masking.do_permutation,
        np.asarray(masks.special_ids, np.int32),
        np.int32(masks.mask_id),
        np.asarray(masks.replacement_ids, np.int32),
        *masked[1:],
    )
    return masked


def derive_seeds(seed: int | np.ndarray, *numbers: int | np.ndarray) -> np.ndarray:
    """Derive independent 64-bit seeds for numbered items, such as the examples of a corpus.

    Args:
        seed: the seed of a run (any integer), or an array returned by this function.
        *numbers: integers or integer arrays that identify the items; broadcast to each other.

    Returns:
        Seeds of the broadcast shape, uint64; deterministic for the same arguments.
    """
    # NumPy makes scalars of arrays without dimensions.
    if isinstance(seed, np.ndarray | np.uint64):
        mixed = np.asarray(seed)
    else:
        mixed = np.asarray(seed % 2**64, np.uint64)
    for number in numbers:
        with np.errstate(over="ignore"):  # wrapping around is intended
            mixed = _mix(
                mixed + (np.asarray(number).astype(np.uint64) + np.uint64(1)) * _GOLDEN_GAMMA
            )
    return mixed


def _mix(bits: np.ndarray) -> np.ndarray:
    """Return the output function of SplitMix64 (Steele, Lea and Flood, 2014)."""
    bits = (bits ^ (bits >> np.uint64(30))) * _MIX_1
    bits = (bits ^ (bits >> np.uint64(27))) * _MIX_2
    return bits ^ (bits >> np.uint64(31))


_mix_compiled = compiled(_mix)


@compiled
def random_unit(state):
    """Return the next float64 in [0, 1) of a SplitMix64 stream; `state` is uint64 `[1]`."""
    state[0] += _GOLDEN_GAMMA
    return np.float64(_mix_compiled(state[0]) >> np.uint64(11)) / 9007199254740992.0  # 2**53


@compiled
def random_below(state, limit):
    """Return the next integer in [0, limit)."""
    return np.int64(random_unit(state) * limit)


@compiled
def _mask_batch(
    input_ids, places, word_starts, seeds, budgets, masked_lm_prob, cumulative, do_permutation,
    special_ids, mask_id, replacement_ids, positions, ids, weights, drawn_lengths, masked_lengths,
):  # fmt: skip
    seq = input_ids.shape[1]
    covered = np.empty(seq, np.uint8)  # 0, or the mark of a covered token
    begin = np.empty(seq, np.int64)  # words as ranges of tokens: begin[w] to end[w] (exclusive)
    end = np.empty(seq, np.int64)
    order = np.empty(seq, np.int64)
    state = np.empty(1, np.uint64)

    prediction, room, last_row = 0, 0, -1
    for example, row in enumerate(places.row):
        first, length = places.begin[example], places.length[example]
        if row != last_row:
            prediction, room, last_row = 0, positions.shape[1], row
        limit = min(budgets[example], room)  # compiled code does not check bounds
        room -= limit
        tokens = input_ids[row, first : first + length]
        state[0] = seeds[example]
        words = _find_words(
            tokens, word_starts[row, first : first + length], special_ids, begin, end
        )
        covered[:length] = 0
        budget = min(limit, max(1, int(round(length * masked_lm_prob))))
        left = _cover_spans(
            covered, _MASKED, budget, words, begin, end, order, cumulative, state,
            drawn_lengths, masked_lengths,
        )  # fmt: skip
        if do_permutation:
            _cover_spans(
                covered, _PERMUTED, min(budget, limit - (budget - left)), words, begin,
                end, order, cumulative, state, drawn_lengths, masked_lengths,
            )  # fmt: skip

        for position in range(length):
            if not covered[position]:
                continue
            positions[row, prediction] = first + position
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
            _permute(tokens, covered, order, state)


@compiled
def _cover_spans(
    covered, mark, budget, words, begin, end, order, cumulative, state, drawn_lengths,
    masked_lengths,
):  # fmt: skip
    """Set free spans of words in `covered` to `mark`; return the rest of the budget."""
    for word in range(words):
        order[word] = word
    for last in range(words - 1, 0, -1):
        other = random_below(state, last + 1)
        order[last], order[other] = order[other], order[last]

    ngram = len(cumulative)
    span_words = 0  # length of the span to be placed; 0: not drawn yet
    # Spans are tried at all words in random order. A second round fills the rest with single words.
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
            last -= 1  # near the end of the budget, as much of the span as fits
        if last < first:
            continue
        covered[begin[first] : end[last]] = mark
        budget -= end[last] - begin[first]
        masked_lengths[last - first] += 1
        span_words = 0
    return budget


@compiled
def _permute(tokens, covered, positions, state):
    """Shuffle the tokens covered as `_PERMUTED` among themselves."""
    count = 0
    for position in range(len(tokens)):
        if covered[position] == _PERMUTED:
            positions[count] = position
            count += 1
    for last in range(count - 1, 0, -1):
        other = random_below(state, last + 1)
        a, b = positions[last], positions[other]
        tokens[a], tokens[b] = tokens[b], tokens[a]


@compiled
def _find_words(tokens, word_starts, special_ids, begin, end):
    """Fill `begin` and `end` with the words between special tokens; return their number."""
    words = 0
    inside = False  # whether a word may continue at this position
    for position in range(len(tokens)):
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
    """Return whether the words `first` to `last` are adjacent and none is covered yet."""
    for word in range(first, last + 1):
        if covered[begin[word]] or (word > first and begin[word] != end[word - 1]):
            return False
    return True
