"""Two processes that train together (`worker_checks.py`), one alone, and how workers meet.

TF_CONFIG and SLURM's variables: who the workers are, or one line on what is wrong.
"""

import json
import socket
import subprocess
import threading
import time

import pytest
import tensorflow as tf

from albert_tf.engines.tensorflow import workers
from albert_tf.engines.tensorflow.cluster import Cluster, expand_hosts, find_cluster
from albert_tf.engines.tensorflow.workers import TensorFlowWorkers
from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError, WorkerLost
from tests.conftest import free_addresses, refusal, run_python
from tests.end_to_end import conftest


@pytest.mark.integration
@pytest.mark.slow
def test_two_workers():
    cluster = {"worker": free_addresses(2)}

    def begin(index: int) -> subprocess.Popen:
        words = "-m", "tests.engines.tensorflow.worker_checks", str(index)
        return conftest.start(*words, **tf_config(cluster, {"type": "worker", "index": index}))

    for code, output, errors in conftest.Two(begin).end():
        assert code == 0, errors
        assert output.splitlines()[-1] == "all is well"


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


@pytest.mark.integration
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


@pytest.mark.integration
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


@pytest.mark.integration
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


def tf_config(cluster, task) -> dict[str, str]:
    return {"TF_CONFIG": json.dumps({"cluster": cluster, "task": task})}


def test_tf_config_names_the_workers_and_this_one():
    addresses = ["a:1", "b:2", "[::1]:3"]
    found = find_cluster(tf_config({"worker": addresses}, {"type": "worker", "index": 2}))
    assert found == Cluster(("a:1", "b:2", "[::1]:3"), 2)
    cluster = {"worker": addresses, "chief": ["c:4"]}
    assert find_cluster(tf_config(cluster, {"type": "worker", "index": "0"})).index == 1
    chief = find_cluster(tf_config(cluster, {"type": "chief", "index": 0}))
    assert chief == Cluster(("c:4", "a:1", "b:2", "[::1]:3"), 0)


TWO = {"worker": ["a:1", "b:1"]}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "is not JSON"),
        ("{'cluster'}", "is not JSON"),
        ("[]", "must be a JSON object"),
        ({"cluster": TWO}, "'task' must be an object"),
        ({"cluster": {}, "task": {"type": "worker", "index": 0}}, "'cluster' must be an object"),
        ({"cluster": {**TWO, "ps": ["c:1"]}, "task": {"index": 0}}, "cluster names ps"),
        ({"cluster": {"worker": "a:1"}, "task": {"index": 0}}, "must be a list of host:port"),
        ({"cluster": {"worker": ["a"]}, "task": {"index": 0}}, "'a' is not host:port"),
        ({"cluster": {"worker": ["a:70000"]}, "task": {"index": 0}}, "'a:70000' is not host:port"),
        ({"cluster": {"worker": ["a:1", "a:1"]}, "task": {"index": 0}}, "named more than once"),
        ({"cluster": {"chief": ["a:1", "b:1"]}, "task": {"index": 0}}, "only one chief"),
        ({"cluster": TWO, "task": {"type": "master", "index": 0}}, "must be one of worker"),
        ({"cluster": TWO, "task": {"type": "worker", "index": 2}}, "must be from 0 to 1"),
        ({"cluster": TWO, "task": {"type": "worker", "index": True}}, "must be from 0 to 1"),
        ({"cluster": TWO, "task": {"type": "worker"}}, "task.index is None"),
    ],
)
def test_what_is_wrong_with_a_tf_config_is_one_line(text, reason):
    text = text if isinstance(text, str) else json.dumps(text)
    message = refusal(find_cluster, {"TF_CONFIG": text})
    assert message.startswith(f"TF_CONFIG={text}: ")
    assert reason in message
    assert '"task": {"type": "worker", "index": 0}' in message  # what would be right


