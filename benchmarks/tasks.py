"""Runs one task in a new process and times its parts; started by the parts of the suite.

    python -m benchmarks.tasks NAME JSON

NAME is a function of this file, JSON its arguments. The last line of the output is a JSON object
with the seconds of each part. Libraries are imported where this is timed.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from albert_tf.children import run_child
from albert_tf.errors import InputError

_BATCH, _WARM_UP_BATCHES = 256, 50


class Clock:
    """Seconds of named parts."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def part(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = time.perf_counter() - start


def compiling(clock: Clock, config: dict, xla: bool) -> None:
    """Time tracing and compiling a pretraining step: the first step minus the second."""
    from benchmarks.implementations.ours import prepare
    from benchmarks.implementations.workload import Workload

    run = prepare(Workload("pretraining", config, 1, 32, 4), jit_compile=xla)
    for name in ("first call", "step"):
        with clock.part(name):
            run(1)
    # A second step slower than the first can only be noise.
    compiled = clock.seconds.pop("first call") - clock.seconds["step"]
    clock.seconds["trace and compile"] = max(0.0, compiled)


def load_export(clock: Clock, folder: str, length: int) -> None:
    """Load a SavedModel and call it once."""
    with clock.part("import TensorFlow"):
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


def load_weights(clock: Clock, folder: str, length: int) -> None:
    """Load our encoder with the weights of a folder, and call it once."""
    import numpy as np

    with clock.part("import the library"):
        from albert_tf import AlbertConfig, AlbertEncoder, load_weights
    with clock.part("load"):
        encoder = AlbertEncoder(AlbertConfig.from_json_file(f"{folder}/config.json"))
        load_weights(encoder, folder)
    with clock.part("first call"):
        ids = np.ones((1, length), np.int32)
        outputs = encoder({"input_ids": ids, "input_mask": ids, "segment_ids": ids - 1})
        np.asarray(outputs["pooled_output"])


def hugging_face(clock: Clock, folder: str, length: int) -> None:
    """Load Hugging Face's encoder with the weights of a folder, and call it once."""
    with clock.part("import the library"):
        import torch
        from transformers import AlbertModel
    with clock.part("load"):
        model = AlbertModel.from_pretrained(folder)
    with clock.part("first call"), torch.inference_mode():
        model(torch.ones((1, length), dtype=torch.long)).pooler_output.numpy()


def tokenize(clock: Clock, text: str, spm_model_file: str) -> None:
    """Tokenize the lines of a file as create_pretraining_data does, and by SentencePiece alone."""
    import sentencepiece

    from albert_tf.tokenizers import Tokenizer

    lines = pathlib.Path(text).read_text("utf-8").splitlines()
    Tokenizer.load(spm_model_file).encode_flat(lines[:1000])  # compiles
    tokenizer = Tokenizer.load(spm_model_file)
    with clock.part("tokenize"):
        tokenizer.encode_flat(lines)
    prepared = [tokenizer.preprocess(line) for line in lines]
    processor = sentencepiece.SentencePieceProcessor(model_file=spm_model_file)
    with clock.part("SentencePiece alone"):
        processor.encode(prepared, num_threads=1)


def read_batches(
    clock: Clock, stage: str, files: list[str], length: int, predictions: int, cores: int,
    examples: int,
) -> None:  # fmt: skip
    """Read so many examples on so many cores: records, parsed records, or training batches."""
    # Before TensorFlow is loaded, which starts a thread for each.
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])
    import tensorflow as tf

    from albert_tf.engines.tensorflow.batches import dataset
    from albert_tf.input.features import pretraining_features, unmasked_features
    from albert_tf.input.manifest import dynamic_masks, find_manifests
    from albert_tf.input.record_batches import RecordStream
    from albert_tf.input.record_index import RecordIndex

    masks = dynamic_masks(find_manifests(files), predictions)
    features = unmasked_features(length) if masks else pretraining_features(length, predictions)
    if stage.endswith("masks"):
        index = RecordIndex.create(files)
        batches = dataset(
            RecordStream(index, features, _BATCH, 1, masks, shuffle_buffer_size=10000)
        )
    else:
        names = tf.data.Dataset.from_tensor_slices(files)
        batches = names.interleave(tf.data.TFRecordDataset, cycle_length=len(files))
        batches = batches.repeat().batch(_BATCH, drop_remainder=True)
        if stage == "parsed":
            fixed = {
                name: tf.io.FixedLenFeature(feature.shape, feature.dtype)
                for name, feature in features.items()
            }
            batches = batches.map(lambda records: tf.io.parse_example(records, fixed))
        batches = batches.prefetch(4)
    iterator = iter(batches)
    for _ in range(_WARM_UP_BATCHES):
        next(iterator)
    with clock.part("read"):
        for _ in range(examples // _BATCH):
            next(iterator)


def start(name: str, **arguments: Any) -> dict[str, float]:
    """Run a task in a new process; return seconds of its parts and, as "all", of the process."""
    began = time.perf_counter()
    output = run_python("-m", "benchmarks.tasks", name, json.dumps(arguments))
    whole = time.perf_counter() - began
    return {**json.loads(output.splitlines()[-1]), "all": whole}


def run_python(*words: str) -> str:
    """Return the output of Python; errors as of `run_quietly`."""
    return run_quietly([sys.executable, *words])


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
    timed = Clock()
    globals()[sys.argv[1]](timed, **json.loads(sys.argv[2]))
    print(json.dumps(timed.seconds))
