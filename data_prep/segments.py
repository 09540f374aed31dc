"""Cuts documents into pairs of segments (ALBERT paper, section 3.1).

A pair is four offsets into one flat array of token ids, so a corpus is cut and duplicated without
copying tokens; `data_prep.assembling` then builds whole batches of examples at once.

As in the original's `create_instances_from_document_albert`, sentences are collected until they
reach a target length (`max_num_tokens`, sometimes a random shorter one), and the chunk is split
between two random sentences. The objective defines what is predicted about a pair:

- sop, sentence order prediction: in half of the pairs, the two segments are swapped.
- nsp, next sentence prediction as in BERT: half of the pairs get the second segment of another
  document, from `exchange_seconds`, when pairs of the whole corpus are together.
- none: a chunk remains a single segment.

There is one difference from the original: if a chunk is a single sentence, the original takes the
second segment from another document and labels the pair as swapped, so a model can infer the label
from the topic. Here, such a chunk is split at a word inside the sentence, or dropped.
"""

from typing import NamedTuple

import numpy as np

from albert_tf.environment import compiled
from albert_tf.input.masking import derive_seeds, random_below, random_unit
from albert_tf.pair_objectives import PAIR_OBJECTIVES


class TokenizedDocuments(NamedTuple):
    """Documents as one flat array.

    Attributes:
        ids: uint16 or uint32 `[tokens]`.
        sentence_offsets: int64 `[sentences + 1]`, index in `ids` of the start of each sentence.
        document_offsets: int64 `[documents + 1]`, index of the first sentence of each document.
    """

    ids: np.ndarray
    sentence_offsets: np.ndarray
    document_offsets: np.ndarray


class Pairing(NamedTuple):
    """How documents become pairs.

    Attributes:
        max_seq_length: length of an example in tokens, including `[CLS]` and `[SEP]`.
        objective: one of `PAIR_OBJECTIVES`.
        short_seq_prob: fraction of documents cut to a random shorter length, which reduces the
            mismatch with fine-tuning on short texts.
        one_segment_chunks: "split" or "drop" chunks of a single sentence.
        packing: "original"; or "fit" to end a chunk before a sentence that would exceed
            `max_num_tokens`, and to cut half of the documents from their end.
        rows: whether examples will share rows (`data_prep.row_plan`). Chunks of "fit" then have
            lengths that together fill rows.
    """

    max_seq_length: int
    objective: str = "sop"
    short_seq_prob: float = 0.1
    one_segment_chunks: str = "split"
    packing: str = "original"
    rows: bool = False

    @property
    def max_num_tokens(self) -> int:
        """The maximum number of tokens in both segments together."""
        return self.max_seq_length - (2 if self.objective == "none" else 3)


class Pairs(NamedTuple):
    """Pairs of segments, in the order of their documents.

    Attributes:
        spans: int64 `[pairs, 4]`: begin and end, in the flat ids, of the first segment in the
            example, then of the second one, which is empty for objective "none".
        labels: bool `[pairs]`. sop: whether the second segment precedes the first in the document;
            nsp: whether the second segment must come from another document.
        seeds: uint64 `[pairs]`, the seed of each example.
        documents: int64 `[pairs]`, index of the document.
        truncated_tokens: number of tokens cut off to fit the length, or in dropped chunks.
        dropped_chunks: number of chunks without a pair (too short to split, or dropped).
    """

    spans: np.ndarray
    labels: np.ndarray
    seeds: np.ndarray
    documents: np.ndarray
    truncated_tokens: int
    dropped_chunks: int


def make_pairs(
    documents: TokenizedDocuments, word_starts: np.ndarray, pairing: Pairing, seeds: np.ndarray
) -> Pairs:
    """Cut every document into pairs.

    Args:
        word_starts: bool `[vocab_size]`, whether a piece starts a word; a single sentence is split
            before such a piece.
        seeds: uint64 `[documents]`; what is random about the pairs of a document depends on its own
            seed only. The lengths of chunks that fill rows depend on the documents before it.
    """
    fit = pairing.packing == "fit"
    spans, labels, document_of, truncated_tokens, dropped_chunks = _cut_documents(
        documents.ids,
        documents.sentence_offsets,
        documents.document_offsets,
        word_starts,
        pairing.max_num_tokens,
        pairing.short_seq_prob,
        PAIR_OBJECTIVES[pairing.objective].part is not None,
        pairing.objective == "sop",
        pairing.one_segment_chunks == "split",
        fit,
        fit and pairing.rows,
        seeds,
    )
    # The index of a pair within its document.
    number_in_document = np.arange(len(spans)) - np.searchsorted(document_of, document_of)
    return Pairs(
        spans=spans,
        labels=labels,
        seeds=derive_seeds(seeds[document_of], number_in_document),
        documents=document_of,
        truncated_tokens=truncated_tokens,
        dropped_chunks=dropped_chunks,
    )


