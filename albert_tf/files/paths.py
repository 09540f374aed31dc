"""Paths in one spelling, so that names on the disk can be compared and joined."""

import atexit
import functools
import glob
import os
import posixpath
import sys
import tempfile

from albert_tf.errors import InputError
from albert_tf.files.remote import is_read_only, is_remote


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
