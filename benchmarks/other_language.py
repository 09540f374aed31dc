"""Races pretraining from a model of another language against random weights, for equal minutes.

    python -m examples.languages --languages=en-us,ru,de,tr --output_dir=languages
    python -m benchmarks.other_language --folder=languages --output=race

Prints medians and ranges of masked-token accuracy and bits per character; keeps finished runs.
"""

import dataclasses
import itertools
import pathlib
import subprocess
import sys

from albert_tf.options import command, option
from benchmarks.interleaving import Spread
from experiments.workspace import results_in, words_of

STARTS = {"random": {}, "adapted": {}, "embeddings first": {"train_only": "embeddings:100"}}


@dataclasses.dataclass(frozen=True)
class Options:
    folder: str = option(help="Folder of examples.languages.")
    output: str = option(help="Folder of the runs.")
    languages: tuple[str, ...] = option(("ru", "de", "tr"), "Folders in --folder.")
    init_checkpoint: str | None = option(None, "Default: FOLDER/en-us/pretrained.", path="any")
    minutes: tuple[str, ...] = option(("2", "5", "10"), "Of training.")
    seeds: int = option(3, "Runs of each.", minimum=1)


def run(options: Options) -> None:
    body = options.init_checkpoint or f"{options.folder}/en-us/pretrained"
    for language, minutes, start in itertools.product(options.languages, options.minutes, STARTS):
        made, out = f"{options.folder}/{language}", pathlib.Path(options.output, language)
        flags = {"input_file": f"{made}/records/train.tfrecord", **STARTS[start]}
        flags |= {"eval_input_file": f"{made}/records/eval.tfrecord", "max_train_minutes": minutes}
        flags["albert_config_file"] = f"{made}/pretrained/albert_config.json"
        if start != "random":
            flags["init_checkpoint"] = f"{out}/start"
            if not (out / "start").exists():
                words = [f"--input={body}", f"--output={out}/start", "--to=huggingface"]
                words.append(f"--new_vocabulary={made}/vocabulary.model")
                subprocess.run([sys.executable, "convert_checkpoint.py", *words], check=True)
        found = []
        for seed in range(options.seeds):
            folder = out / f"{start.replace(' ', '-')}-{minutes}-{seed}"
            if not (folder / "eval_results.txt").exists():
                words = words_of({**flags, "random_seed": seed, "output_dir": str(folder)})
                words += ["--do_train", "--do_eval", "--schedule=wsd", "--num_train_steps=1000000"]
                words.append("--flagfile=configs/demo/pretrain.cfg")
                subprocess.run([sys.executable, "run_pretraining.py", *words], check=True)
            found.append(results_in(folder / "eval_results.txt"))
        names = ("masked_lm_accuracy", "bits_per_character")
        spreads = [f"{Spread.of(each[name] for each in found):.3f}" for name in names]
        print(f"| {' | '.join((language, minutes, start, *spreads))} |", flush=True)


if __name__ == "__main__":
    command(Options, run)()
