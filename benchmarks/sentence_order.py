"""What redrawing swapped pairs does for sentence order: held-out accuracy over passes.

    python -m benchmarks.sentence_order --books=DIR --folder=DIR --passes=12 --seeds=3

Prepares the novels in --books as docs/results.md describes, with masks drawn in training. In one
set of TFRecords the pairs are in order, so training draws at every visit which are swapped; in the
other, half of the same pairs are swapped once and for all. The same model (the recipe `small_cpu`)
is trained on each, with the same number of steps and several seeds, and evaluated after every pass
on novels that are held out. Writes `results.json` and `sentence_order.svg` to --folder, and prints
a table.

Runs that were killed resume when the same command is started again.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import sys

import numpy as np

from albert_tf.files import replacing
from albert_tf.input.dynamic import swap_segments
from albert_tf.input.features import unmasked_features
from albert_tf.input.manifest import manifest_file
from albert_tf.options import command, option
from albert_tf.report.charts import Line, Mark, adaptive, chart
from benchmarks.fresh import run_quietly
from data_prep.tfrecords import read_examples, write_records

LENGTH, PREDICTIONS, BATCH = 64, 10, 64
VARIANTS = ("redrawn", "fixed")
# The last part of a curve, over which its end is averaged.
LAST_PASSES = 3


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    books: str = option(help="Folder of .txt files.")
    folder: str = option(help="Folder for data, runs and results.")
    megabytes: int = option(0, "Train on so much of the text only; 0: on all of it.")
    passes: int = option(12, "How often training reads the text.")
    seeds: int = option(3, "Number of runs of each kind.")
    training_flags: tuple[str, ...] = option((), "Further flags of run_pretraining.py.")


def main(options: Options) -> None:
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    prepare(options, folder)
    manifest = json.loads(pathlib.Path(manifest_file(f"{folder}/redrawn.tfrecord")).read_text())
    steps_per_pass = manifest["examples"] // BATCH
    results: dict[str, dict[str, list[dict]]] = {variant: {} for variant in VARIANTS}
    for seed in range(options.seeds):
        for variant in VARIANTS:
            results[variant][str(seed)] = train(options, folder, variant, seed, steps_per_pass)
            report(folder, results, steps_per_pass, manifest)


def prepare(options: Options, folder: pathlib.Path) -> None:
    """Make text, vocabulary and TFRecords; what is finished is not made again."""
    run(
        "-m", "data_prep.extract_corpus", "--format=books", f"--input_file={options.books}/*.txt",
        f"--output_file={folder}/all.txt", f"--eval_output_file={folder}/eval.txt",
        "--eval_fraction=0.06",
    )  # fmt: skip
    text = (folder / "all.txt").read_bytes()
    end = text.find(b"\n\n", options.megabytes * 1_000_000) if options.megabytes else -1
    train_text = folder / "train.txt"
    if not train_text.exists():
        with replacing(str(train_text)) as partial:
            pathlib.Path(partial).write_bytes(text[: None if end < 0 else end + 1])
    run(
        "-m", "data_prep.train_vocabulary", f"--input_file={train_text}", "--vocab_size=8000",
        f"--output_prefix={folder}/8k",
    )  # fmt: skip
    for source, output, masking in (
        ("train", "redrawn", "dynamic"),
        ("eval", "eval", "static"),
    ):
        run(
            "-m", "data_prep.create_pretraining_data", f"--input_file={folder}/{source}.txt",
            f"--output_file={folder}/{output}.tfrecord", f"--spm_model_file={folder}/8k.model",
            f"--max_seq_length={LENGTH}", f"--max_predictions_per_seq={PREDICTIONS}",
            f"--masking={masking}", "--dupe_factor=1",
        )  # fmt: skip
    swap_half(f"{folder}/redrawn.tfrecord", f"{folder}/fixed.tfrecord")


def swap_half(source: str, target: str) -> None:
    """Write the examples of a file with half of the pairs swapped, for good."""
    examples = read_examples(source, unmasked_features(LENGTH))
    examples = {name: values.astype(np.int32) for name, values in examples.items()}
    swapped = np.random.default_rng(0).random(len(examples["input_ids"])) < 0.5
    swap_segments(
        examples["input_ids"],
        examples["segment_ids"],
        examples["token_boundary"],
        examples["input_mask"].sum(1, dtype=np.int32),
        swapped,
    )
    examples["next_sentence_labels"] = swapped.astype(np.int32)[:, None]
    with replacing(target) as partial, open(partial, "wb") as file:
        write_records(file, examples)
    manifest = json.loads(pathlib.Path(manifest_file(source)).read_text())
    assert manifest.pop("swapped_in_training")
    manifest["positive_label_share"] = float(swapped.mean())
    name = pathlib.Path(target).name
    manifest["files"] = {name: manifest["examples"]}
    pathlib.Path(manifest_file(target)).write_text(json.dumps(manifest))


def train(
    options: Options, folder: pathlib.Path, variant: str, seed: int, steps_per_pass: int
) -> list[dict]:
    """Train and evaluate a model; return its evaluations, one a pass."""
    output = folder / f"{variant}-{seed}"
    run(
        "run_pretraining.py", "--flagfile=small_cpu", f"--input_file={folder}/{variant}.tfrecord",
        f"--eval_input_file={folder}/eval.tfrecord", f"--output_dir={output}",
        f"--num_train_steps={options.passes * steps_per_pass}", f"--random_seed={seed}",
        f"--eval_every_steps={steps_per_pass}", f"--save_checkpoints_steps={steps_per_pass}",
        *options.training_flags,
    )  # fmt: skip
    lines = (output / "evaluations.jsonl").read_text().splitlines()
    evaluations = [json.loads(line) for line in lines]
    metrics = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    for row in evaluations:
        in_pass = [
            entry["sentence_order_accuracy"]
            for entry in metrics
            if row["step"] - steps_per_pass < entry["step"] <= row["step"]
            and "sentence_order_accuracy" in entry
        ]
        row["training_accuracy"] = float(np.mean(in_pass))
    return evaluations


def report(folder: pathlib.Path, results: dict, steps_per_pass: int, manifest: dict) -> None:
    """Write what is known so far."""
    described = {
        "examples": manifest["examples"],
        "text_bytes": manifest["text_bytes"],
        "steps_per_pass": steps_per_pass,
        "runs": results,
    }
    (folder / "results.json").write_text(json.dumps(described, indent=1))
    lines = []
    for variant in VARIANTS:
        runs = [rows for rows in results[variant].values() if rows]
        if not runs:
            continue
        passes = [row["step"] / steps_per_pass for row in runs[0]]
        for key, where in (
            ("sentence_order_accuracy", "held-out"),
            ("training_accuracy", "training"),
        ):
            values = np.array([[row[key] for row in rows] for rows in runs])
            lines.append(Line(f"{variant}, {where}", passes, values.mean(0).tolist()))
            ends = values[:, -LAST_PASSES:].mean(1)
            print(
                f"{variant:8} {where:9} {len(runs)} seeds: "
                + " ".join(f"{100 * value:.1f}" for value in values.mean(0))
                + f" | last {LAST_PASSES} passes {100 * ends.mean():.1f} "
                f"({100 * ends.min():.1f} to {100 * ends.max():.1f})",
                flush=True,
            )
    title = "Sentence order: accuracy over passes"
    marks = [Mark("chance", 0.5)]
    drawn = chart(title, lines, marks, percent=True, x_label="passes over the text")
    (folder / "sentence_order.svg").write_text(adaptive(drawn))


def run(*words: str) -> None:
    """Run a command of the project."""
    run_quietly([sys.executable, *words])


cli = command(Options, main)

if __name__ == "__main__":
    cli()
