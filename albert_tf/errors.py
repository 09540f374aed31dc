"""How a command ends early: invalid input, a signal to stop, a lost worker or server.

Also the errors of TensorFlow as one line each.
"""

import contextlib
import re
import signal
from collections.abc import Callable, Iterator

_ARGUMENT = re.compile(r"`(\w+)`")
# Maps the name of an argument to what replaces it, backticks included, or to None to leave it.
Renaming = Callable[[str], str | None]


def renamed(message: str, name_of: Renaming) -> str:
    """Return a message with other names of arguments, which are in backticks."""
    return _ARGUMENT.sub(lambda match: name_of(match[1]) or match[0], message)


class InputError(ValueError):
    """An argument, file or folder is invalid.

    The message is one line that names the argument or file, its value, and what would be valid.
    Names of arguments are in backticks: ``InputError("`batch_size`=0: must be at least 1")``.
    Commands print them as flags (`--batch_size=0: ...`), without a traceback; the exit code is 1.

    Example:
        >>> try:
        ...     albert_tf.AlbertConfig(hidden_size=100, num_attention_heads=12)
        ... except albert_tf.InputError as error:
        ...     print(error)
        hidden_size=100 is not a multiple of num_attention_heads=12
    """

    def with_names(self, name_of: Renaming) -> "InputError":
        """Return the same error under other names."""
        return InputError(renamed(str(self), name_of))


@contextlib.contextmanager
def arguments_renamed(**names: str) -> Iterator[None]:
    """Report errors of a callee in terms of the caller's own arguments.

    They are by those of the callee, as in `arguments_renamed(path="init_checkpoint")`.
    """
    try:
        yield
    except InputError as error:
        raise error.with_names(lambda name: f"`{names[name]}`" if name in names else None) from None


class Stopped(KeyboardInterrupt):
    """Work that a signal ended in good order, after saving what was done.

    Commands print the message and end with the exit code that shells use for the signal.

    Attributes:
        signal: SIGTERM, SIGINT (Ctrl-C) or SIGHUP (a closed terminal).
    """

    def __init__(self, number: int, message: str):
        super().__init__(message)
        self.signal = signal.Signals(number)


class Unavailable(RuntimeError):
    """Something outside this process is missing for now; everything saved is intact.

    Commands print the message and end with the exit code by which schedulers know that a restart
    helps (EX_TEMPFAIL of `sysexits.h`).
    """

    exit_code = 75


class WorkerLost(Unavailable):
    """Another worker of the same training run has died."""


class StorageUnavailable(Unavailable):
    """A server of remote files did not answer for ten minutes.

    It is no OSError, so that nothing takes the files there for missing or damaged.
    """


# The nodes that a message begins with, such as `{{function_node f}} {{node x}}`.
_NODES = re.compile(r"^(\{\{.*?\}\}\s*)+")
# Prefixes of the lines that TensorFlow prints before the actual reason.
_NO_REASONS = ("Graph execution error", "Detected at node", "<stack traces", 'File "', "[[")


@contextlib.contextmanager
def tensorflow_errors_as_os_errors() -> Iterator[None]:
    """Raise TensorFlow's file errors, such as a full disk, as `OSError`."""
    import tensorflow as tf

    try:
        yield
    except tf.errors.OpError as error:
        raise OSError(tensorflow_reason(error)) from None


def tensorflow_reason(error: Exception) -> str:
    """Return the message of a TensorFlow error without the description of graph nodes."""
    lines = [line for line in map(str.strip, str(error).splitlines()) if line]
    lines = [line for line in lines if not line.startswith(_NO_REASONS)]
    if not lines:
        return type(error).__name__
    return _NODES.sub("", lines[0]).split(" [Op:")[0].strip()
