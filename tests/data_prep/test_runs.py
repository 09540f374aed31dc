"""The shuffle: complete, uniform, and independent of buckets and blocks."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from albert_tf.input.masking import derive_seeds
from data_prep.runs import make_run, merge, read_bucket, token_dtype, write_run
from data_prep.segments import Pairs
from tests.conftest import random_inputs


def block(count: int, first: int, seed: int = 0, copies: int = 1):
    """Return pairs of 1 to 6 tokens; every token is the index of its pair."""
    random = np.random.default_rng(seed + first)
    sizes = random.integers(1, 4, (count, 2))
    ids = np.repeat(np.arange(first, first + count), sizes.sum(1)).astype(np.uint16)
    ends = np.cumsum(sizes.sum(1))
    begins, middles = ends - sizes.sum(1), ends - sizes[:, 1]
    spans = np.stack([begins, middles, middles, ends], 1)
    pairs = [
        Pairs(
            spans,
            random.random(count) < 0.5,
            derive_seeds(copy, np.arange(first, first + count)),
            np.arange(count) // 5,
            0,
            0,
        )
        for copy in range(copies)
    ]
    documents = derive_seeds(9, first, np.arange(count // 5 + 1))
    return ids, pairs, documents


def shuffled(blocks, folder, buckets: int) -> list[int]:
    """Return the numbers of all pairs, in the order of the data set."""
    paths = []
    for number, (ids, pairs, documents) in enumerate(blocks):
        paths.append(str(folder / f"{number}.run"))
        run = make_run(ids, pairs, documents, 7, buckets)
        write_run(paths[-1], run)
        for bucket in range(buckets):  # a run in memory is what it is in its file
            stored = read_bucket(paths[-1], bucket, np.uint16)
            assert (run.bucket(bucket).examples == stored.examples).all()
            assert (run.bucket(bucket).tokens == stored.tokens).all()
    order = []
    for number in range(buckets):
        parts = [read_bucket(path, number, np.uint16) for path in paths]
        bucket, places = merge(parts, 7)
        sizes = (bucket.examples["first"] + bucket.examples["second"]).astype(np.int64)
        ends = np.cumsum(sizes)
        assert ends[-1] == len(bucket.tokens) if len(ends) else not len(bucket.tokens)
        for place in places:
            (pair,) = set(bucket.tokens[ends[place] - sizes[place] : ends[place]].tolist())
            order.append(pair)
    return order


@random_inputs(20)
@given(counts=st.lists(st.integers(1, 40), min_size=1, max_size=4), buckets=st.integers(1, 9))
def test_every_pair_occurs_once_in_an_order_that_depends_on_seeds_only(
    tmp_path_factory, counts, buckets
):
    firsts = np.cumsum([0, *counts])
    blocks = [block(count, int(first)) for count, first in zip(counts, firsts, strict=False)]
    order = shuffled(blocks, tmp_path_factory.mktemp("runs"), buckets)
    assert sorted(order) == list(range(sum(counts)))
    # Neither the number of buckets nor that of the blocks decides the order.
    assert order == shuffled(blocks, tmp_path_factory.mktemp("runs"), 1)


def test_copies_are_shuffled_together(tmp_path):
    order = shuffled([block(500, 0, copies=3)], tmp_path, 4)
    assert np.bincount(order).tolist() == [3] * 500
    assert len(set(order[:500])) < 400


def test_the_order_is_random(tmp_path):
    order = np.array(shuffled([block(1000, 0), block(1000, 1000)], tmp_path, 8))
    assert abs(stats.spearmanr(order, np.arange(2000)).statistic) < 0.07
    assert abs(np.corrcoef(order[1:], order[:-1])[0, 1]) < 0.07


def test_tokens_take_two_bytes_if_possible():
    assert token_dtype(30000) == token_dtype(2**16) == np.uint16
    assert token_dtype(2**16 + 1) == np.uint32
