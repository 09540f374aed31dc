"""`keras.models.load_model` after nothing but `import albert_tf`, on another backend."""

import keras
import numpy as np
import pytest

import albert_tf
from tests.conftest import KERAS_ON_JAX, run_python
from tests.support.backends import as_numpy
from tests.support.tiny import CONFIG, LENGTH, batch

INPUTS = ("input_ids", "input_mask", "segment_ids")
FEATURES = {name: batch(2)[name] for name in INPUTS}

LOAD = """
import importlib.util
import sys
import numpy as np
import albert_tf
assert not {"keras", "jax", "tensorflow"} & set(sys.modules)
importlib.util.find_spec("keras")  # as TensorFlow does
import keras
registered = set(keras.saving.get_custom_objects())
public = [getattr(albert_tf, name) for name in albert_tf.__all__]
schedules = keras.optimizers.schedules.LearningRateSchedule
of_keras = (keras.layers.Layer, keras.optimizers.Optimizer, schedules)
serializable = [f"albert_tf>{each.__name__}" for each in public
                if isinstance(each, type) and issubclass(each, of_keras)]
assert len(serializable) > 10
assert set(serializable) <= registered, set(serializable) - registered
(folder,) = sys.argv[1:]
features = dict(np.load(f"{folder}/features.npz"))
for name in ("encoder", "head", "functional"):
    model = keras.models.load_model(f"{folder}/{name}.keras")
    outputs = keras.tree.flatten(model(features))
    np.save(f"{folder}/{name}.npy", keras.ops.convert_to_numpy(outputs[-1]))
assert type(model.optimizer).__name__ == "Lamb", model.optimizer
assert type(model.optimizer._learning_rate).__name__ == "WarmupPolynomialDecay"
"""


@pytest.mark.slow
def test_models_are_loaded_in_a_fresh_process(tmp_path):
    encoder = albert_tf.AlbertEncoder(CONFIG)
    head = albert_tf.AlbertForSequenceClassification(CONFIG, num_labels=3)
    inputs = {name: keras.Input((LENGTH,), dtype="int32", name=name) for name in INPUTS}
    outputs = keras.layers.Dense(2)(encoder(inputs)["pooled_output"])
    functional = keras.Model(inputs, outputs)
    schedule = albert_tf.create_schedule("polynomial", learning_rate=1e-3, num_train_steps=9)
    functional.compile(albert_tf.Lamb(schedule), "mse")
    models = {"encoder": encoder, "head": head, "functional": functional}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    np.savez(tmp_path / "features.npz", **FEATURES)
    done = run_python("-c", LOAD, tmp_path, **KERAS_ON_JAX)
    assert done.returncode == 0, done.stderr
    for name, model in models.items():
        expected = as_numpy(keras.tree.flatten(model(FEATURES))[-1])
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), expected, atol=1e-5)
