"""Reads local and remote files: globs, UTF-8 text, sizes and digests.

Paths are kept in one spelling, so that names on the disk can be compared and joined.
"""

import atexit
import base64
import fnmatch
import functools
import glob
import hashlib
import io
import os
import posixpath
import sys
import tempfile
from collections.abc import Iterable
from typing import IO, Any

import google_crc32c

from albert_tf.errors import InputError
from albert_tf.files.remote import is_read_only, is_remote, run, scheme_of

# Commas in a name, up to which it is looked for among the patterns of a list.
_MOST_COMMAS = 10


def text_name(path: str) -> str:
    """Return a path.

    Raises:
        InputError: If it cannot be written into files of text, or is not one of this system.
    """
    try:
        path.encode()
        os.fsencode(path)
    except UnicodeEncodeError:
        problem = "the name of a file must be UTF-8; rename it"
        if sys.getfilesystemencoding() != "utf-8":
            problem = "Python takes names of files for ASCII; set PYTHONUTF8=1 before it starts"
        raise InputError(f"{path!a}: {problem}") from None
    return path


def normalized(path: str | os.PathLike[str]) -> str:
    """Return a path without `~`, `.`, repeated or final slashes, and `..` after a name.

    Links stay, but what `..` follows is resolved as the operating system does, through links. Names
    on servers have no links; addresses that can only be read are returned unchanged.

    Raises:
        InputError: As of `text_name`.
    """
    text = text_name(os.fspath(path))
    if is_remote(text):
        scheme, _, name = text.partition("://")
        if is_read_only(text) or "::" in text or not name:
            return text
        return f"{scheme}://{posixpath.normpath(name)}"
    if not text or not text.strip("/"):
        return text[:1]
    text = os.path.expanduser(text)
    parts = [part for part in text.split("/") if part not in ("", ".")]
    root = "/" if text.startswith("/") else ""
    named = next((index for index, part in enumerate(parts) if part != ".."), len(parts))
    last = max((index for index, part in enumerate(parts) if part == ".."), default=-1)
    if named < last and not any(map(glob.has_magic, parts[: last + 1])):
        head = os.path.realpath(root + "/".join(parts[: last + 1]))
        head = head if root else os.path.relpath(head)
        parts = [*(part for part in head.split("/") if part not in ("", ".")), *parts[last + 1 :]]
    return root + "/".join(parts) or "."


def without_magic(path: str) -> str:
    """Return a path for TensorFlow and orbax, which take what they are given for a pattern.

    Args:
        path: a local folder or file, or what the names of files begin with. If its name, or its
            folder's, would be one, the path leads through links, which exist until this process
            ends.
    """
    if is_remote(path) or not glob.has_magic(path):
        return path
    folder, name = os.path.split(path)
    if not glob.has_magic(name):
        return os.path.join(_link_to(os.path.abspath(folder)), name)
    return _link_to(*sorted(glob.glob(f"{glob.escape(os.path.abspath(path))}*")), prefix=name)


@functools.cache
def _link_to(*paths: str, prefix: str = "") -> str:
    """Return what the names of links to paths begin with; the paths' names begin with `prefix`."""
    parent = tempfile.TemporaryDirectory(prefix="albert_tf-")
    atexit.register(parent.cleanup)
    link = os.path.join(parent.name, "link")
    for path in paths:
        os.symlink(path, link + os.path.basename(path).removeprefix(prefix) * bool(prefix))
    return link


def matches(pattern: str) -> list[str]:
    """Return what matches a pattern, sorted.

    `**` stands for folders of any depth, and at the end for all files in them. A pattern finds
    hidden names only where it has a dot. The names of folders that exist are no patterns.
    """
    if is_remote(pattern) and not glob.has_magic(pattern):
        return [pattern] if exists(pattern) else []
    folder = os.path.dirname(pattern)
    while glob.has_magic(folder):
        if exists(folder):
            pattern = glob.escape(folder) + pattern[len(folder) :]
            break
        folder = os.path.dirname(folder)
    is_whole = os.path.basename(pattern) == "**"
    if not is_remote(pattern):
        paths = sorted(glob.glob(pattern, recursive=True), key=lambda path: (path.count("/"), path))
        # Through a link to a folder above, files would be found again and again.
        if "**" in pattern:
            paths = [*{os.path.realpath(path): path for path in reversed(paths)}.values()]
        return sorted(path for path in paths if not (is_whole and os.path.isdir(path)))
    found = run(pattern, lambda system, name: system.glob(name, detail=True))
    scheme = scheme_of(pattern)
    fixed = next(n for n, part in enumerate(pattern.split("/")) if glob.has_magic(part))
    return [
        path
        for name, info in sorted(found.items())
        if (path := name if is_remote(name) else f"{scheme}://{name.lstrip('/')}")
        and not (is_whole and info["type"] == "directory")
        and ("/." in pattern or not _is_hidden(path.split("/")[fixed:]))
    ]


