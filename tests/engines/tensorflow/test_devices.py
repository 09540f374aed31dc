"""The table of strategies: flags that contradict each other, and what is said of the choice."""

import contextlib
import json

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.base import create_engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.tensorflow import devices, step, workers
from albert_tf.engines.tensorflow.cluster import Cluster
from albert_tf.engines.tensorflow.cpu_kernels import CPU_KERNELS
from albert_tf.engines.tensorflow.devices import STRATEGIES, TensorFlowDevices, create_devices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.errors import InputError
from albert_tf.finetuning.context import check_batches
from albert_tf.input.record_index import RecordIndex
from albert_tf.modeling.kernels import PLAIN_KERNELS
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining import _check_masks
from albert_tf.training.pretraining_tasks import find_pretraining_task
from albert_tf.training.records import Records

TF_CONFIG = json.dumps(
    {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
)


@pytest.fixture
def chosen(monkeypatch):
    """Return the row of the table and the options in place of the strategy."""
    for name in ("_tpu", "_multi_worker", "_mirrored", "_one_device"):
        monkeypatch.setattr(devices, name, lambda options, name=name: (name, options))
    monkeypatch.setitem(STRATEGIES, "tpu", devices._tpu)

    def choose(**flags):
        chosen = create_devices(DeviceOptions(**flags))
        return chosen.strategy, chosen.workers

    return choose


def test_all_strategies_are_in_the_table():
    assert list(STRATEGIES) == ["auto", "one_device", "mirrored", "multi_worker", "tpu"]
    with pytest.raises(InputError, match="`strategy`=magic: must be one of auto, one_device, mirr"):
        create_devices(DeviceOptions(strategy="magic"))


@pytest.mark.parametrize("name", ["local", "my-tpu"])
@pytest.mark.parametrize("strategy", ["auto", "tpu"])
def test_tpu_is_short_for_two_flags(chosen, name, strategy):
    row, options = chosen(tpu=name, strategy=strategy, tpu_zone="z", gcp_project="p")
    assert row == "_tpu"
    assert (options.use_tpu, options.tpu_name) == (True, name)
    assert (options.tpu_zone, options.gcp_project) == ("z", "p")
    assert chosen(tpu=name, tpu_name=name, use_tpu=True)[0] == "_tpu"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ({"tpu": "a", "tpu_name": "b"}, "`tpu`=a: .* contradicts `tpu_name`=b"),
        ({"tpu": "a", "use_tpu": False}, "`tpu`=a: .* contradicts `use_tpu`=False"),
        ({"tpu": "a", "master": "grpc://x"}, "`tpu`=a: .* contradicts `master`=grpc://x"),
        ({"tpu": "local", "strategy": "mirrored"}, "`strategy`=mirrored: contradicts `use_tpu`"),
        ({"use_tpu": True, "strategy": "one_device"}, "`strategy`=one_device: contradicts"),
        ({"use_tpu": False, "strategy": "tpu"}, "`strategy`=tpu: contradicts `use_tpu`=False"),
        ({"attention": "fused"}, "`attention`=fused: needs `engine`=jax, or a TPU v4 or later"),
        ({"use_tpu": True, "jit_compile": False}, "`jit_compile`=False: a TPU runs only"),
        ({"num_replicas": 2, "strategy": "multi_worker"}, "`num_replicas`=2: is for"),
    ],
)
def test_flags_that_contradict_each_other_are_errors(flags, message):
    with pytest.raises(InputError, match=message):
        create_devices(DeviceOptions(**flags))


def test_auto_takes_several_machines_where_tf_config_names_them(chosen, monkeypatch):
    monkeypatch.setenv("TF_CONFIG", TF_CONFIG)
    assert chosen()[0] == "_multi_worker"
    assert chosen(use_tpu=True)[0] == "_tpu"
    monkeypatch.setenv("TF_CONFIG", TF_CONFIG.replace(', "b:1"', ""))
    assert chosen()[0] == "_one_device"
    assert chosen(num_replicas=2)[0] == "_mirrored"


def test_auto_takes_the_tasks_that_srun_starts_together(chosen, monkeypatch):
    step = {"SLURM_STEP_NODELIST": "n[1-2]", "SLURM_STEP_TASKS_PER_NODE": "1(x2)"}
    place = {"SLURM_PROCID": "1", "SLURM_NODEID": "1", "SLURM_LOCALID": "0"}
    for name, value in {"SLURM_JOB_ID": "5", "SLURM_NTASKS": "2", **step, **place}.items():
        monkeypatch.setenv(name, value)
    assert chosen()[0] == "_multi_worker"
    with monkeypatch.context() as alone:  # srun --ntasks=1 in a larger job
        alone.setenv("SLURM_STEP_NODELIST", "n1")
        alone.setenv("SLURM_STEP_TASKS_PER_NODE", "1")
        for name in place:
            alone.setenv(name, "0")
        assert chosen()[0] == "_one_device"
    monkeypatch.delenv("SLURM_STEP_TASKS_PER_NODE")
    with pytest.raises(InputError, match="SLURM_STEP_TASKS_PER_NODE is not set"):
        chosen()
    monkeypatch.delenv("SLURM_STEP_NODELIST")  # a batch script, without srun
    assert chosen()[0] == "_one_device"


