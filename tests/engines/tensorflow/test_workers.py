"""Two processes that train together (`worker_checks.py`), one alone, and how workers meet."""

import json
import os
import socket
import subprocess
import sys
import threading
import time

import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow import workers
from albert_tf.engines.tensorflow.cluster import Cluster
from albert_tf.engines.tensorflow.workers import TensorFlowWorkers
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, WorkerLost
from tests.conftest import ROOT, free_addresses, run_python


@pytest.mark.integration
@pytest.mark.slow
def test_two_workers():
    addresses = free_addresses(2)
    processes = []
    for index in range(2):
        task = {"type": "worker", "index": index}
        config = {"cluster": {"worker": addresses}, "task": task}
        processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "tests.engines.tensorflow.worker_checks", str(index)],
                cwd=ROOT,
                env={**os.environ, "TF_CONFIG": json.dumps(config)},
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
        )
    try:
        for process in processes:
            output, _ = process.communicate(timeout=600)
            assert process.returncode == 0, output
            assert output.splitlines()[-1] == "all is well"
    finally:
        for process in processes:
            process.kill()


def test_a_process_alone_agrees_with_itself():
    workers = Workers()
    assert (workers.count, workers.is_chief, workers.describe()) == (1, True, "")
    assert workers.agree(15) == 15
    assert workers.agree(None) is None
    assert workers.from_chief(lambda: {1, 2}) == {1, 2}
    with pytest.raises(InputError, match="mine"), workers.synchronized():
        raise InputError("mine")


def test_errors_about_a_dead_worker_name_it():
    workers = TensorFlowWorkers(("a:1", "b:2"), 0, lambda values: values)
    dead = tf.errors.UnavailableError(None, None, "Collective ops aborted by /task:1, /task:0")
    with (
        pytest.raises(WorkerLost, match=r"worker 1 \(b:2\) has ended .* rerun the same command"),
        workers.losses_reported(),
    ):
        raise dead
    other = tf.errors.InternalError(None, None, "a kernel failed")
    with pytest.raises(tf.errors.InternalError), workers.losses_reported():
        raise other
    with pytest.raises(tf.errors.UnavailableError), TensorFlowWorkers().losses_reported():
        raise dead


def start(outcomes: dict, index: int, addresses) -> threading.Thread:
    def work():
        try:
            workers.meet(Cluster(addresses, index))
            outcomes[index] = None
        except (InputError, WorkerLost) as error:
            outcomes[index] = error

    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0)])
def test_all_go_on_when_the_last_one_has_come(order):
    addresses, outcomes = free_addresses(3), {}
    threads = [start(outcomes, index, addresses) for index in order[:2]]
    with socket.create_server(("", 0)):  # something else on this machine
        time.sleep(0.5)
    assert outcomes == {}
    threads.append(start(outcomes, order[2], addresses))
    for thread in threads:
        thread.join(30)
    assert outcomes == {0: None, 1: None, 2: None}
    for address in addresses:  # free again, at once
        socket.create_server(("", int(address.split(":")[1]))).close()


def test_a_worker_that_gives_up_and_comes_again_is_counted_once():
    addresses, outcomes = free_addresses(3), {}
    chief = start(outcomes, 0, addresses)
    greeting = b'{"index": 1, "cluster": ["%s"]}\n'
    line = greeting % '", "'.join(addresses).encode()
    for sent in (line, b"GET / HTTP/1.0\r\n\r\n", b""):
        while True:
            try:
                with socket.create_connection(("127.0.0.1", int(addresses[0].split(":")[1]))) as s:
                    s.sendall(sent)
                break
            except ConnectionRefusedError:
                time.sleep(0.05)
    threads = [chief, start(outcomes, 2, addresses)]
    time.sleep(1)
    assert outcomes == {}
    threads.append(start(outcomes, 1, addresses))
    for thread in threads:
        thread.join(30)
    assert outcomes == {0: None, 1: None, 2: None}


@pytest.mark.parametrize("index", [0, 1])
def test_a_missing_worker_is_named(monkeypatch, caplog, index):
    monkeypatch.setattr(workers, "WAIT_SECONDS", 0.6)
    monkeypatch.setattr(workers, "NOTE_SECONDS", 0.1)
    addresses = free_addresses(2)
    missing = f"worker {1 - index} ({addresses[1 - index]})"
    with pytest.raises(WorkerLost) as error:
        workers.meet(Cluster(addresses, index))
    assert missing in str(error.value)
    assert f"worker {index} of 2: waiting for {missing}" in caplog.text


def test_another_order_of_the_workers_ends_all():
    addresses, outcomes = free_addresses(3), {}
    swapped = (addresses[0], addresses[2], addresses[1])
    threads = [start(outcomes, 0, addresses), start(outcomes, 1, swapped)]
    for thread in threads:
        thread.join(30)
    assert "all need the same list in the same order" in str(outcomes[0])
    assert str(outcomes[0]) == str(outcomes[1])


def test_a_port_that_is_taken_is_named():
    addresses = free_addresses(2)
    with (
        socket.create_server(("", int(addresses[1].split(":")[1]))),
        pytest.raises(InputError, match=f"{addresses[1]}, the address of worker 1, cannot be used"),
    ):
        workers.meet(Cluster(addresses, 1))


def test_one_worker_waits_for_nobody():
    workers.meet(Cluster(("nowhere:1",), 0))


# What needs a CPU split into parts, in one process that does so before TensorFlow starts. A replica
# that drifts from the others ends the run before it is saved; any number of replicas and
# micro-batches computes the same; every program is traced under the strategy for TPUs.
MODULES = (
    "tests.engines.tensorflow.drifting",
    "tests.engines.tensorflow.replicas",
    "tests.engines.tensorflow.tpu_programs",
)
RUN = """
import importlib, os, sys
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 3)
for name in sys.argv[1:]:
    importlib.import_module(name).main()
"""


@pytest.mark.integration
@pytest.mark.slow
def test_on_parts_of_the_cpu():
    process = run_python("-c", RUN, *MODULES)
    assert process.returncode == 0, process.stderr
