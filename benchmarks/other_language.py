"""Races pretraining from a model of another language against random weights.

    python -m examples.demo --corpus=NOVELS --output_dir=languages/novels
    python -m examples.languages --languages=ru,de,tr --output_dir=languages
    python -m benchmarks.other_language --folder=languages --output=race

A step costs the same from every start. The learning rate stays constant after its warm-up, so that
the state at a step is what a run of that length would have. Prints results by step with their 95 %
intervals, and draws curves; keeps finished runs.
"""

import dataclasses
import itertools
import pathlib
import sys

import numpy as np

from albert_tf.children import run_child
from albert_tf.files import write_text
from albert_tf.options import command, option
from albert_tf.report.charts import chart
from albert_tf.training.rows import read_rows
from benchmarks.measurements import Table
from experiments.results import Estimate
from experiments.workspace import words_of

STARTS = {"random": {}, "adapted": {}, "embeddings first": {"train_only": "embeddings:200"}}
QUANTITIES = {"masked_lm_accuracy": 100, "bits_per_character": 1}


@dataclasses.dataclass(frozen=True)
class Options:
    folder: str = option(help="Folder of examples.languages.")
    output: str = option(help="Folder of the runs.")
    languages: tuple[str, ...] = option(("ru", "de", "tr"), "Folders in --folder.")
    init_checkpoint: str | None = option(None, "Default: FOLDER/novels/pretrained.", path="any")
    starts: tuple[str, ...] = option(tuple(STARTS), "Of: " + ", ".join(STARTS))
    steps: tuple[str, ...] = option(("900", "2250", "4500"), "To report, multiples of 225.")
    seeds: int = option(3, "Runs of each.", minimum=1)


def run(options: Options) -> None:
    body = options.init_checkpoint or f"{options.folder}/novels/pretrained"
    lines: list[list[str]] = []
    for language in options.languages:
        made, out = f"{options.folder}/{language}", pathlib.Path(options.output, language)
        start = out / "start"
        if not start.exists():
            words = [f"--input={body}", f"--output={start}", "--to=huggingface"]
            words.append(f"--new_vocabulary={made}/vocabulary.model")
            run_child([sys.executable, "convert_checkpoint.py", *words]).check_returncode()
        common = {
            "flagfile": "configs/demo/pretrain.cfg", "do_train": True, "schedule": "wsd",
            "num_train_steps": options.steps[-1], "eval_every_steps": 225,
            "best_checkpoint_metric": "none", "albert_config_file": str(start / "config.json"),
            "input_file": f"{made}/records/train.tfrecord",
            "eval_input_file": f"{made}/records/eval.tfrecord",
        }  # fmt: skip
        runs: dict[str, list[list[dict]]] = {name: [] for name in options.starts}
        for seed, name in itertools.product(range(options.seeds), options.starts):
            folder = out / f"{name.replace(' ', '-')}-{seed}"
            flags = {**common, **STARTS[name], "random_seed": seed, "output_dir": str(folder)}
            if name != "random":
                flags["init_checkpoint"] = str(start)
            if not (folder / "done").exists():
                words = ["run_pretraining.py", *words_of(flags)]
                run_child([sys.executable, *words]).check_returncode()
                (folder / "done").touch()
            runs[name].append(read_rows(str(folder / "evaluations.jsonl")))
        steps = [row["step"] for row in runs[options.starts[0]][0]]
        curves = [
            (name, steps, np.mean([[row["masked_lm_accuracy"] for row in r] for r in each], axis=0))
            for name, each in runs.items()
        ]
        title = f"Masked tokens right, {language}"
        write_text(f"{out}/curves.svg", chart(title, curves, percent=True, named_at_ends=True))
        for step, (name, each) in itertools.product(options.steps, runs.items()):
            rows = [next(row for row in r if row["step"] == int(step)) for r in each]
            found = [
                Estimate.of([scale * row[quantity] for row in rows])
                for quantity, scale in QUANTITIES.items()
            ]
            several = options.seeds > 1
            cells = [f"{each.mean:.2f}" + f" ± {each.margin:.2f}" * several for each in found]
            lines.append([language, step, name, *cells])
    print(Table("", ["language", "steps", "start", *QUANTITIES], lines).markdown())


if __name__ == "__main__":
    command(Options, run)()
