"""What continued pretraining gains in a domain and loses outside it, with and without new pieces.

    python -m benchmarks.continued_pretraining --init_checkpoint=pretrained --text=docs.txt \
        --eval_text=docs_eval.txt --other_text=novels_eval.txt --folder=DIR

Continues a pretrained model on the text of a domain, with its own vocabulary and with pieces that
are learned from the text, and evaluates masked tokens before and after, on held-out text of the
domain and on text of the kind that it was trained on. With --train_file and --eval_file, a table of
labeled texts of the domain, also fine-tunes classifiers from the models before and after. Prints
means over seeds with 95 % intervals.

Accuracies of two vocabularies cannot be compared, since longer pieces are harder to predict, but
bits can: the loss of the masked tokens for each byte of the text that they stand for.

Runs that were killed resume when the same command is started again.
"""

from __future__ import annotations

import dataclasses
import json
import math
import pathlib
import sys

import numpy as np
import scipy.stats

from albert_tf.input.manifest import manifest_file
from albert_tf.options import command, option
from albert_tf.tokenizers import Tokenizer
from benchmarks.fresh import run_quietly

LENGTH, PREDICTIONS, BATCH = 64, 10, 64
SETS = ("domain", "other")


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    init_checkpoint: str = option(help="Folder of the pretrained model, with its vocabulary.")
    text: str = option(help="Text of the domain.")
    eval_text: str = option(help="Held-out text of the domain.")
    other_text: str = option(help="Held-out text of the kind that the model was trained on.")
    folder: str = option(help="Folder for data, models and results.")
    num_new_pieces: int = option(1000, "Pieces of the larger vocabulary.")
    steps: int = option(150, f"Steps of {BATCH} examples.")
    learning_rate: float = option(0.001, "Peak learning rate of AdamW.")
    seeds: int = option(3, "Number of runs of each kind.")
    train_file: str | None = option(None, "Labeled texts of the domain, for a classifier.")
    eval_file: str | None = option(None, "Held-out ones.")


def main(options: Options) -> None:
    folder = pathlib.Path(options.folder)
    folder.mkdir(parents=True, exist_ok=True)
    learn = (f"--learn_pieces_from={options.text}", f"--num_new_pieces={options.num_new_pieces}")
    bytes_per_token, before = {}, {}
    for variant, flags in {"own pieces": (), "new pieces": learn}.items():
        model = folder / f"{variant} start"
        if not model.exists():
            run(
                "convert_checkpoint.py", "--to=albert_tf", f"--input={options.init_checkpoint}",
                f"--output={model}", *flags,
            )  # fmt: skip
        texts = {"train": options.text, "domain": options.eval_text, "other": options.other_text}
        bytes_per_token[variant] = prepare(folder, variant, model, texts)
        before[variant] = [evaluated(model, folder, variant)]
        report(f"before, {variant}", before[variant], bytes_per_token[variant])
    after: dict[str, list[dict]] = {variant: [] for variant in before}
    for seed in range(options.seeds):
        for variant, rows in after.items():
            training = (
                "--do_train", f"--init_checkpoint={folder}/{variant} start",
                f"--input_file={folder}/{variant} train.tfrecord",
                f"--train_batch_size={BATCH}", f"--num_train_steps={options.steps}",
                f"--num_warmup_steps={options.steps // 10}", "--optimizer=adamw",
                f"--learning_rate={options.learning_rate}", f"--random_seed={seed}",
            )  # fmt: skip
            rows.append(evaluated(folder / f"{variant} {seed}", folder, variant, training))
            report(f"after, {variant}", rows, bytes_per_token[variant])
    if options.train_file:
        classify(options, folder, list(before))


