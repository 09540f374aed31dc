"""Loads TensorFlow without its greetings."""

from __future__ import annotations

import contextlib
import os
import sys
import tempfile
from collections.abc import Iterator


@contextlib.contextmanager
def quiet_import() -> Iterator[None]:
    """Holds back what libraries print to standard error while they load; shown if loading fails.

    TensorFlow's C++ core reports missing GPU drivers and the like before any log level can reach
    it, some eight lines in front of every result. `TF_CPP_MIN_LOG_LEVEL=0` lets them through.
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
