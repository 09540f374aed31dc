"""The hidden folder of an unfinished run, which keeps pieces of finished work across a kill.

A piece, such as the runs of unit 12, is finished when it has a record: a small JSON file, written
after everything else that belongs to the piece. Pieces without a record are made again.
"""

from __future__ import annotations

import errno
import glob
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable
from typing import IO, Any

from albert_tf import files
from data_prep.plan import Plan

logger = logging.getLogger(__name__)


def hidden_folder(output_file: str, work_dir: str | None) -> str:
    """The local folder for the unfinished work on an output file.

    Args:
        output_file: the (first) file to write.
        work_dir: the folder to contain it, if not that of `output_file`. The folder for temporary
            files takes the place of a remote one.
    """
    folder = work_dir or os.path.dirname(output_file)
    if files.is_remote(folder):
        folder = tempfile.gettempdir()
    return os.path.join(folder, f".{os.path.basename(output_file)}.work")


class WorkFolder:
    """Finished pieces of a plan.

    Args:
        path: the folder; may be remote (`gs://...`) if it need not contain runs.
    """

    def __init__(self, path: str):
        self.path = path
        self._lock: int | None = None

    @classmethod
    def resume(cls, plan: Plan) -> WorkFolder:
        """The locked folder of a plan, with the pieces that an earlier run has finished.

        Pieces of another plan are removed.

        Raises:
            InputError: if another process is using the folder.
        """
        work = cls(hidden_folder(plan.options.output_files[0], plan.options.work_dir))
        files.make_folder(work.path, "work_dir")
        # The operating system releases the lock however the process ends.
        work._lock = files.lock_folder(work.path, "output_file")
        fingerprint = work.file("fingerprint")
        if os.path.exists(fingerprint):
            if files.read_text(fingerprint) == plan.fingerprint:
                logger.info("resuming the unfinished run in %s", work.path)
                return work
            logger.info(
                "starting from scratch: the unfinished run in %s has other flags or input",
                work.path,
            )
        work.empty()
        files.write_text(fingerprint, plan.fingerprint)
        return work

    def file(self, name: str) -> str:
        """The path of a file in the folder."""
        return os.path.join(self.path, name)

    def record(self, name: str) -> dict[str, Any] | None:
        """The record of a piece; None if the piece is not finished."""
        path = self.file(name + ".json")
        return json.loads(files.read_text(path)) if files.exists(path) else None

    def require_record(self, name: str) -> dict[str, Any]:
        """The record of a piece that is finished."""
        record = self.record(name)
        assert record is not None, name
        return record

    def finish(self, name: str, record: dict[str, Any]) -> None:
        """Marks a piece as finished."""
        files.write_text(self.file(name + ".json"), json.dumps(record))

    def is_intact(self, name: str, path: str | None = None) -> bool:
        """Whether a piece of one file is finished and the file is unchanged since.

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
        """The sum of the counts of some finished pieces."""
        total: Counter[str] = Counter()
        for name in names:
            total.update(self.require_record(name)["counts"])
        return total

    def empty(self) -> None:
        """Creates the folder, or removes its content."""
        files.make_folder(self.path, "work_dir")
        for path in files.matches(os.path.join(glob.escape(self.path), "*")):
            files.remove(path)

    def remove(self) -> None:
        """Removes the folder with its content."""
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
    """Concatenates files into `target`; returns its record (see `HashedFile.record`)."""
    with files.replacing(target) as partial, HashedFile(partial) as joined:
        for path in paths:
            with files.open_file(path, "rb") as file:
                while chunk := file.read(1 << 20):
                    joined.write(chunk)
    return joined.record


def move(path: str, target: str) -> None:
    """Moves a file, also to another file system; `target` appears complete or not at all."""
    if files.is_remote(path) == files.is_remote(target):
        try:
            files.rename(path, target)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
    with (
        files.open_file(path, "rb") as source,
        files.replacing(target) as partial,
        files.open_file(partial, "wb") as file,
    ):
        shutil.copyfileobj(source, file, 1 << 20)
    files.remove(path)
