"""What training draws at every visit: the order of segments, and masks."""

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from albert_tf.input.masking import Masking, Masks
from albert_tf.input.record_batches import EVALUATION, TRAINING, draw
from tests.support.texts import unmasked

PAD, CLS, SEP, MASK, VOCAB, LENGTH = 0, 2, 3, 4, 60, 24
MASKS = Masks(Masking(5), (CLS, SEP), MASK, np.arange(5, VOCAB, dtype=np.int32), True)


def example(first: list[int], second: list[int], starts=frozenset()) -> dict[str, list[int]]:
    """`[CLS] first [SEP] second [SEP]`; words start at special tokens and at ids in `starts`."""
    ids = [CLS, *first, SEP] + ([*second, SEP] if second else [])
    segments = [0] * (len(first) + 2) + [1] * (len(ids) - len(first) - 2)
    padding = [PAD] * (LENGTH - len(ids))
    return {
        "input_ids": ids + padding,
        "input_mask": [1] * len(ids) + padding,
        "segment_ids": segments + padding,
        "token_boundary": [int(id in starts or id in (CLS, SEP)) for id in ids] + padding,
        "next_sentence_labels": [0],
    }


def stacked(examples) -> dict[str, np.ndarray]:
    return {
        name: np.array([example[name] for example in examples], np.int32) for name in examples[0]
    }


@pytest.fixture
def pairs():
    """Return pairs of random segments, and words that start at even ids."""
    random = np.random.default_rng(0)
    return [
        [random.integers(5, VOCAB, random.integers(1, 11)).tolist() for _ in range(2)]
        for _ in range(500)
    ]


def test_half_of_the_pairs_are_swapped_and_everything_moves_along(pairs):
    starts = frozenset(range(6, VOCAB, 2))
    stored = stacked([example(*pair, starts) for pair in pairs])
    before = {name: values.copy() for name, values in stored.items()}
    drawn = draw(stored, np.arange(len(pairs)), MASKS, 1, TRAINING)
    labels = drawn["next_sentence_labels"][:, 0]
    assert 0.4 < labels.mean() < 0.6
    expected = stacked(
        [
            example(*(reversed(pair) if label else pair), starts)
            for pair, label in zip(pairs, labels, strict=True)
        ]
    )
    assert (unmasked(drawn) == expected["input_ids"]).all()
    for name in ("segment_ids", "token_boundary"):
        np.testing.assert_array_equal(drawn[name], expected[name], err_msg=name)
    for name, values in before.items():
        np.testing.assert_array_equal(stored[name], values, err_msg=name)


def test_visits_differ_and_can_be_repeated(pairs):
    stored = stacked([example(*pair) for pair in pairs])

    def labels(first, seed=1, purpose=TRAINING):
        numbers = np.arange(first, first + len(pairs))
        return draw(stored, numbers, MASKS, seed, purpose)["next_sentence_labels"][:, 0]

    first = labels(0)
    assert (labels(0) == first).all()
    for other in (labels(500), labels(0, seed=2), labels(0, purpose=EVALUATION)):
        assert 0.4 < (other == first).mean() < 0.6
    assert (labels(250)[:250] == first[250:]).all(), "a function of the number of the visit"


def test_single_segments_and_files_with_swapped_pairs_keep_their_order(pairs):
    numbers = np.arange(len(pairs))
    single = stacked([example(first, []) for first, _ in pairs])
    assert (unmasked(draw(single, numbers, MASKS, 1, TRAINING)) == single["input_ids"]).all()
    old = stacked([example(*pair) for pair in pairs])
    old["next_sentence_labels"][::3] = 1
    drawn = draw(old, numbers, MASKS._replace(swap_segments=False), 1, TRAINING)
    assert (unmasked(drawn) == old["input_ids"]).all()
    assert (drawn["next_sentence_labels"] == old["next_sentence_labels"]).all()


def test_labels_cannot_be_told_from_words_or_masks():
    """A linear classifier stays at chance on examples that it has not seen."""
    random = np.random.default_rng(1)
    # Second segments have other words than first ones.
    lengths = random.integers(1, 11, (300, 2))
    text = [
        (random.integers(5, 30, first), random.integers(25, VOCAB, second))
        for first, second in lengths
    ]
    stored = stacked([example(first.tolist(), second.tolist()) for first, second in text] * 20)
    visits = len(stored["input_ids"])
    drawn = draw(stored, np.arange(visits), MASKS, 1, TRAINING)
    words = np.zeros((visits, VOCAB))
    np.add.at(words, (np.arange(visits)[:, None], drawn["input_ids"]), 1)
    masked = np.zeros((visits, LENGTH))
    rows, columns = np.nonzero(drawn["masked_lm_weights"])
    masked[rows, drawn["masked_lm_positions"][rows, columns]] = 1
    features = np.concatenate([words, masked], axis=1)
    labels = drawn["next_sentence_labels"][:, 0]
    half = visits // 2
    classifier = LogisticRegression(max_iter=300).fit(features[:half], labels[:half])
    accuracy = classifier.score(features[half:], labels[half:])
    assert abs(accuracy - 0.5) < 4 * 0.5 / np.sqrt(half)
