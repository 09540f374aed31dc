"""Run by a test as each of two workers: what they agree on, predict, and notice of each other."""

import dataclasses
import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.input.examples import MemoryStream
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.modeling.losses import ClassificationObjective
from albert_tf.optimization import create_optimizer
from albert_tf.training.loop import predict
from tests.support.tiny import CONFIG, LENGTH, batch, in_memory

COUNT = 13  # neither a multiple of the batch nor of a worker's share


def main(index: int) -> None:
    engine = TensorFlowEngine.create(DeviceOptions(strategy="multi_worker"))
    workers = engine.workers
    assert (workers.count, workers.is_chief) == (2, index == 0)
    assert not is_caught(signal.SIGTERM)  # it ends the process, as before
    agreement(workers, index)
    keras.utils.set_random_seed(index)  # the chief's initial weights are everybody's
    with engine.devices.scope():
        model = AlbertForSequenceClassification(dataclasses.replace(CONFIG, num_hidden_layers=1), 3)
        optimizer = create_optimizer("lamb", 0.01)
    step = engine.training_step(model, optimizer, ClassificationObjective(), engine.devices)
    step.check_replicas()
    predictions(engine, model)
    drift(step, index)
    with workers.synchronized():
        print("all is well")


def is_caught(number: int) -> bool:
    """Return whether anything in this process, Python or not, takes a signal (Linux)."""
    with open("/proc/self/status") as status:
        (mask,) = (line.split()[1] for line in status if line.startswith("SigCgt:"))
    return bool(int(mask, 16) >> (number - 1) & 1)


def agreement(workers: Workers, index: int) -> None:
    assert workers.agree(None) is None
    assert workers.agree(15 if index else None) == 15
    assert workers.agree((2, 15)[index]) == 15
    value = {"path": "a/ü-5", "more": [1, None, 0.5]}
    assert workers.from_chief(lambda: value if index == 0 else pytest.fail("called")) == value
    assert workers.from_chief(lambda: None) is None
    for failing in (0, 1):
        # Who fails raises its own error, the other one says who it was.
        with pytest.raises(InputError) as error, workers.synchronized():
            may_fail(index == failing)
        mine = "no such file" if index == failing else f"worker {failing} ("
        assert str(error.value).startswith(mine)
    with workers.synchronized():
        pass


def may_fail(fails: bool) -> None:
    if fails:
        raise InputError("no such file")


def predictions(engine: TensorFlowEngine, model) -> None:
    examples = batch(COUNT)
    step = engine.prediction_step(model, ["logits"], engine.devices)
    stream = MemoryStream(in_memory(examples), LENGTH, 4)
    logits = predict(engine, step, stream)["logits"]
    # Here without the others, all at once.
    expected = model({name: tf.constant(value) for name, value in examples.items()})["logits"]
    np.testing.assert_allclose(logits, expected, rtol=0, atol=1e-5)
    assert len(np.unique(logits, axis=0)) == COUNT  # so that another order would show


def drift(step: TrainingStep, index: int) -> None:
    _, before = step._checksums()
    weight = step.model.weights[3]
    step.optimizer.iterations.assign(7)
    value = weight.numpy()
    value.flat[1] = np.nextafter(value.flat[1], np.float32(9))  # by the smallest step there is
    if index == 1:
        step.strategy.experimental_local_results(weight.value)[0].assign(value)
    found = step._checksums()[1] != before
    assert np.argwhere(found).tolist() == [[1, 3]]
    with pytest.raises(InputError) as error:
        step.check_replicas()
    assert "after step 7, replica 1 of 2 (worker 1) has other values" in str(error.value)
    assert weight.path in str(error.value)


if __name__ == "__main__":
    main(int(sys.argv[1]))