def test_without_either_there_is_one_line():
    assert refusal(find_cluster, {}).startswith("`strategy`=multi_worker: TF_CONFIG is not set")


def slurm(rank, node, local, nodes="n[9-11]", tasks="1(x3)", **more) -> dict[str, str]:
    return {
        "SLURM_JOB_ID": "1252",
        "SLURM_STEP_NODELIST": nodes,
        "SLURM_STEP_TASKS_PER_NODE": tasks,
        "SLURM_PROCID": str(rank),
        "SLURM_NODEID": str(node),
        "SLURM_LOCALID": str(local),
        **more,
    }


def test_slurm_one_task_a_machine():
    # 1252 is 2 beyond the 1250 jobs that have ports of their own; n9 stays before n10.
    addresses = ("n9:10032", "n10:10032", "n11:10032")
    for rank in range(3):
        assert find_cluster(slurm(rank, rank, 0)) == Cluster(addresses, rank, (0, 1))


def test_slurm_several_tasks_a_machine():
    layout = [(0, 0), (0, 1), (1, 0), (1, 1), (2, 0)]
    addresses = ("a:10032", "a:10033", "b7:10032", "b7:10033", "c:10032")
    for rank, (node, local) in enumerate(layout):
        found = find_cluster(slurm(rank, node, local, "a,b7,c", "2(x2),1"))
        assert found == Cluster(addresses, rank, (local, 1 if node == 2 else 2))
    cyclic = {"SLURM_DISTRIBUTION": "cyclic:block"}
    order = [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]
    for rank, (node, local) in enumerate(order):
        found = find_cluster(slurm(rank, node, local, "a,b7,c", "2(x2),1", **cyclic))
        assert found.addresses[rank] == addresses[layout.index((node, local))]


def test_two_slurm_jobs_on_a_machine_have_other_ports():
    one = find_cluster(slurm(0, 0, 0, "a", "16"))
    other = find_cluster({**slurm(0, 0, 0, "a", "16"), "SLURM_JOB_ID": "1253"})
    assert not set(one.addresses) & set(other.addresses)


def test_tf_config_goes_before_slurm():
    both = {**slurm(0, 0, 0), **tf_config(TWO, {"type": "worker", "index": 1})}
    assert find_cluster(both).addresses == ("a:1", "b:1")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"SLURM_STEP_NODELIST": None}, "SLURM_STEP_NODELIST is not set: .* srun"),
        ({"SLURM_STEP_TASKS_PER_NODE": "x"}, "SLURM_STEP_TASKS_PER_NODE=x: .* srun"),
        ({"SLURM_STEP_TASKS_PER_NODE": "1(x2)"}, "3 machines, but .* has 2"),
        ({"SLURM_STEP_NODELIST": "n[1-"}, r"SLURM_STEP_NODELIST=n\[1-: not a list"),
        ({"SLURM_NODEID": "1"}, "task 0 is number 0 on machine 1; start .*--distribution"),
        ({"SLURM_PROCID": "7"}, "task 7 is number 0 on machine 0"),
    ],
)
def test_what_is_wrong_with_slurms_variables_is_one_line(changes, message):
    environment = {**slurm(0, 0, 0), **changes}
    environment = {name: value for name, value in environment.items() if value is not None}
    with pytest.raises(InputError, match=message):
        find_cluster(environment)


@pytest.mark.parametrize(
    ("text", "hosts"),
    [
        ("a", ["a"]),
        ("n[1-2],m5,o[3-4,06,7-9]", ["n1", "n2", "m5", "o3", "o4", "o06", "o7", "o8", "o9"]),
        ("gpu[008-011]", ["gpu008", "gpu009", "gpu010", "gpu011"]),
        ("r[1-2]n[1-2]-x", ["r1n1-x", "r1n2-x", "r2n1-x", "r2n2-x"]),
    ],
)
def test_slurms_lists_of_machines(text, hosts):
    assert expand_hosts(text) == hosts
