"""The hidden folder of an unfinished run, locked by one process: finished work survives a kill.

A piece of work, such as the runs of unit 12, is finished when it has a record: a file of a
checksum, a line of JSON and possibly bytes, written after everything else that belongs to the
piece. Pieces without an intact record are made again.

A marker file, written first and removed last, contains the fingerprint of the run. A folder without
a marker belongs to another program and is not touched, nor is a link.
"""

import contextlib
import errno
import hashlib
import json
import logging
import os
import re
import shutil
import stat
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from importlib import metadata
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.files import lock_folder

logger = logging.getLogger(__name__)

# Options that affect where and how fast the work is done, but not its result.
_WITHOUT_EFFECT = {
    *("num_processes", "work_dir", "runner", "dask_scheduler"),
    "skip_bad_files",  # skipped files are not among the input
}

_MARKER = "fingerprint"
_NO_RUN = "0" * 64


def fingerprint_of(settings: dict[str, Any], **made_from: Any) -> str:
    """Return a hash of everything that affects the result of a run, as values for JSON."""
    made_from["settings"] = {k: v for k, v in settings.items() if k not in _WITHOUT_EFFECT}
    return hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()


def tool_versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those packages that are installed."""
    versions = {}
    for name in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions


def hidden_folder(output_file: str, work_dir: str | None) -> str:
    """Return the local folder for the unfinished work on an output file.

    Args:
        output_file: the (first) file to write.
        work_dir: the folder to contain it, if not that of `output_file`, for outputs in any folder.
            A folder of this user, among the temporary files, takes the place of a remote one.

    Raises:
        InputError: If that folder belongs to another user.
    """
    folder, name = os.path.split(output_file)
    is_remote = files.is_remote(folder)
    if not work_dir and not is_remote:
        return os.path.join(folder, f".{name}.work")
    where = output_file if is_remote else os.path.realpath(output_file)
    place = hashlib.sha256(os.fsencode(where)).hexdigest()[:12]
    return os.path.join(work_dir or _private_folder(), f".{name}-{place}.work")


def _private_folder() -> str:
    """Return a folder for temporary files that no other user can write to."""
    path = os.path.join(tempfile.gettempdir(), f"albert_tf-{os.getuid()}")
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
    status = os.lstat(path)
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o022:
        raise InputError(
            f"`work_dir`: {path} is a link, or other users can write to it; name a local folder "
            "for unfinished work"
        )
    return path


class WorkFolder:
    """Finished pieces of a run."""

    def __init__(self, path: str):
        self.path = path
        self._lock: int | None = None

    @classmethod
    def resume(cls, output_file: str, work_dir: str | None, fingerprint: str) -> "WorkFolder":
        """Create and lock the folder of a run, or take over that of an interrupted one.

        Args:
            output_file, work_dir: as in `hidden_folder`.
            fingerprint: 64 hexadecimal digits that identify the run; work of another is removed.

        Raises:
            InputError: If the folder is a link or contains files of others, if another process is
                using it, or if it cannot be created.
        """
        work = cls(hidden_folder(output_file, work_dir))
        if os.path.lexists(work.path) and not stat.S_ISDIR(os.lstat(work.path).st_mode):
            raise InputError(
                f"`output_file`: {work.path} is a link or a file, but unfinished work needs a "
                "folder of this name; remove it"
            )
        files.make_folder(work.path, "work_dir")
        # The operating system releases the lock however the process ends.
        work._lock = lock_folder(work.path, "output_file")
        try:
            work._claim(fingerprint)
        except BaseException:
            work.__exit__()
            raise
        return work

    def _claim(self, fingerprint: str) -> None:
        marker, names = self.file(_MARKER), os.listdir(self.path)
        owner = _read_marker(marker) if _MARKER in names else None
        if names and owner is None:
            raise InputError(
                f"`output_file`: {self.path} contains files of another program, but unfinished "
                "work needs a folder of this name; remove it or move it away"
            )
        if owner == fingerprint:
            if self.has_records():
                logger.info("resuming the unfinished run in %s", self.path)
            return
        if owner not in (None, _NO_RUN):
            logger.info(
                "starting from scratch: the unfinished run in %s has other flags, input or "
                "versions",
                self.path,
            )
        if names:
            files.write_text(marker, _NO_RUN)  # a kill from here on leaves a folder to be emptied
        for name in names:
            if name != _MARKER:
                files.remove(self.file(name))
        files.write_text(marker, fingerprint)

    def file(self, name: str) -> str:
        """Return the path of a file in the folder."""
        return os.path.join(self.path, name)

    def has_records(self) -> bool:
        """Return whether any piece is finished."""
        return os.path.exists(self.path) and any(
            name.endswith(".json") for name in os.listdir(self.path)
        )

    def record(self, name: str) -> dict[str, Any] | None:
        """Return the record of a piece; None if it is not finished or its record is damaged."""
        try:
            checksum, _, sealed = files.read_bytes(self.file(f"{name}.json")).partition(b" ")
        except FileNotFoundError:
            return None
        if hashlib.sha256(sealed).hexdigest().encode() != checksum:
            return None
        text, _, content = sealed.partition(b"\n")
        return json.loads(text) | ({"content": content} if content else {})

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
        """Mark a piece as finished; a record may also contain all of it, in bytes as `content`."""
        values = {key: value for key, value in record.items() if key != "content"}
        text = json.dumps(values, ensure_ascii=False).encode("utf-8", "surrogatepass")
        sealed = text + b"\n" + record.get("content", b"")
        checksum = hashlib.sha256(sealed).hexdigest().encode()
        files.write_bytes(self.file(f"{name}.json"), checksum + b" " + sealed, durable=False)

    def identity(self, name: str) -> dict[str, Any]:
        """Return what the record of a piece of one file contains, for `is_intact`."""
        path = self.file(name)
        return {"bytes": files.size(path), "sha256": files.sha256_of(path)}

    def is_intact(self, name: str, path: str | None = None) -> bool:
        """Return whether a piece of one file is finished and the file is unchanged since.

        The file is `path` if it is no longer in this folder.
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
            if is_useful and self.has_records():
                raise InputError(
                    f"{error}; finished work is kept, for the same command on the same input"
                ) from None
            self.remove()
            raise

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Add to an error, such as a full disk, where it occurred and how to continue."""
        try:
            yield
        except OSError as error:
            raise OSError(
                f"cannot write in {self.path}: {error.strerror}; finished work is kept there: "
                "rerun the same command to resume"
            ) from None

    def remove(self) -> None:
        """Remove the folder with its content."""
        files.remove(self.path)

    def __enter__(self) -> "WorkFolder":
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            os.close(self._lock)


def _read_marker(path: str) -> str | None:
    """Return the fingerprint in a marker; None if it is not one."""
    content = files.read_bytes(path)[:100]
    # Empty or of zeros: a disk that lost power after the file was created.
    if not content.strip(b"\0"):
        return _NO_RUN
    return content.decode() if re.fullmatch(rb"[0-9a-f]{64}", content) else None


def concatenate(paths: Iterable[str], target: str) -> None:
    """Write the content of all files to `target`, in order."""
    with files.replacing(target, durable=False) as partial, open(partial, "wb") as joined:
        for path in paths:
            with open(path, "rb") as file:
                shutil.copyfileobj(file, joined, 1 << 20)


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
