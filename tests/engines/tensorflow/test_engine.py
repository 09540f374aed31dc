"""The TensorFlow engine behind the protocol of all engines."""

import itertools
import os

import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.engines.base import create_engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.registry import ENGINES
from albert_tf.engines.tensorflow import engine as engine_module
from albert_tf.engines.tensorflow.batches import ending_at_once
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.errors import InputError
from albert_tf.input.features import limited, pretraining_features
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex
from tests.engines.tensorflow.test_step import ONE_LAYER, create_step
from tests.support.models import write_trained
from tests.support.tiny import LENGTH, PREDICTIONS, VOCAB, batch, write_records


@pytest.fixture(scope="module")
def engine() -> TensorFlowEngine:
    return TensorFlowEngine(TensorFlowDevices(tf.distribute.OneDeviceStrategy("/cpu:0")))


def test_engines_are_found_by_name():
    created = create_engine("tensorflow", DeviceOptions(strategy="one_device"))
    assert isinstance(created, TensorFlowEngine)
    assert created.name in ENGINES
    with pytest.raises(InputError, match="`engine`=caffe: must be one of tensorflow"):
        create_engine("caffe", DeviceOptions())


def test_a_cpu_has_no_peak_unless_one_is_given(engine):
    assert engine.devices.peak_flops() is None
    assert engine.devices.peak_flops(1.5) == 1.5e12
    assert engine.devices.memory_peak() is None
    assert not engine.devices.is_tpu


def test_batches_are_divided_among_replicas(engine, monkeypatch):
    assert engine.devices.per_replica("train_batch_size", 9) == 9
    monkeypatch.setattr(TensorFlowDevices, "num_replicas", 4)
    assert engine.devices.per_replica("train_batch_size", 8) == 2
    with pytest.raises(InputError, match="`train_batch_size`=9: must be a multiple of the 4 repl"):
        engine.devices.per_replica("train_batch_size", 9)
    with pytest.raises(InputError, match="such as 4"):
        engine.devices.per_replica("train_batch_size", 0)


@pytest.mark.integration
@pytest.mark.parametrize("example", [3, 69])
def test_damaged_records_are_named(engine, tmp_path, example):
    paths = [str(tmp_path / f"{name}.tfrecord") for name in "ab"]
    for seed, path in enumerate(paths):
        write_records(path, batch(70, seed=seed))
    with open(path, "r+b") as file:
        begins = [0]
        while begins[-1] < os.path.getsize(path):
            file.seek(begins[-1])
            begins.append(begins[-1] + 16 + int.from_bytes(file.read(8), "little"))
        file.seek(begins[example] + 40)
        file.write(b"?")
    features = limited(pretraining_features(LENGTH, PREDICTIONS), VOCAB, 2)
    stream = RecordStream(RecordIndex.create(paths), features, 10, seed=1, shuffle_buffer_size=50)
    batches = engine.iterate(stream)
    with pytest.raises(InputError, match=f"^{path}: example {example} is damaged: its c"):
        list(itertools.islice(batches, 14))


@pytest.mark.integration
def test_a_step_that_fails_is_no_reading_error(engine):
    """Nor is its message of seventy lines shown."""
    examples = batch(8)
    examples["input_ids"] = examples["input_ids"] + VOCAB
    data = ending_at_once(tf.data.Dataset.from_tensors(examples).repeat())
    step = create_step(ONE_LAYER)
    with pytest.raises(InputError, match=r"^the training step failed: .*indices.* is not in \[0"):
        step(iter(data), 1)

    def out_of_memory(*arguments):
        raise tf.errors.ResourceExhaustedError(
            None, None, "OOM when allocating tensor\n[[{{node}}]]"
        )

    step._steps = out_of_memory
    message = (
        r"^out of memory in training \(OOM when allocating tensor\); .* `micro_batch_size` and"
    )
    with pytest.raises(InputError, match=message):
        step(iter(data), 1)


def test_what_cannot_be_read_at_all(engine, tmp_path):
    path = tmp_path / "train.tfrecord"
    write_records(path, batch(70))
    index = RecordIndex.create([str(path)])
    path.unlink()
    batches = engine.iterate(RecordStream(index, pretraining_features(LENGTH, PREDICTIONS), 10))
    with pytest.raises(InputError, match="the TFRecords cannot be read: .*No such file"):
        next(batches)


@pytest.mark.integration
def test_few_batches_need_no_pipeline(tmp_path, monkeypatch):
    """Which takes 50 times as long; and the bits are the same."""
    classifier = albert_tf.TextClassifier.from_preset(write_trained(tmp_path / "c", "classifier"))
    texts = ["a b", "c d e f g h", "", "i. j"]

    def predicted():
        rows = [classifier.predict_proba(texts[:count], batch_size=2) for count in (1, 2, 4)]
        return np.concatenate(rows)

    few = predicted()
    monkeypatch.setattr(engine_module, "_FEW_BATCHES", 0)
    np.testing.assert_array_equal(few, predicted())
    monkeypatch.undo()
    strategy = tf.distribute.OneDeviceStrategy
    monkeypatch.setattr(strategy, "distribute_datasets_from_function", None)
    np.testing.assert_array_equal(few, predicted())
