"""Which machines train together: from TF_CONFIG, or from the variables that SLURM sets.

TensorFlow's own SlurmClusterResolver (of 2.21) is not used: it sorts the machines' names as text
(n10 before n2), so that tasks and addresses do not match, has one port for all jobs, reads no names
with two ranges (rack[1-2]n[1-4]), and fails on machines without a GPU.
"""

import dataclasses
import json
import re
from collections.abc import Mapping

from albert_tf.errors import InputError

_EXAMPLE = (
    '{"cluster": {"worker": ["host1:12345", "host2:12345"]}, '
    '"task": {"type": "worker", "index": 0}}'
)
_ADDRESS = re.compile(r"[^\s:/]+:(\d{1,5})|\[[0-9a-fA-F:]+\]:(\d{1,5})")

# TensorFlow's names of the first worker, if it has its own, and of the others.
_JOBS = ("chief", "worker")

# Ports that SLURM jobs use: below those that systems assign, 16 for each job and machine.
_FIRST_PORT, _PORTS, _PORTS_PER_JOB = 10000, 20000, 16


@dataclasses.dataclass(frozen=True)
class Cluster:
    """Workers that train together, and which of them this process is.

    Attributes:
        addresses: host:port of every worker, the chief's first.
        index: this process's rank.
        here: rank of this process among those on its machine that share the machine's GPUs, and
            their number; (0, 1) if unknown.
    """

    addresses: tuple[str, ...]
    index: int
    here: tuple[int, int] = (0, 1)


def find_cluster(environment: Mapping[str, str]) -> Cluster:
    """Return the cluster that environment variables describe.

    Raises:
        InputError: If there is none, or its description is invalid.
    """
    if "TF_CONFIG" in environment:
        return _from_tf_config(environment["TF_CONFIG"])
    if "SLURM_PROCID" in environment:
        return _from_slurm(environment)
    raise InputError(
        "`strategy`=multi_worker: TF_CONFIG is not set; every worker needs it, such as "
        f"{_EXAMPLE}, each with its own index (or start them with SLURM's srun)"
    )


def _from_tf_config(text: str) -> Cluster:
    def refuse(reason: str):
        shown = text if len(text) <= 200 else f"{text[:200]}..."
        raise InputError(f"TF_CONFIG={shown}: {reason}; a valid value is, for example, {_EXAMPLE}")

    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        refuse(f"is not JSON ({error})")
    if not isinstance(config, dict):
        refuse("must be a JSON object")
    for name in ("cluster", "task"):
        if not isinstance(config.get(name), dict) or not config[name]:
            refuse(f"{name!r} must be an object in it")
    cluster, task = config["cluster"], config["task"]
    if unknown := set(cluster) - set(_JOBS):
        refuse(f"cluster names {', '.join(sorted(unknown))}, must have worker and optionally chief")
    for job, addresses in cluster.items():
        if not (isinstance(addresses, list) and all(isinstance(a, str) for a in addresses)):
            refuse(f"cluster.{job} must be a list of host:port")
    addresses = [address for job in _JOBS for address in cluster.get(job, [])]
    for address in addresses:
        found = _ADDRESS.fullmatch(address)
        if not found or not 0 < int(found[1] or found[2]) < 65536:
            refuse(f"{address!r} is not host:port")
    if repeated := {a for a in addresses if addresses.count(a) > 1}:
        refuse(f"{', '.join(sorted(repeated))} is named more than once")
    if len(cluster.get("chief", [])) > 1:
        refuse("there can be only one chief")
    job, index = task.get("type"), task.get("index")
    if job not in cluster:
        refuse(f"task.type is {job!r}, must be one of {', '.join(cluster) or 'worker'}")
    if isinstance(index, str) and index.isdecimal():
        index = int(index)  # as some launchers write it
    if not (type(index) is int and 0 <= index < len(cluster[job])):
        refuse(f"task.index is {index!r}, must be from 0 to {len(cluster[job]) - 1}")
    return Cluster(tuple(addresses), addresses.index(cluster[job][index]))


