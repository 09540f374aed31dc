"""Remote files (`gs://bucket/file`) through fsspec, for processes that run without TensorFlow."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from typing import IO, Any, NamedTuple

from albert_tf.files.servers import file_system, open_on_server


def remote_files() -> Any:
    """Remote files: `tf.io.gfile`, or the same through fsspec in a process that runs on JAX."""
    if os.environ.get("KERAS_BACKEND") == "jax":
        return RemoteFiles()
    import tensorflow as tf  # loaded for such paths only

    return tf.io.gfile


class Status(NamedTuple):
    """What is known of a remote file: its size in bytes."""

    length: int


class RemoteFiles:
    """The functions of `tf.io.gfile` that `albert_tf.files` uses.

    All raise InputError if the scheme of a path needs a package that is not installed, and OSError
    if the server cannot be reached or does not give access.
    """

    def GFile(self, path: str, mode: str = "r") -> IO:
        """Opens a file; text is UTF-8 with its line ends unchanged."""
        file: Any = open_on_server(path) if "r" in mode else _WrittenFile(path, "a" in mode)
        return file if "b" in mode else io.TextIOWrapper(file, "utf-8", newline="")

    def glob(self, pattern: str) -> list[str]:
        with file_system(pattern) as (system, name):
            return [_with_scheme(pattern, found) for found in system.glob(name)]

    def exists(self, path: str) -> bool:
        with file_system(path) as (system, name):
            return system.exists(name)

    def isdir(self, path: str) -> bool:
        with file_system(path) as (system, name):
            return system.isdir(name)

    def listdir(self, path: str) -> list[str]:
        with file_system(path) as (system, name):
            return [os.path.basename(found.rstrip("/")) for found in system.ls(name, detail=False)]

    def stat(self, path: str) -> Status:
        with file_system(path) as (system, name):
            return Status(system.size(name))

    def walk(self, path: str) -> Iterator[tuple[str, list[str], list[str]]]:
        with file_system(path) as (system, name):
            found = [
                (folder, list(inner), list(files)) for folder, inner, files in system.walk(name)
            ]
        for folder, inner, files in found:
            yield _with_scheme(path, folder), inner, files

    def makedirs(self, path: str) -> None:
        with file_system(path) as (system, name):
            system.makedirs(name, exist_ok=True)

    def copy(self, source: str, target: str, overwrite: bool) -> None:
        """Copies a file, of which one place may be local."""
        if source.partition("://")[0] == target.partition("://")[0]:
            with file_system(target) as (system, name):
                system.cp_file(system._strip_protocol(source), name)
            return
        with self._open(source, "rb") as read, self._open(target, "wb") as written:
            written.write(read.read())

    def _open(self, path: str, mode: str) -> IO:
        return self.GFile(path, mode) if "://" in path else open(path, mode)

    def rename(self, source: str, target: str, overwrite: bool) -> None:
        with file_system(source) as (system, name):
            system.mv(name, system._strip_protocol(target), recursive=system.isdir(name))

    def remove(self, path: str) -> None:
        with file_system(path) as (system, name):
            system.rm_file(name)

    def rmtree(self, path: str) -> None:
        with file_system(path) as (system, name):
            system.rm(name, recursive=True)


def _with_scheme(path: str, found: str) -> str:
    """What fsspec has found, with the scheme of the path that it was found for."""
    scheme = path.partition("://")[0]
    return found if "://" in found else f"{scheme}://{found.lstrip('/')}"


class _WrittenFile(io.BytesIO):
    """A file that is written to a server as a whole whenever it is flushed or closed.

    Objects of a bucket cannot be extended. Files written this way are small: logs and settings.

    Args:
        path: of the file.
        append: whether to start with the content of the existing file.
    """

    def __init__(self, path: str, append: bool):
        super().__init__()
        self._path = path
        with file_system(path) as (system, name):
            if append and system.exists(name):
                self.write(system.cat_file(name))
        self._written: bytes | None = None

    def flush(self) -> None:
        content = self.getvalue()
        if content != self._written:
            with file_system(self._path) as (system, name):
                system.pipe_file(name, content)
            self._written = content

    def close(self) -> None:
        if not self.closed:
            try:
                self.flush()
            finally:
                super().close()
