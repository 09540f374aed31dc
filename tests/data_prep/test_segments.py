"""Pairs of segments: documents are not mixed, no token is lost, labels are correct."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.input.features import most_examples, pretraining_features
from albert_tf.input.masking import derive_seeds
from albert_tf.tokenizers import Tokenizer
from data_prep.assembling import assemble
from data_prep.row_plan import plan_rows
from data_prep.segments import (
    Pairing,
    Pairs,
    TokenizedDocuments,
    example_lengths,
    exchange_seconds,
    make_pairs,
)
from data_prep.tfrecords import read_examples
from tests.conftest import random_inputs
from tests.support import references
from tests.support.texts import tokenized

LENGTHS = st.lists(st.lists(st.integers(1, 12), max_size=12), min_size=1, max_size=6)


def numbered(lengths: list[list[int]]) -> TokenizedDocuments:
    """Return documents in which every token is its own position, which identifies its origin."""
    sentences = [n for document in lengths for n in document]
    return TokenizedDocuments(
        ids=np.arange(sum(sentences), dtype=np.int32),
        sentence_offsets=np.concatenate([[0], np.cumsum(sentences)]).astype(np.int64),
        document_offsets=np.concatenate([[0], np.cumsum([len(d) for d in lengths])]).astype(
            np.int64
        ),
    )


def cut(documents: TokenizedDocuments, pairing: Pairing, seed: int, word_starts=None) -> Pairs:
    """Return pairs of documents in which, by default, every token is a word."""
    if word_starts is None:
        word_starts = every_word(documents)
    numbers = np.arange(len(documents.document_offsets) - 1)
    return make_pairs(documents, word_starts, pairing, derive_seeds(seed, numbers))


def lengths_of(pairs: Pairs) -> np.ndarray:
    return pairs.spans[:, 1] - pairs.spans[:, 0] + pairs.spans[:, 3] - pairs.spans[:, 2]


def every_word(documents: TokenizedDocuments) -> np.ndarray:
    return np.ones(len(documents.ids), bool)


@pytest.mark.integration
@random_inputs(80)
@given(
    lengths=LENGTHS,
    max_seq_length=st.integers(5, 40),
    short_seq_prob=st.sampled_from([0.0, 0.1, 1.0]),
    one_segment_chunks=st.sampled_from(["split", "drop"]),
    packing=st.sampled_from(["original", "fit", "rows"]),
    seed=st.integers(0, 2**64 - 1),
)
def test_pairs_neither_mix_documents_nor_lose_tokens(
    lengths, max_seq_length, short_seq_prob, one_segment_chunks, packing, seed
):
    documents = numbered(lengths)
    fit = packing.replace("rows", "fit"), packing == "rows"
    pairing = Pairing(max_seq_length, "sop", short_seq_prob, one_segment_chunks, *fit)
    word_starts = np.random.default_rng(seed).random(len(documents.ids)) < 0.3
    pairs = cut(documents, pairing, seed, word_starts)

    document_of_token = np.repeat(np.arange(len(lengths)), [sum(d) for d in lengths])
    seen: list[int] = []
    for (a_begin, a_end, b_begin, b_end), swapped in zip(pairs.spans, pairs.labels, strict=True):
        first, second = range(a_begin, a_end), range(b_begin, b_end)
        assert first
        assert second
        assert len(first) + len(second) <= max_seq_length - 3
        assert len({document_of_token[token] for token in (*first, *second)}) == 1
        assert (first[0] > second[-1]) == swapped
        seen += [*first, *second]
    assert len(seen) == len(set(seen))
    assert len(documents.ids) - len(seen) == pairs.truncated_tokens
    assert pairs.truncated_tokens >= pairs.dropped_chunks
    assert len(np.unique(pairs.seeds)) == len(pairs.seeds)


@given(lengths=LENGTHS, seed=st.integers(0, 2**32))
def test_the_pairs_of_a_document_do_not_depend_on_other_documents(lengths, seed):
    documents = numbered(lengths)
    pairing = Pairing(24)
    whole = cut(documents, pairing, seed)
    alone = [
        make_pairs(
            documents._replace(document_offsets=documents.document_offsets[number : number + 2]),
            every_word(documents),
            pairing,
            derive_seeds(seed, np.array([number])),
        )
        for number in range(len(lengths))
    ]
    assert (np.concatenate([pairs.spans for pairs in alone]) == whole.spans).all()
    assert (np.concatenate([pairs.seeds for pairs in alone]) == whole.seeds).all()


@given(lengths=LENGTHS, word_starts=st.lists(st.booleans(), min_size=40, max_size=40))
def test_a_sentence_that_is_too_long_is_divided_before_its_last_word(lengths, word_starts):
    documents, pairing = numbered(lengths), Pairing(8, "none", 0.0, packing="fit")
    sentences = documents.sentence_offsets
    starts = np.resize(np.array(word_starts), len(documents.ids) + 1)
    begin = 0
    for first, end in sorted(cut(documents, pairing, 0, starts).spans[:, :2].tolist()):
        assert first == begin  # nothing is lost
        if end not in sentences:
            last_words = begin + 4 + np.flatnonzero(starts[begin + 4 : begin + 7])
            assert end == (last_words[-1] if len(last_words) else begin + 6)
        elif begin not in sentences:
            assert not ((begin < sentences) & (sentences < end)).any()
        begin = end
    assert begin == len(documents.ids)


@given(lengths=LENGTHS, packing=st.sampled_from(["original", "fit"]))
def test_chunks_end_at_the_length_or_before_a_sentence_that_does_not_fit(lengths, packing):
    def chunks(document: list[int]) -> list[int]:
        chunk: list[int] = []
        expected = []
        for number, sentence in enumerate(document):
            chunk.append(sentence)
            following = document[number + 1 : number + 2]
            too_long = packing == "fit" and sum(chunk + following) > 17
            if not following or sum(chunk) >= 17 or too_long:
                outer_words = 2 if packing == "fit" and len(chunk) == 1 else 0
                expected.append(min(17, sum(chunk)) - outer_words)
                chunk = []
        return [length for length in expected if length > 1]

    pairs = cut(numbered(lengths), Pairing(20, "sop", 0.0, "split", packing), 0)
    for number, document in enumerate(lengths):
        found = lengths_of(pairs)[pairs.documents == number].tolist()
        sides = [document, document[::-1]] if packing == "fit" else [document]
        assert found in map(chunks, sides)


@given(
    lengths=LENGTHS,
    max_seq_length=st.integers(5, 40),
    short_seq_prob=st.sampled_from([0.0, 1.0]),
    rows=st.booleans(),
)
def test_where_segments_begin_and_end_does_not_tell_their_order(
    lengths, max_seq_length, short_seq_prob, rows
):
    documents = numbered(lengths)
    pairs = cut(documents, Pairing(max_seq_length, "sop", short_seq_prob, "split", "fit", rows), 0)
    at_sentences = np.isin(pairs.spans, documents.sentence_offsets)
    assert (at_sentences == at_sentences[:, :1]).all()
    # Only a sentence that fits with no other one is divided.
    ends = documents.sentence_offsets
    for begin in pairs.spans[~at_sentences[:, 0]].min(1):
        end = np.searchsorted(ends, begin, "right")
        if end - 1 not in documents.document_offsets and end not in documents.document_offsets:
            with_neighbor = max(ends[end + 1] - ends[end - 1], ends[end] - ends[end - 2])
            assert with_neighbor > max_seq_length - 3


@pytest.mark.parametrize("rows", [False, True])
def test_lengths_of_segments_do_not_tell_their_order(rows):
    rng = np.random.default_rng(0)
    documents = numbered([rng.geometric(0.05, 40).tolist() for _ in range(1000)])
    pairs = cut(documents, Pairing(64, packing="fit", rows=rows), 0)
    # In their order in the document.
    spans = np.where(pairs.labels[:, None], pairs.spans[:, [2, 3, 0, 1]], pairs.spans)
    longer = np.sign(spans[:, 1] - spans[:, 0] - spans[:, 3] + spans[:, 2])
    assert abs(longer.mean()) < 0.03


@pytest.mark.parametrize(("max_seq_length", "longest_sentence"), [(128, 20), (512, 60)])
def test_chunks_for_rows_fill_them(max_seq_length, longest_sentence):
    rng = np.random.default_rng(0)
    sentences = rng.geometric(0.02, 2000).tolist()
    documents = numbered([rng.integers(3, longest_sentence, n).tolist() for n in sentences])
    pairs = cut(documents, Pairing(max_seq_length, packing="fit", rows=True), 0)
    lengths = example_lengths(pairs.spans)
    capacities = max_seq_length, max_seq_length, most_examples(max_seq_length)
    order = rng.permutation(len(lengths))
    _, rows = plan_rows(lengths[order], np.ones_like(lengths), capacities, pairs.seeds[order])
    assert lengths.sum() > 0.98 * max_seq_length * (rows[-1] + 1)
    assert pairs.truncated_tokens < 0.005 * len(documents.ids)


@pytest.mark.parametrize("objective", ["sop", "nsp"])
def test_half_of_the_pairs_have_label_1_and_all_split_points_occur(objective):
    documents = numbered([[1, 2, 3, 4]] * 4000)
    pairs = cut(documents, Pairing(64, objective, 0.0), 5)
    assert abs(pairs.labels.mean() - 0.5) < 0.03
    second = np.maximum(pairs.spans[:, 0], pairs.spans[:, 2]) % 10
    assert np.unique(second).tolist() == [1, 3, 6]
    assert np.unique(second, return_counts=True)[1].min() > 4000 / 3 * 0.9


def test_a_single_sentence_is_split_where_a_word_starts():
    documents = numbered([[10]] * 500)
    word_starts = np.isin(np.arange(len(documents.ids)) % 10, [0, 4, 7])
    pairs = cut(documents, Pairing(64, "sop", 0.0), 5, word_starts)
    second = np.maximum(pairs.spans[:, 0], pairs.spans[:, 2]) % 10
    assert np.unique(second).tolist() == [4, 7]
    assert not len(cut(documents, Pairing(64, "sop", 0.0, "drop"), 5, word_starts).spans)


def test_truncation_removes_tokens_from_both_ends_of_the_longer_segment():
    documents = numbered([[55, 30]] * 300)
    pairs = cut(documents, Pairing(63, "sop", 0.0), 5)
    first_long = pairs.spans[~pairs.labels]
    assert (first_long[:, 1] - first_long[:, 0] == 30).all()
    assert (first_long[:, 3] - first_long[:, 2] == 30).all()
    cut_in_front = first_long[:, 0] % 85
    assert 11.5 < cut_in_front.mean() < 13.5
    assert cut_in_front.std() > 2


def test_short_examples_have_every_length():
    documents = numbered([[1] * 200] * 300)
    pairs = cut(documents, Pairing(23, "sop", 1.0), 5)
    assert set(range(2, 21)) <= set(lengths_of(pairs).tolist())
    share = len(cut(documents, Pairing(23, "sop", 0.1), 5).spans)
    assert 300 * 10 < share < len(pairs.spans)


@pytest.mark.parametrize("name", references.NAMES)
def test_as_many_examples_of_the_same_lengths_as_the_original(name, shared):
    """In the original's run no document was drawn to be short, so nothing random is left."""
    reference = references.records_reference(name, shared)
    max_seq_length = reference.max_seq_length
    tokenizer = Tokenizer.load(str(reference.vocabulary))
    documents = tokenized(reference.text, tokenizer)
    lengths: list[int] = []
    for seed in range(reference.dupe_factor):
        pairs = cut(documents, Pairing(max_seq_length, "sop", 0.0), seed, tokenizer.word_starts)
        # A sentence that is left over alone is split here; the original adds to it from another
        # document until the example is full.
        first, last = (
            np.searchsorted(documents.sentence_offsets, places, side="right")
            for places in (pairs.spans.min(axis=1), pairs.spans.max(axis=1) - 1)
        )
        lengths += np.where(first == last, max_seq_length, lengths_of(pairs) + 3).tolist()
    features = pretraining_features(max_seq_length, reference.max_predictions_per_seq)
    original = read_examples(str(reference.records), features)["input_mask"].sum(1)
    assert sorted(lengths) == sorted(original.tolist())


