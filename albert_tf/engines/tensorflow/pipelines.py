"""Options of `tf.data` pipelines."""

from __future__ import annotations

import tensorflow as tf


def ending_at_once(batches: tf.data.Dataset) -> tf.data.Dataset:
    """The same batches from iterators that are destroyed without delay.

    With autotuning, TensorFlow waits for the tuning thread, which sleeps for ever longer: up to a
    minute at the end of every training. Without it, there are as many parallel calls as cores, 16
    at most.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.with_options(options)
