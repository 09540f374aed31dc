"""Runs one task in a new process and times its parts; started by `benchmarks.parts.startup`.

    python -m benchmarks.fresh NAME JSON

NAME is a key of `TASKS`, JSON its arguments. The last line of the output is a JSON object with the
seconds of each part. Libraries are imported where this is timed.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.children import run_child
from albert_tf.errors import InputError


class Clock:
    """Seconds of named parts."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def _import_tensorflow(clock: Clock) -> None:
    from albert_tf.environment import quiet_import

    with clock.part("import TensorFlow and Keras"), quiet_import():
        import keras  # noqa: F401
        import tensorflow  # noqa: F401


def first_step(config: dict, files: list[str], batch_size: int, length: int, predictions: int):
    """Return everything up to the first pretraining step on TFRecords, as in the command."""
    clock = Clock()
    _import_tensorflow(clock)
    with clock.part("import albert_tf"):
        from albert_tf.config import AlbertConfig
        from albert_tf.engines.tensorflow.batches import dataset
        from albert_tf.engines.tensorflow.devices import TensorFlowDevices
        from albert_tf.engines.tensorflow.engine import TensorFlowEngine
        from albert_tf.input.features import pretraining_features
        from albert_tf.input.record_batches import RecordStream
        from albert_tf.input.record_index import RecordIndex
        from albert_tf.modeling.heads import AlbertForPreTraining
        from albert_tf.modeling.losses import PretrainingObjective
        from albert_tf.optimization import create_optimizer
    with clock.part("build model and optimizer"):
        model = AlbertForPreTraining(AlbertConfig(**config))
        engine = TensorFlowEngine(TensorFlowDevices())
        optimizer = create_optimizer("lamb", 1e-4)
        step = engine.create_training_step(model, optimizer, PretrainingObjective())
    with clock.part("first batch"):
        features = pretraining_features(length, predictions)
        index = RecordIndex.create(files)
        stream = RecordStream(index, features, batch_size, 1, shuffle_buffer_size=10000)
        batches = iter(dataset(stream))
        next(batches)
    _steps(clock, lambda: step(batches, 1))
    return clock.seconds


def compiling(config: dict, batch_size: int, length: int, predictions: int, xla: bool):
    """Return time everything up to the first pretraining step on a batch in memory."""
    import tensorflow as tf

    from albert_tf.config import AlbertConfig
    from albert_tf.engines.tensorflow.devices import TensorFlowDevices
    from albert_tf.engines.tensorflow.engine import TensorFlowEngine
    from albert_tf.modeling.heads import AlbertForPreTraining
    from albert_tf.modeling.losses import PretrainingObjective
    from albert_tf.optimization import create_optimizer
    from benchmarks.implementations.workload import Workload

    clock = Clock()
    batch = Workload("pretraining", config, batch_size, length, predictions).batch()
    model = AlbertForPreTraining(AlbertConfig(**config))
    optimizer = create_optimizer("lamb", 1e-4)
    engine = TensorFlowEngine(TensorFlowDevices(jit_compile=xla))
    step = engine.create_training_step(model, optimizer, PretrainingObjective())
    batches = iter(tf.data.Dataset.from_tensors(batch).repeat())
    _steps(clock, lambda: step(batches, 1))
    return clock.seconds


def _steps(clock: Clock, step) -> None:
    """Time two steps; the difference is tracing and compiling."""
    with clock.part("first call"):
        step()
    with clock.part("step"):
        step()
    # A second step slower than the first can only be noise.
    clock.seconds["trace and compile"] = max(
        0.0, clock.seconds.pop("first call") - clock.seconds["step"]
    )


def load_export(folder: str, length: int):
    """Load a SavedModel and call it once."""
    clock = Clock()
    _import_tensorflow(clock)
    import tensorflow as tf

    with clock.part("load"):
        model = tf.saved_model.load(folder)
    signature = model.signatures["mlm"]
    inputs = {
        name: tf.zeros((1, 1 if name.startswith("masked") else length), spec.dtype)
        for name, spec in signature.structured_input_signature[1].items()
    }
    with clock.part("first call"):
        next(iter(signature(**inputs).values())).numpy()
    return clock.seconds


def load_preprocessing(folder: str):
    """Load the tokenizer of an export and tokenize a text."""
    clock = Clock()
    _import_tensorflow(clock)
    with clock.part("import TensorFlow Text"):
        import tensorflow_text  # noqa: F401
    import tensorflow as tf

    with clock.part("load"):
        model = tf.saved_model.load(folder)
    with clock.part("first call"):
        model(tf.constant(["How fast it starts."]))["input_word_ids"].numpy()
    return clock.seconds


def load_weights(folder: str, length: int):
    """Our encoder with the weights of a folder, and its first forward pass."""
    clock = Clock()
    _import_tensorflow(clock)
    with clock.part("import the library"):
        from albert_tf import AlbertConfig, AlbertEncoder, load_weights
    with clock.part("load"):
        encoder = AlbertEncoder(AlbertConfig.from_json_file(f"{folder}/config.json"))
        load_weights(encoder, folder)
    with clock.part("first call"):
        import numpy as np

        ids = np.ones((1, length), np.int32)
        outputs = encoder({"input_ids": ids, "input_mask": ids, "segment_ids": ids - 1})
        np.asarray(outputs["pooled_output"])
    return clock.seconds


def hugging_face(folder: str, length: int):
    """Return time the first forward pass of Hugging Face's model, loading included."""
    clock = Clock()
    with clock.part("import PyTorch"):
        import torch
    with clock.part("import the library"):
        from transformers import AlbertModel
    with clock.part("load"):
        model = AlbertModel.from_pretrained(folder)
    with clock.part("first call"), torch.inference_mode():
        model(torch.ones((1, length), dtype=torch.long)).pooler_output.numpy()
    return clock.seconds


TASKS = {
    "first_step": first_step,
    "compiling": compiling,
    "load_export": load_export,
    "load_preprocessing": load_preprocessing,
    "load_weights": load_weights,
    "hugging_face": hugging_face,
}


def start(name: str, **arguments: Any) -> dict[str, float]:
    """Run a task in a new process; return seconds of its parts and, as "all", of the process.

    Raises:
        InputError: If it fails; the message contains the last line of its error output.
    """
    words = [sys.executable, "-m", "benchmarks.fresh", name, json.dumps(arguments)]
    began = time.perf_counter()
    output = run_quietly(words)
    whole = time.perf_counter() - began
    return {**json.loads(output.splitlines()[-1]), "all": whole}


def run_quietly(words: list[str], variables: Mapping[str, str] | None = None) -> str:
    """Return the output of a command, with `variables` in addition to the environment.

    Raises:
        InputError: If it fails; the message contains the last line of its error output.
    """
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **(variables or {})}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    done = run_child(words, text=True, env=environment, **pipes)
    if done.returncode:
        message = (done.stderr.strip() or "no error message").splitlines()[-1]
        raise InputError(
            f"{' '.join(words[1:4])} ended with exit code {done.returncode}: {message}"
        )
    return done.stdout


if __name__ == "__main__":
    print(json.dumps(TASKS[sys.argv[1]](**json.loads(sys.argv[2]))))
