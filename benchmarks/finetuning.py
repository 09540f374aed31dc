"""Speed of fine-tuning: dynamic padding against full padding and Hugging Face PyTorch.

    python -m benchmarks.finetuning --data_dir=../shared/data/glue/SST-2 \\
        --spm_model_file=30k-clean.model

Prints sequences per second in training and in prediction, on the sentences of SST-2 (or any
train.tsv and dev.tsv with a column `sentence`). All implementations run in --repeats interleaved
rounds on the same machine; the table shows the median and the range. Hugging Face runs in a process
of its own, on the same token ids; only one of them computes at a time. --nohugging_face leaves it
out.

All implementations stay in memory: ALBERT-base in float32 at 16 x 512 tokens takes about 10 GiB
here and as much in the other process. --batch_size=8 halves that.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.options import command, option, seed_option
from albert_tf.quiet import quiet_import


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    data_dir: str = option(help="Folder with train.tsv and dev.tsv, as of SST-2.")
    spm_model_file: str = option(help="Vocabulary.")
    albert_config_file: str | None = option(None, "Model; without it, ALBERT-base, version 2.")
    lengths: tuple[str, ...] = option(("128", "512"), "Lengths of full padding to compare with.")
    batch_size: int = option(32, "Sequences in a batch.")
    steps: int = option(20, "Training steps in a round.")
    predictions: int = option(320, "Sequences predicted in a round.")
    repeats: int = option(5, "Rounds.")
    hugging_face: bool = option(True, "Measure Hugging Face too (the extra `peers`).")
    dtype: str = option("float32", "Precision.", choices=("float32", "bfloat16"))
    random_seed: int = seed_option(12345, "Seed of the order.")


# A way to compute: `train(steps)` and `predict()` return after the work is done.
Ways = dict[str, tuple[Callable[[int], None], Callable[[], None]]]


def run(options: Options) -> None:
    if options.albert_config_file:
        config = AlbertConfig.from_json_file(options.albert_config_file)
    else:
        config = AlbertConfig.preset("base")
    too_long = [n for n in options.lengths if int(n) > config.max_position_embeddings]
    if too_long:
        raise InputError(f"--lengths={','.join(options.lengths)}: the model has fewer positions")
    if options.hugging_face and not all(map(importlib.util.find_spec, ("torch", "transformers"))):
        raise InputError(
            "`hugging_face`: needs PyTorch and transformers (the extra `peers`); "
            "--nohugging_face measures without them"
        )
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        with quiet_import():
            ways = _own_ways(options, config, folder)
        if options.hugging_face:
            peer = stack.enter_context(_Peer(options, config, folder))
            for padding in (*options.lengths, "longest of the batch"):
                ways[f"Hugging Face PyTorch, padded to {padding}"] = peer.way(padding)
        seconds: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in ways}
        for repeat in range(options.repeats + 1):
            for name, (train, predict) in ways.items():
                for times, work in zip(
                    seconds[name], (lambda t=train: t(options.steps), predict), strict=True
                ):
                    start = time.perf_counter()
                    work()
                    if repeat:  # the first round warms up compilers and caches
                        times.append(time.perf_counter() - start)
    _print_table(options, seconds)


def _print_table(options: Options, seconds: dict[str, tuple[list[float], list[float]]]) -> None:
    print(f"batch {options.batch_size}, {options.dtype}, {options.repeats} rounds")
    print("| way | training, sequences/s | prediction, sequences/s |\n|---|---|---|")
    sequences = options.steps * options.batch_size, options.predictions
    for name, both in seconds.items():
        cells = []
        for count, times in zip(sequences, both, strict=True):
            low, middle, high = (count / f(times) for f in (max, statistics.median, min))
            cells.append(f"{middle:.1f} ({low:.1f} to {high:.1f})")
        print(f"| {name} | {' | '.join(cells)} |")


def _own_ways(options: Options, config: AlbertConfig, folder: str) -> Ways:
    """Ours; writes the token ids for the peer as well."""
    import keras
    import tensorflow as tf

    from albert_tf.engines.device_options import DTYPE_POLICIES
    from albert_tf.engines.tensorflow.batches import dataset
    from albert_tf.engines.tensorflow.engine import TensorFlowEngine
    from albert_tf.engines.tensorflow.step import TrainStep
    from albert_tf.input.examples import Features
    from albert_tf.input.memory_batches import MemoryStream
    from albert_tf.modeling.heads import AlbertForSequenceClassification
    from albert_tf.modeling.losses import ClassificationObjective
    from albert_tf.optimization import create_optimizer
    from albert_tf.tasks.classification.readers import read_rows
    from albert_tf.tokenizers import Tokenizer
    from albert_tf.training.loop import predict

    tokenizer = Tokenizer.load(options.spm_model_file)
    config.check_vocabulary(tokenizer.vocab_size, options.spm_model_file)
    shortest = min(map(int, options.lengths))

    def features(split: str, count: int | None = None) -> Features:
        rows = [row.values for row in read_rows(os.path.join(options.data_dir, f"{split}.tsv"))]
        if count:
            chosen = np.random.default_rng(0).permutation(len(rows))[:count]
            rows = [rows[number] for number in chosen]
        ids = tokenizer.encode_batch([row["sentence"] for row in rows])
        sequences = [([tokenizer.cls_id, *text[: shortest - 2], tokenizer.sep_id],) for text in ids]
        labels = np.array([int(row["label"]) for row in rows], np.int32)
        made = Features(
            ((tokens, [0] * len(tokens)) for (tokens,) in sequences),
            tokenizer.pad_id,
            arrays={"label_ids": labels},
        )
        np.savez(os.path.join(folder, f"{split}.npz"), **made.to_arrays())
        return made

    train, dev = features("train"), features("dev", options.predictions)
    if len(dev) < options.predictions:
        raise InputError(f"--predictions={options.predictions}: dev.tsv has {len(dev)} sentences")
    print(
        f"{len(train)} sentences of {train.lengths.mean():.1f} tokens, "
        f"at most {train.lengths.max()}"
    )
    strategy = tf.distribute.get_strategy()

    def way(length: int, pad: bool):
        keras.utils.set_random_seed(options.random_seed)
        model = AlbertForSequenceClassification(config, 2, dtype=DTYPE_POLICIES[options.dtype])
        step = TrainStep(
            model, create_optimizer("adamw", 1e-5), ClassificationObjective(), strategy
        )
        size = options.batch_size
        batches = iter(dataset(MemoryStream(train, length, size, options.random_seed, pad)))
        engine = TensorFlowEngine(strategy)
        predicting = engine.create_prediction_step(model, ("logits",))

        def predict_all() -> None:
            stream = MemoryStream(dev, length, size, pad_to_max_length=pad)
            predict(engine, predicting, stream)

        def train_some(steps: int) -> None:
            step(batches, tf.constant(steps))["parameter_norm"].numpy()

        if not pad:  # every length is compiled once
            train_some(len(train) // options.batch_size if len(train) < 2000 else 60)
        return train_some, predict_all

    ways = {"as long as needed": way(int(options.lengths[-1]), False)}
    ways |= {f"padded to {length}": way(int(length), True) for length in options.lengths}
    return ways


class _Peer:
    """Hugging Face in a process that reads commands, one per line."""

    def __init__(self, options: Options, config: AlbertConfig, folder: str):
        values = config.to_dict()
        settings = {
            "folder": folder,
            "batch_size": options.batch_size,
            "dtype": options.dtype,
            "seed": options.random_seed,
            "config": {
                name: values[name]
                for name in (
                    *("vocab_size", "embedding_size", "hidden_size", "num_hidden_layers"),
                    *("num_hidden_groups", "inner_group_num", "num_attention_heads"),
                    *("intermediate_size", "hidden_dropout_prob", "max_position_embeddings"),
                    "attention_probs_dropout_prob",
                )
            },
        }
        program = os.path.join(os.path.dirname(__file__), "finetuning_peer.py")
        self._command = [sys.executable, program, json.dumps(settings)]

    def __enter__(self) -> _Peer:
        self._process = subprocess.Popen(
            self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._expect("ready")
        return self

    def __exit__(self, *error) -> None:
        self._process.stdin.close()
        self._process.wait()

    def way(self, padding: str):
        padding = padding if padding.isdigit() else "longest"
        return (
            lambda steps: self._ask(f"train {padding} {steps}"),
            lambda: self._ask(f"predict {padding} 0"),
        )

    def _ask(self, line: str) -> None:
        self._process.stdin.write(f"{line}\n")
        self._process.stdin.flush()
        self._expect("done")

    def _expect(self, word: str) -> None:
        if self._process.stdout.readline().strip() != word:
            raise InputError("the process of Hugging Face ended; its error output is above")


cli = command(Options, run)

if __name__ == "__main__":
    cli()
