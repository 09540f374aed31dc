"""The hidden folder of an unfinished run: pieces of finished work, which survive a kill.

A piece, such as the runs of unit 12, is finished when it has a record: a small JSON file, written
after everything else that belongs to the piece. Pieces without a record are made again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import IO, Any

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.hidden_folder import claim, hidden_folder, seal, unseal, with_kept_work

logger = logging.getLogger(__name__)


class WorkFolder:
    """Finished pieces of a run.

    Args:
        path: the folder.
    """

    def __init__(self, path: str):
        self.path = path
        self._lock: int | None = None

    @classmethod
    def resume(cls, output_file: str, work_dir: str | None, fingerprint: str) -> WorkFolder:
        """Return the locked folder of a run, with the pieces that were finished before a kill.

        Args:
            output_file, work_dir: as in `hidden_folder`.
            fingerprint: identifies the run; pieces of another one are removed.

        Raises:
            InputError: If another process is using the folder, or it is not one of this program.
        """
        work = cls(hidden_folder(output_file, work_dir))
        work._lock, is_resumed = claim(work.path, fingerprint)
        if is_resumed:
            logger.info("resuming the unfinished run in %s", work.path)
        return work

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.path, name)

    def record(self, name: str) -> dict[str, Any] | None:
        """Return the record of a piece; None if it is not finished or its record is damaged."""
        path = self.file(name + ".json")
        if not files.exists(path):
            return None
        with files.open_file(path, "rb") as file:
            return unseal(file.read())

    def require_record(self, name: str) -> dict[str, Any]:
        """Return the record of a piece that this run has finished.

        Raises:
            OSError: If it was removed or damaged since.
        """
        record = self.record(name)
        if record is None:
            raise OSError(
                f"{self.file(name)}.json: removed or damaged while the command ran; rerun it to "
                "make this part again"
            )
        return record

    def finish(self, name: str, record: dict[str, Any]) -> None:
        """Mark a piece as finished."""
        files.write_text(self.file(name + ".json"), seal(record), durable=False)

    def write(self, name: str, content: bytes, record: dict[str, Any]) -> None:
        """Write a piece of one file, and mark it as finished."""
        with files.replacing(self.file(name), durable=False) as path, HashedFile(path) as file:
            file.write(content)
        self.finish(name, record | file.record)

    def is_intact(self, name: str, path: str | None = None) -> bool:
        """Return whether a piece of one file is finished and the file is unchanged since.

        Args:
            name: name of the piece.
            path: the file, if it is no longer in this folder.
        """
        record = self.record(name)
        path = path or self.file(name)
        return bool(
            record
            and files.exists(path)
            and files.size(path) == record["bytes"]
            and files.sha256_of(path) == record["sha256"]
        )

    def counts(self, names: Iterable[str]) -> Counter[str]:
        """Return the sum of the counts of some finished pieces."""
        total: Counter[str] = Counter()
        for name in names:
            total.update(self.require_record(name)["counts"])
        return total

    @contextlib.contextmanager
    def kept_after_error(self, is_useful: bool = True) -> Iterator[None]:
        """Keep the pieces in spite of an `InputError`, unless they would cause it again."""
        try:
            yield
        except InputError as error:
            names = files.names_in(self.path) if files.exists(self.path) else []
            if is_useful and any(name.endswith(".json") for name in names):
                raise with_kept_work(error) from None
            self.remove()
            raise

    def remove(self) -> None:
        """Remove the folder with its content."""
        files.remove(self.path)

    def __enter__(self) -> WorkFolder:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            os.close(self._lock)


class HashedFile:
    """A file that is written once, from start to end, and the SHA-256 of its content."""

    def __init__(self, path: str):
        self._path = path
        self._digest = hashlib.sha256()
        self._file: IO[bytes] = files.open_file(path, "wb")
        self._bytes = 0

    def write(self, content: bytes) -> int:
        self._file.write(content)
        self._digest.update(content)
        self._bytes += len(content)
        return len(content)

    @property
    def record(self) -> dict[str, Any]:
        """`bytes` and `sha256` of the content so far."""
        return {"bytes": self._bytes, "sha256": self._digest.hexdigest()}

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, *exception: object) -> None:
        self._file.close()


def concatenate(paths: Iterable[str], target: str) -> dict[str, Any]:
    """Concatenate files into `target`; return its record (see `HashedFile.record`)."""
    with files.replacing(target, durable=False) as partial, HashedFile(partial) as joined:
        for path in paths:
            with files.open_file(path, "rb") as file:
                while chunk := file.read(1 << 20):
                    joined.write(chunk)
    return joined.record


def move(path: str, target: str) -> None:
    """Move a file, also to another file system; `target` appears complete or not at all."""
    try:
        files.rename(path, target)
        return
    except OSError as error:
        if error.errno != errno.EXDEV:
            raise
    files.copy_file(path, target)
    files.remove(path)
