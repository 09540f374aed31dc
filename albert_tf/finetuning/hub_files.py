"""Files of the Hugging Face Hub among the flags of the fine-tuning programs."""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar

from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.hub.datasets import local_file

Options = TypeVar("Options", bound=FineTuningOptions)


def with_local_files(options: Options) -> Options:
    """The options with the local copy of each file that is `hf://datasets/...`.

    Raises:
        InputError: there is no such file, or it cannot be fetched.
    """
    local: dict[str, Any] = {}
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name.endswith("_file") and isinstance(value, str):
            local[field.name] = local_file(value, field.name)
        elif field.name.endswith("_files"):
            local[field.name] = tuple(local_file(path, field.name) for path in value)
    return dataclasses.replace(options, **local)
