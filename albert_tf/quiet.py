"""Loads TensorFlow without its start-up messages."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Suppresses what libraries print to standard error while they load, unless loading fails.

    TensorFlow's C++ core reports missing GPU drivers and the like before a log level can be set,
    about eight lines in front of every result. `TF_CPP_MIN_LOG_LEVEL=0` shows them.
    """
    if os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3") == "0":
        yield
        return
    sys.stderr.flush()
    original = os.dup(2)
    with tempfile.TemporaryFile() as held:
        os.dup2(held.fileno(), 2)
        try:
            yield
        except BaseException:
            held.seek(0)
            os.write(original, held.read())
            raise
        finally:
            os.dup2(original, 2)
            os.close(original)
