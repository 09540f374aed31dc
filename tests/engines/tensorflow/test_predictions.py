"""A text is predicted without a pipeline, which takes 50 times as long, and with the same bits."""

import numpy as np
import tensorflow as tf

import albert_tf
from albert_tf.engines.tensorflow import engine
from tests.support.models import write_trained


def test_few_batches_need_no_pipeline(tmp_path, monkeypatch):
    classifier = albert_tf.TextClassifier.from_preset(write_trained(tmp_path / "c", "classifier"))
    texts = ["a b", "c d e f g h", "", "i. j"]

    def predicted():
        rows = [classifier.predict_proba(texts[:count], batch_size=2) for count in (1, 2, 4)]
        return np.concatenate(rows)

    few = predicted()
    monkeypatch.setattr(engine, "_FEW_BATCHES", 0)
    np.testing.assert_array_equal(few, predicted())
    monkeypatch.undo()
    strategy = tf.distribute.OneDeviceStrategy
    monkeypatch.setattr(strategy, "distribute_datasets_from_function", None)
    np.testing.assert_array_equal(few, predicted())
