"""The errors of TensorFlow's file functions, as one line."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator


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


# The nodes that a message begins with, such as `{{function_node f}} {{node x}}`.
_NODES = re.compile(r"^(\{\{.*?\}\}\s*)+")
# Prefixes of the lines that TensorFlow prints before the actual reason.
_NO_REASONS = ("Graph execution error", "Detected at node", "<stack traces", 'File "', "[[")
