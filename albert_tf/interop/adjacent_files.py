"""Files next to the weights of a model: vocabulary, labels, results, training data."""

import dataclasses
import functools
import json
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from albert_tf.checkpoints import FOLDERS, step_of
from albert_tf.errors import InputError
from albert_tf.files import exists, read_bytes, read_json, read_text, sha256_of, text_of, value_of
from albert_tf.hub.names import find_vocabulary
from albert_tf.input.manifest import Manifest, vocabularies
from albert_tf.interop.file_names import (
    BEST_FOLDER,
    DATA_FILE,
    EVALUATION_DATA_FILE,
    LABELS_FILE,
    RESULTS_FILE,
    SAVED_MODEL,
    encoder_folder,
    folder_of,
    kept_results,
)
from albert_tf.task_kinds import TaskKind
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import (
    CONFIG_FILE,
    UNRECORDED,
    Normalization,
    read_normalization,
)

_LOWER_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"

_PROBLEM_TYPES = ("regression", "single_label_classification", "multi_label_classification")

Value = TypeVar("Value")
Label = str | bool | int | float

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class EvaluatedSet:
    """Examples that results are about: what they are, such as "dev.tsv", and their number.

    `name` distinguishes several sets, such as "matched"; it is "" for a single one.
    """

    name: str
    data: str
    examples: int


def json_text(value: Any) -> str:
    """Return the content of a JSON file that people may read."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def evaluation_data(sets: Iterable[EvaluatedSet]) -> str:
    """Return the content of `evaluation_data.json`."""
    return json_text([dataclasses.asdict(each) for each in sets])


def labels_text(labels: Iterable[str]) -> str:
    """Return the content of `labels.json`: the labels, numbers as numbers."""
    return json.dumps(list(map(value_of, labels)), ensure_ascii=False) + "\n"


def read_labels(folder: str) -> tuple[str, ...]:
    """Return the labels in a folder's `labels.json`; () if there is none."""
    path = os.path.join(folder, LABELS_FILE)
    return tuple(map(text_of, read_json(path, tuple[Label, ...]))) if exists(path) else ()


def results_text(results: Mapping[str, float]) -> str:
    """Return the content of `eval_results.txt`: lines `name = value`, sorted by name."""
    return "".join(f"{name} = {results[name]:.8g}\n" for name in sorted(results))


@dataclasses.dataclass(frozen=True)
class AdjacentFiles:
    """Content of the files next to some weights; None or empty for files that do not exist.

    Attributes:
        vocabulary: path of the vocabulary.
        labels: of a classifier, or tags of a tagger, by id; a `ValueText` for a number or bool.
        results: the lines of `eval_results.txt`, name -> value.
        evaluated: the sets that the results are about.
        data: name -> manifest of the pretraining data.
        normalization: how the text was normalized that the model was trained on.
        problem_type: what a classifier's outputs mean, as Hugging Face names it.
    """

    vocabulary: str | None = None
    labels: tuple[str, ...] = ()
    results: dict[str, str] = dataclasses.field(default_factory=dict)
    evaluated: tuple[EvaluatedSet, ...] = ()
    data: dict[str, Any] = dataclasses.field(default_factory=dict)
    normalization: Normalization = UNRECORDED
    problem_type: str | None = None

    def labels_of(self, outputs: int) -> tuple[str, ...]:
        """Return the labels of so many outputs: those recorded, or else numbered ones.

        Logs a warning if there is a record of another number.
        """
        fit = len(self.labels) == outputs
        if self.labels and not fit:
            form = "%d labels are recorded, but the head has %d outputs, which are numbered: %s"
            _logger.warning(form, len(self.labels), outputs, ", ".join(map(str, self.labels)))
        return self.labels if fit else tuple(f"LABEL_{id}" for id in range(outputs))

    def vocabulary_digests(self) -> set[str]:
        """Return the SHA-256 of every vocabulary that the weights are known to be for."""
        adjacent = {sha256_of(self.vocabulary)} if self.vocabulary else set()
        return adjacent | set(vocabularies(self.data))

    def target(self, kind: TaskKind, outputs: int) -> str | None:
        """Return what outputs mean, a key of `kind.problem_types`; None for its default."""
        names = {each: name for name, each in kind.problem_types.items()}
        return names.get(self.problem_type or "", "regression" if outputs == 1 else None)

    def about(self, step: int | None) -> "AdjacentFiles":
        """Return the same without results of another checkpoint; `step` is that of the weights."""
        evaluated = self.results.get("global_step")
        if not step or evaluated in (None, str(step)):
            return self
        kept = {name: self.results[name] for name in kept_results() if name in self.results}
        return dataclasses.replace(self, results=kept, evaluated=())


@dataclasses.dataclass(frozen=True)
class _HuggingFaceConfig:
    id2label: dict[str, Label] | None = None
    problem_type: str | None = None


def load_tokenizer(
    path: str | os.PathLike[str], do_lower_case: bool | None, adjacent: Iterable[AdjacentFiles]
) -> Tokenizer:
    """Load the tokenizer of a model.

    Its normalization is what the user chose, then what the first of `adjacent` records, then what
    is recorded next to the vocabulary.
    """
    recorded = (found.normalization for found in adjacent)
    return Tokenizer.load(path, do_lower_case, UNRECORDED.otherwise(*recorded))


