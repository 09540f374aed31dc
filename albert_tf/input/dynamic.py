"""What training draws for examples of `--masking=dynamic`, anew at every visit; no TensorFlow.

Everything is a function of the seed of a run and of the number of the visit, not of the process
that draws it.
"""

from collections.abc import Mapping

import numpy as np

from albert_tf.environment import compiled
from albert_tf.input.masking import Masks, derive_seeds, draw_masks

# What visits are for: an evaluation draws other numbers than training with the same seed.
TRAINING, EVALUATION = 0, 1

# Seeds of masks are derived from one of these, seeds of swaps from one of them plus this.
_SWAPS = 4

# The stored features that `draw` changes.
DRAWN = ("input_ids", "segment_ids", "token_boundary", "next_sentence_labels")


def draw(
    batch: Mapping[str, np.ndarray],
    numbers: np.ndarray,
    masks: Masks,
    seed: int,
    purpose: int,
) -> dict[str, np.ndarray]:
    """Draw which pairs of a batch are swapped, where their files leave that open, and masks.

    Args:
        batch: features of examples without masks (`features.unmasked_features`), `[batch, ...]`;
            not modified.
        numbers: int64 `[batch]`, a number for each visit of an example.
        masks: what to draw.
        seed: seed of the run.
        purpose: `TRAINING` or `EVALUATION`.

    Returns:
        The features that are changed or new, int32 and float32.
    """
    drawn = {name: np.array(batch[name], np.int32) for name in DRAWN}
    lengths = batch["input_mask"].sum(1, dtype=np.int32)
    if masks.swap_segments:
        swapped = derive_seeds(seed, purpose + _SWAPS, numbers) >> np.uint64(63)
        drawn["next_sentence_labels"] = swapped.astype(np.int32)[:, None]
        swap_segments(
            drawn["input_ids"],
            drawn["segment_ids"],
            drawn["token_boundary"],
            lengths,
            swapped.astype(np.bool_),
        )
    masked = draw_masks(
        drawn["input_ids"],
        lengths,
        drawn["token_boundary"],
        derive_seeds(seed, purpose, numbers),
        masks,
    )
    return drawn | masked.features()


@compiled
def swap_segments(input_ids, segment_ids, token_boundary, lengths, swapped):
    """`[CLS] a [SEP] b [SEP]` becomes `[CLS] b [SEP] a [SEP]` where `swapped` is true."""
    for row in range(len(lengths)):
        end = lengths[row] - 1  # position of the last [SEP]
        separator = 0
        while separator < end and segment_ids[row, separator + 1] == 0:
            separator += 1
        if not swapped[row] or separator == end:
            continue
        second = end - separator - 1  # length of b
        for values in (input_ids[row], token_boundary[row]):
            old = values.copy()
            values[1 : 1 + second] = old[separator + 1 : end]
            values[1 + second] = old[separator]
            values[2 + second : end] = old[1:separator]
        segment_ids[row, : 2 + second] = 0
        segment_ids[row, 2 + second : end + 1] = 1
