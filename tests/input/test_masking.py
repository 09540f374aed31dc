"""Masks: which tokens are masked, how many, and with which distribution."""

import re

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from albert_tf.environment import compiled
from albert_tf.input.masking import Masking, Masks, derive_seeds, draw_masks
from tests.conftest import random_inputs

CLS, SEP, MASK = 2, 3, 4
VOCABULARY = np.arange(10, 1000, dtype=np.int32)


def examples(batch: int, seq: int, seed: int = 0, word_length: float = 1.4):
    """Return random pairs `[CLS] a [SEP] b [SEP]` without padding: ids, lengths, word starts."""
    random = np.random.default_rng(seed)
    ids = random.choice(VOCABULARY, (batch, seq)).astype(np.int32)
    ids[:, 0] = CLS
    ids[:, [seq // 2, -1]] = SEP
    starts = random.random((batch, seq)) < 1 / word_length
    return ids, np.full(batch, seq, np.int32), starts | (ids < 5)


def draw(ids, lengths, starts, seeds, settings):
    masks = Masks(settings, (CLS, SEP), MASK, VOCABULARY)
    return draw_masks(ids, lengths, starts, seeds, masks)


def drawn(batch: int, seq: int, settings: Masking, seed: int = 7, **changes):
    """Return the ids of random examples and their masks."""
    ids, lengths, starts = examples(batch, seq, **changes)
    return ids, draw(ids, lengths, starts, derive_seeds(seed, np.arange(batch)), settings)


def words_of(ids, length, starts) -> list[list[int]]:
    """Return words by a reference: positions between word starts and special tokens."""
    words: list[list[int]] = []
    for position in range(length):
        if ids[position] in (CLS, SEP):
            continue
        if starts[position] or ids[position - 1] in (CLS, SEP):
            words.append([])
        words[-1].append(position)
    return words


@random_inputs(80)
@given(
    seq=st.integers(5, 60),
    padding=st.integers(0, 10),
    settings=st.builds(
        Masking,
        max_predictions=st.integers(1, 30),
        masked_lm_prob=st.floats(0.01, 1.0),
        ngram=st.integers(1, 5),
        favor_shorter_ngram=st.booleans(),
        do_permutation=st.just(False),
        whole_words=st.booleans(),
    ),
    word_length=st.floats(1.0, 4.0),
    seed=st.integers(0, 2**32),
)
def test_whole_words_are_masked_within_the_budget_with_correct_labels(
    seq, padding, settings, word_length, seed
):
    ids, lengths, starts = examples(3, seq, seed, word_length)
    ids = np.pad(ids, ((0, 0), (0, padding)))
    starts = np.pad(starts, ((0, 0), (0, padding)))
    untouched = ids.copy()
    masked = draw(ids, lengths, starts, derive_seeds(seed, np.arange(3)), settings)

    assert (ids == untouched).all()
    budget = min(settings.max_predictions, max(1, int(round(seq * settings.masked_lm_prob))))
    for row in range(3):
        count = int(masked.weights[row].sum())
        positions = masked.positions[row, :count]
        assert count <= budget
        assert (np.diff(positions) > 0).all()
        assert (masked.ids[row, :count] == ids[row, positions]).all()
        assert not np.isin(masked.ids[row, :count], (CLS, SEP, 0)).any()
        for padded in (masked.positions, masked.ids, masked.weights):
            assert not padded[row, count:].any()
        changed = np.flatnonzero(masked.input_ids[row] != ids[row])
        assert set(changed) <= set(positions)
        chosen = set(positions.tolist())
        words = words_of(ids[row], seq, starts[row] | (not settings.whole_words))
        left = [word for word in words if not chosen & set(word)]
        assert all(set(word) <= chosen for word in words if chosen & set(word))
        # Nothing that would still fit is left out.
        assert all(len(word) > budget - count for word in left)
    assert masked.masked_lengths @ np.arange(1, settings.ngram + 1) == sum(
        bool(set(word) & set(masked.positions[row, masked.weights[row] > 0].tolist()))
        for row in range(3)
        for word in words_of(ids[row], seq, starts[row] | (not settings.whole_words))
    )


@given(
    seq=st.integers(5, 60),
    max_predictions=st.integers(1, 30),
    masked_lm_prob=st.floats(0.01, 0.5),
    seed=st.integers(0, 2**32),
)
def test_permuted_tokens_are_predicted_too(seq, max_predictions, masked_lm_prob, seed):
    ids, lengths, starts = examples(3, seq, seed)
    seeds = derive_seeds(seed, np.arange(3))
    settings = Masking(max_predictions, masked_lm_prob)
    plain = draw(ids, lengths, starts, seeds, settings)
    masked = draw(ids, lengths, starts, seeds, settings._replace(do_permutation=True))
    budget = min(max_predictions, max(1, int(round(seq * masked_lm_prob))))
    for row in range(3):
        count = int(masked.weights[row].sum())
        positions = masked.positions[row, :count]
        only_masked = plain.positions[row, plain.weights[row] > 0]
        assert set(only_masked) <= set(positions)
        assert count <= min(max_predictions, 2 * budget)
        assert (np.diff(positions) > 0).all()
        assert (masked.ids[row, :count] == ids[row, positions]).all()
        # What is predicted and not masked holds the same tokens as before, in some order.
        permuted = sorted(set(positions) - set(only_masked))
        assert sorted(masked.input_ids[row, permuted]) == sorted(ids[row, permuted])
        others = np.setdiff1d(np.arange(seq), positions)
        assert (masked.input_ids[row, others] == ids[row, others]).all()
        words = words_of(ids[row], seq, starts[row])
        assert all(set(word) <= set(permuted) for word in words if set(word) & set(permuted))


def test_a_permutation_moves_most_of_its_tokens_and_as_many_as_masks():
    ids, masked = drawn(500, 512, Masking(max_predictions=160, do_permutation=True), seed=5)
    assert (masked.weights.sum(1) == 2 * round(512 * 0.15)).all()
    moved = (masked.input_ids != ids).sum(1)
    # 90 % of the masked tokens change, and all but one or two of the permuted ones.
    assert 0.93 < moved.mean() / masked.weights.sum(1).mean() < 0.96


@pytest.mark.parametrize("favor_shorter_ngram", [True, False])
@pytest.mark.parametrize(("seq", "max_predictions"), [(512, 20), (512, 80), (64, 20), (24, 3)])
def test_drawn_lengths_follow_the_paper(seq, max_predictions, favor_shorter_ngram):
    settings = Masking(max_predictions, favor_shorter_ngram=favor_shorter_ngram)
    spans = drawn(3000, seq, settings)[1].drawn_lengths
    expected = np.array([6, 3, 2] if favor_shorter_ngram else [2, 3, 6]) / 11
    assert stats.chisquare(spans, expected * spans.sum()).pvalue > 1e-3


def test_masked_lengths_follow_the_paper_if_the_budget_allows():
    spans = drawn(500, 2000, Masking(max_predictions=600, masked_lm_prob=0.15))[1].masked_lengths
    np.testing.assert_allclose(spans / spans.sum(), np.array([6, 3, 2]) / 11, atol=0.005)


def test_amount_replacements_and_positions():
    _, masked = drawn(4000, 512, Masking(max_predictions=80), seed=3)
    weights = masked.weights > 0
    assert weights.sum(1).min() == weights.sum(1).max() == round(512 * 0.15)

    after = np.take_along_axis(masked.input_ids, masked.positions, 1)[weights]
    before = masked.ids[weights]
    kinds = [(after == MASK).sum(), (after == before).sum()]
    kinds.append(weights.sum() - sum(kinds))
    # A random piece is the old one once in 990 times.
    expected = np.array([0.8, 0.1 + 0.1 / 990, 0.1 - 0.1 / 990]) * weights.sum()
    assert stats.chisquare(kinds, expected).pvalue > 1e-3
    random = after[(after != MASK) & (after != before)]
    assert stats.chisquare(np.bincount(random, minlength=1000)[10:]).pvalue > 1e-3

    share = np.zeros(512)
    np.add.at(share, masked.positions[weights], 1 / 4000)
    inner = np.delete(share, [0, 256, 511])
    assert share[[0, 256, 511]].sum() == 0
    assert abs(inner[10:240].mean() - inner[260:500].mean()) < 0.01
    assert inner.min() > 0.08


def test_the_last_span_is_shortened_to_the_budget():
    settings = Masking(max_predictions=2, favor_shorter_ngram=False)
    spans = drawn(2000, 64, settings, seed=0, word_length=1.0)[1].masked_lengths
    # Of the first spans drawn 6/11 have three words and 3/11 two: both become two words here.
    assert spans[2] == 0
    assert abs(spans[1] / 2000 - 9 / 11) < 0.03


def test_spans_do_not_cross_segments():
    ids = np.array([[CLS, 10, SEP, 11, SEP]], np.int32).repeat(2000, 0)
    settings = Masking(max_predictions=2, masked_lm_prob=0.4, ngram=3)
    masked = draw(
        ids, np.full(2000, 5), np.ones_like(ids), derive_seeds(0, np.arange(2000)), settings
    )
    assert masked.masked_lengths.tolist() == [4000, 0, 0]


def test_masks_depend_on_the_example_alone():
    ids, lengths, starts = examples(64, 128)
    seeds = derive_seeds(11, np.arange(64))
    settings = Masking(max_predictions=20)
    whole = draw(ids, lengths, starts, seeds, settings)
    order = np.random.default_rng(0).permutation(64)
    shuffled = draw(ids[order], lengths[order], starts[order], seeds[order], settings)
    for one, other in zip(whole[:4], shuffled[:4], strict=True):
        assert (one[order] == other).all()
    again = draw(ids, lengths, starts, derive_seeds(12, np.arange(64)), settings)
    assert (again.positions != whole.positions).any(1).mean() > 0.95


@pytest.mark.parametrize(
    ("length", "predictions", "share", "needed"),
    [(512, 20, 0.15, "3.9% of.*=512.*=0.15 needs 77"), (512, 77, 0.15, ""), (128, 20, 0.15, "")],
)
def test_too_few_predictions_for_the_share_are_noted(length, predictions, share, needed):
    note = Masking(predictions, share).shortfall(length)
    assert re.search(needed, note) if needed else note is None


def test_seeds_are_distinct_and_stable():
    seeds = derive_seeds(12345, np.arange(1000)[:, None], np.arange(50))
    assert seeds.shape == (1000, 50)
    assert len(np.unique(seeds)) == 50_000
    assert seeds[3, 4] == derive_seeds(12345, 3, 4) != derive_seeds(12345, 4, 3)
    # Files that were made with a seed can be made again: this value may never change.
    assert int(derive_seeds(12345, 0)) == 2454886589211414944
    bits = (seeds.reshape(-1, 1) >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert abs(bits.mean(0) - 0.5).max() < 0.02


def test_the_cache_folder_need_not_be_writable(monkeypatch):
    def no_cache(*args, cache=False, **kwargs):
        if cache:
            raise RuntimeError("cannot cache function: no locator available")
        return args[0]

    monkeypatch.setattr(numba, "njit", no_cache)
    assert compiled(len) is len
