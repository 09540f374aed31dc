"""Files of the Hugging Face Hub by name, through `huggingface_hub`.

Its cache and its settings apply: `HF_HOME`, `HF_TOKEN`, `HF_ENDPOINT`, `HF_HUB_OFFLINE`. Files of
data sets, `hf://datasets/ORGANIZATION/NAME[@REVISION]/PATH`, are fetched into the cache and read
there, unlike those of other servers, which are read where they are (`albert_tf.files`).
"""

import dataclasses
import glob
import logging
import os
import re
import sys
import urllib.parse
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import matches

logger = logging.getLogger(__name__)

_NAME = re.compile(r"(?P<repo_id>\w[\w.-]*/\w[\w.-]*)(@(?P<revision>[\w./-]+))?", re.ASCII)
_COMMIT = re.compile(r"[0-9a-f]{40}")

PREFIX = "hf://datasets/"

# A revision may be a reference with slashes, such as the one of the Hub's own Parquet files.
_PLACE = re.compile(
    r"hf://datasets/(?P<repo_id>[^/@]+/[^/@]+)"
    r"(@(?P<revision>refs/(convert|pr)/[^/]+|[^/]+))?(/(?P<path>.*))?"
)


class HubName(NamedTuple):
    """A repository, and the branch, tag or commit in it; None for the main branch."""

    repo_id: str
    revision: str | None


def parse_name(name: str) -> HubName | None:
    """Parse `ORGANIZATION/NAME` or `ORGANIZATION/NAME@REVISION`; None if `name` is neither."""
    found = _NAME.fullmatch(name)
    return HubName(found["repo_id"], found["revision"]) if found else None


def download(
    shown: str, name: HubName, patterns: Iterable[str], *, argument: str, repo_type: str = "model"
) -> str:
    """Fetch the files of a repository that match one of some patterns into the cache of the Hub.

    Files that are in the cache are not fetched again. A connection that breaks is resumed; after a
    kill, the files that were complete are kept. Without the network, what the cache has is
    returned. The commit is logged. Errors have the name as `shown`, given for an `argument`.

    Returns:
        A local folder, whose name is the commit. It may lack files that match no pattern.

    Raises:
        InputError: If there is no such repository or revision, or no access to it, or it is
            neither in the cache nor can be fetched.
        OSError: If the cache cannot be written to, such as for a full disk.
    """
    from huggingface_hub import snapshot_download  # takes a quarter of a second to load
    from huggingface_hub.utils import disable_progress_bars

    if not sys.stderr.isatty() and os.environ.get("HF_HUB_DISABLE_PROGRESS_BARS") is None:
        disable_progress_bars()  # which would fill a log
    try:
        folder = snapshot_download(
            name.repo_id,
            repo_type=repo_type,
            revision=name.revision,
            allow_patterns=list(patterns),
            library_name="albert_tf",
        )
    except Exception as error:
        # The library raises errors of its own, of its HTTP client and of Python.
        if isinstance(error, OSError) and error.errno and not isinstance(error, ConnectionError):
            raise  # of the disk
        raise InputError(f"`{argument}`={shown}: {_reason(error, name, repo_type)}") from None
    logger.info("%s: commit %s of the Hugging Face Hub, in %s", shown, commit_of(folder), folder)
    return folder


def commit_of(folder: str) -> str | None:
    """Return the commit that a folder of the cache holds; None for other folders."""
    name = os.path.basename(folder.rstrip("/"))
    return name if _COMMIT.fullmatch(name) else None


def list_files(repo_id: str, commit: str) -> list[str]:
    """Return the names of all files of a model; [] if they cannot be looked up."""
    from huggingface_hub import HfApi

    try:
        return HfApi().list_repo_files(repo_id, revision=commit)
    except Exception:  # only explains another error
        return []


def _reason(error: Exception, name: HubName, repo_type: str) -> str:
    """Return why a repository could not be fetched, and what to do, in one line."""
    from huggingface_hub import constants, errors

    kind = {"model": "model", "dataset": "data set"}[repo_type]
    prefix = "" if repo_type == "model" else f"{repo_type}s/"
    # A name of a model could have been meant as a path.
    no_path = "no local file or folder, and " if repo_type == "model" else ""
    address = f"{constants.ENDPOINT}/{prefix}{name.repo_id}"
    if isinstance(error, errors.GatedRepoError):  # before the error that it is a kind of
        return f"access must be asked for at {address}; then set HF_TOKEN, or run `hf auth login`"
    if isinstance(error, errors.RepositoryNotFoundError):
        needs = "a private one needs HF_TOKEN, or `hf auth login`"
        return f"{no_path}no {kind} of this name on the Hugging Face Hub ({needs})"
    if isinstance(error, errors.RevisionNotFoundError):
        commits = f"{address}/commits/main lists its commits"
        return f"the {kind} has no revision {name.revision!r}; {commits}"
    if isinstance(error, errors.HFValidationError):
        return f"not a valid name on the Hugging Face Hub ({_first_line(error)})"
    by_hand = (
        f"fetch it on another machine with `hf download {name.repo_id} "
        f"{'' if repo_type == 'model' else '--repo-type=dataset '}--local-dir=FOLDER` and name the "
        "folder"
    )
    if isinstance(error, errors.LocalEntryNotFoundError) and constants.HF_HUB_OFFLINE:
        return (
            f"{no_path}not, or not completely, in the cache {constants.HF_HUB_CACHE}, and "
            f"HF_HUB_OFFLINE is set; unset it, or {by_hand}"
        )
    cause = error.__cause__ if isinstance(error, errors.LocalEntryNotFoundError) else None
    return (
        f"{no_path}cannot be fetched from {constants.ENDPOINT} ({_first_line(cause or error)}); "
        f"rerun the same command, or {by_hand}"
    )


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0].rstrip(".")


