"""Loads an export in a process that has TensorFlow and TensorFlow Text but not this package.

    python standalone.py EXPORT_DIR INPUTS_NPZ OUTPUTS_NPZ

Run as a program, this file imports nothing from the package that it belongs to. INPUTS_NPZ contains
token ids under the names of the encoder's inputs, `texts`, strings under the names of the inputs of
a task's folder, and batch sizes and lengths to time (`timed`). Outputs are written to OUTPUTS_NPZ
under `folder/output`, and the seconds of a call for each batch under `seconds`.
"""

import os
import sys
import time
from typing import Any

import numpy as np
import tensorflow as tf

TOKENS = ("input_word_ids", "input_mask", "input_type_ids")


def seconds_per_call(function, arguments: dict) -> float:
    """Return the median time of a call, after a warm-up call."""
    function(**arguments)
    times: list[float] = []
    while len(times) < 3 or sum(times) < 0.5:
        start = time.perf_counter()
        function(**arguments)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main(folder: str, inputs: str, outputs: str) -> None:
    given = np.load(inputs)
    tokens = {name: tf.constant(given[name]) for name in TOKENS}
    encoder = tf.saved_model.load(os.path.join(folder, "encoder"))
    called = encoder(tokens)
    found = {f"encoder/{name}": called[name] for name in ("pooled_output", "sequence_output")}
    found |= {f"encoder/layer_{i}": layer for i, layer in enumerate(called["encoder_outputs"])}
    values = {
        **tokens,
        **dict(zip(("input_ids", "input_mask", "segment_ids"), tokens.values(), strict=True)),
        "masked_lm_positions": tf.constant(given["masked_lm_positions"]),
    }
    for name, function in encoder.signatures.items():
        names = function.structured_input_signature[1]
        results = function(**{each: values[each] for each in names})
        found |= {f"{name}/{output}": value for output, value in results.items()}
    preprocess = os.path.join(folder, "preprocess")
    if os.path.exists(preprocess):
        import tensorflow_text  # noqa: F401  registers the operations

        found |= pack(tf.saved_model.load(preprocess), tf.constant(given["texts"]))
    for task in set(os.listdir(folder)) - {"encoder", "preprocess"}:
        place = os.path.join(folder, task)
        if os.path.exists(os.path.join(place, "saved_model.pb")):
            found |= {f"{task}/{name}": value for name, value in answer(place, given).items()}
    found["seconds"] = [
        seconds_per_call(
            encoder.signatures["serving_default"],
            dict.fromkeys(TOKENS, tf.ones([batch, length], tf.int32)),
        )
        for batch, length in given["timed"].tolist()
    ]
    arrays: dict[str, Any] = {name: np.asarray(value) for name, value in found.items()}
    np.savez(outputs, **arrays)


def pack(preprocess, texts) -> dict:
    """Return the ids of all texts in one array, their number per text, and the packed texts."""
    ids = preprocess.tokenize(texts)
    while ids.ragged_rank > 1:
        ids = ids.merge_dims(1, 2)
    packed = preprocess(texts)
    return {
        "preprocess/ids": ids.values,
        "preprocess/lengths": ids.row_lengths(),
        **{f"preprocess/{name}": value for name, value in packed.items()},
    }


def answer(folder: str, given) -> dict:
    """Return the outputs of a task's model for strings, which are bytes."""
    import tensorflow_text  # noqa: F401  registers the operations

    function = tf.saved_model.load(folder).signatures["serving_default"]
    names = function.structured_input_signature[1]
    answers = function(**{name: tf.constant(given[name]) for name in names})
    return {name: without_objects(value) for name, value in answers.items()}


def without_objects(value) -> np.ndarray:
    """Convert a tensor to an array; strings become fixed-length bytes."""
    array = value.numpy()
    return array.astype("S") if array.dtype == object else array


if __name__ == "__main__":
    sys.modules["albert_tf"] = None  # type: ignore[assignment]  # importing it raises an error
    main(*sys.argv[1:])
