"""Names of weights: a local path, an archive, a TF-Hub or Kaggle handle, or a Hub repository.

    local_weights("albert/albert-base-v2", argument="init_checkpoint")
    local_weights("https://tfhub.dev/google/albert_base/1", argument="albert_hub_module_handle")
    local_weights("out/model.ckpt-1000", argument="init_checkpoint")    # stays as it is

Everything behind an argument that names weights is given the local path.
"""

import logging
import os
import re

from albert_tf.errors import InputError
from albert_tf.files import exists, files_in, normalized
from albert_tf.hub import huggingface
from albert_tf.hub.huggingface import HubName
from albert_tf.hub.published import Origin, fetch_archive, find_archive, source_in

logger = logging.getLogger(__name__)

# Patterns in order of preference. Chinese checkpoints have a vocab_chinese.txt or vocab_zh.txt.
VOCABULARY_FILES = ("spiece.model", "vocab.txt", "*.model", "vocab_*.txt", "tokenizer.json")
_ADJACENT_FILES = (
    *("config.json", "albert_config.json", "tokenizer_config.json", "labels.json"),
    *("sentence_bert_config.json", "1_Pooling/config.json"),  # of sentence-transformers
)
SAFETENSORS = ("model.safetensors", "model.safetensors.index.json")
_WEIGHTS = (*SAFETENSORS, "model-*-of-*.safetensors", *_ADJACENT_FILES, *VOCABULARY_FILES)
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json")

# Endings of files, which a repository is never named after: a path that ends so is a typing error.
_FILE_ENDINGS = (".safetensors", ".h5", ".bin", ".index", ".ckpt", ".model", ".txt", ".json", ".pb")
_CHECKPOINT = re.compile(r"model\.ckpt-\w+")
# Folders between the record of an archive and a checkpoint in it: KEY/albert_base/model.ckpt-best.
_DEEPEST = 3
_SNAPSHOT = re.compile(r"models--(?P<owner>.+?)--(?P<name>.+)/snapshots/(?P<commit>[0-9a-f]{40})")


def local_weights(name: str, *, argument: str) -> str:
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
        InputError: If the weights cannot be fetched, or are published as a pickle only.
    """
    path, repository = _local(name, argument, _WEIGHTS)
    if repository is None or any(exists(os.path.join(path, file)) for file in SAFETENSORS):
        return path
    files = huggingface.list_files(repository.repo_id, huggingface.commit_of(path) or "main")
    if any(file in files for file in PICKLES):
        raise InputError(
            f"`{argument}`={name}: has only pytorch_model.bin, a pickle, which can run any code "
            "when it is read; if you trust it, convert it with transformers: "
            f"AutoModelForPreTraining.from_pretrained({repository.repo_id!r})"
            ".save_pretrained('FOLDER'), or name a revision that has model.safetensors "
            f"(the Hub's converter proposes one: {repository.repo_id}@refs/pr/NUMBER)"
        )
    found = f", but {', '.join(sorted(files)[:5])}" if files else ""
    raise InputError(f"`{argument}`={name}: has no model.safetensors{found}")


def may_be_published(name: str) -> bool:
    """Return whether `local_weights` would fetch this name if there is no such path."""
    return bool(find_archive(name) or _repository(name))


def local_vocabulary(name: str, *, argument: str) -> str:
    """Return a local path for the name of some weights, of which the vocabulary is needed.

    As `local_weights`, but only the vocabulary is fetched where files can be fetched one by one.
    """
    return _local(name, argument, ("tokenizer_config.json", *VOCABULARY_FILES))[0]


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


def _local(name: str, argument: str, patterns: tuple[str, ...]) -> tuple[str, HubName | None]:
    """Return a local path, and the repository of the Hub if its files were fetched from one."""
    name = os.fspath(name)
    archive, repository = find_archive(name), _repository(name)
    if not archive and not repository:
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
    if last.endswith(_FILE_ENDINGS) or _CHECKPOINT.fullmatch(last):
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
        address = f"https://huggingface.co/{repo_id}"
        return Origin(repo_id, address, f"commit {found['commit']}")
    for _ in range(_DEEPEST):
        if source := source_in(path):
            return source
        path = os.path.dirname(path)
    return None
