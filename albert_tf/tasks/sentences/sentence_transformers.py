"""The files by which sentence-transformers turns texts into the same vectors."""

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
    """Return the settings of a folder of sentence-transformers, of any version; {} if it is none.

    Raises:
        InputError: If its vectors are made in another way.
    """
    path = os.path.join(folder, _POOLING)
    if not exists(path):
        return {}
    values = read_json(path, dict[str, Any])
    # Since version 6 it is named.
    named = [mode for mode in [values.get("pooling_mode")] if mode]
    named += [name for name in values if name.startswith("pooling_mode_") and values[name] is True]
    names = {**{mode: name for name, mode in _MODES.items()}, **{name: name for name in _MODES}}
    if len(named) != 1 or named[0] not in names:
        raise InputError(f"{path}: pools by {', '.join(named)}; must be {' or '.join(_MODES)}")
    settings: dict[str, Any] = {"pooling": names[named[0]]}
    places = ((_TRANSFORMER, "max_seq_length"), ("tokenizer_config.json", "model_max_length"))
    for file, name in places:
        path = os.path.join(folder, file)
        length = read_json(path, dict[str, Any]).get(name) if exists(path) else None
        if isinstance(length, int) and "max_seq_length" not in settings:
            settings["max_seq_length"] = length
    return settings
