"""Signals to stop: noted once, obeyed at once the second time, as before afterwards."""

import os
import pty
import signal
import subprocess
import sys
import threading

import pytest

from albert_tf.training.stopping import SIGNALS, StopSignals
from tests.conftest import ROOT, heed_ctrl_c


@pytest.fixture
def handlers():
    """Yield what is set before; put back whatever a test does."""
    found = {number: signal.getsignal(number) for number in SIGNALS}
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs ignore it
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it
    yield {number: signal.getsignal(number) for number in SIGNALS}
    for number, handler in found.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_is_noted_and_the_handlers_come_back(handlers, number, capfd):
    wakeup = signal.set_wakeup_fd(-1)
    signal.set_wakeup_fd(wakeup)
    with StopSignals() as signals:
        assert signals.received is None
        os.kill(os.getpid(), number)
        assert signals.received == number
    assert {n: signal.getsignal(n) for n in SIGNALS} == handlers
    assert signal.set_wakeup_fd(wakeup) == wakeup
    assert number.name in capfd.readouterr().err


def test_ignored_signals_stay_ignored(handlers):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with StopSignals() as signals:
        os.kill(os.getpid(), signal.SIGINT)
        assert signals.received is None


def test_an_error_puts_the_handlers_back(handlers):
    with pytest.raises(ZeroDivisionError), StopSignals():
        raise ZeroDivisionError
    assert {n: signal.getsignal(n) for n in SIGNALS} == handlers


def test_other_threads_leave_signals_alone(handlers):
    seen = []

    def work():
        with StopSignals() as signals:
            seen.append((signals.received, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [(None, handlers[signal.SIGTERM])]


# One long call, as a graph of many steps is, during which Python runs no handlers.
BUSY = """
import hashlib
from albert_tf.training.stopping import StopSignals
with StopSignals():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"password", b"salt", 2**31 - 1)
"""


def started(script: str, *words, **streams) -> subprocess.Popen:
    command = [sys.executable, "-c", script, *map(str, words)]
    return subprocess.Popen(command, cwd=ROOT, preexec_fn=heed_ctrl_c, **streams)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_the_second_signal_ends_a_long_call_at_once(number, code):
    process = started(BUSY, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    process.stderr.readline()
    assert "repeat to end at once" in process.stderr.readline()
    assert process.poll() is None
    process.send_signal(signal.SIGHUP)  # of a terminal that closes
    process.send_signal(number)
    assert process.wait(timeout=30) == code
    process.communicate()


# What training does in the end, and a message that is shown while it still runs.
SAVING = """
import sys, time
from albert_tf.terminal import ending_quietly, show
from albert_tf.training.stopping import StopSignals
with ending_quietly(), StopSignals() as signals:
    show("ready", sys.stdout)
    while signals.received is None:
        time.sleep(0.01)
        show("a step", sys.stderr)
    show("the last step", sys.stderr)
    show("the last step", sys.stdout)
    open(sys.argv[1], "w").write("saved")
sys.exit(128 + signals.received)
"""


def test_a_terminal_that_closes_lets_the_work_be_saved(tmp_path):
    terminal, side = pty.openpty()
    process = started(SAVING, tmp_path / "saved", stdout=side, stderr=side)
    os.close(side)
    assert os.read(terminal, 5) == b"ready"
    os.close(terminal)
    for _ in range(2):  # of the terminal, and of the shell
        process.send_signal(signal.SIGHUP)
    assert process.wait(timeout=30) == 128 + signal.SIGHUP
    assert (tmp_path / "saved").read_text() == "saved"


WITHOUT_STREAMS = """
import os, sys
from albert_tf.terminal import ending_quietly
with ending_quietly(), open(sys.argv[1], "w") as file:
    os.write(2, b"a message of a library")
    print(sys.stdin.read(), file=sys.stderr)
    file.write("a line")
"""


@pytest.mark.parametrize("closed", [(1, 2), (0, 1, 2)])
def test_work_without_standard_streams(tmp_path, closed):
    """No file gets the number of one, and so what libraries print."""
    words = [sys.executable, "-c", WITHOUT_STREAMS, str(tmp_path / "written")]
    closing = " ".join(f"{number}>&-" for number in closed)
    script = f'exec "$@" {closing}'
    done = subprocess.run(["sh", "-c", script, "sh", *words], cwd=ROOT, stdin=subprocess.DEVNULL)
    assert done.returncode == 0
    assert (tmp_path / "written").read_text() == "a line"
