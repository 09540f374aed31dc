"""Two processes that train together: see `worker_checks.py`. And a process alone."""

import json
import os
import subprocess
import sys

import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow.workers import TensorFlowWorkers
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, WorkerLost
from tests.conftest import ROOT
from tests.support.ports import free_addresses


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
