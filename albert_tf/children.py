"""Commands that a process starts, which must not outlive it."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

from albert_tf.errors import Stopped

_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_running: set[subprocess.Popen] = set()


@contextlib.contextmanager
def stoppable(message: str = "stopped") -> Iterator[None]:
    """Raise `Stopped` where SIGTERM, Ctrl-C or the end of the terminal would end the process.

    Signals that are ignored or have a handler keep it. Outside of the main thread, where Python
    handles no signals, nothing changes.
    """

    def stop(number: int, frame: Any) -> NoReturn:
        raise Stopped(number, message)

    replaced = {}
    if threading.current_thread() is threading.main_thread():
        for number, handler in {**dict.fromkeys(_SIGNALS, stop), signal.SIGTSTP: _pause}.items():
            if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
                replaced[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in replaced.items():
            signal.signal(number, before)


def _pause(number: int, frame: Any) -> None:
    """Pause this process and its children, as Ctrl-Z does with a job of one session."""
    paused = [process for process in _running.copy() if not _is_paused(process)]
    for process in paused:
        _signal(process, signal.SIGSTOP)
    os.kill(os.getpid(), signal.SIGSTOP)  # until SIGCONT, of `fg` or `bg`
    for process in paused:
        _signal(process, signal.SIGCONT)


def _is_paused(process: subprocess.Popen) -> bool:
    """Return whether a child is paused already, as in a benchmark where another one runs."""
    with contextlib.suppress(OSError), open(f"/proc/{process.pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] == "T"
    return False


def _signal(process: subprocess.Popen, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, number)


@contextlib.contextmanager
def child(words: Sequence[str], **options: Any) -> Iterator[subprocess.Popen]:
    """Start a command, which has ended when the block ends.

    It is in a session of its own, so that only this process receives Ctrl-C: a second signal would
    end training before it has saved. Options are those of `subprocess.Popen`.
    """
    with stoppable():
        process = subprocess.Popen(words, start_new_session=True, **options)
        _running.add(process)
        try:
            yield process
        finally:
            end(process)
            _running.discard(process)


def end(process: subprocess.Popen) -> None:
    """End a `child`, with the processes that it has started, and wait for it.

    A further signal to this process ends them at once.
    """
    number = signal.SIGTERM
    while process.poll() is None:
        with contextlib.suppress(KeyboardInterrupt, ProcessLookupError):
            os.killpg(process.pid, number)
            os.killpg(process.pid, signal.SIGCONT)  # it may be paused
            number = signal.SIGKILL
            process.wait()


def run_child(words: Sequence[str], **options: Any) -> subprocess.CompletedProcess:
    """Run a command to its end, as `subprocess.run` does, and return its output."""
    with child(words, **options) as process:
        output, errors = process.communicate()
    return subprocess.CompletedProcess(words, process.returncode, output, errors)
