"""Data sets of the Hugging Face Hub by name: `hf://datasets/ORGANIZATION/NAME[@REVISION]/PATH`.

Their files are fetched into the cache of the Hub and read there, unlike those of other servers,
which are read where they are (`albert_tf.files`).
"""

from __future__ import annotations

import logging
import os
import re
import urllib.parse
from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import matches
from albert_tf.hub.huggingface import download

PREFIX = "hf://datasets/"

# A revision may be a reference with slashes, such as the one of the Hub's own Parquet files.
_PLACE = re.compile(
    r"hf://datasets/(?P<repo_id>[^/@]+/[^/@]+)"
    r"(@(?P<revision>refs/(convert|pr)/[^/]+|[^/]+))?(/(?P<path>.*))?"
)


class _Place(NamedTuple):
    """A file or folder in a data set of the Hub."""

    repo_id: str
    revision: str | None
    path: str


def _parsed(place: str, argument: str) -> _Place:
    found = _PLACE.fullmatch(place.rstrip("/"))
    if found is None:
        raise InputError(
            f"`{argument}`={place}: must be {PREFIX}ORGANIZATION/NAME/PATH, with @REVISION after "
            "NAME for another than the main branch"
        )
    revision = urllib.parse.unquote(found["revision"]) if found["revision"] else None
    return _Place(found["repo_id"], revision, found["path"] or "")


def local_file(path: str, argument: str) -> str:
    """Fetches a file of a data set of the Hub.

    Args:
        path: of the file, which may be a glob for exactly one; other paths are returned unchanged.
        argument: the caller's name of `path`, for errors.

    Returns:
        Its path in the cache.

    Raises:
        InputError: the path is invalid, there is no such file, or it cannot be fetched.
        OSError: the cache cannot be written.
    """
    if not path.startswith(PREFIX):
        return path
    place = _parsed(path, argument)
    if not place.path:
        raise InputError(f"`{argument}`={path}: names a data set; must name a file of it")
    folder = _download(path, place, [[place.path]], argument)
    found = matches(f"{folder}/{place.path}")
    if len(found) > 1:
        raise InputError(f"`{argument}`={path}: matches {len(found)} files; must name a single one")
    return found[0]


def local_folder(folder: str, needed: Sequence[Sequence[str]], argument: str) -> str:
    """Fetches files of a folder in a data set of the Hub.

    Args:
        folder: the folder; others are returned unchanged.
        needed: groups of paths or globs in the folder; of each group, one must exist. Nothing is
            fetched if there is none.
        argument: the caller's name of `folder`, for errors.

    Returns:
        Its path in the cache; files that were not needed may be missing there.

    Raises:
        InputError, OSError: as `local_file`.
    """
    if not needed or not folder.startswith(PREFIX):
        return folder
    place = _parsed(folder, argument)
    inner = [[os.path.join(place.path, path) for path in group] for group in needed]
    return os.path.join(_download(folder, place, inner, argument), place.path).rstrip("/")


def _download(shown: str, place: _Place, needed: Sequence[Sequence[str]], argument: str) -> str:
    """Fetches the files that match `needed`, groups of globs; of each group, one must exist."""
    patterns = [pattern for group in needed for pattern in group]
    # It warns of patterns without a file, which the error below says better.
    logging.getLogger("huggingface_hub._snapshot_download").setLevel(logging.ERROR)
    try:
        folder = download(
            place.repo_id,
            patterns,
            argument=argument,
            repo_type="dataset",
            revision=place.revision,
        )
    except InputError as error:
        named = str(error).replace(f"`{argument}`={place.repo_id}", f"`{argument}`={shown}", 1)
        raise InputError(named) from None
    for group in needed:
        if not any(matches(f"{folder}/{pattern}") for pattern in group):
            # Without the network, the folder of an earlier download is all that there is.
            raise InputError(
                f"`{argument}`={shown}: no {' or '.join(dict.fromkeys(group))} in the data set or, "
                f"without the network, in the cache ({folder}); fetch the data set on another "
                f"machine with `hf download {place.repo_id} --repo-type=dataset "
                "--local-dir=FOLDER`, and name the local copy"
            )
    return folder
