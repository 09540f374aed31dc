"""Examples in rows, for tests of what reads rows."""

import numpy as np

from albert_tf.input.rows import Places
from tests.support.tiny import LENGTH, batch

SEQUENCE = 4 * LENGTH  # of rows, which have up to 4 examples


def rows_of_examples(count: int, seed: int = 0) -> dict[str, np.ndarray]:
    """Return rows of 1, 2, 3 or 4 random examples, without masks."""
    examples = {
        name: np.pad(values, [(0, 0), (0, SEQUENCE - LENGTH)]) if "_id" in name else values
        for name, values in batch(4 * count, seed).items()
        if not name.startswith("masked_lm_")
    }
    examples["token_boundary"] = np.pad(examples["token_boundary"], [(0, 0), (0, 3 * LENGTH)])
    kept = np.arange(4 * count) % 4 <= np.arange(4 * count) // 4 % 4
    lengths = examples["input_mask"].sum(1).astype(np.int32)[kept]
    places = Places.one_after_the_other(np.repeat(np.arange(count), 4)[kept], lengths)
    return places.pack({name: values[kept] for name, values in examples.items()}, pad_id=0)