def _parsed(place: str, argument: str) -> tuple[HubName, str]:
    """Return the data set of `hf://datasets/...`, and the path in it."""
    found = _PLACE.fullmatch(place.rstrip("/"))
    if found is None:
        raise InputError(
            f"`{argument}`={place}: must be {PREFIX}ORGANIZATION/NAME/PATH, with @REVISION after "
            "NAME for another than the main branch"
        )
    revision = urllib.parse.unquote(found["revision"]) if found["revision"] else None
    return HubName(found["repo_id"], revision), found["path"] or ""


def local_file(path: str, argument: str) -> str:
    """Fetch a file of a data set of the Hub; return its path in the cache.

    The path may be a glob for exactly one file; one that is not of the Hub is returned unchanged.

    Raises:
        InputError: If the path is invalid, there is no such file, or it cannot be fetched.
        OSError: If the cache cannot be written.
    """
    if not path.startswith(PREFIX):
        return path
    name, inside = _parsed(path, argument)
    if not inside:
        raise InputError(f"`{argument}`={path}: names a data set; must name a file of it")
    found = matches(f"{_fetch(path, name, [[inside]], argument)}/{inside}")
    if len(found) > 1:
        raise InputError(f"`{argument}`={path}: matches {len(found)} files; must name a single one")
    return found[0]


def local_folder(folder: str, needed: Sequence[Sequence[str]], argument: str) -> str:
    """Fetch files of a folder in a data set of the Hub; return its path in the cache.

    A folder that is not of the Hub is returned unchanged. `needed` are groups of paths or globs in
    the folder, one of each of which must exist; other files may be missing in the cache. Errors are
    those of `local_file`.
    """
    if not needed or not folder.startswith(PREFIX):
        return folder
    name, inside = _parsed(folder, argument)
    inner = [[os.path.join(inside, path) for path in group] for group in needed]
    return os.path.join(_fetch(folder, name, inner, argument), inside).rstrip("/")


# In the paths of a published data set: the code of a language.
LANGUAGE = "{language}"


def check_language(language: str | None, languages: str) -> None:
    """Raise InputError if a language is missing, is none of a data set's, or it has a single one.

    `languages` are the codes of the data set, separated by ", "; a single one is an example.
    """
    codes, given = languages.split(", "), f"`language`={language}" if language else "`language`"
    if language and not languages:
        raise InputError(f"{given}: the data set of `task_name` has a single language")
    if len(codes) > 1 and language not in codes:
        raise InputError(f"{given}: must be one of {languages}")
    if languages and not re.fullmatch(r"[\w-]+", language or ""):
        raise InputError(f"{given}: must be a code such as {languages}")


@dataclasses.dataclass(frozen=True)
class PublishedSet:
    """The files of a published data set.

    Attributes:
        files: split -> paths or globs in its folder, the first existing one of which is read;
            `LANGUAGE` in them stands for the code of a language.
        hub: its folder in a data set of the Hub; "" if it is not there.
        folders: names of its folder in the folder that users name, which may be itself.
        languages: as for `check_language`.
    """

    files: Mapping[str, tuple[str, ...]]
    hub: str = ""
    folders: tuple[str, ...] = ()
    languages: str = ""

    def find(self, split: str, data_dir: str | None, language: str | None = None) -> list[str]:
        """Return the files of a split; several only of a glob for Parquet files.

        Users name a folder by `data_dir`; without it, `hub` is the folder.

        Raises:
            InputError: If there are none, or they cannot be fetched; or as of `check_language`.
        """
        check_language(language, self.languages)
        if split not in self.files:
            raise InputError(f"`do_{split}`: the data set has no rows to {split}")
        if not (data_dir or self.hub):
            raise InputError("`data_dir`: the folder of the data set is required")
        names = [name.replace(LANGUAGE, language or "") for name in self.files[split]]
        places = [os.path.join(each, name) for each in ("", *self.folders) for name in names]
        root = local_folder(data_dir or self.hub, [places], "data_dir")
        for place in places:
            if found := matches(os.path.join(glob.escape(root), place)):
                return found if place.endswith(".parquet") else found[:1]
        expected = " or ".join(os.path.join(root, place) for place in places)
        raise InputError(f"`data_dir`={root}: contains no {expected}")


def _fetch(shown: str, name: HubName, needed: Sequence[Sequence[str]], argument: str) -> str:
    """Fetch the files that match `needed`, groups of globs; of each group, one must exist."""
    # It warns of patterns without a file, which the error below says better.
    logging.getLogger("huggingface_hub._snapshot_download").setLevel(logging.ERROR)
    patterns = [pattern for group in needed for pattern in group]
    folder = download(shown, name, patterns, argument=argument, repo_type="dataset")
    for group in needed:
        if not any(matches(f"{folder}/{pattern}") for pattern in group):
            # Without the network, the folder of an earlier download is all that there is.
            raise InputError(
                f"`{argument}`={shown}: no {' or '.join(dict.fromkeys(group))} in the data set or, "
                f"without the network, in the cache ({folder}); fetch the data set on another "
                f"machine with `hf download {name.repo_id} --repo-type=dataset "
                "--local-dir=FOLDER`, and name the local copy"
            )
    return folder
