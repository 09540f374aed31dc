"""TF_CONFIG and SLURM's variables: who the workers are, or one line on what is wrong."""

import json

import pytest

from albert_tf.engines.tensorflow.cluster import Cluster, expand_hosts, find_cluster
from albert_tf.errors import InputError


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
    with pytest.raises(InputError) as error:
        find_cluster({"TF_CONFIG": text})
    message = str(error.value)
    assert message.startswith(f"TF_CONFIG={text}: ")
    assert reason in message
    assert '"task": {"type": "worker", "index": 0}' in message  # what would be right
    assert "\n" not in message


def test_without_either_there_is_one_line():
    with pytest.raises(InputError, match="^`strategy`=multi_worker: TF_CONFIG is not set"):
        find_cluster({})


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
