"""Workers that wait for each other: complete, in vain, and in other clusters."""

import socket
import threading
import time

import pytest

from albert_tf.engines.tensorflow import workers
from albert_tf.engines.tensorflow.cluster import Cluster
from albert_tf.errors import InputError, WorkerLost
from tests.support.ports import free_addresses


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
