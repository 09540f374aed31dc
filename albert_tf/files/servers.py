"""Files on servers, read through fsspec: `hf://datasets/org/name/file`, `https://host/file`, ..."""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import IO, Any

from albert_tf.errors import InputError

_TENSORFLOW_SCHEMES = ("file", "gs", "hdfs", "ram")


def is_remote(path: str) -> bool:
    """Whether `path` has a scheme, as in `gs://bucket/file`."""
    return "://" in path


def is_read_only(path: str) -> bool:
    """Whether `path` is read through fsspec, and cannot be written."""
    scheme, separator, _ = path.partition("://")
    return bool(separator) and scheme not in _TENSORFLOW_SCHEMES


@contextlib.contextmanager
def file_system(path: str) -> Iterator[tuple[Any, str]]:
    """Yields the fsspec file system of a path, and the name there.

    Raises:
        InputError: if the scheme is unknown or needs a package that is not installed.
        OSError: if the server cannot be reached or does not give access.
    """
    try:
        import fsspec

        fsspec.get_filesystem_class(path.partition("://")[0])  # not a fault of the server
    except ValueError as error:
        raise InputError(f"{path}: {_reason(error)}") from None
    except ImportError as error:
        scheme = path.partition("://")[0]
        package = (
            "huggingface_hub" if scheme == "hf" else f"fsspec[{scheme.replace('https', 'http')}]"
        )
        raise InputError(f"{path}: {error}; pip install '{package}'") from None
    try:
        yield fsspec.core.url_to_fs(path)
    except FileNotFoundError as error:
        raise FileNotFoundError(f"{path}: {_reason(error)}") from None
    except Exception as error:  # every client of a server has its own
        raise OSError(f"{path}: {_reason(error)}") from None


def open_on_server(path: str) -> io.BufferedReader:
    """Opens a file to read bytes; parts of it are fetched as they are read.

    Raises:
        InputError, OSError: as `file_system`.
    """
    with file_system(path) as (system, name):
        return io.BufferedReader(_ReadOnlyFile(path, system.open(name, "rb")))


def published_checksum(path: str) -> str | None:
    """The checksum that a server publishes for a file.

    Returns:
        `sha256:...` for large files of the Hugging Face Hub, `etag:...` for other servers; None for
        local files and for servers that publish none.
    """
    if not is_read_only(path):
        return None
    with file_system(path) as (system, name):
        info = system.info(name)
    if lfs := info.get("lfs"):
        return f"sha256:{lfs.sha256}"
    tag = info.get("ETag") or info.get("blob_id")
    return f"etag:{tag.strip(chr(34))}" if tag else None


def _reason(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0]


class _ReadOnlyFile(io.RawIOBase):
    """A file of fsspec whose errors are those of a local file."""

    def __init__(self, path: str, file: IO[bytes]):
        self._path, self._file = path, file

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def readinto(self, buffer) -> int:
        try:
            read = self._file.read(len(buffer))
        except Exception as error:
            raise OSError(
                f"{self._path}: cannot be read: {_reason(error)}; rerun the same command"
            ) from None
        buffer[: len(read)] = read
        return len(read)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        return self._file.seek(offset, whence)

    def close(self) -> None:
        self._file.close()
        super().close()