def expand_globs(
    patterns: Iterable[str], argument: str = "patterns", skipped_endings: tuple[str, ...] = ()
) -> list[str]:
    """Return the files that match any of some globs or paths, sorted, without duplicates.

    Names may contain what has a meaning in patterns: a file of exactly the given name is that file,
    and so is one whose name was taken for a list because of its commas. Globs pass over files with
    `skipped_endings`; errors call the patterns `argument`.

    Raises:
        InputError: If a pattern matches no file, or something that can be read only once.
    """
    rest, found = list(patterns), set[str]()
    if len(rest) > 1 and (paths := _named_exactly(rest)):
        return paths
    while rest:
        count, paths = 1, _named_exactly(rest[:1])
        if not paths and glob.has_magic(rest[0]):
            paths = [path for path in matches(rest[0]) if not path.endswith(skipped_endings)]
        while not paths and count < min(_MOST_COMMAS, len(rest)):
            count += 1
            paths = _named_exactly(rest[:count])
        if not paths:
            raise InputError(f"`{argument}`: no file matches {rest[0]!r}")
        for path in map(text_name, paths):
            if not is_remote(path) and not (os.path.isfile(path) or os.path.isdir(path)):
                what = "a pipe or a device; save its content to a file, which is read several times"
                if not os.path.exists(path):
                    what = "a link to a file that does not exist"
                raise InputError(f"`{argument}`={path}: is {what}")
        found.update(paths)
        del rest[:count]
    return sorted(found)


def _named_exactly(parts: list[str]) -> list[str]:
    """Return the file whose name was split at its commas, if it exists."""
    if any(map(is_remote, parts[1:])):
        return []
    names = dict.fromkeys(separator.join(parts) for separator in (",", ", "))
    return [name for name in names if exists(name)][:1]


def open_file(path: str, mode: str = "rb") -> IO:
    """Open a file; text is read and written as UTF-8 with its line ends unchanged.

    Remote files can only be read, as bytes; `replacing` writes them.
    """
    if not is_remote(path):
        return open(path, mode) if "b" in mode else open(path, mode, encoding="utf-8", newline="")
    if mode != "rb":
        raise ValueError(f"{path}: cannot be opened with mode {mode!r}")
    file = run(path, lambda system, name: system.open(name, "rb"))
    read = file.read
    file.read = lambda length=-1: run(path, lambda system, name: read(length))  # tried again
    return io.BufferedReader(file)


def read_bytes(path: str, start: int = 0, end: int | None = None) -> bytes:
    """Read a file, or a part of it; a remote one with one request.

    Raises:
        InputError: If it is a pointer that Git LFS has left in place of the file.
    """
    if is_remote(path):
        data = run(path, lambda system, name: system.cat_file(name, start=start, end=end))
    else:
        with open(path, "rb") as file:
            file.seek(start)
            data = file.read() if end is None else file.read(end - start)
    if data.startswith(b"version https://git-lfs"):
        raise InputError(f"{path}: a pointer of Git LFS; `git lfs pull` fetches it")
    return data


def read_text(path: str) -> str:
    """Read a UTF-8 text file.

    Raises:
        InputError: If there is no such file, or it is not UTF-8.
    """
    try:
        return read_bytes(path).decode()
    except (FileNotFoundError, NotADirectoryError):
        raise InputError(f"{path}: no such file") from None
    except UnicodeDecodeError as error:
        byte = f"0x{error.object[error.start]:02x} at {error.start}"
        raise InputError(f"{path}: not UTF-8 ({error.reason}, byte {byte})") from None


