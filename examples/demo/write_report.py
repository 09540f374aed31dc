"""Writes `report.html`, one self-contained file with the results and speed of every stage.

python -m examples.demo.write_report --output_dir=demo
"""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.files import read_lines, read_text, write_text
from albert_tf.options import command, option
from albert_tf.report.intervals import wilson
from albert_tf.report.sections import Card, Headline, Page, Part, Section, Table, render
from examples.demo.stages import STAGES
from experiments.workspace import results_in


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    output_dir: str = option(help="Folder of the demo.")


def interval(accuracy: float, examples: int) -> str:
    """Return the 95 % interval of an accuracy (Wilson)."""
    low, high, _ = wilson(round(accuracy * examples), examples)
    return f"{low:.1%} to {high:.1%}"


def headlines(held_out: dict[str, float], check: dict) -> list[Headline]:
    """Return the results of pretraining, and whether the export repeats them."""
    masked_lm, order = held_out["masked_lm_accuracy"], held_out["sentence_order_accuracy"]
    pairs = check["sentence_order_examples"]
    exported = ("masked_lm_accuracy", "sentence_order_accuracy")
    difference = max(abs(check[name] - held_out[name]) for name in exported)
    return [
        Headline(
            "masked tokens of held-out documents",
            f"{masked_lm:.1%}",
            [
                f"{check['masked_lm_top5_accuracy']:.1%} among the five best guesses",
                f"{check['most_frequent_token_accuracy']:.1%} by always predicting "
                f"“{check['most_frequent_token']}”",
                f"{check['masked_tokens']:,} tokens",
            ],
        ),
        Headline(
            "order of two segments",
            f"{order:.1%}",
            [f"95% interval {interval(order, pairs)}, {pairs:,} pairs", "50% by chance"],
        ),
        Headline(
            "exported and loaded again",
            "the same" if difference < 5e-7 else f"differs by {difference:.2g}",
            ["both results, with only TensorFlow and SentencePiece"],
        ),
    ]


def classifiers(folder: str) -> Section:
    """Return the comparison of fine-tuning with training from scratch."""
    labels = [line.split("\t")[1] for line in list(read_lines(f"{folder}/passages/eval.tsv"))[1:]]
    frequent = max(labels.count(label) for label in set(labels)) / len(labels)
    rows = [("always the most frequent source", f"{frequent:.1%}", "")]
    for name, path in (("from scratch", "from_scratch"), ("pretrained", "finetuned")):
        accuracy = results_in(pathlib.Path(folder, path, "eval_results.txt"))["eval_accuracy"]
        rows.append((name, f"{accuracy:.1%}", interval(accuracy, len(labels))))
    return Section(
        "Where does a passage come from?",
        f"{len(labels):,} held-out passages from {', '.join(sorted(set(labels)))}, with these "
        "names removed. Both models were trained for the same number of steps, each with a "
        "learning rate that suits it. finetuned/report.html has their errors.",
        tables=[Table(("model", "accuracy", "95% interval"), rows, frozenset({1, 2}))],
    )


def order_examples(check: dict) -> Section:
    """Return pairs of segments with the order that the exported model predicts."""
    cards = []
    for example in check["order_examples"]:
        swapped, predicted = example["swapped"], example["probability_swapped"]
        right = (predicted > 0.5) == swapped
        facts = {
            "truth": "swapped" if swapped else "in order",
            "predicted": f"{predicted:.0%} swapped",
            "first": example["first"],
            "second": example["second"],
        }
        cards.append(
            Card("right" if right else "wrong", [(name, [Part(t)]) for name, t in facts.items()])
        )
    text = "Two segments of a held-out document each, as the model received them but for the masks."
    return Section("Sentence order", text, cards=cards)


def rate_of(stage: str, seconds: float, folder: str) -> str:
    """Return the throughput of a stage, in the unit that suits it, or an empty string."""

    def megabytes(*paths: str) -> float:
        return sum(os.path.getsize(f"{folder}/{path}") for path in paths) / 1e6

    if stage == "corpus":
        made = megabytes("corpus/train.txt", "corpus/eval.txt")
        return f"{made:.1f} MB of text, {made / seconds:.1f} MB/s"
    if stage == "records":
        read = megabytes("corpus/train.txt", "corpus/eval.txt")
        return f"{read / seconds:.1f} MB of text/s"
    trained = {"pretraining": "pretrained", "finetuning": "finetuned", "scratch": "from_scratch"}
    if stage in trained:
        rows = map(json.loads, read_lines(f"{folder}/{trained[stage]}/metrics.jsonl"))
        rates = [row["examples_per_second"] for row in rows if "examples_per_second" in row]
        return f"{np.median(rates):.0f} sequences/s"
    return ""


def stages(folder: str, done: dict[str, dict]) -> Section:
    rows = []
    for stage in STAGES:
        if stage.name in done:
            seconds, memory = done[stage.name]["seconds"], done[stage.name]["peak_megabytes"]
            rate = rate_of(stage.name, seconds, folder)
            rows.append((stage.title, stage.purpose, f"{seconds:.1f}", rate, f"{memory:,.0f} MB"))
    columns = ("stage", "what it does", "seconds", "rate", "memory")
    return Section("Stages", tables=[Table(columns, rows, frozenset({2, 4}))])


def run(options: ReportOptions) -> None:
    folder = options.output_dir
    state = json.loads(read_text(f"{folder}/stages.json"))
    check = json.loads(read_text(f"{folder}/export_check.json"))
    manifest = json.loads(read_text(f"{folder}/records/train.manifest.json"))
    held_out = results_in(pathlib.Path(folder, "pretrained", "eval_results.txt"))
    config = AlbertConfig.from_json_file(f"{folder}/pretrained/albert_config.json")
    packages = state["corpus"] == "package_docs"
    seconds = sum(stage["seconds"] for stage in state["done"].values())
    pretraining = Section(
        "Pretraining",
        f"{config.parameter_count():,} parameters: {config.num_hidden_layers} layers that share "
        f"one set of weights, H = {config.hidden_size}, {config.num_attention_heads} heads, "
        f"{config.vocab_size:,} pieces. Trained on {manifest['documents']:,} documents with "
        f"{manifest['sentences']:,} sentences and {manifest['tokens']:,} tokens for "
        f"{held_out['global_step']:,.0f} steps. pretrained/report.html has curves, filled masks "
        "and speed.",
    )
    page = Page(
        title=f"An ALBERT from text, in {seconds / 60:.1f} minutes",
        subtitle="the documentation of the installed Python packages"
        if packages
        else f"the .txt files of {os.path.basename(state['corpus'])}",
        headlines=headlines(held_out, check),
        sections=[
            pretraining,
            classifiers(folder),
            order_examples(check),
            stages(folder, state["done"]),
        ],
        command="make demo" if packages else f"make demo CORPUS={state['corpus']}",
        versions=[
            ("Keras", importlib.metadata.version("keras")),
            ("Python", platform.python_version()),
        ],
    )
    write_text(f"{folder}/report.html", render(page))
    print(f"masked tokens   {held_out['masked_lm_accuracy']:.1%} right on held-out documents")
    print(
        f"                {check['most_frequent_token_accuracy']:.1%} by always predicting "
        f"{check['most_frequent_token']!r}"
    )
    order = held_out["sentence_order_accuracy"]
    print(
        f"sentence order  {order:.1%} right (95 % interval "
        f"{interval(order, check['sentence_order_examples'])}), chance 50 %"
    )


cli = command(ReportOptions, run)

if __name__ == "__main__":
    cli()