def classify(options: Options, folder: pathlib.Path, variants: list[str]) -> None:
    """Print the accuracy of classifiers that start from the models before and after."""
    scores: dict[str, list[float]] = {}
    for seed in range(options.seeds):
        for variant in variants:
            for title, model in (("before", f"{variant} start"), ("after", f"{variant} {seed}")):
                output = folder / f"{model} classifier {seed}"
                if not (output / "eval_results.txt").exists():
                    run(
                        "run_classifier.py", "--task_name=table", "--do_train", "--do_eval",
                        f"--train_file={options.train_file}", f"--eval_file={options.eval_file}",
                        f"--init_checkpoint={folder / model}", f"--output_dir={output}",
                        f"--max_seq_length={LENGTH}", "--train_batch_size=32", "--train_step=400",
                        "--warmup_step=40", "--learning_rate=0.0002", f"--random_seed={seed}",
                    )  # fmt: skip
                lines = (output / "eval_results.txt").read_text().splitlines()
                accuracy = next(line for line in lines if "accuracy = " in line)
                row = scores.setdefault(f"{title}, {variant}", [])
                row.append(100 * float(accuracy.partition(" = ")[2]))
    for title, values in scores.items():
        print(f"classifier {title}: {_interval(np.array(values), 1)} %", flush=True)


def prepare(
    folder: pathlib.Path, variant: str, model: pathlib.Path, texts: dict[str, str]
) -> dict[str, float]:
    """Make TFRecords of texts and return the bytes of each for a token."""
    vocabulary = Tokenizer.load(str(model)).path
    bytes_per_token = {}
    for name, text in texts.items():
        records = folder / f"{variant} {name}.tfrecord"
        if not records.exists():
            run(
                "-m", "data_prep.create_pretraining_data", f"--input_file={text}",
                f"--output_file={records}", f"--spm_model_file={vocabulary}", "--dupe_factor=1",
                f"--max_seq_length={LENGTH}", f"--max_predictions_per_seq={PREDICTIONS}",
                f"--masking={'dynamic' if name == 'train' else 'static'}",
            )  # fmt: skip
        manifest = json.loads(pathlib.Path(manifest_file(str(records))).read_text())
        bytes_per_token[name] = manifest["text_bytes"] / manifest["tokens"]
    return bytes_per_token


def evaluated(
    model: pathlib.Path, folder: pathlib.Path, variant: str, training: tuple[str, ...] = ()
) -> dict[str, dict]:
    """Return the results of a model on both kinds of text, after training with these flags."""
    results = {}
    for name in SETS:
        file = model / f"{name}.json"
        if not file.exists():
            run(
                "run_pretraining.py", "--do_eval", f"--output_dir={model}", "--max_eval_steps=50",
                f"--eval_input_file={folder}/{variant} {name}.tfrecord", "--eval_batch_size=64",
                f"--max_seq_length={LENGTH}", f"--max_predictions_per_seq={PREDICTIONS}",
                *training,
            )  # fmt: skip
            lines = (model / "eval_results.txt").read_text().splitlines()
            values = dict(line.split(" = ") for line in lines)
            file.write_text(json.dumps({key: float(value) for key, value in values.items()}))
        results[name] = json.loads(file.read_text())
        training = ()
    return results


def report(title: str, rows: list[dict], bytes_per_token: dict[str, float]) -> None:
    """Print accuracies and bits, with intervals over seeds if there are several."""
    cells = []
    for name in SETS:
        accuracy = np.array([100 * row[name]["masked_lm_accuracy"] for row in rows])
        losses = np.array([row[name]["masked_lm_loss"] for row in rows])
        bits = losses / math.log(2) / bytes_per_token[name]
        cells.append(f"{name}: {_interval(accuracy, 1)} %, {_interval(bits, 3)} bits per byte")
    print(f"{title}, {len(rows)} seeds: {'; '.join(cells)}", flush=True)


def _interval(values: np.ndarray, digits: int) -> str:
    if len(values) < 2:
        return f"{values.mean():.{digits}f}"
    half = scipy.stats.sem(values) * scipy.stats.t.ppf(0.975, len(values) - 1)
    return f"{values.mean():.{digits}f} ± {half:.{digits}f}"


def run(*words: str) -> None:
    """Run a command of the project."""
    run_quietly([sys.executable, *words])


cli = command(Options, main)

if __name__ == "__main__":
    cli()
