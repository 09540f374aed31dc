"""Names of weights: a local path, an archive, a TF-Hub or Kaggle handle, or a Hub repository.

    local_weights("albert/albert-base-v2", argument="init_checkpoint")
    local_weights("https://tfhub.dev/google/albert_base/1", argument="albert_hub_module_handle")
    local_weights("out/model.ckpt-1000", argument="init_checkpoint")    # stays as it is

Everything behind an argument that names weights is given the local path. Archives are fetched from
the addresses that the original project, TF-Hub and Kaggle document.
"""

import contextlib
import dataclasses
import hashlib
import importlib.util
import json
import logging
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from filelock import lock_descriptor

from albert_tf.environment import cache_folder
from albert_tf.errors import InputError
from albert_tf.files import exists, files_in, normalized, read_json, remove, sha256_of
from albert_tf.hub import huggingface
from albert_tf.hub.archives import FetchError, fetch, unpack
from albert_tf.hub.huggingface import HubName

logger = logging.getLogger(__name__)

# Patterns in order of preference. Chinese checkpoints have a vocab_chinese.txt or vocab_zh.txt.
_OF_VOCABULARIES = ("tokenizer_config.json", "added_tokens.json", "special_tokens_map.json")
VOCABULARY_FILES = ("spiece.model", "vocab.txt", "*.model", "vocab_*.txt", "tokenizer.json")
_ADJACENT_FILES = (
    *("config.json", "albert_config.json", "bert_config.json"),
    *("labels.json", *_OF_VOCABULARIES),
    *("sentence_bert_config.json", "modules.json", "*/config.json"),  # of sentence-transformers
)
SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
_WEIGHTS = (*SAFETENSORS, "model-*-of-*.safetensors", *_ADJACENT_FILES, *VOCABULARY_FILES)
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")
_PICKLED = (*PICKLES, "pytorch_model-*-of-*.bin")
TORCH_NEEDED = (
    "a pickle, which torch reads without running code in it, but torch 2.6 or newer is not "
    "installed: pip install 'torch>=2.6', or convert the weights where it is (save_pretrained of "
    "transformers writes model.safetensors)"
)

# Endings of files, which a repository is never named after: a path that ends so is a typing error.
_FILE_ENDINGS = (".safetensors", ".h5", ".bin", ".index", ".ckpt", ".model", ".txt", ".json", ".pb")
_TRAINED = re.compile(r"model\.ckpt-\w+")
# Folders between the record of an archive and a checkpoint in it: KEY/albert_base/model.ckpt-best.
_DEEPEST = 3
_SNAPSHOT = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)/snapshots/(?P<commit>[0-9a-f]{40})")

SIZES = ("base", "large", "xlarge", "xxlarge")
SOURCE_FILE = "albert_tf_source.json"

_CHECKPOINTS = "https://storage.googleapis.com/albert_models"
_MODULES = "https://storage.googleapis.com/tfhub-modules"
_KAGGLE = "https://www.kaggle.com"

_SIZE = "|".join(SIZES)
_CHECKPOINT = re.compile(rf"({_CHECKPOINTS}/)?(?P<name>albert_({_SIZE})_(v1|v2|zh))(\.tar\.gz)?")
_WITHOUT_OWNER = re.compile(
    rf"albert-({_SIZE})-v[12]|bert-(base-chinese|(base|large|base-multilingual)-(un)?cased)"
)
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


