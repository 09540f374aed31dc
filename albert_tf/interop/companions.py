"""Files next to the weights of a model: vocabulary, labels, results, training data."""

from __future__ import annotations

import dataclasses
import os
from typing import Any, TypeVar

from albert_tf.files import exists, read_text
from albert_tf.input.manifest import Manifest
from albert_tf.interop import layout
from albert_tf.json_files import read_json
from albert_tf.tokenizers.folders import find_vocabulary, read_lower_case

LABELS_FILE = "labels.json"
TARGET_FILE = "target.json"
QUESTION_ANSWERING_FILE = "question_answering.json"
CHOICE_FILE = "multiple_choice.json"
RESULTS_FILE = "eval_results.txt"
DATA_FILE = "training_data.json"

# What a run that resumes reads in its folder, besides the files that `Companions` describes.
RUN_FILES = (
    "data_order.json",
    TARGET_FILE,
    QUESTION_ANSWERING_FILE,
    CHOICE_FILE,
    "tokenizer_config.json",
    "metrics.jsonl",
    "evaluations.jsonl",
)

Value = TypeVar("Value")


@dataclasses.dataclass(frozen=True)
class Companions:
    """Content of the files next to some weights; None or empty for files that do not exist.

    Attributes:
        vocabulary: path of the vocabulary.
        labels: labels of a classifier, by id.
        results: the lines of `eval_results.txt`, name -> value.
        data: name -> manifest of the pretraining data.
        do_lower_case: whether the model was trained on lower-cased text.
    """

    vocabulary: str | None = None
    labels: tuple[str, ...] = ()
    results: dict[str, str] = dataclasses.field(default_factory=dict)
    data: dict[str, Any] = dataclasses.field(default_factory=dict)
    do_lower_case: bool | None = None


@dataclasses.dataclass(frozen=True)
class _HuggingFaceConfig:
    id2label: dict[str, str] | None = None


def resolve_lower_case(explicit: bool | None, *companions: Companions) -> bool:
    """Whether a tokenizer lower-cases text.

    Args:
        explicit: the user's choice, which wins; None if there is none.
        *companions: in order of precedence; the first that records a value decides.

    Returns:
        True if nothing decides, as in the original.
    """
    recorded = (explicit, *(found.do_lower_case for found in companions))
    return next((value for value in recorded if value is not None), True)


def find_companions(path: str) -> Companions:
    """Reads the files next to the weights at `path`, a file or a folder.

    Raises:
        InputError: if one of the files is damaged.
    """
    folder = layout.folder_of(layout.encoder_folder(path))

    def read(name: str, kind: type[Value], default: Value) -> Value:
        file = os.path.join(folder, name)
        return read_json(file, kind) if exists(file) else default

    results = os.path.join(folder, RESULTS_FILE)
    lines = read_text(results).splitlines() if exists(results) else []
    data = read(DATA_FILE, dict[str, dict[str, Any]], {})
    manifests = read(DATA_FILE, dict[str, Manifest], {}).values()
    lower = [manifest.settings.do_lower_case for manifest in manifests]
    lower.append(read_lower_case(folder))
    if exists(os.path.join(folder, layout.SAVED_MODEL)):
        from albert_tf.interop.saved_model_weights import read_do_lower_case  # loads TensorFlow

        lower.append(read_do_lower_case(folder))
    return Companions(
        vocabulary=find_vocabulary(folder),
        labels=read(LABELS_FILE, tuple[str, ...], ())
        or _huggingface_labels(read("config.json", _HuggingFaceConfig, _HuggingFaceConfig())),
        results=dict(line.split(" = ", 1) for line in lines if " = " in line),
        data=data,
        do_lower_case=next((value for value in lower if value is not None), None),
    )


def _huggingface_labels(config: _HuggingFaceConfig) -> tuple[str, ...]:
    """Returns the labels in a `config.json`; () if they are only numbered."""
    by_id = config.id2label or {}
    labels = tuple(by_id[id] for id in sorted(by_id, key=lambda id: (len(id), id)))
    numbered = tuple(f"LABEL_{id}" for id in range(len(labels)))
    return () if labels == numbered else labels
