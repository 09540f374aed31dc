"""Workers that are to train together find each other before TensorFlow starts.

TensorFlow itself waits for an hour without a word and without heeding Ctrl-C, and takes workers
with other flags for lost ones later. The chief waits here for a line from each of the others, and
answers all of them when they are complete.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import sys
import time
from collections.abc import Iterator

from albert_tf.engines.tensorflow.cluster import Cluster
from albert_tf.errors import InputError, WorkerLost

# Until all are there, in seconds; and until it is told who is missing.
WAIT_SECONDS, NOTE_SECONDS = 600.0, 15.0

_ANSWER_SECONDS = 5.0  # for one line over a connection that stands
_LINE_BYTES = 1 << 20


def meet(cluster: Cluster, settings: dict[str, str]) -> None:
    """Returns when all workers of a cluster are there.

    Args:
        cluster: who they are.
        settings: name -> value of what must be the same for all of them.

    Raises:
        InputError: this worker's port is taken, or the workers' settings differ.
        WorkerLost: not all of them have come in time.
    """
    if len(cluster.addresses) == 1:
        return
    greeting = {"index": cluster.index, "cluster": list(cluster.addresses), "settings": settings}
    with _own_port(cluster) as server:
        if cluster.index == 0:
            _receive(server, cluster, greeting)
            return
    _report(cluster, greeting)


@contextlib.contextmanager
def _own_port(cluster: Cluster) -> Iterator[socket.socket]:
    address = cluster.addresses[cluster.index]
    both = socket.has_dualstack_ipv6()
    try:
        server = socket.create_server(
            ("", int(address.rsplit(":", 1)[1])),
            family=socket.AF_INET6 if both else socket.AF_INET,
            dualstack_ipv6=both,
            backlog=len(cluster.addresses),
        )
    except OSError as error:
        raise InputError(
            f"--strategy=multi_worker: {address}, the address of worker {cluster.index}, cannot be "
            f"used ({os.strerror(error.errno or 0)}); has a run there not ended yet?"
        ) from None
    with server:
        yield server


class _Patience:
    """Says after a while who is waited for, and gives up in the end."""

    def __init__(self, cluster: Cluster):
        self._who = f"worker {cluster.index} of {len(cluster.addresses)}"
        self._addresses = cluster.addresses
        self._start, self._noted = time.monotonic(), False

    def check(self, missing: list[int], reason: str = "") -> None:
        """Raises WorkerLost when it has been too long."""
        seconds = time.monotonic() - self._start
        names = ", ".join(f"worker {number} ({self._addresses[number]})" for number in missing)
        why = f" ({reason})" if reason else ""
        if seconds > WAIT_SECONDS:
            raise WorkerLost(
                f"{self._who}: {names} has not come in {WAIT_SECONDS:.0f} seconds{why}; start all "
                "workers at about the same time, with the same TF_CONFIG but for task.index"
            )
        if seconds > NOTE_SECONDS and not self._noted:
            self._noted = True
            print(f"{self._who}: waiting for {names}{why}", file=sys.stderr, flush=True)


def _receive(server: socket.socket, cluster: Cluster, own: dict) -> None:
    """The chief's part: waits for all, and answers all at once."""
    there: dict[int, socket.socket] = {}
    patience = _Patience(cluster)
    server.settimeout(0.2)
    with contextlib.ExitStack() as stack:
        while len(there) < len(cluster.addresses) - 1:
            with contextlib.suppress(TimeoutError):
                connection = stack.enter_context(server.accept()[0])
                greeting = _read(connection)
                if greeting is None or not isinstance(greeting.get("index"), int):
                    connection.close()  # a port scan, or a worker that has gone again
                elif difference := _difference(own, greeting):
                    _answer([*there.values(), connection], difference)
                    raise InputError(difference)
                else:
                    there[greeting["index"]] = connection
            there = {number: each for number, each in there.items() if not _has_gone(each)}
            everyone = range(1, len(cluster.addresses))
            patience.check([number for number in everyone if number not in there])
        _answer(list(there.values()), "")


def _report(cluster: Cluster, greeting: dict) -> None:
    """The others' part: a line to the chief, until it answers."""
    host, port = cluster.addresses[0].rsplit(":", 1)
    patience, reason = _Patience(cluster), ""
    while True:
        try:
            with socket.create_connection((host.strip("[]"), int(port)), _ANSWER_SECONDS) as chief:
                chief.sendall(json.dumps(greeting).encode() + b"\n")
                while (answer := _read(chief)) is None and not _has_gone(chief):
                    patience.check([0], "it waits for others")
        except OSError as error:
            answer, reason = None, error.strerror or str(error)
        if answer is not None and "error" in answer:
            if answer["error"]:
                raise InputError(answer["error"])
            return
        patience.check([0], reason)
        time.sleep(0.2)


def _difference(own: dict, other: dict) -> str:
    """What a worker has otherwise than the chief; empty if nothing."""
    if own["cluster"] != other.get("cluster") or not 0 < other["index"] < len(own["cluster"]):
        return (
            f"TF_CONFIG: worker {other['index']} has the cluster {other.get('cluster')}, worker 0 "
            f"{own['cluster']}; all need the same list in the same order"
        )
    here, there = own["settings"], other.get("settings", {})
    names = [name for name in sorted({*here, *there}) if here.get(name) != there.get(name)]
    if not names:
        return ""
    listed = ", ".join(f"{n}={there.get(n)} instead of {here.get(n)}" for n in names[:5])
    return f"worker {other['index']} was started with {listed}, as worker 0 was; all need the same"


def _answer(connections: list[socket.socket], error: str) -> None:
    for connection in connections:
        with contextlib.suppress(OSError):
            connection.sendall(json.dumps({"error": error}).encode() + b"\n")
    for connection in connections:
        # Who closes first keeps the port busy for a while; the chief needs its port at once.
        connection.settimeout(_ANSWER_SECONDS)
        with contextlib.suppress(OSError):
            connection.recv(1)


def _read(connection: socket.socket) -> dict | None:
    """A JSON object in a line; None if none comes in time."""
    connection.settimeout(_ANSWER_SECONDS)
    line = b""
    with contextlib.suppress(OSError, ValueError):
        while not line.endswith(b"\n") and len(line) < _LINE_BYTES:
            if not (more := connection.recv(65536)):
                return None
            line += more
        value = json.loads(line)
        return value if isinstance(value, dict) else None
    return None


def _has_gone(connection: socket.socket) -> bool:
    """Whether the other side has closed a connection on which nothing is to be read now."""
    if connection.fileno() < 0:
        return True
    connection.setblocking(False)
    try:
        return connection.recv(1, socket.MSG_PEEK) == b""
    except BlockingIOError:
        return False
    except OSError:
        return True