def local_weights(name: str | os.PathLike[str], *, argument: str) -> str:
    """Return a local path for a name of weights, fetching them if necessary.

    A local file or folder of that name wins, and so does a checkpoint whose files begin with it.

    Args:
        name: a path, which may also be remote (`gs://`, `hf://`); `ORGANIZATION/NAME[@REVISION]`
            of the Hugging Face Hub; a name of Google's checkpoints such as `albert_base_v2`; a
            TF-Hub or Kaggle handle; or the `https://` address of an archive.
        argument: the caller's name of `name`, for errors.

    Returns:
        A path: the normalized `name` if it names no published weights.

    Raises:
        InputError: If the weights cannot be fetched, or are a pickle and there is no torch.
    """
    name = _checked(name, argument)
    path, repository = _local(name, argument, _WEIGHTS)
    if repository is None or any(exists(os.path.join(path, file)) for file in SAFETENSORS):
        return path
    commit = huggingface.commit_of(path)
    files = huggingface.list_files(repository.repo_id, commit or "main")
    if any(file in files for file in PICKLES):
        if importlib.util.find_spec("torch") is None:  # before it is fetched for nothing
            raise InputError(f"`{argument}`={name}: has only pytorch_model.bin, {TORCH_NEEDED}")
        pinned = repository._replace(revision=commit)
        return huggingface.download(name, pinned, _PICKLED, argument=argument)
    if any(exists(os.path.join(path, file)) for file in PICKLES):  # without the network
        return path
    found = f", but {', '.join(sorted(files)[:5])}" if files else ""
    raise InputError(f"`{argument}`={name}: has no {SAFETENSORS[0]} or {PICKLES[0]}{found}")


def may_be_published(name: str) -> bool:
    """Return whether `local_weights` would fetch this name if there is no such path."""
    return bool(find_archive(name) or _repository(name))


def local_vocabulary(name: str | os.PathLike[str], *, argument: str) -> str:
    """Return a local path for the name of some weights, of which the vocabulary is needed.

    As `local_weights`, but only the vocabulary is fetched where files can be fetched one by one.
    """
    return _local(_checked(name, argument), argument, (*_OF_VOCABULARIES, *VOCABULARY_FILES))[0]


def find_vocabulary(folder: str) -> str | None:
    """Return the vocabulary in a folder, or in the assets of the SavedModel that it is.

    The first of `VOCABULARY_FILES` that matches exactly one file decides.
    """
    for place in (folder, os.path.join(folder, "assets")):
        for pattern in VOCABULARY_FILES:
            found = files_in(place, pattern)
            if len(found) == 1:
                return found[0]
    return None


def _checked(name: str | os.PathLike[str], argument: str) -> str:
    if not isinstance(name, str | os.PathLike):
        raise InputError(f"`{argument}`={name!r}: must be a path or a name of published weights")
    return os.fspath(name)


def _local(name: str, argument: str, patterns: tuple[str, ...]) -> tuple[str, HubName | None]:
    """Return a local path, and the repository of the Hub if its files were fetched from one."""
    archive, repository = find_archive(name), _repository(name)
    if not archive and not repository:
        if _WITHOUT_OWNER.fullmatch(name) and not exists(name):
            owner = "albert" if name.startswith("albert") else "google-bert"
            raise InputError(
                f"`{argument}`={name}: no such file or folder; on the Hub it is {owner}/{name}"
            )
        return normalized(name), None
    if "://" not in name and (exists(name) or exists(f"{name}.index")):
        # Folders that training writes are named like repositories, but look otherwise.
        if archive or exists(os.path.join(name, "config.json")):
            logger.info("%s: the local path, not the published weights of this name", name)
        return normalized(name), None
    if archive:
        return fetch_archive(name, archive, argument), None
    assert repository is not None
    return huggingface.download(name, repository, patterns, argument=argument), repository


def _repository(name: str) -> HubName | None:
    last = os.path.basename(name)
    if last.endswith(_FILE_ENDINGS) or _TRAINED.fullmatch(last):
        return None
    return huggingface.parse_name(name)


def pinned_name(path: str) -> str:
    """Return the name by which weights at a path can be fetched again, or else `path`."""
    source = source_of(path)
    if source is None:
        return path
    return f"{source.name}@{source.commit}" if source.commit else source.name


def source_of(path: str) -> Origin | None:
    """Return where the weights at a path come from; None if they were not fetched by name."""
    path = os.path.abspath(path)
    if found := _SNAPSHOT.search(path):
        repo_id = f"{found['owner']}/{found['name']}"
        return Origin(repo_id, f"https://huggingface.co/{repo_id}", f"commit {found['commit']}")
    for _ in range(_DEEPEST):
        if source := source_in(path):
            return source
        path = os.path.dirname(path)
    return None


def find_archive(name: str) -> Archive | None:
    """Return the archive that a name stands for; None if it stands for none.

    It is `albert_base_v2`, with or without `.tar.gz`; a TF-Hub or Kaggle handle; or the `https://`
    address of any archive.
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
    if source := source_in(folder):
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
