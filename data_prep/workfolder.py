"""The hidden folder of a run that is not finished: pieces of finished work, kept across a kill.

A piece, such as the runs of unit 12, is there when its record is: a small JSON file, written after
everything that belongs to it. Whatever has no record is made again.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import sys
import tempfile
from typing import IO, Any

from albert_tf import files
from data_prep.plan import Plan, sha256_of


class WorkFolder:
    """Finished pieces of a plan.

    Args:
        plan: what is being made. A folder with pieces of another plan is emptied.

    Attributes:
        path: the folder.
    """

    def __init__(self, plan: Plan):
        self.path = _folder_of(plan)
        fingerprint = os.path.join(self.path, "fingerprint")
        if os.path.exists(fingerprint):
            if files.read_text(fingerprint) == plan.fingerprint:
                print(f"going on with the unfinished run in {self.path}", file=sys.stderr)
                return
            print(
                f"starting anew: flags or input are not those of the unfinished run in {self.path}",
                file=sys.stderr,
            )
        self.remove()
        files.make_folder(self.path, "work_dir")
        files.write_text(fingerprint, plan.fingerprint)

    def file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def record(self, name: str) -> dict[str, Any] | None:
        """The record of a piece; None while the piece is not finished."""
        with contextlib.suppress(FileNotFoundError), open(self.file(name + ".json")) as file:
            return json.load(file)
        return None

    def finish(self, name: str, record: dict[str, Any]) -> None:
        """Says that a piece is finished."""
        files.write_text(self.file(name + ".json"), json.dumps(record))

    def is_whole(self, name: str, path: str | None = None) -> bool:
        """Whether a piece of one file is finished, and the file is still what it was."""
        record = self.record(name)
        path = path or self.file(name)
        return bool(
            record
            and files.exists(path)
            and files.size(path) == record["bytes"]
            and sha256_of(path) == record["sha256"]
        )

    def remove(self) -> None:
        files.remove(self.path)


def _folder_of(plan: Plan) -> str:
    first = plan.options.output_files[0]
    folder = plan.options.work_dir or os.path.dirname(first)
    if files.is_remote(folder):
        folder = tempfile.gettempdir()
    return os.path.join(folder, f".{os.path.basename(first)}.work")


class HashedFile:
    """A file that is written once, from its start, with the SHA-256 of what went into it."""

    def __init__(self, path: str):
        self._path = path
        self._digest = hashlib.sha256()
        self._file: IO[bytes] = open(path, "wb")  # noqa: SIM115  (closed in `__exit__`)
        self._bytes = 0

    def write(self, content: bytes) -> None:
        self._file.write(content)
        self._digest.update(content)
        self._bytes += len(content)

    @property
    def record(self) -> dict[str, Any]:
        return {"bytes": self._bytes, "sha256": self._digest.hexdigest()}

    def __enter__(self) -> HashedFile:
        return self

    def __exit__(self, *exception) -> None:
        self._file.close()


def concatenate(paths: list[str], target: str) -> dict[str, Any]:
    """Writes files one after the other into `target`; returns its record."""
    with files.replacing(target) as partial, HashedFile(partial) as joined:
        for path in paths:
            with open(path, "rb") as file:
                while chunk := file.read(1 << 20):
                    joined.write(chunk)
    return joined.record


def move(path: str, target: str) -> None:
    """Moves a finished file to its place, also to another file system, whole or not at all."""
    if not files.is_remote(target):
        try:
            os.replace(path, target)
            return
        except OSError as error:
            if error.errno != errno.EXDEV:
                raise
    with (
        open(path, "rb") as source,
        files.replacing(target) as partial,
        files.open_file(partial, "wb") as file,
    ):
        shutil.copyfileobj(source, file, 1 << 20)
    os.remove(path)
