"""Archives of published weights, by name: Google's checkpoints, TF-Hub modules, any address.

The addresses are those that the original project, TF-Hub and Kaggle document.
"""

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from filelock import lock_descriptor

from albert_tf.environment import cache_folder
from albert_tf.errors import InputError
from albert_tf.files import exists, read_json, remove, sha256_of
from albert_tf.hub.archives import unpack
from albert_tf.hub.fetching import FetchError, fetch

logger = logging.getLogger(__name__)

SIZES = ("base", "large", "xlarge", "xxlarge")
SOURCE_FILE = "albert_tf_source.json"

_CHECKPOINTS = "https://storage.googleapis.com/albert_models"
_MODULES = "https://storage.googleapis.com/tfhub-modules"
_KAGGLE = "https://www.kaggle.com"

_SIZE = "|".join(SIZES)
_CHECKPOINT = re.compile(rf"({_CHECKPOINTS}/)?(?P<name>albert_({_SIZE})_(v1|v2|zh))(\.tar\.gz)?")
_TF_HUB = re.compile(
    r"https?://tfhub\.dev/(?P<owner>[\w-]+)/(?P<model>[\w-]+)/(?P<version>\d+)/?(\?.*)?"
)
_KAGGLE_HANDLE = re.compile(
    rf"({_KAGGLE}/models/)?(?P<owner>[\w-]+)/(?P<model>[\w-]+)(/frameworks)?"
    r"/tensorflow(?P<release>[12])(/variations)?/(?P<variation>[\w-]+)(/versions)?"
    r"/(?P<version>\d+)/?(\?.*)?",
    re.IGNORECASE,
)
_ARCHIVE = re.compile(r"https?://[^?#]*/(?P<name>[\w.-]+?)(?P<ending>\.tar\.gz|\.tgz|\.tar|\.zip)")

# TF-Hub's name of a module -> Kaggle's, where TF-Hub's addresses lead today.
_ON_KAGGLE = {
    **{f"google/albert_{size}": f"google/albert/tensorFlow1/{size}" for size in SIZES},
    **{
        f"tensorflow/albert_en_{size}": f"tensorflow/albert/tensorFlow2/en-{size}" for size in SIZES
    },
}


class Archive(NamedTuple):
    """A published archive: its folder in the cache, and where it is fetched from, in order."""

    key: str
    addresses: tuple[str, ...]
    ending: str = ".tar.gz"


@dataclasses.dataclass(frozen=True)
class Origin:
    """Where weights in the cache come from.

    Attributes:
        name: as the user gave it.
        address: from which it was fetched, or the file that was put in the cache by hand.
        revision: "commit ..." or "SHA-256 ...".
    """

    name: str
    address: str
    revision: str

    @property
    def commit(self) -> str | None:
        """The commit, if the weights come from the Hugging Face Hub."""
        kind, _, value = self.revision.partition(" ")
        return value if kind == "commit" else None

    def to_json(self) -> str:
        """Return the text of the file that records it."""
        return json.dumps(dataclasses.asdict(self), indent=2) + "\n"


def find_archive(name: str) -> Archive | None:
    """Return the archive that a name stands for; None if it stands for none.

    Args:
        name: `albert_base_v2`, with or without `.tar.gz`; a TF-Hub or Kaggle handle; or the
            `https://` address of any archive.
    """
    if found := _CHECKPOINT.fullmatch(name):
        return Archive(found["name"], (f"{_CHECKPOINTS}/{found['name']}.tar.gz",))
    if found := _TF_HUB.fullmatch(name):
        owner, model, version = found["owner"], found["model"], found["version"]
        addresses = [f"https://tfhub.dev/{owner}/{model}/{version}?tf-hub-format=compressed"]
        if handle := _ON_KAGGLE.get(f"{owner}/{model}"):
            addresses.append(_kaggle_address(f"{handle}/{version}"))
        addresses.append(f"{_MODULES}/{owner}/{model}/{version}.tar.gz")
        return Archive(f"tfhub.dev--{owner}--{model}--{version}", tuple(addresses))
    if found := _KAGGLE_HANDLE.fullmatch(name):
        framework = f"tensorFlow{found['release']}"
        parts = (found["owner"], found["model"], framework, found["variation"], found["version"])
        return Archive("--".join(("kaggle", *parts)), (_kaggle_address("/".join(parts)),))
    if found := _ARCHIVE.fullmatch(name):
        digest = hashlib.sha256(name.encode()).hexdigest()[:12]
        return Archive(f"{found['name']}-{digest}", (name,), found["ending"])
    return None


def _kaggle_address(handle: str) -> str:
    return f"{_KAGGLE}/api/v1/models/{handle}/download"


def fetch_archive(name: str, archive: Archive, argument: str) -> str:
    """Fetch and unpack an archive of `find_archive` into the cache, once; return the folder.

    An archive that the user has put into the cache is taken without the network. `name` is what the
    user gave for `argument`.

    Raises:
        InputError: If it cannot be fetched, or is not an archive that may be unpacked.
        OSError: If the cache cannot be written to.
    """
    cache = cache_folder()
    os.makedirs(cache, exist_ok=True)
    folder = os.path.join(cache, archive.key)
    with _one_at_a_time(folder):
        if not exists(folder):
            _fetch_and_unpack(name, archive, folder, argument)
    source = source_in(folder)
    if source:
        logger.info("%s: %s, %s, in %s", name, source.address, source.revision, folder)
    return _inner_folder(folder)


@contextlib.contextmanager
def _one_at_a_time(folder: str) -> Iterator[None]:
    """Wait until no other process is in this block for the same folder."""
    parent, name = os.path.split(folder)
    with open(os.path.join(parent, f".{name}.lock"), "w") as lock:
        with contextlib.suppress(OSError):  # some network file systems have no locks
            lock_descriptor(lock.fileno(), blocking=True)
        yield


def _fetch_and_unpack(name: str, archive: Archive, folder: str, argument: str) -> None:
    file = f"{folder}{archive.ending}"
    given = exists(file)
    try:
        address = file if given else _fetch_first(archive, file)
        logger.info("%s: unpacking %s MB", name, f"{os.path.getsize(file) / 1e6:,.0f}")
        source = Origin(name, address, f"SHA-256 {sha256_of(file)}")
        unpack(file, folder, {SOURCE_FILE: source.to_json()})
    except InputError as error:
        raise InputError(f"`{argument}`={name}: {error}") from None
    finally:
        if not given:  # what could not be unpacked is of no use either
            remove(file)


def _fetch_first(archive: Archive, file: str) -> str:
    """Fetch an archive from the first address that has it, and return the address."""
    reasons = []
    for address in archive.addresses:
        try:
            fetch(address, file)
            return address
        except FetchError as error:
            reasons.append(f"{address} ({error})")
    raise InputError(
        f"no local file or folder, and cannot be fetched from {', nor from '.join(reasons)}; "
        f"fetch it on another machine and put it here as {file}"
    )


def source_in(folder: str) -> Origin | None:
    """Return the record of where an unpacked archive comes from; None if the folder has none."""
    path = os.path.join(folder, SOURCE_FILE)
    return read_json(path, Origin) if exists(path) else None


def _inner_folder(folder: str) -> str:
    """Return the only folder in an archive, or else the archive's own."""
    entries = [entry for entry in os.scandir(folder) if entry.name != SOURCE_FILE]
    only = entries[0] if len(entries) == 1 else None
    return only.path if only and only.is_dir() else folder
