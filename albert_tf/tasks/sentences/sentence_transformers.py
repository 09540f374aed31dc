"""The files by which sentence-transformers turns texts into the same vectors."""

from __future__ import annotations

import dataclasses
import json
import os
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, read_json
from albert_tf.finetuning.trained_settings import read_settings
from albert_tf.tasks.sentences import KIND
from albert_tf.tasks.sentences.options import SentenceSettings

_TRANSFORMER = "sentence_bert_config.json"
_POOLING = "1_Pooling/config.json"
_MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


@dataclasses.dataclass(frozen=True)
class _Transformer:
    max_seq_length: int | None = None


def files_of(path: str, config: AlbertConfig) -> dict[str, str]:
    """Return file name -> text, besides the weights, their config and the tokenizer.

    One is for this package, which then reads the folder as one of sentence vectors.

    Args:
        path: of the original weights, next to which the settings are.
        config: of the encoder.
    """
    settings = read_settings(SentenceSettings, path, KIND.settings_file, {})
    length = settings.max_seq_length or config.max_position_embeddings
    modules = [("", "Transformer"), ("1_Pooling", "Pooling")]
    contents: dict[str, Any] = {
        "modules.json": [
            {
                "idx": number,
                "name": str(number),
                "path": folder,
                "type": f"sentence_transformers.models.{name}",
            }
            for number, (folder, name) in enumerate(modules)
        ],
        _TRANSFORMER: {"max_seq_length": length, "do_lower_case": False},
        _POOLING: {
            "word_embedding_dimension": config.hidden_size,
            **{mode: name == settings.pooling for name, mode in _MODES.items()},
        },
        KIND.settings_file: {"max_seq_length": length, "pooling": settings.pooling},
    }
    return {name: json.dumps(content, indent=2) + "\n" for name, content in contents.items()}


def read_settings_in(folder: str) -> dict[str, Any]:
    """Return the settings of a folder of sentence-transformers; {} if it is none.

    Raises:
        InputError: If its vectors are made in another way.
    """
    settings: dict[str, Any] = {}
    path = os.path.join(folder, _POOLING)
    if exists(path):
        values = read_json(path, dict[str, Any])
        chosen = [name for name, value in values.items() if value is True and "_mode_" in name]
        poolings = [pooling for pooling, mode in _MODES.items() if chosen == [mode]]
        if not poolings:
            raise InputError(f"{path}: {', '.join(chosen)}: must be {' or '.join(_MODES.values())}")
        settings["pooling"] = poolings[0]
    path = os.path.join(folder, _TRANSFORMER)
    if exists(path) and (length := read_json(path, _Transformer).max_seq_length):
        settings["max_seq_length"] = length
    return settings