def _from_slurm(environment: Mapping[str, str]) -> Cluster:
    """Return the cluster of the tasks that one `srun` started, on one machine or several.

    Ports depend on the number of the job, so that two jobs on a machine do not collide.
    """

    def number(name: str) -> int:
        return int(_slurm(environment, name, r"\d+"))

    hosts = expand_hosts(_slurm(environment, "SLURM_STEP_NODELIST", r"\S+"))
    counts = _tasks_per_node(
        _slurm(environment, "SLURM_STEP_TASKS_PER_NODE", r"\d+(\(x\d+\))?(,\d+(\(x\d+\))?)*")
    )
    if len(hosts) != len(counts):
        raise InputError(
            f"SLURM_STEP_NODELIST={environment['SLURM_STEP_NODELIST']}: {len(hosts)} machines, but "
            f"SLURM_STEP_TASKS_PER_NODE={environment['SLURM_STEP_TASKS_PER_NODE']} has "
            f"{len(counts)}"
        )
    by_rank = [(node, local) for node, count in enumerate(counts) for local in range(count)]
    distribution = environment.get("SLURM_DISTRIBUTION", "block")
    if distribution.startswith("cyclic"):
        by_rank.sort(key=lambda process: process[1])
    rank, here = number("SLURM_PROCID"), (number("SLURM_NODEID"), number("SLURM_LOCALID"))
    if rank >= len(by_rank) or by_rank[rank] != here:
        raise InputError(
            f"SLURM_DISTRIBUTION={distribution}: task {rank} is number {here[1]} on machine "
            f"{here[0]}; start the tasks with srun --distribution=block or cyclic"
        )
    jobs = number("SLURM_JOB_ID") % (_PORTS // _PORTS_PER_JOB)
    port = _FIRST_PORT + jobs * _PORTS_PER_JOB
    addresses = tuple(f"{hosts[node]}:{port + local}" for node, local in by_rank)
    return Cluster(addresses, rank, (here[1], counts[here[0]]))


def _slurm(environment: Mapping[str, str], name: str, form: str) -> str:
    value = environment.get(name)
    if value is None:
        raise InputError(
            f"{name} is not set: inside a SLURM job, start the program with srun (or set TF_CONFIG)"
        )
    if not re.fullmatch(form, value):
        raise InputError(f"{name}={value}: not what SLURM sets; start the program with srun")
    return value


def _tasks_per_node(text: str) -> list[int]:
    """`2(x3),1` -> [2, 2, 2, 1]."""
    counts = []
    for count, times in re.findall(r"(\d+)(?:\(x(\d+)\))?", text):
        counts += [int(count)] * int(times or 1)
    return counts


def expand_hosts(text: str) -> list[str]:
    """Return the machines of a SLURM list, in its order: `a[1-2,08],b` -> a1, a2, a08, b.

    Raises:
        InputError: If it is not such a list.
    """
    hosts = []
    if not re.fullmatch(r"[^\[\],]+|(?:[^\[\]]|\[[\d,-]+\])+", text):
        raise InputError(f"SLURM_STEP_NODELIST={text}: not a list of machines")
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        names = [""]
        for plain, ranges in re.findall(r"([^\[\]]+)|\[([^\]]*)\]", part):
            ends = [plain] if plain else _numbers(ranges)
            names = [name + end for name in names for end in ends]
        hosts += names
    return hosts


def _numbers(ranges: str) -> list[str]:
    """`1-3,08` -> 1, 2, 3, 08; leading zeros are kept."""
    found = []
    for low, high in re.findall(r"(\d+)(?:-(\d+))?", ranges):
        numbers = range(int(low), int(high or low) + 1)
        found += [str(number).zfill(len(low)) for number in numbers]
    return found
