"""The model card of an export: how to load each folder, and measurements."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from albert_tf import files
from albert_tf.config import AlbertConfig
from albert_tf.export.tflite import LiteFile
from albert_tf.interop import model_card

_ENCODER = """import tensorflow as tf
import tensorflow_text  # the operations of the preprocessor

preprocess = tf.saved_model.load("{name}/preprocess")
encoder = tf.saved_model.load("{name}/encoder")
outputs = encoder(preprocess(tf.constant(["The cat sat."])))
outputs["pooled_output"]  # [batch, hidden]
outputs["sequence_output"]  # [batch, seq, hidden]
"""

_ENCODER_ALONE = """import tensorflow as tf

encoder = tf.saved_model.load("{name}/encoder")
# int32 [batch, seq]
inputs = {{"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}}
encoder(inputs)["pooled_output"]  # [batch, hidden]
"""

_TASK = """import tensorflow as tf
import tensorflow_text  # the operations of its tokenizer

answer = tf.saved_model.load("{name}/{folder}").signatures["serving_default"]
answer({inputs})
"""

_LITE = """from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter("{name}/tflite/{file}")
run = interpreter.get_signature_runner("serving_default")
run(input_word_ids=ids, input_mask=mask, input_type_ids=types)  # int32 [1, length]
"""


class Latency(NamedTuple):
    """The time that a SavedModel takes for a batch.

    Attributes:
        batch: number of sequences.
        length: their length in tokens.
        milliseconds: median of several calls.
    """

    batch: int
    length: int
    milliseconds: float


def write_card(
    folder: str,
    facts: model_card.ModelFacts,
    tasks: Mapping[str, str],
    lite_files: Iterable[LiteFile] = (),
    latencies: Iterable[Latency] = (),
) -> None:
    """Write the `README.md` of an export, whose other files must already be in place.

    Args:
        folder: folder of the export.
        facts: facts about the model.
        tasks: folder of a task -> example arguments of its signature, as Python code.
        lite_files: TFLite files in the export.
        latencies: of the encoder on this machine.
    """
    lite_files = list(lite_files)
    paths = list(files.sizes(folder))
    loading = []
    if any(path.startswith("preprocess/") for path in paths):
        loading.append(_ENCODER.format(name=facts.name))
    elif any(path.startswith("encoder/") for path in paths):
        loading.append(_ENCODER_ALONE.format(name=facts.name))
    loading += [
        _TASK.format(name=facts.name, folder=task, inputs=inputs) for task, inputs in tasks.items()
    ]
    if lite_files:
        loading.append(_LITE.format(name=facts.name, file=lite_files[0].name))
    measured = [*_lite_section(lite_files), *_latency_section(latencies)]
    model_card.write_card(facts, folder, loading, measured)


def _lite_section(lite_files: list[LiteFile]) -> list[str]:
    rows = {
        f"{file.name}, {output}": (f"{difference:.2g}", f"{largest:.3g}")
        for file in lite_files
        for output, (difference, largest) in file.differences.items()
    }
    columns = ("TFLite file, output", "largest difference from the model", "largest value")
    return [model_card.table("Outputs of TFLite files", rows, columns)] if rows else []


def _latency_section(latencies: Iterable[Latency]) -> list[str]:
    rows = {
        f"{each.batch} x {each.length} tokens": f"{each.milliseconds:.3g}" for each in latencies
    }
    columns = ("batch", "milliseconds")
    return [model_card.table("Latency of the encoder", rows, columns)] if rows else []


def measure_latencies(signature: Callable, config: AlbertConfig) -> Iterator[Latency]:
    """Yield the latency of an encoder on this machine for batches of 1, 8 and 32.

    Args:
        signature: a signature that takes `input_word_ids`, `input_mask` and `input_type_ids`.
        config: config of the encoder.
    """
    random = np.random.default_rng(0)
    for length in sorted({min(length, config.max_position_embeddings) for length in (32, 128)}):
        for batch in (1, 8, 32):
            ids = tf.constant(random.integers(0, config.vocab_size, (batch, length)), tf.int32)
            inputs = {
                "input_word_ids": ids,
                "input_mask": tf.ones_like(ids),
                "input_type_ids": tf.zeros_like(ids),
            }
            times = []
            for _ in range(4):  # the first call is a warm-up
                start = time.perf_counter()
                signature(**inputs)["pooled_output"].numpy()
                times.append(time.perf_counter() - start)
            yield Latency(batch, length, 1000 * statistics.median(times[1:]))
