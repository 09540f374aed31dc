"""What the outputs of a classifier mean whose weights no training folder describes."""

from __future__ import annotations

import dataclasses
import os

from albert_tf.errors import InputError
from albert_tf.files import exists, read_json
from albert_tf.interop.layout import CHOICE_FILE
from albert_tf.text_models.presets import Preset

# `problem_type` in a Hugging Face config -> key of `TARGETS`.
_PROBLEM_TYPES = {
    "single_label_classification": "classification",
    "multi_label_classification": "multi_label",
    "regression": "regression",
}


@dataclasses.dataclass(frozen=True)
class _HuggingFaceConfig:
    problem_type: str | None = None


def has_classifier(preset: Preset) -> bool:
    """Whether the weights have a classifier's head, which multiple choice stores as well."""
    is_choice = exists(os.path.join(preset.folder, CHOICE_FILE))
    return preset.head == "classifier" and not is_choice


def recorded_kind(preset: Preset) -> str | None:
    """What a Hugging Face config says about the outputs of a classifier, a key of `TARGETS`."""
    if not has_classifier(preset):
        return None
    path = os.path.join(preset.folder, "config.json")
    recorded = read_json(path, _HuggingFaceConfig).problem_type if exists(path) else None
    if recorded in _PROBLEM_TYPES:
        return _PROBLEM_TYPES[recorded]
    return "regression" if _outputs_of(preset) == 1 else None


def labels_of_outputs(preset: Preset, kind: str, given: tuple[str, ...] | None) -> tuple[str, ...]:
    """The labels of the outputs; () if they are unknown or numbers.

    Args:
        preset: the weights.
        kind: a key of `TARGETS`.
        given: what the user calls the labels.

    Raises:
        InputError: the weights have another number of outputs.
    """
    if not has_classifier(preset) or kind == "regression":
        if kind == "regression" and given:
            raise InputError(f"`labels`={given}: `target`=regression predicts numbers")
        return given or ()
    count = _outputs_of(preset)
    if given is not None and len(given) != count:
        raise InputError(f"`labels`={given}: {preset.name} has {count} outputs")
    names = preset.companions.labels
    return given or (names if len(names) == count else tuple(f"LABEL_{id}" for id in range(count)))


def _outputs_of(preset: Preset) -> int:
    return preset.weights.tensors["classifier/output_weights"].shape[0]
