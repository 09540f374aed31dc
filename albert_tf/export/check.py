"""Checks an export in a process that loads it without this package."""

import dataclasses
import functools
import inspect
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.export import standalone
from albert_tf.export.export_options import CheckOptions
from albert_tf.export.exported_encoder import (
    PRETRAINING_HEADS,
    SIGNATURES,
    example_tokens,
    features,
    outputs_of,
)
from albert_tf.export.task_export import TrainedModel, create_exported_model
from albert_tf.files import converted, exists, text_of, without_magic
from albert_tf.interop.adjacent_files import Label, described_checkpoint
from albert_tf.interop.file_names import ENCODER, EXPORT_FILE, PREPROCESS, SAVED_MODEL, read_export
from albert_tf.interop.heads import create_model, find_head
from albert_tf.interop.loading import Preset, load_weights, open_preset, open_weights
from albert_tf.task_kinds import TaskKind, kind_of, task_kinds
from albert_tf.tokenizers import Tokenizer

logger = logging.getLogger(__name__)

TOLERANCE = 1e-5  # larger than the differences between orders of float32 sums

_BATCHES = (1, 8, 32)

# What preprocessing handles: white space, case, accents, numbers, quotes, scripts, and empty text.
_TEXTS = (
    "The cat sat on the mat.",
    "",
    "   ",
    " leading,\ttabs\nand\r\nlines\u2028 too\u3000",
    "ÉCOLE Ångström naïve coöperate İstanbul ıI ﬁn ½ ① ²",
    "ΟΔΥΣΣΕΥΣ ΣΑΣ Σ 'Σ' ΑΣ\u0301 ΣΣ.",
    "1,234,567.89 in 2019, and 3,000; 9,",
    "`quoted'' \"text\" — it's [MASK] [CLS] <pad> C++ $5 ^ 50%",
    "今天天气 很好。かガｶﾞ 한국어 각",
    "Привет, мир! שלום مرحبا नमस्ते ภาษาไทย",
    "🤗 👩🏽\u200d🚀 zero\u200bwidth\u00adhyphen\ufeff\u0007control\ufffd",
    "antidisestablishmentarianism " + "x" * 250,
)


def _bytes(texts: Sequence[str]) -> np.ndarray:
    return np.array([text.encode() for text in texts])


# Inputs of a task's model, by name; `_task_inputs` makes up others.
_STRINGS = {
    "text": _bytes(_TEXTS),
    "text_pair": _bytes(_TEXTS[::-1]),
    "question": _bytes(_TEXTS),
    "context": _bytes([f"{first} {' '.join(_TEXTS)}" for first in _TEXTS]),
    "options": np.stack([_bytes(_TEXTS[n:] + _TEXTS[:n]) for n in range(4)], axis=1),
}


def _task_inputs(kind: TaskKind | None) -> dict[str, np.ndarray]:
    other = {int: np.zeros(len(_TEXTS), np.int32), str: _STRINGS["text"]}
    inputs = kind.inputs.items() if kind else ()
    return {name: _STRINGS[name] if name in _STRINGS else other[type_] for name, type_ in inputs}


def check(options: CheckOptions) -> None:
    """Check an export and log the results.

    Raises:
        InputError: If the export is incomplete, or its outputs differ from the model's.
    """
    folder = _folder(options)
    if options.init_checkpoint:
        described = described_checkpoint(options.init_checkpoint)
        options = dataclasses.replace(options, init_checkpoint=described)
    with arguments_renamed(name="words"):
        exported = open_preset(folder)
    model = create_model(find_head(exported.weights.tensors), exported.config, {})
    with arguments_renamed(path="init_checkpoint"):
        load_weights(model, options.init_checkpoint or folder)
    inputs = _inputs(exported.config)
    given = {**inputs, **_task_inputs(kind_of(_manifest(folder).head or ""))}
    timed = _timed(options, exported.config)
    found = _in_fresh_process(folder, given, timed)
    logger.info("%s: loads in a process without albert_tf", folder)

    _check_signatures(folder, found)
    for name, difference in _differences(found, model, inputs):
        logger.info("%s: differs from the model by at most %.2g", name, difference)
        if not difference <= TOLERANCE:
            raise InputError(
                f"{folder}: {name} differs from the model by {difference:.2g}, more than "
                f"{TOLERANCE:g}"
            )
    if exists(os.path.join(folder, PREPROCESS)):
        _check_ids(folder, exported.tokenizer, found)
        logger.info("%s: same ids as the tokenizer for %d texts", PREPROCESS, len(_TEXTS))
    if task := _check_task(folder, options, exported, found):
        logger.info("%s: same answers as the model for %d inputs", task, len(_TEXTS))
    for (batch, length), seconds in zip(timed, found["seconds"], strict=True):
        logger.info(
            "batch %2d, length %3d: %.1f ms, %.1f sequences/s",
            *(batch, length, 1000 * seconds, batch / seconds),
        )


def _folder(options: CheckOptions) -> str:
    words = [word for word in options.words if word.lower() != "check"]
    if len(words) != 1 or len(options.words) != 2:
        raise InputError("usage: python -m albert_tf.export check DIR")
    if not exists(os.path.join(words[0], ENCODER, SAVED_MODEL)):
        raise InputError(f"{words[0]}: not an export; it contains no {ENCODER}/")
    return words[0]


def _timed(options: CheckOptions, config: AlbertConfig) -> list[tuple[int, int]]:
    try:
        lengths = [int(length) for length in options.seq_lengths]
    except ValueError:
        given = ",".join(options.seq_lengths)
        raise InputError(f"`seq_lengths`={given}: must be whole numbers") from None
    longest = config.max_position_embeddings
    return [(batch, n) for n in lengths if n <= longest for batch in _BATCHES]


