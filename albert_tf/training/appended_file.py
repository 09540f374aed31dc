"""Files that grow: the logs of training."""

from __future__ import annotations

import logging
import tempfile
import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import IO

from albert_tf.errors import StorageUnavailable
from albert_tf.files import is_remote, sync, write_bytes

logger = logging.getLogger(__name__)

UPLOAD_SECONDS = 60.0


class AppendedFile:
    """A file that is written from start to end, and can be read by others meanwhile.

    Objects of a bucket cannot be extended. A remote file is therefore appended to locally and
    uploaded as a whole: in the background, at most once a minute, when it is synced, and when it is
    closed. An upload that fails is a warning, and is made up for by the next one.

    Args:
        path: of the file, which is replaced.
        content: its beginning.
    """

    def __init__(self, path: str, content: bytes = b""):
        self._path = path
        self._is_remote = is_remote(path)
        self._file: IO[bytes]
        if self._is_remote:
            self._file = tempfile.NamedTemporaryFile(prefix="albert_tf-")  # noqa: SIM115
            self._file.write(content)
            self._threads = ThreadPoolExecutor(1, "upload-log")
            self._upload: Future[None] | None = None
            self._last_upload = time.monotonic()
        else:
            write_bytes(path, content)
            self._file = open(path, "ab")  # noqa: SIM115

    def write(self, content: bytes) -> None:
        self._file.write(content)

    def flush(self) -> None:
        """Makes what was written visible to others, on a server within a minute or so."""
        self._file.flush()
        if self._is_remote and time.monotonic() - self._last_upload >= UPLOAD_SECONDS:
            self._start_upload()

    def sync(self) -> None:
        """Puts what was written on the disk, or starts to upload it (see `wait`)."""
        self._file.flush()
        if self._is_remote:
            self._start_upload()
        else:
            sync(self._path)

    def wait(self) -> None:
        """Waits for the last upload that was started."""
        if self._is_remote and self._upload is not None:
            self._upload.result()

    def close(self) -> None:
        self._file.flush()
        if self._is_remote:
            self._start_upload()
            self._threads.shutdown()
        self._file.close()

    def _start_upload(self) -> None:
        if self._upload is not None:
            self._upload.cancel()  # unless it runs: the new one uploads as much and more
        self._last_upload = time.monotonic()
        self._upload = self._threads.submit(self._upload_all)

    def _upload_all(self) -> None:
        try:
            with open(self._file.name, "rb") as file:
                write_bytes(self._path, file.read())
        except (OSError, StorageUnavailable) as error:
            logger.warning("%s; training continues, and the log is uploaded later", error)
