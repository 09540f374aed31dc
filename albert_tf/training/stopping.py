"""Stopping cleanly in training: SIGTERM (preemption, a time limit), Ctrl-C, a closed terminal."""

import os
import signal
import sys
import threading
from typing import Any

from albert_tf.terminal import show

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class StopSignals:
    """Records SIGTERM, Ctrl-C and SIGHUP within a `with` block, instead of ending the process.

    The caller checks `received` where it can stop. A second signal ends the process at once, with
    the exit code that shells use for it (143 or 130). Signals that are ignored, as Ctrl-C is in
    background jobs and SIGHUP after nohup, stay ignored. Outside of the main thread, where Python
    handles no signals, nothing happens. Earlier handlers are restored at the end of the block.

    A terminal that closes sends SIGHUP more than once, itself and through the shell, and a session
    that ends with it SIGTERM as well. SIGHUP therefore never ends the process at
    once, nor makes the next signal do so.

    Attributes:
        received: number of the first signal; None before it.
    """

    def __init__(self):
        self.received: int | None = None
        self._handlers: dict[int, Any] = {}

    def __enter__(self) -> "StopSignals":
        if threading.current_thread() is not threading.main_thread():
            return self
        # Python's handlers run between two Python instructions, which a call of the engine may
        # delay by minutes; the file descriptor is written to when the signal arrives.
        self._read, self._write = os.pipe()
        os.set_blocking(self._write, False)
        self._wakeup = signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)
        self._watcher = threading.Thread(target=self._watch, name="stop signals", daemon=True)
        self._watcher.start()
        for number in SIGNALS:
            if signal.getsignal(number) not in (signal.SIG_IGN, None):
                self._handlers[number] = signal.getsignal(number)
                signal.signal(number, self._note)
        return self

    def __exit__(self, *error) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        for number, handler in self._handlers.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._wakeup)
        os.close(self._write)
        self._watcher.join()
        os.close(self._read)

    def _note(self, number: int, frame) -> None:
        if self.received is None:
            self.received = number

    def _watch(self) -> None:
        heard: set[int] = set()
        while byte := os.read(self._read, 1):
            number = byte[0]
            if number not in self._handlers:
                continue  # another signal with a Python handler
            if number != signal.SIGHUP and heard - {signal.SIGHUP}:
                os._exit(128 + number)
            if not heard:
                name = signal.Signals(number).name
                text = f"\n{name}: finishing the current steps and saving; repeat to end at once"
                show(text, sys.stderr)
            heard.add(number)
