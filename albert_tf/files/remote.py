"""Files on servers (`gs://bucket/file`, `s3://...`, `hf://...`, `https://...`), through fsspec.

What may pass (a server that is busy, down or slow, a lost connection) is tried again for ten
minutes. After that, `StorageUnavailable` ends the command with the exit code by which schedulers
know that a restart helps. Everything else is a `FileNotFoundError` or another `OSError` at once,
with the server's own explanation.
"""

import errno
import logging
import math
import random
import time
from collections.abc import Callable
from typing import Any, TypeVar

from albert_tf.errors import InputError, StorageUnavailable

logger = logging.getLogger(__name__)

Value = TypeVar("Value")

# Seconds for which a request is repeated, after which a line says so, and between attempts.
PATIENCE, SILENCE = 600.0, 3.0
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 20.0

# Its own, as the seed of a run determines what others draw.
_draw = random.Random()
BUSY = frozenset({408, 429, 500, 502, 503, 504})
# Every client of a server has its own errors, so they are known by the names of their classes.
_LOST_CONNECTIONS = frozenset(
    {"ClientConnectionError", "ClientPayloadError", "ConnectionError", "HTTPClientError"}
    | {"IncompleteReadError", "ServiceRequestError", "Timeout", "TimeoutError", "TransportError"}
)
_FINAL = frozenset({"ClientSSLError", "InvalidURL", "OfflineModeIsEnabled", "SSLError"})
_PACKAGES = {"gs": "albert-tf[gcs]", "gcs": "albert-tf[gcs]", "s3": "s3fs", "hf": "huggingface_hub"}


def is_remote(path: str) -> bool:
    return "://" in path


def is_read_only(path: str) -> bool:
    """Return whether `path` is on a server that files can only be read from."""
    return path.startswith(("hf://", "http://", "https://"))


def scheme_of(path: str) -> str:
    return path.partition("://")[0]


def is_transient(error: Exception) -> bool:
    """Return whether a request that failed this way may succeed later."""
    response = getattr(error, "response", None)
    status = getattr(error, "status", None) or getattr(response, "status_code", None)
    names = {kind.__name__ for kind in type(error).__mro__}
    is_lost = bool(names & _LOST_CONNECTIONS) and not names & _FINAL
    is_busy = status in BUSY or getattr(error, "errno", None) == errno.EBUSY  # as s3fs says it
    return is_lost or is_busy


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


class Patience:
    """How long a request is repeated; `place` is what messages call its path."""

    # When a request was last repeated for long: threads and requests share the line about it.
    _last_outage = -math.inf

    def __init__(self, place: str):
        self._place = place
        self._start = math.inf
        self._pause = FIRST_PAUSE

    def seconds_after(self, error: Exception) -> float:
        """Return how long to wait before repeating the request, or raise the final error."""
        reason, now = _reason(error), time.monotonic()
        if isinstance(error, FileNotFoundError):
            if reason.lstrip("/") in self._place:  # many clients give nothing but the path
                reason = "no such file or folder"
            raise FileNotFoundError(f"{self._place}: {reason}") from None
        if not is_transient(error):
            raise OSError(f"{self._place}: {reason}") from None
        self._start = min(self._start, now)
        minutes = f"{PATIENCE / 60:.0f} minutes"
        if now - self._start > PATIENCE:
            raise StorageUnavailable(
                f"{self._place}: unavailable for {minutes} ({reason}); rerun the same command later"
            ) from None
        if now - self._start > SILENCE:
            if now - Patience._last_outage > 3 * LONGEST_PAUSE:
                logger.warning("%s: %s; trying again for up to %s", self._place, reason, minutes)
            Patience._last_outage = now
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        return pause * _draw.uniform(0.5, 1.0)


def run(path: str, action: Callable[[Any, str], Value]) -> Value:
    """Return what `action` returns, given the fsspec file system of a path and the name there.

    Raises:
        InputError: If the scheme is unknown or needs a package that is not installed.
    """
    scheme = scheme_of(path)
    try:
        import fsspec  # for such paths only

        for google in ("gs", "gcs"):  # for orbax, too
            name = "albert_tf.files.google_storage.GoogleStorage"
            fsspec.register_implementation(google, name, clobber=True)
        fsspec.get_filesystem_class(scheme)
    except ValueError as error:
        raise InputError(f"{path}: {_reason(error)}") from None
    except ImportError:
        package = _PACKAGES.get(scheme, f"fsspec[{scheme.replace('https', 'http')}]")
        raise InputError(f"{path}: {scheme}:// is not installed; pip install '{package}'") from None
    patience = Patience(path)
    while True:
        try:
            return action(*fsspec.core.url_to_fs(path))
        except (InputError, StorageUnavailable):
            raise
        except Exception as error:
            time.sleep(patience.seconds_after(error))