@pytest.mark.integration
def test_assembled_examples(tokenizer):
    ids = np.array(tokenizer.encode("one two three four five six"), np.int32)
    spans = np.array([[0, 2, 2, 5], [3, 6, 0, 3], [0, 4, 4, 4]])
    examples = assemble(ids, spans, tokenizer, tokenizer.word_starts, 12)
    cls, sep, pad = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    for row, (a_begin, a_end, b_begin, b_end) in enumerate(spans):
        a, b = ids[a_begin:a_end].tolist(), ids[b_begin:b_end].tolist()
        tokens = [cls, *a, sep, *b, sep] if b else [cls, *a, sep]
        padding = [pad] * (12 - len(tokens))
        assert examples.input_ids[row].tolist() == tokens + padding
        segments = [0] * (len(a) + 2) + [1] * (len(b) + bool(b)) + [0] * len(padding)
        assert examples.segment_ids[row].tolist() == segments
        assert examples.lengths[row] == len(tokens)
        starts = [1 if id in (cls, sep) else int(tokenizer.word_starts[id]) for id in tokens]
        assert examples.token_boundary[row].tolist() == starts + [0] * len(padding)
    assert {array.dtype for array in examples} == {np.dtype(np.int32)}


@given(lengths=LENGTHS, max_seq_length=st.integers(5, 40), seed=st.integers(0, 2**32))
def test_without_pairs_a_chunk_is_one_segment(lengths, max_seq_length, seed):
    documents = numbered(lengths)
    pairs = cut(documents, Pairing(max_seq_length, "none"), seed)
    assert not pairs.labels.any()
    assert (pairs.spans[:, 2] == pairs.spans[:, 3]).all()
    sizes = pairs.spans[:, 1] - pairs.spans[:, 0]
    assert (sizes > 0).all()
    assert (sizes <= max_seq_length - 2).all()
    assert sizes.sum() + pairs.truncated_tokens == len(documents.ids)
    assert not pairs.dropped_chunks
    ends = documents.sentence_offsets[documents.document_offsets]
    for (begin, end, _, _), document in zip(pairs.spans, pairs.documents, strict=True):
        assert ends[document] <= begin < end <= ends[document + 1]


