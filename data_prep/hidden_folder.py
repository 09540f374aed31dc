"""A hidden folder for unfinished work, locked by one process, and the fingerprint of that work.

A marker file, written first and removed last, contains the fingerprint. A folder without a marker
belongs to another program and is not touched, nor is a link. Records of finished work carry a
checksum, so damaged work is repeated.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import re
import stat
import tempfile
from collections.abc import Iterable
from importlib import metadata
from typing import Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.locks import lock_folder

logger = logging.getLogger(__name__)

# Options that affect where and how fast the work is done, but not its result.
_WITHOUT_EFFECT = {
    *("num_processes", "work_dir", "runner", "dask_scheduler"),
    "skip_bad_files",  # skipped files are not among the input
}

_MARKER = "fingerprint"
_NO_RUN = "0" * 64


def fingerprint_of(settings: dict[str, Any], **made_from: Any) -> str:
    """Return a hash of everything that affects the result of a run.

    Args:
        settings: the options of the run.
        made_from: the rest, as values for JSON.
    """
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
    place = hashlib.sha256(where.encode()).hexdigest()[:12]
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


def claim(path: str, fingerprint: str, resumable: bool = True) -> tuple[int, bool]:
    """Create and lock a folder for unfinished work, or take over that of an earlier run.

    Args:
        path: the folder.
        fingerprint: 64 hexadecimal digits that identify the run. Work of another run is removed.
        resumable: whether work of the same run can be continued; otherwise, it is removed as well.

    Returns:
        A file descriptor whose end releases the lock, and whether there is work to continue.

    Raises:
        InputError: If the folder is a link or contains files of others, if another process is
            using it, or if it cannot be created.
    """
    if os.path.lexists(path) and not stat.S_ISDIR(os.lstat(path).st_mode):
        raise InputError(
            f"`output_file`: {path} is a link or a file, but unfinished work needs a folder of "
            "this name; remove it"
        )
    files.make_folder(path, "work_dir")
    # The operating system releases the lock however the process ends.
    lock = lock_folder(path, "output_file")
    try:
        names = os.listdir(path)
        marker = os.path.join(path, _MARKER)
        owner = _read_marker(marker) if _MARKER in names else None
        if names and owner is None:
            raise InputError(
                f"`output_file`: {path} contains files of another program, but unfinished work "
                "needs a folder of this name; remove it or move it away"
            )
        if resumable and owner == fingerprint:
            return lock, True
        if resumable and owner not in (None, _NO_RUN):
            logger.info(
                "starting from scratch: the unfinished run in %s has other flags, input or "
                "versions",
                path,
            )
        if names:
            files.write_text(marker, _NO_RUN)  # a kill from here on leaves a folder to be emptied
        for name in names:
            if name != _MARKER:
                files.remove(os.path.join(path, name))
        files.write_text(marker, fingerprint)
    except BaseException:
        os.close(lock)
        raise
    return lock, False


def with_kept_work(error: InputError) -> InputError:
    """Return the error of an input that was found when some of the work was finished."""
    return InputError(f"{error}; finished work is kept, for the same command on the same input")


def _read_marker(path: str) -> str | None:
    """Return the fingerprint in a marker; None if it is not one."""
    with files.open_file(path, "rb") as file:
        content = file.read(100)
    # Empty or of zeros: a disk that lost power after the file was created.
    if not content.strip(b"\0"):
        return _NO_RUN
    return content.decode() if re.fullmatch(rb"[0-9a-f]{64}", content) else None


def seal(record: dict[str, Any]) -> str:
    """Return a record as a line of text with a checksum."""
    text = json.dumps(record)
    return f"{hashlib.sha256(text.encode()).hexdigest()} {text}"


def unseal(line: bytes) -> dict[str, Any] | None:
    """Return the record in a line that `seal` made; None if the line is damaged or incomplete."""
    checksum, _, text = line.strip().partition(b" ")
    if hashlib.sha256(text).hexdigest().encode() != checksum:
        return None
    return json.loads(text)