@compiled
def exchange_seconds(
    spans: np.ndarray,
    labels: np.ndarray,
    seeds: np.ndarray,
    documents: np.ndarray,
    max_num_tokens: int,
) -> tuple[np.ndarray, np.ndarray, int]:
    """Give the pairs with label 1 the second segment of another document (BERT, section 3.1).

    The segment is that of the next pair, in the given order, that comes from another document. If
    there is none, the pair keeps its segment and gets label 0.

    Args:
        spans: int64 `[pairs, 4]`, as in `Pairs`, in shuffled order.
        labels, seeds: bool and uint64 `[pairs]`, in the same order.
        documents: `[pairs]`, numbers that identify the documents.
        max_num_tokens: maximum number of tokens in a pair; longer pairs are truncated.

    Returns:
        The new spans and labels, and the number of tokens cut off.
    """
    count = len(spans)
    originals, spans, labels = spans, spans.copy(), labels.copy()
    state = np.empty(1, np.uint64)
    truncated = 0
    for pair in range(count):
        if not labels[pair]:
            continue
        labels[pair] = False
        for distance in range(1, count):
            other = (pair + distance) % count
            if documents[other] == documents[pair]:
                continue
            state[0] = ~seeds[pair]  # the seed itself is used for the masks
            merged, cut = _truncate(
                (originals[pair, 0], originals[pair, 1], originals[other, 2], originals[other, 3]),
                max_num_tokens,
                state,
            )
            spans[pair, 0], spans[pair, 1], spans[pair, 2], spans[pair, 3] = merged
            truncated += cut
            labels[pair] = True
            break
    return spans, labels, truncated


def example_lengths(spans: np.ndarray) -> np.ndarray:
    """Return the tokens of the examples of pairs, special ones included, int32 `[pairs]`."""
    first, second = (spans[:, [1, 3]] - spans[:, [0, 2]]).T
    return (first + second + np.where(second > 0, 3, 2)).astype(np.int32)


@compiled
def _cut_documents(
    ids, sentence_offsets, document_offsets, word_starts, max_num_tokens, short_seq_prob,
    has_pairs, swaps, split_one_segment, fit, rows, seeds,
):  # fmt: skip
    # Every chunk ends at the end of a sentence, or has more than half of the tokens.
    max_pairs = len(sentence_offsets) - 1 + fit * len(ids) // (max_num_tokens // 2 + 1)
    spans = np.empty((max_pairs, 4), np.int64)
    labels = np.empty(max_pairs, np.bool_)
    document_of = np.empty(max_pairs, np.int64)
    count = truncated = dropped = 0
    state = np.empty(1, np.uint64)
    fewest = 2 if has_pairs else 1  # sentences of a chunk
    rooms = np.zeros(max_num_tokens + 1, np.int64)
    for document in range(len(document_offsets) - 1):
        state[0] = seeds[document]
        target = max_num_tokens
        if random_unit(state) < short_seq_prob:
            target = 2 + random_below(state, max_num_tokens - 1)
        offsets = sentence_offsets[document_offsets[document] : document_offsets[document + 1] + 1]
        sentences = len(offsets) - 1
        # A sentence that does not fit begins the next chunk, and chunks end with short ones: if
        # all documents were cut from their beginning, lengths would tell the order of segments.
        backwards = fit and random_unit(state) < 0.5
        bounds = offsets[-1] - offsets[::-1] if backwards else offsets - offsets[0]
        last = 0
        while last < sentences:
            # A chunk is the sentences from `first` up to `last`, which is not one of them.
            first = last
            last += 1
            while last < sentences:
                enough = bounds[last] - bounds[first] >= target
                if fit:
                    enough = enough and last >= first + fewest
                    enough = enough or bounds[last + 1] - bounds[first] > max_num_tokens
                if enough:
                    break
                last += 1
            if rows and last >= first + fewest:
                ends = bounds[first + fewest : last + 1] - bounds[first]
                whole = last == sentences
                last += 1 - len(ends) + _choose_end(ends, whole, max_num_tokens, rooms)
            lower, upper = (sentences - last, sentences - first) if backwards else (first, last)
            following, stop = offsets[lower], offsets[upper]
            while following < stop:
                # Only "fit" divides a sentence; each part is a chunk of its own.
                begin = chunk = following
                end = following = stop
                if fit and stop - begin > max_num_tokens:
                    end = following = _last_word(ids, begin, max_num_tokens, word_starts)
                if not has_pairs:
                    middle = end
                elif upper > lower + 1:
                    middle = offsets[lower + 1 + random_below(state, upper - lower - 1)]
                elif split_one_segment:
                    if fit and swaps:
                        # They would tell the order of the segments.
                        begin, end = _without_outer_words(ids, begin, end, word_starts)
                    middle = _split_inside(ids, begin, end, word_starts, state)
                else:
                    middle = end
                # An empty segment: nothing to split, or a sentence without tokens.
                if begin == end or (has_pairs and middle in (begin, end)):
                    dropped += 1
                    truncated += following - chunk
                    continue
                truncated += begin - chunk + following - end
                pair = (begin, middle, middle, end)
                label = has_pairs and random_unit(state) < 0.5
                if label and swaps:
                    pair = (middle, end, begin, middle)
                pair, cut = _truncate(pair, max_num_tokens, state)
                spans[count, 0], spans[count, 1], spans[count, 2], spans[count, 3] = pair
                labels[count] = label
                document_of[count] = document
                truncated += cut
                count += 1
    return spans[:count], labels[:count], document_of[:count], truncated, dropped