def _inputs(config: AlbertConfig) -> dict[str, np.ndarray]:
    length = min(48, config.max_position_embeddings)
    tokens = example_tokens(config, max(2, length // 3), length, batch=4)
    used = tokens["input_mask"].sum(axis=1, keepdims=True)
    masked = np.random.default_rng(1).integers(0, used, (4, 5), np.int32)
    return {**tokens, "masked_lm_positions": masked}


def _in_fresh_process(folder: str, inputs: dict, timed: list) -> dict[str, np.ndarray]:
    """Run `albert_tf.export.standalone` and return its outputs by name."""
    with tempfile.TemporaryDirectory() as place:
        names = [os.path.join(place, name) for name in ("in.npz", "out.npz")]
        arrays: dict[str, Any] = {
            **inputs,
            "timed": np.array(timed, np.int32).reshape(-1, 2),
            "texts": _bytes(_TEXTS),
        }
        np.savez(names[0], **arrays)
        words = [
            sys.executable,
            "-c",
            inspect.getsource(standalone),
            os.path.abspath(without_magic(os.path.join(folder, ""))),
            *names,
        ]
        done = subprocess.run(words, cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise InputError(f"{folder}: cannot be loaded and called ({reason})")
        with np.load(names[1]) as found:
            return dict(found)


def _check_signatures(folder: str, found: dict[str, np.ndarray]) -> None:
    heads = [name for name in PRETRAINING_HEADS if any(key.startswith(f"{name}/") for key in found)]
    expected = [name for name in SIGNATURES if name not in PRETRAINING_HEADS or name in heads]
    for name in expected:
        for output in outputs_of(name):
            if f"{name}/{output}" not in found:
                raise InputError(f"{folder}: the signature {name} has no output {output}")
    logger.info("signatures: %s", ", ".join(expected))


def _differences(
    found: dict[str, np.ndarray], model: keras.Model, inputs: dict[str, np.ndarray]
) -> Iterator[tuple[str, float]]:
    outputs = model(features(**inputs))
    per_layer = model.config.inner_group_num
    layers = outputs["encoder_outputs"][per_layer - 1 :: per_layer]
    expected = {name: outputs[name] for name in ("pooled_output", "sequence_output")}
    expected |= {f"layer_{number}": layer for number, layer in enumerate(layers)}
    expected |= {h.output: outputs[h.name] for h in PRETRAINING_HEADS.values() if h.name in outputs}
    for key, value in found.items():
        kind, _, output = key.partition("/")
        if kind == ENCODER or kind in SIGNATURES:
            yield key, float(np.abs(value - np.asarray(expected[output])).max())


def _check_ids(folder: str, tokenizer: Tokenizer, found: dict[str, np.ndarray]) -> None:
    lengths = found[f"{PREPROCESS}/lengths"]
    each = np.split(found[f"{PREPROCESS}/ids"], np.cumsum(lengths)[:-1])
    packed = found[f"{PREPROCESS}/input_word_ids"]
    for text, ids, row in zip(_TEXTS, each, packed, strict=True):
        expected = tokenizer.encode(text)
        room = len(row) - 2
        whole = [tokenizer.cls_id, *expected[:room], tokenizer.sep_id]
        whole += [tokenizer.pad_id] * (len(row) - len(whole))
        if ids.tolist() != expected or row.tolist() != whole:
            raise InputError(
                f"{folder}: {PREPROCESS}/ gives other ids for {text!r} than the tokenizer"
            )


@dataclasses.dataclass(frozen=True)
class _MadeFrom:
    task: dict[str, Any] | None = None
    labels: tuple[Label, ...] = ()
    results: dict[str, str] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class _Manifest:
    """What is checked of `export.json`."""

    head: str | None = None
    made_from: _MadeFrom = _MadeFrom()


def _manifest(folder: str) -> _Manifest:
    return converted(read_export(folder), os.path.join(folder, EXPORT_FILE), _Manifest)


def _check_task(
    folder: str, options: CheckOptions, exported: Preset, found: dict[str, np.ndarray]
) -> str | None:
    """Compare a fine-tuned model's answers with those of its export; return its folder, if any."""
    manifest_file, manifest = os.path.join(folder, EXPORT_FILE), _manifest(folder)
    head, made_from = manifest.head, manifest.made_from
    if not made_from.task:
        return None
    kind = kind_of(head or "")
    if head is None or kind is None:
        known = ", ".join(each.name for kind in task_kinds() for each in kind.heads)
        raise InputError(f"{manifest_file}: head={head!r}: must be one of {known}")
    task, export = kind.export_folder, kind.load("export")
    path = options.init_checkpoint or os.path.join(folder, task)
    settings: Any = converted(made_from.task, manifest_file, export.settings_class)
    weights = open_weights(path, config=exported.config)
    model = create_exported_model(head, exported.config, settings, weights)
    with arguments_renamed(path="init_checkpoint"):
        load_weights(model, path)
    labels = tuple(map(text_of, made_from.labels))
    adjacent = dataclasses.replace(exported.adjacent, labels=labels, results=made_from.results)
    trained = TrainedModel(head, model, exported.tokenizer, adjacent, settings)
    function = export(trained, []).signatures()["serving_default"]
    names = inspect.signature(function.python_function).parameters
    inputs = _task_inputs(kind)
    expected = function(**{name: tf.constant(inputs[name]) for name in names})
    for name, values in expected.items():
        given, values = found[f"{task}/{name}"], standalone.without_objects(values)
        agree: Callable[..., bool] = np.array_equal
        if values.dtype.kind == "f":
            agree = functools.partial(np.allclose, rtol=0, atol=TOLERANCE)
        if given.shape != values.shape or not agree(given, values):
            raise InputError(f"{folder}: {task}/ gives another {name} than the model")
    return task
