"""Loads an export in a process with TensorFlow and TensorFlow Text, and nothing of this project.

    python standalone.py EXPORT_DIR INPUTS_NPZ OUTPUTS_NPZ TIMES_JSON

Run as a program it imports nothing of the package it stands in. The inputs are token ids by the
names that the encoder takes, `texts`, strings by the names that a task's folder takes, and batch
sizes and lengths to be `timed`; what becomes of them is written to the outputs by `folder/output`.
"""

import json
import os
import sys
import time

import numpy as np
import tensorflow as tf

TOKENS = ("input_word_ids", "input_mask", "input_type_ids")
TASKS = ("classifier", "squad", "choice")


def seconds_per_call(function, arguments: dict) -> float:
    """The median time of a call, after one that does not count."""
    function(**arguments)
    times = []
    while len(times) < 3 or sum(times) < 0.5:
        start = time.perf_counter()
        function(**arguments)
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def main(folder: str, inputs: str, outputs: str, times: str) -> None:
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
    for task in TASKS:
        place = os.path.join(folder, task)
        if os.path.exists(place):
            answers = answer(place, given)
            found |= {f"{task}/{name}": value for name, value in answers.items()}
    np.savez(outputs, **{name: np.asarray(value) for name, value in found.items()})

    latencies = []
    for batch, length in given["timed"].tolist():
        ones = dict.fromkeys(TOKENS, tf.ones([batch, length], tf.int32))
        latencies.append(
            [batch, length, seconds_per_call(encoder.signatures["serving_default"], ones)]
        )
    with open(times, "w", encoding="utf-8") as file:
        json.dump(latencies, file)


def pack(preprocess, texts) -> dict:
    """Ids of the texts one after the other, how many each has, and the texts as packed."""
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
    """What a task's model answers to strings, which are bytes."""
    import tensorflow_text  # noqa: F401  registers the operations

    model = tf.saved_model.load(folder)
    function = model.signatures["serving_default"]
    names = function.structured_input_signature[1]
    answers = function(**{name: tf.constant(given[name]) for name in names})
    return {name: without_objects(value) for name, value in answers.items()}


def without_objects(value) -> np.ndarray:
    """A tensor as an array, of bytes if it has strings."""
    array = value.numpy()
    return array.astype("S") if array.dtype == object else array


if __name__ == "__main__":
    sys.modules["albert_tf"] = None  # whoever imports it gets an error
    main(*sys.argv[1:])
