"""TFLite files of a model at fixed lengths, and how far their outputs are from the model's."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.files import make_folder, write_bytes

FOLDER = "tflite"

# Sequences that outputs are compared on.
_COMPARED = 8


class LiteFile(NamedTuple):
    """A file, and what was measured of it.

    Attributes:
        name: of the file.
        size: bytes.
        differences: output -> the largest difference from the model's, and the largest absolute
            value that the model's has.
    """

    name: str
    size: int
    differences: dict[str, tuple[float, float]]


# Name of a precision -> optimisations that the converter is asked for.
PRECISIONS = {
    "float32": [],
    "int8": [tf.lite.Optimize.DEFAULT],  # kernels in int8, activations in float32
}

_OF_ENCODER = ("pooled_output", "sequence_output")
# Kind of model -> the outputs of its files.
OUTPUTS = {
    "encoder": _OF_ENCODER,
    "pretraining": _OF_ENCODER,
    "classifier": ("logits",),
    "span": ("start_logits", "end_logits"),
}


def read_lengths(head: str, given: tuple[str, ...], longest: int) -> tuple[int, ...]:
    """The lengths of `--tflite_lengths`, each once.

    Args:
        head: kind of model, a key of `albert_tf.interop.models.HEADS`.
        given: of the flag.
        longest: sequence that the model can read.

    Raises:
        InputError: one is no number or out of range, or such a model cannot be written.
    """
    flag = f"--tflite_lengths={','.join(given)}"
    if given and head not in OUTPUTS:
        raise InputError(
            f"{flag}: a model with the head {head} cannot be written; possible are "
            f"{', '.join(OUTPUTS)}"
        )
    try:
        lengths = tuple(dict.fromkeys(map(int, given)))
    except ValueError:
        raise InputError(f"{flag}: must be numbers separated by commas") from None
    if not all(1 <= length <= longest for length in lengths):
        raise InputError(f"{flag}: must be 1 to {longest}, the model's max_position_embeddings")
    return lengths


def write_lite_files(
    folder: str, head: str, model: keras.Model, lengths: tuple[int, ...]
) -> list[LiteFile]:
    """Writes a file of every length and precision, and prints how far its outputs are off.

    Their signature `serving_default` takes `input_word_ids`, `input_mask` and `input_type_ids`,
    int32 `[1, length]`; the outputs are those of `OUTPUTS`.

    Args:
        folder: where to; it is made.
        head: key of `OUTPUTS`.
        model: with its weights.
        lengths: of the sequences, in tokens.
    """
    make_folder(folder, "export_path")
    name = "encoder" if OUTPUTS[head] == _OF_ENCODER else head
    written = []
    for length in lengths:
        function = _function(model, OUTPUTS[head], length)
        examples = _examples(model.config.vocab_size, length)
        expected = _stacked(function, examples)
        for precision, optimizations in PRECISIONS.items():
            content = _converted(function, model, optimizations)
            file = f"{name}_{length}_{precision}.tflite"
            write_bytes(os.path.join(folder, file), content)
            actual = _stacked(_runner(content), examples)
            differences = {
                output: (
                    float(np.abs(actual[output] - values).max()),
                    float(np.abs(values).max()),
                )
                for output, values in expected.items()
            }
            written.append(LiteFile(file, len(content), differences))
            told = (
                f"{output} off by at most {off:.2g} (largest value {largest:.3g})"
                for output, (off, largest) in differences.items()
            )
            print(f"{file}: {len(content):,} bytes; {', '.join(told)}")
    return written


def _function(model: keras.Model, outputs: tuple[str, ...], length: int):
    names = ("input_word_ids", "input_mask", "input_type_ids")
    specs = [tf.TensorSpec([1, length], tf.int32, name) for name in names]

    @tf.function(autograph=False, input_signature=specs)
    def serving_default(input_word_ids, input_mask, input_type_ids):
        features = {
            "input_ids": input_word_ids,
            "input_mask": input_mask,
            "segment_ids": input_type_ids,
        }
        given = model(features)
        return {output: given[output] for output in outputs}

    return serving_default


def _converted(function, model: keras.Model, optimizations: list) -> bytes:
    owner = tf.Module()
    owner.serving_default = function
    owner.weights = [weight.value for weight in model.weights]
    concrete = [function.get_concrete_function()]
    converter = tf.lite.TFLiteConverter.from_concrete_functions(concrete, owner)
    converter.optimizations = optimizations
    return converter.convert()


def _runner(content: bytes) -> Callable[..., dict[str, np.ndarray]]:
    with warnings.catch_warnings():  # that the interpreter is to move to a package of its own
        warnings.simplefilter("ignore")
        interpreter = tf.lite.Interpreter(model_content=content)
    return interpreter.get_signature_runner("serving_default")


def _examples(vocab_size: int, length: int) -> list[dict[str, np.ndarray]]:
    """Sequences of random tokens, shorter and longer ones, with a second segment."""
    random = np.random.default_rng(0)
    examples = []
    for used in np.linspace(min(8, length), length, _COMPARED).astype(int):
        mask = np.arange(length) < used
        ids = random.integers(0, vocab_size, length) * mask
        types = (np.arange(length) >= used // 2) & mask
        named = {"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}
        examples.append({name: value[None].astype(np.int32) for name, value in named.items()})
    return examples


def _stacked(call: Callable, examples: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    outputs = [call(**example) for example in examples]
    return {name: np.stack([np.asarray(each[name]) for each in outputs]) for name in outputs[0]}
