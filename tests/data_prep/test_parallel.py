"""Worker processes: order, bounded memory, and what happens when one is killed."""

import os
import random
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.errors import InputError
from data_prep import parallel
from tests.conftest import ROOT, heed_ctrl_c
from tests.test_children import state_of

SCRIPT = """
import os, sys, time
from multiprocessing.connection import Connection
from data_prep import parallel

def send_part(self, content, write=None):
    os.write(self.fileno(), content[:100])
    if len(content) > 100:
        os.kill(os.getpid(), 9)

if __name__ == "__mp_main__" and "{do}" == "load":
    print("loading", flush=True)
    time.sleep(0.5)

def work(item):
    if item == 3 and "{do}" == "die":
        os.kill(os.getpid(), 9)
    if item == 3 and "{do}" == "die while writing":
        Connection._send = send_part
        return bytes(1 << 20)
    time.sleep({seconds})
    return bytes(1 << 20) if "{do}" == "write much" else os.getpid()

if __name__ == "__main__":
    with parallel.Workers(2) as workers:
        for pid in workers.map(work, range(10**6)):
            print(pid if "{do}" != "write much" else len(pid), flush=True)
"""

_shared = ""


def remember(text: str) -> None:
    global _shared
    _shared = text


def square(number: int) -> tuple[int, str, int]:
    time.sleep(0.02 * (number % 3))
    return number * number, _shared, os.getpid()


@pytest.mark.integration
@pytest.mark.parametrize("processes", [1, 3])
def test_results_come_in_order_and_items_are_taken_a_few_at_a_time(processes):
    taken = []

    def items():
        for number in range(40):
            taken.append(number)
            yield number

    pids = set()
    with parallel.Workers(processes, remember, ("shared",)) as workers:
        for number, (result, text, pid) in enumerate(workers.map(square, items())):
            assert (result, text) == (number * number, "shared")
            assert len(taken) <= number + 1 + 4 * processes
            pids.add(pid)
    assert len(taken) == 40
    assert (os.getpid() in pids) == (processes == 1)
    assert len(pids) <= processes


def fail(number: int) -> None:
    raise InputError(f"`x`={number}: wrong")


@pytest.mark.integration
def test_the_error_of_a_worker_is_raised_with_its_traceback():
    with parallel.Workers(2) as workers:
        with pytest.raises(InputError, match="^`x`=3: wrong$") as error:
            list(workers.map(fail, [3, 4]))
        assert "in fail" in str(error.value.__cause__)
        with pytest.raises(TypeError, match="pickle"):  # what cannot be sent ends no process
            list(workers.map(open, [__file__]))
        assert list(workers.map(abs, [-1, -2])) == [1, 2]


def start(tmp_path, do: str, seconds: float) -> subprocess.Popen:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(do=do, seconds=seconds))
    return subprocess.Popen(
        [sys.executable, path],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=heed_ctrl_c,
    )


def errors_of(process: subprocess.Popen) -> str:
    try:
        return process.communicate(timeout=60)[1]
    finally:
        process.kill()


@pytest.mark.parametrize("do", ["die", "die while writing"])
def test_a_killed_worker_is_an_error_and_not_a_hang(tmp_path, do):
    process = start(tmp_path, do, 0)
    errors = errors_of(process)
    assert process.returncode == 1
    assert "ChildProcessError: a worker process was killed" in errors.splitlines()[-1]


def stop(process: subprocess.Popen, number: int = signal.SIGINT) -> str:
    """Send a signal to a process and its workers, and return what they print as errors."""
    os.killpg(process.pid, number)
    errors = errors_of(process)
    assert process.returncode == 1, errors
    assert errors.endswith("albert_tf.errors.Stopped: stopped\n"), errors
    return errors


def test_ctrl_c_while_workers_load_is_only_reported_by_their_parent(tmp_path):
    process = start(tmp_path, "load", 0.01)
    process.stdout.readline()
    assert stop(process).count("Traceback") == 1


@pytest.mark.parametrize(
    "count", [pytest.param(5, marks=pytest.mark.slow), pytest.param(500, marks=pytest.mark.manual)]
)
def test_ctrl_c_at_any_moment_is_no_hang(tmp_path, count):
    chance = random.Random(0)
    for _ in range(count):
        process = start(tmp_path, "write much", 0.001)
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.3))
        stop(process)


@pytest.mark.integration
@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="looks for processes in /proc")
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGHUP])
def test_workers_end_with_their_parent(tmp_path, number):
    process = start(tmp_path, "work", 0.01)
    workers = {int(process.stdout.readline()) for _ in range(20)}
    if number == signal.SIGKILL:
        process.kill()
        errors_of(process)
    else:
        assert stop(process, number).count("Traceback") == 1  # of this bare script
    end = time.monotonic() + 30
    while set(map(state_of, workers)) != {"Z"} and time.monotonic() < end:
        time.sleep(0.05)
    assert set(map(state_of, workers)) == {"Z"}