def test_workers_compare_their_flags_and_versions(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", TF_CONFIG)
    seen, joined = [], workers.TensorFlowWorkers()
    joined.check_same = seen.append
    monkeypatch.setattr(workers, "join", lambda cluster: (seen.append(cluster), joined))
    create_engine("tensorflow", PretrainingOptions(output_dir="o", random_seed=3))
    cluster, compared = seen
    assert cluster == Cluster(("a:1", "b:1"), 0)
    assert compared["TensorFlow"] == tf.__version__
    assert compared["`random_seed`"] == "3"


def test_a_tpu_that_is_not_there_is_one_line():
    with pytest.raises(InputError, match=r"^`tpu`=local: no TPU available \(this machine has none"):
        create_devices(DeviceOptions(tpu="local"))


@pytest.mark.parametrize(("hosts", "here"), [({}, True), ({"worker": ["10.0.0.1:8470"]}, False)])
def test_a_tpu_that_makes_its_batches_by_itself_runs_no_python(hosts, here):
    class Resolver:
        def cluster_spec(self):
            return tf.train.ClusterSpec(hosts)

    class Named(tf.distribute.TPUStrategy):
        cluster_resolver = Resolver()

        def __init__(self):
            pass

    records = Records(
        RecordIndex((), *[np.empty(0)] * 4), {}, object(), find_pretraining_task("sop"), {}
    )
    static = records._replace(masks=None)
    named = TensorFlowEngine(TensorFlowDevices(Named()))
    _check_masks(named, static, None)
    _check_masks(TensorFlowEngine(TensorFlowDevices()), records, records)
    with contextlib.nullcontext() if here else pytest.raises(InputError, match="--masking=dynamic"):
        _check_masks(named, static, records)
    check_batches(ClassificationOptions(output_dir="o", do_train=False), named)
    with contextlib.nullcontext() if here else pytest.raises(InputError, match="`do_train`=True"):
        check_batches(ClassificationOptions(output_dir="o", do_train=True), named)


@pytest.mark.parametrize(
    ("chips", "jax", "attention", "used"),
    [
        (["v4"] * 4, True, "auto", True),
        (["v4"] * 4, True, "fused", True),
        (["v4"] * 4, True, "plain", False),
        (["v4"] * 4, False, "auto", False),
        (["v4"] * 4, False, "fused", "needs jax: pip install"),
        (["v3"] * 4, True, "auto", False),
        (["v3"] * 4, True, "fused", "needs `engine`=jax, or a TPU v4 or later"),
        ([], True, "auto", False),  # a TPU that is reached by name
    ],
)
def test_a_tpu_uses_the_kernels_of_jax(monkeypatch, chips, jax, attention, used):
    strategy = tf.distribute.TPUStrategy.__new__(tf.distribute.TPUStrategy)
    monkeypatch.setitem(STRATEGIES, "tpu", lambda options: (strategy, workers.TensorFlowWorkers()))
    monkeypatch.setattr(devices.hardware, "tpu_chips", lambda: chips)
    monkeypatch.setattr(devices.importlib.util, "find_spec", lambda name: name if jax else None)
    options = DeviceOptions(strategy="tpu", use_tpu=True, attention=attention)
    if isinstance(used, bool):
        assert create_devices(options).jax_kernels == used
    else:
        with pytest.raises(InputError, match=f"`attention`=fused: {used}"):
            create_devices(options)


def test_the_choice_is_described():
    alone = create_devices(DeviceOptions(strategy="one_device"))
    assert alone.describe() == "OneDeviceStrategy over 1 replica(s): CPU:0"
    second = TensorFlowDevices(alone.strategy, workers.TensorFlowWorkers(("a:1", "b:2"), 1))
    assert second.describe().endswith("CPU:0; this is worker 1 of 2 (b:2)")


def test_slurms_gpus_are_shared_out_among_the_tasks_that_see_them_all(monkeypatch):
    gpus = [f"gpu{number}" for number in range(4)]
    visible = []
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: gpus)
    monkeypatch.setattr(tf.config, "set_visible_devices", lambda some, kind: visible.append(some))
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "4")
    for place in range(2):
        workers._share_gpus(Cluster(("a:1", "a:2"), place, (place, 2)))
    assert visible == [["gpu0", "gpu1"], ["gpu2", "gpu3"]]
    with pytest.raises(InputError, match="SLURM_GPUS_ON_NODE=4: .* evenly among its 3 tasks"):
        workers._share_gpus(Cluster(("a:1", "a:2", "a:3"), 0, (0, 3)))
    # One task alone, tasks that SLURM gave their own GPUs, and clusters of TF_CONFIG.
    workers._share_gpus(Cluster(("a:1",), 0, (0, 1)))
    monkeypatch.setenv("SLURM_GPUS_ON_NODE", "8")
    workers._share_gpus(Cluster(("a:1", "a:2"), 0, (0, 2)))
    assert len(visible) == 2


@pytest.mark.parametrize(
    ("attention", "kernels"), [("plain", PLAIN_KERNELS), ("auto", CPU_KERNELS)]
)
def test_on_a_cpu_plain_means_without_kernels_of_our_own(attention, kernels):
    made = create_devices(DeviceOptions(attention=attention))
    assert step._training_execution(made, remat=False).kernels is kernels
