"""A test for JAX with two devices: `fit` under `keras.distribution` is as on one device."""

import keras
import numpy as np

from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.optimization.optimizers import AdamW
from tests.modeling.test_fitting import CLASSES, INPUTS, PLAIN

LABELS = CLASSES % 2


def trained(start: list[np.ndarray]) -> list[np.ndarray]:
    """Return the weights after two epochs of two steps, with sample weights."""
    model = AlbertForSequenceClassification(PLAIN, num_labels=2, classifier_dropout=0.0)
    model.set_weights(start)
    model.compile(AdamW(1e-3))
    weights = np.linspace(0.5, 1.5, len(LABELS)).astype("float32")
    arguments = {"batch_size": 4, "epochs": 2, "shuffle": False, "verbose": 0}
    model.fit(INPUTS, LABELS, sample_weight=weights, **arguments)
    return model.get_weights()


def test_two_devices_train_as_one() -> None:
    devices = keras.distribution.list_devices()
    assert len(devices) == 2, devices
    keras.utils.set_random_seed(0)
    start = AlbertForSequenceClassification(PLAIN, num_labels=2).get_weights()
    expected = trained(start)
    assert max(np.abs(one - two).max() for one, two in zip(start, expected, strict=True)) > 1e-3
    mesh = keras.distribution.DeviceMesh((1, 2), ("batch", "model"), devices)
    layout = keras.distribution.LayoutMap(mesh)
    layout["embeddings/word_embeddings"] = ("model", None)
    layout["intermediate/dense/kernel"] = (None, "model")
    distributions = {
        "DataParallel": keras.distribution.DataParallel(devices=devices),
        "ModelParallel": keras.distribution.ModelParallel(layout_map=layout),
    }
    for name, distribution in distributions.items():
        keras.distribution.set_distribution(distribution)
        try:
            found = trained(start)
        finally:
            keras.distribution.set_distribution(None)
        for one, two in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, two, rtol=0, atol=1e-5, err_msg=name)
