"""How a command ends that does not get to its end: bad input, a signal to stop, a lost worker."""

import signal


class InputError(ValueError):
    """A flag, file or folder is not what it should be.

    The message is one line that names the flag or file, the value, and what would be right.
    Commands print it without a traceback and end with exit code 1.
    """


class Stopped(KeyboardInterrupt):
    """Work that a signal has ended in good order, what was done being saved.

    Commands print the message and end with the exit code that shells give to the signal.

    Attributes:
        signal: SIGTERM or SIGINT (Ctrl-C).
    """

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.signal = signal.Signals(number)


class WorkerLost(RuntimeError):
    """Another of the processes that train together has gone; what was saved is good.

    Commands print the message and end with an exit code that says that starting again helps
    (EX_TEMPFAIL of `sysexits.h`).
    """

    exit_code = 75