@given(lengths=LENGTHS, max_seq_length=st.integers(5, 40), seed=st.integers(0, 2**32))
def test_exchanged_segments_come_from_another_document(lengths, max_seq_length, seed):
    documents = numbered(lengths)
    pairing = Pairing(max_seq_length, "nsp")
    pairs = cut(documents, pairing, seed)
    # Nothing has changed places yet: label or not, the text continues in the second segment.
    assert (pairs.spans[:, 0] < pairs.spans[:, 2]).all()
    spans, labels, truncated = exchange_seconds(
        pairs.spans, pairs.labels, pairs.seeds, pairs.documents, pairing.max_num_tokens
    )
    document_of_token = np.repeat(np.arange(len(lengths)), [sum(d) for d in lengths])
    assert truncated >= 0
    assert (labels <= pairs.labels).all()
    assert (spans[~labels] == pairs.spans[~labels]).all()
    if len(np.unique(pairs.documents)) > 1:
        assert (labels == pairs.labels).all()
    for (a_begin, a_end, b_begin, b_end), label in zip(spans, labels, strict=True):
        assert a_begin < a_end
        assert b_begin < b_end
        assert (a_end - a_begin) + (b_end - b_begin) <= max_seq_length - 3
        assert (document_of_token[a_begin] != document_of_token[b_begin]) == label