def info_of(path: str) -> dict[str, Any] | None:
    """Return what a server reports about a file or folder; None if neither exists."""
    try:
        return run(path, lambda system, name: system.info(name))
    except FileNotFoundError:
        return None


def exists(path: str) -> bool:
    return info_of(path) is not None if is_remote(path) else os.path.exists(path)


def is_folder(path: str) -> bool:
    if is_remote(path):
        return (info_of(path) or {}).get("type") == "directory"
    return os.path.isdir(path)


def names_in(folder: str) -> list[str]:
    """Return the names of all files and folders in a folder."""
    if not is_remote(folder):
        return os.listdir(folder)
    found = run(folder, lambda system, name: system.ls(name, detail=False))
    return [os.path.basename(path.rstrip("/")) for path in found]


def files_in(folder: str, pattern: str) -> list[str]:
    """Return what is in a folder under names that match a pattern, sorted.

    The folder is no pattern, so its name may contain what has a meaning in patterns. A pattern
    finds hidden names only if it begins with a dot, as in shells.
    """
    try:
        names = names_in(folder or ".")
    except (FileNotFoundError, NotADirectoryError):
        return []
    found = [name for name in names if name[:1] != "." or pattern[:1] == "."]
    return [os.path.join(folder, name) for name in sorted(fnmatch.filter(found, pattern))]


def _is_hidden(parts: Iterable[str]) -> bool:
    return any(part.startswith(".") for part in parts)


def files_below(folder: str, ending: str | tuple[str, ...] = "") -> list[str]:
    """Return the files at any depth below a folder whose names end so, sorted; no hidden ones."""
    if is_remote(folder):
        found = iter(_files_below(folder))
    else:
        walk = ((os.path.relpath(parent, folder), names) for parent, _, names in os.walk(folder))
        found = (os.path.normpath(os.path.join(parent, n)) for parent, names in walk for n in names)
    return sorted(
        text_name(os.path.join(folder, name))
        for name in found
        if name.endswith(ending) and not _is_hidden(name.split("/"))
    )


def _files_below(folder: str) -> dict[str, dict[str, Any]]:
    """Return the size, and what else a server reports, of all files below a folder, sorted."""

    def find(system: Any, name: str) -> dict[str, dict[str, Any]]:
        found = system.find(name, detail=True)
        return {os.path.relpath(path, name): found[path] for path in sorted(found)}

    if is_remote(folder):
        return run(folder, find)
    paths = [os.path.join(parent, name) for parent, _, names in os.walk(folder) for name in names]
    return {os.path.relpath(p, folder): {"size": os.path.getsize(p)} for p in sorted(paths)}


def sizes(folder: str) -> dict[str, int]:
    """Return the size in bytes of every file below a folder, by relative path, sorted."""
    return {name: info["size"] for name, info in _files_below(folder).items()}


def checksums(folder: str) -> dict[str, tuple[int, int]]:
    """Return size and CRC-32C of every file below a folder, by relative path, sorted.

    Google Cloud Storage computes the CRC-32C of what it receives, so that nothing is read.
    """
    found = {}
    for name, info in _files_below(folder).items():
        if "crc32c" in info:
            crc = base64.b64decode(info["crc32c"])
        else:
            crc = _digest(os.path.join(folder, name), google_crc32c.Checksum())
        found[name] = (info["size"], int.from_bytes(crc, "big"))
    return found


def file_identity(path: str) -> list[int]:
    """Return a cheap fingerprint: size, and modification time or a hash of a server's report."""
    if is_remote(path):
        info = run(path, lambda system, name: system.info(name))
        digest = hashlib.sha256(repr(sorted(info.items())).encode()).hexdigest()
        return [info["size"], int(digest[:16], 16)]
    status = os.stat(path)
    return [status.st_size, status.st_mtime_ns]


def size(path: str) -> int:
    """Return the size of a file in bytes."""
    return file_identity(path)[0]


def sha256_of(path: str) -> str:
    """Return the SHA-256 of the content of a file, in hexadecimal."""
    return _digest(path, hashlib.sha256()).hex()


def _digest(path: str, hasher: Any) -> bytes:
    with open_file(path) as file:
        while chunk := file.read(1 << 20):
            hasher.update(chunk)
    return hasher.digest()