@compiled
def _choose_end(ends, whole, max_num_tokens, rooms):
    """Return which of the possible lengths of a chunk, in ascending order, fills rows best.

    It nearly fills a row by itself, or what is left of an earlier one; otherwise it is the longest
    one that leaves room for another chunk. `rooms[n]` counts the rows with room for n tokens.
    """
    longest = len(ends) - 1
    tolerance = max_num_tokens // 48
    if max_num_tokens - ends[longest] <= tolerance:
        return longest
    for chosen in range(longest, -1, -1):
        for room in range(ends[chosen], min(ends[chosen] + tolerance, max_num_tokens) + 1):
            if rooms[room]:
                rooms[room] -= 1
                return chosen
    chosen = longest
    # [CLS] and two [SEP] of the other chunk take room, too.
    while chosen and not whole and max_num_tokens - 3 - ends[chosen] < max_num_tokens // 8:
        chosen -= 1
    rooms[max(0, max_num_tokens - 3 - ends[chosen])] += 1
    return chosen


@compiled
def _without_outer_words(ids, begin, end, word_starts):
    """Return where the second word begins, and the last one."""
    begin, end = begin + 1, end - 1
    while begin < end and not word_starts[ids[begin]]:
        begin += 1
    while begin < end and not word_starts[ids[end]]:
        end -= 1
    return begin, max(begin, end)


@compiled
def _last_word(ids, begin, max_num_tokens, word_starts):
    """Return where the last word starts that `max_num_tokens` may end before.

    If no word starts in the second half of them, it is where they end.
    """
    for position in range(begin + max_num_tokens, begin + max_num_tokens // 2, -1):
        if word_starts[ids[position]]:
            return position
    return begin + max_num_tokens


@compiled
def _split_inside(ids, begin, end, word_starts, state):
    """Return a random position between `begin` and `end` where a word starts, if any does."""
    if end - begin < 2:
        return begin
    words = 0
    for position in range(begin + 1, end):
        words += word_starts[ids[position]]
    if words == 0:
        return begin + 1 + random_below(state, end - begin - 1)
    wanted = random_below(state, words)
    for position in range(begin + 1, end):
        if word_starts[ids[position]]:
            if wanted == 0:
                return position
            wanted -= 1
    return begin


@compiled
def _truncate(pair, max_num_tokens, state):
    """Remove tokens from the longer segment, at a random end, until both segments fit."""
    a_begin, a_end, b_begin, b_end = pair
    excess = max(0, (a_end - a_begin) + (b_end - b_begin) - max_num_tokens)
    for _ in range(excess):
        at_front = random_unit(state) < 0.5
        if a_end - a_begin > b_end - b_begin:
            a_begin, a_end = (a_begin + 1, a_end) if at_front else (a_begin, a_end - 1)
        else:
            b_begin, b_end = (b_begin + 1, b_end) if at_front else (b_begin, b_end - 1)
    return (a_begin, a_end, b_begin, b_end), excess
