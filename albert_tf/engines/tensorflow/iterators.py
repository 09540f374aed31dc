"""How pipelines end."""

from __future__ import annotations

import tensorflow as tf


def ending_at_once(batches: tf.data.Dataset) -> tf.data.Dataset:
    """The same batches from iterators that go as soon as nobody needs them.

    With autotuning on, TensorFlow waits for the thread that tunes, which sleeps for ever longer: a
    minute, once an iterator has lived for a while, at the end of every training.
    Parallel calls, which it would tune, are then as many as there are cores, 16 at most.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)
