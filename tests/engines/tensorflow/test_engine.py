"""The TensorFlow engine behind the protocol of all engines."""

from __future__ import annotations

import pytest
import tensorflow as tf

from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.registry import ENGINES, create_engine
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.errors import InputError


@pytest.fixture(scope="module")
def engine() -> TensorFlowEngine:
    return TensorFlowEngine(tf.distribute.OneDeviceStrategy("/cpu:0"))


def test_engines_are_found_by_name():
    created = create_engine("tensorflow", DeviceOptions(strategy="one_device"))
    assert isinstance(created, TensorFlowEngine)
    assert created.name in ENGINES
    with pytest.raises(InputError, match="`engine`=caffe: must be one of tensorflow"):
        create_engine("caffe", DeviceOptions())


def test_a_cpu_has_no_peak_unless_one_is_given(engine):
    assert engine.peak_flops() is None
    assert engine.peak_flops(1.5) == 1.5e12
    assert engine.device_memory_peak() is None
    assert not engine.is_tpu


def test_batches_are_divided_among_replicas(engine, monkeypatch):
    assert engine.per_replica("train_batch_size", 9) == 9
    monkeypatch.setattr(TensorFlowEngine, "num_replicas", 4)
    assert engine.per_replica("train_batch_size", 8) == 2
    with pytest.raises(InputError, match="`train_batch_size`=9: must be a multiple of the 4 repl"):
        engine.per_replica("train_batch_size", 9)
    with pytest.raises(InputError, match="such as 4"):
        engine.per_replica("train_batch_size", 0)


def test_damaged_records_are_named(engine, tmp_path):
    path = tmp_path / "train.tfrecord"
    path.write_bytes(b"no record at all, but long enough to be read as one")
    batches = engine.iterate(lambda share: tf.data.TFRecordDataset(str(path)))
    with pytest.raises(InputError, match="the TFRecords cannot be read"):
        next(batches)