def tokenizer_files(tokenizer: Tokenizer) -> dict[str, str | bytes]:
    """Return name -> content of what a folder of a model needs to read text."""
    name = os.path.basename(tokenizer.path)
    return {
        name if name.endswith(".model") else "vocab.txt": read_bytes(tokenizer.path),
        CONFIG_FILE: tokenizer.normalization.to_json(),
    }


def check_tokenizer(tokenizer: Tokenizer, model: str, adjacent: AdjacentFiles) -> None:
    """Check that the ids of a tokenizer mean what a model, with these files, has learned.

    Raises:
        InputError: If they are known to mean something else; the vocabulary is called `path`.
    """
    known, before = adjacent.vocabulary_digests(), adjacent.vocabulary
    is_other = known and sha256_of(tokenizer.path) not in known
    # Files of other formats may have the same pieces.
    if is_other and not (before and Tokenizer.load(before).pieces == tokenizer.pieces):
        raise InputError(
            f"`path`={tokenizer.path}: is not the vocabulary of the weights in {model} "
            f"({before or DATA_FILE}); use that one, or other weights"
        )


def find_adjacent_files(path: str) -> AdjacentFiles:
    """Read the files next to the weights at `path`, a file or a folder.

    Raises:
        InputError: If one of the files is damaged.
    """
    folder = folder_of(encoder_folder(path))

    def read(name: str, kind: type[Value], default: Value) -> Value:
        file = os.path.join(folder, name)
        return read_json(file, kind) if exists(file) else default

    # Earlier versions wrote the results of the checkpoint in `best` only to the folder of training.
    described = folder
    if os.path.basename(folder) == BEST_FOLDER and not exists(f"{folder}/{RESULTS_FILE}"):
        described = os.path.dirname(folder)
    results = os.path.join(described, RESULTS_FILE)
    lines = read_text(results).splitlines() if exists(results) else []
    evaluated = os.path.join(described, EVALUATION_DATA_FILE)
    data = read(DATA_FILE, dict[str, dict[str, Any]], {})
    manifests = read(DATA_FILE, dict[str, Manifest], {}).values()
    recorded = [manifest.normalization for manifest in manifests]
    recorded.append(read_normalization(folder))
    published = read("config.json", _HuggingFaceConfig, _HuggingFaceConfig())
    published = _usable(published, os.path.join(folder, "config.json"))
    is_number = len(published.id2label or ()) == 1  # there are no labels to choose from
    if exists(os.path.join(folder, SAVED_MODEL)):
        recorded.append(Normalization(_do_lower_case_of(folder)))
    return AdjacentFiles(
        vocabulary=find_vocabulary(folder),
        labels=read_labels(folder) or _huggingface_labels(published),
        results=dict(line.split(" = ", 1) for line in lines if " = " in line),
        evaluated=read_json(evaluated, tuple[EvaluatedSet, ...]) if exists(evaluated) else (),
        data=data,
        normalization=UNRECORDED.otherwise(*recorded),
        problem_type=published.problem_type or ("regression" if is_number else None),
    )


def _do_lower_case_of(saved_model: str) -> bool | None:
    """Return the variable in which exports of this project and of Model Garden record it.

    A SavedModel that cannot be read gives None; the error is reported when its weights are read.
    """
    from albert_tf.checkpoints.tensorflow import open_checkpoint  # loads TensorFlow

    try:
        _, found = open_checkpoint(os.path.join(saved_model, "variables", "variables"))
    except InputError:
        return None
    tensor = found.get(_LOWER_CASE)
    return bool(tensor.read()) if tensor and tensor.shape == () else None


def _usable(config: _HuggingFaceConfig, path: str) -> _HuggingFaceConfig:
    """Return a config without the fields that cannot be right, of which a warning is logged."""
    by_id = config.id2label or {}
    if set(by_id) != set(map(str, range(len(by_id)))) or len(set(by_id.values())) < len(by_id):
        _warn_once(f"{path}: id2label={by_id}: is not a distinct name for each of 0, 1, 2, ...")
        config = dataclasses.replace(config, id2label=None)
    if config.problem_type not in (None, *_PROBLEM_TYPES):
        valid = ", ".join(_PROBLEM_TYPES)
        _warn_once(f"{path}: problem_type={config.problem_type}: must be one of {valid}")
        config = dataclasses.replace(config, problem_type=None)
    return config


@functools.cache
def _warn_once(problem: str) -> None:
    _logger.warning("%s; it is ignored", problem)


def _huggingface_labels(config: _HuggingFaceConfig) -> tuple[str, ...]:
    """Return the labels in a `config.json`; () if they are only numbered."""
    by_id = config.id2label or {}
    labels = tuple(text_of(by_id[id]) for id in sorted(by_id, key=lambda id: (len(id), id)))
    return () if labels == AdjacentFiles().labels_of(len(labels)) else labels


def described_checkpoint(path: str) -> str:
    """Return the weights that results and predictions in a training folder of any engine come from.

    That is the checkpoint in `best/`, which prediction uses too, unless `eval_results.txt` is about
    the newest one (`--eval_checkpoints=newest`). The path of other weights is returned unchanged.
    """
    best = os.path.join(path, BEST_FOLDER)
    best_steps = _steps(best)
    if not best_steps:
        return path
    evaluated = find_adjacent_files(path).results.get("global_step")
    if evaluated is not None and evaluated not in best_steps and evaluated in _steps(path)[-1:]:
        return path
    _logger.info("using the best checkpoint, in %s", best)
    return best


def _steps(folder: str) -> list[str]:
    found = {step_of(path) for kind in FOLDERS.values() for path in kind(folder).all()}
    return list(map(str, sorted(found)))
