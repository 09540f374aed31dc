"""TFLite files of a model at fixed lengths, with the differences of their outputs.

`tf.lite` writes them: LiteRT, its successor, has no converter of functions of TensorFlow. They are
run by LiteRT, as they will be where they are used.
"""

import importlib.util
import logging
import os
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export.exported_encoder import SIGNATURES, example_tokens, features
from albert_tf.files import make_folder, write_bytes
from albert_tf.task_kinds import heads, kind_of

logger = logging.getLogger(__name__)

FOLDER = "tflite"

# Number of sequences on which outputs are compared.
_COMPARED = 8

# Output -> largest absolute difference from the model, and largest absolute value of the model's.
Differences = dict[str, tuple[float, float]]

# Precision -> optimizations of the converter.
PRECISIONS = {
    "float32": [],
    "int8": [tf.lite.Optimize.DEFAULT],  # int8 kernels, float32 activations
}


def read_lengths(head: str, tflite_lengths: tuple[str, ...], longest: int) -> tuple[int, ...]:
    """Parse the lengths of TFLite files and remove duplicates.

    Raises:
        InputError: If a length is not a number or above `longest`, such a model cannot be written,
            or LiteRT is not installed.
    """
    given = f"`tflite_lengths`={','.join(tflite_lengths)}"
    if tflite_lengths and not heads()[head].lite_outputs:
        supported = ", ".join(each.name for each in heads().values() if each.lite_outputs)
        raise InputError(
            f"{given}: not supported for a model with the head {head}; supported heads are "
            f"{supported}"
        )
    try:
        lengths = tuple(dict.fromkeys(map(int, tflite_lengths)))
    except ValueError:
        raise InputError(f"{given}: must be numbers separated by commas") from None
    if not all(1 <= length <= longest for length in lengths):
        raise InputError(f"{given}: must be 1 to {longest}, the model's max_position_embeddings")
    if lengths and importlib.util.find_spec("ai_edge_litert") is None:
        raise InputError(f"{given}: LiteRT is not installed; pip install 'albert-tf[export]'")
    return lengths


def write_lite_files(
    folder: str, head: str, model: keras.Model, lengths: tuple[int, ...]
) -> dict[str, Differences]:
    """Write a file for every length and precision into a new folder; return how accurate each is.

    Their signature `serving_default` takes `input_word_ids`, `input_mask` and `input_type_ids`,
    int32 `[1, length]`; the outputs are those that the head names.
    """
    make_folder(folder, "export_path")
    name, outputs = head if kind_of(head) else "encoder", heads()[head].lite_outputs
    written = {}
    for length in lengths:
        function = _function(model, outputs, length)
        inputs = example_tokens(model.config, 8, length, _COMPARED)
        examples = [{n: v[row : row + 1] for n, v in inputs.items()} for row in range(_COMPARED)]
        expected = _stacked(function, examples)
        for precision, optimizations in PRECISIONS.items():
            content = _converted(function, model, optimizations)
            file = f"{name}_{length}_{precision}.tflite"
            write_bytes(os.path.join(folder, file), content)
            actual = _stacked(_runner(content), examples)
            written[file] = {
                output: (float(np.abs(actual[output] - values).max()), float(np.abs(values).max()))
                for output, values in expected.items()
            }
            accuracy = (
                f"{output} differs by at most {difference:.2g} (largest value {largest:.3g})"
                for output, (difference, largest) in written[file].items()
            )
            logger.info("%s: %s bytes; %s", file, f"{len(content):,}", ", ".join(accuracy))
    return written


def _function(model: keras.Model, outputs: tuple[str, ...], length: int):
    names = SIGNATURES["serving_default"]
    specs = [tf.TensorSpec([1, length], tf.int32, name) for name in names]

    @tf.function(autograph=False, input_signature=specs)
    def serving_default(input_word_ids, input_mask, input_type_ids):
        computed = model(features(input_word_ids, input_mask, input_type_ids))
        return {output: computed[output] for output in outputs}

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
    from ai_edge_litert.interpreter import Interpreter

    return Interpreter(model_content=content).get_signature_runner("serving_default")


def _stacked(call: Callable, examples: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    outputs = [call(**example) for example in examples]
    return {name: np.stack([np.asarray(each[name]) for each in outputs]) for name in outputs[0]}
