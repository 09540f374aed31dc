"""Speed of fine-tuning: dynamic padding against full padding and Hugging Face PyTorch.

    python -m benchmarks.finetuning --data_dir=../shared/data/glue/SST-2 \\
        --spm_model_file=30k-clean.model

Prints sequences per second in training and in prediction, on the sentences of SST-2 (or any
train.tsv and dev.tsv with a column `sentence`). Each implementation runs in a process of its own,
on the same token ids, in --repeats interleaved rounds; the table shows the median and the range.
--nohugging_face leaves out Hugging Face.

All of them stay in memory: ALBERT-base in float32 at 16 x 512 tokens takes about 10 GiB with us and
as much with Hugging Face. --batch_size=8 halves that.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import os
import tempfile

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import read_rows
from albert_tf.input.examples import Features
from albert_tf.options import command, option, seed_option
from albert_tf.tokenizers import Tokenizer
from benchmarks.comparison import OURS, Case, Suite, compare
from benchmarks.implementations.workload import Workload
from benchmarks.measurements import Measurement
from benchmarks.reporting import comparison_table

DYNAMIC = f"{OURS}, dynamic padding"


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    data_dir: str = option(help="Folder with train.tsv and dev.tsv, as of SST-2.")
    spm_model_file: str = option(help="Vocabulary.")
    albert_config_file: str | None = option(None, "Model; without it, ALBERT-base, version 2.")
    lengths: tuple[str, ...] = option(("128", "512"), "Lengths of full padding to compare with.")
    batch_size: int = option(32, "Sequences in a batch.")
    steps: int = option(20, "Training steps in a round.")
    predictions: int = option(320, "Sequences predicted in a round, in whole batches.")
    repeats: int = option(5, "Rounds.")
    hugging_face: bool = option(True, "Measure Hugging Face too (the extra `peers`).")
    dtype: str = option("float32", "Precision.", choices=("float32", "bfloat16"))
    random_seed: int = seed_option(12345, "Seed of the order.")


def run(options: Options) -> None:
    if options.albert_config_file:
        config = AlbertConfig.from_json_file(options.albert_config_file)
    else:
        config = AlbertConfig.preset("base")
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    lengths = [int(length) for length in options.lengths]
    if max(lengths) > config.max_position_embeddings:
        raise InputError(f"--lengths={','.join(options.lengths)}: the model has fewer positions")
    if options.hugging_face and not all(map(importlib.util.find_spec, ("torch", "transformers"))):
        raise InputError(
            "`hugging_face`: needs PyTorch and transformers (the extra `peers`); "
            "--nohugging_face measures without them"
        )
    ways = {DYNAMIC: (OURS, lengths[-1], False)}
    ways |= {f"{OURS}, padded to {length}": (OURS, length, True) for length in lengths}
    if options.hugging_face:
        name = "Hugging Face"
        ways |= {f"{name}, padded to {length}": (name, length, True) for length in lengths}
        ways[f"{name}, padded to the longest of the batch"] = (name, lengths[-1], False)
    suite, left_out = Suite(repeats=options.repeats), {}
    measurements: list[Measurement] = []
    with tempfile.TemporaryDirectory() as folder:
        files = _sentences(options, config, min(lengths), folder)
        for work, task, split, steps in (
            ("training", "classification", "train", options.steps),
            ("prediction", "inference", "dev", options.predictions // options.batch_size),
        ):
            cases = [
                Case(
                    name,
                    implementation,
                    Workload(
                        task,
                        config.to_dict(),
                        options.batch_size,
                        length,
                        dtype=options.dtype,
                        sentences=files[split],
                        pad_to_max_length=padded,
                        seed=options.random_seed,
                    ),
                    0,  # operations depend on the batch
                    work,
                    steps,
                )
                for name, (implementation, length, padded) in ways.items()
            ]
            measurements += compare(suite, work, cases, left_out)
    suite.progress.clear()
    title = f"batch {options.batch_size}, {options.dtype}, {options.repeats} rounds"
    print(comparison_table(title, measurements, DYNAMIC).markdown())
    for name, reason in left_out.items():
        print(f"Left out: {name}: {reason}")


def _sentences(options: Options, config: AlbertConfig, longest: int, folder: str) -> dict[str, str]:
    """Write the token ids of both splits; return their files."""
    tokenizer = Tokenizer.load(options.spm_model_file)
    config.check_vocabulary(tokenizer.vocab_size, options.spm_model_file)
    files = {}
    for split in ("train", "dev"):
        rows = [row.values for row in read_rows(os.path.join(options.data_dir, f"{split}.tsv"))]
        if split == "dev":
            count = options.predictions // options.batch_size * options.batch_size
            if not 0 < count <= len(rows):
                raise InputError(
                    f"--predictions={options.predictions}: must be from one batch to the "
                    f"{len(rows)} sentences of dev.tsv"
                )
            rows = [rows[number] for number in np.random.default_rng(0).permutation(len(rows))]
            rows = rows[:count]
        ids = tokenizer.encode_batch([row["sentence"] for row in rows])
        tokens = [[tokenizer.cls_id, *text[: longest - 2], tokenizer.sep_id] for text in ids]
        features = Features(
            ((each, [0] * len(each)) for each in tokens),
            tokenizer.pad_id,
            arrays={"label_ids": np.array([int(row["label"]) for row in rows], np.int32)},
        )
        files[split] = os.path.join(folder, f"{split}.npz")
        np.savez(files[split], **features.to_arrays())
        lengths = features.lengths
        print(
            f"{split}: {len(rows)} sentences, {lengths.mean():.1f} tokens, at most {lengths.max()}"
        )
    return files


cli = command(Options, run)

if __name__ == "__main__":
    cli()
