"""Writes `report.html`, one self-contained file with the results and speed of every stage.

python -m examples.demo.write_report --output_dir=demo
"""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
from typing import NamedTuple

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.files import read_lines, read_text, write_text
from albert_tf.options import command, option
from albert_tf.report.charts import SMOOTHED, Curve, draw_curves
from albert_tf.report.intervals import wilson
from albert_tf.report.sections import (
    Card,
    Headline,
    Page,
    Part,
    Section,
    Shade,
    Table,
    render,
    table,
)
from examples.demo.stages import STAGES
from experiments.workspace import results_in


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    output_dir: str = option(help="Folder of the demo.")


def interval(accuracy: float, examples: int) -> str:
    """Return the 95% interval of an accuracy (Wilson)."""
    low, high, _ = wilson(round(accuracy * examples), examples)
    return f"{low:.1%} to {high:.1%}"


class Passages(NamedTuple):
    """Accuracies of classifiers of held-out passages.

    Attributes:
        labels: the sources of the passages.
        pretrained, scratch: with and without pretraining.
        baseline: of the most frequent source.
    """

    labels: list[str]
    pretrained: float
    scratch: float
    baseline: float

    @classmethod
    def read(cls, folder: str) -> "Passages":
        lines = list(read_lines(f"{folder}/passages/eval.tsv"))[1:]
        labels = [line.split("\t")[1] for line in lines]
        accuracies = (
            results_in(pathlib.Path(folder, name, "eval_results.txt"))["eval_accuracy"]
            for name in ("finetuned", "from_scratch")
        )
        return cls(labels, *accuracies, max(map(labels.count, set(labels))) / len(labels))


def headlines(held_out: dict[str, float], check: dict, passages: Passages) -> list[Headline]:
    """Return what pretraining is good for, its results, and whether the export repeats them."""
    masked_lm, order = held_out["masked_lm_accuracy"], held_out["sentence_order_accuracy"]
    pairs, count = check["sentence_order_examples"], len(passages.labels)
    exported = ("masked_lm_accuracy", "sentence_order_accuracy")
    difference = max(abs(check[name] - held_out[name]) for name in exported)
    return [
        Headline(
            "passages classified by source, without and with pretraining",
            f"{passages.scratch:.1%} \N{RIGHTWARDS ARROW} {passages.pretrained:.1%}",
            [
                f"95% intervals {interval(passages.scratch, count)} and "
                f"{interval(passages.pretrained, count)}, {count:,} passages",
                f"{passages.baseline:.1%} by always predicting the same source",
            ],
        ),
        Headline(
            "masked tokens of held-out documents",
            f"{masked_lm:.1%}",
            [
                f"{check['masked_lm_top5_accuracy']:.1%} among the five best predictions",
                f"{check['most_frequent_token_accuracy']:.1%} by always predicting {word(check)}, "
                f"{check['masked_tokens']:,} tokens",
            ],
        ),
        Headline(
            "order of two segments",
            f"{order:.1%}",
            [
                f"95% interval {interval(order, pairs)}, {pairs:,} pairs",
                f"{check['most_frequent_order_accuracy']:.1%} by always giving the same answer",
            ],
        ),
        Headline(
            "exported and loaded again",
            "the same" if difference < 5e-7 else f"differs by {difference:.2g}",
            ["both accuracies, with only TensorFlow and SentencePiece"],
        ),
    ]


def word(check: dict) -> str:
    """Return the most frequent token as text, in quotation marks."""
    text = check["most_frequent_token"].removeprefix("\u2581")
    return f"\N{LEFT DOUBLE QUOTATION MARK}{text}\N{RIGHT DOUBLE QUOTATION MARK}"


def pretraining(folder: str, held_out: dict[str, float], check: dict) -> Section:
    """Return the model, its data and its curves."""
    manifest = json.loads(read_text(f"{folder}/records/train.manifest.json"))
    config = AlbertConfig.from_json_file(f"{folder}/pretrained/albert_config.json")
    training = [*map(json.loads, read_lines(f"{folder}/pretrained/metrics.jsonl"))]
    evaluations = [{**held_out, "step": held_out["global_step"]}]
    charts = []
    for title, name, words, baseline in (
        ("Masked-token accuracy", "masked_lm_accuracy", f"always {word(check)}", "token"),
        ("Sentence-order accuracy", "sentence_order_accuracy", "always the same answer", "order"),
    ):
        curves = [
            Curve("training", training, name, smoothed=True),
            Curve("held out", evaluations, name),
        ]
        mark = (words, check[f"most_frequent_{baseline}_accuracy"])
        charts += draw_curves(title, curves, [mark], percent=True)
    return Section(
        "Pretraining",
        f"An encoder of {config.parameter_count():,} parameters: {config.num_hidden_layers} layers "
        f"that share one set of weights, H = {config.hidden_size}, {config.num_attention_heads} "
        f"heads, {config.vocab_size:,} pieces. Trained on {manifest['documents']:,} documents with "
        f"{manifest['sentences']:,} sentences and {manifest['tokens']:,} tokens for "
        f"{held_out['global_step']:,.0f} steps. {SMOOTHED}",
        charts=charts,
        links={"Report on pretraining": "pretrained/report.html"},
    )


def filled_masks(check: dict) -> Section:
    """Return masked words of held-out documents and what the exported model predicts."""
    rows = []
    for each in check["mask_examples"]:
        first, *others = each["predicted"]
        predicted = Shade(first, 0.4) if first == each["masked"] else first
        rows.append((each["text"], each["masked"], predicted, ", ".join(others)))
    text = "Words of held-out documents; other masked words around them were not visible either."
    columns = dict.fromkeys(("text", "masked", "predicted", "next best"), "")
    return Section("Filled masks", text, tables=[table(columns, rows)])


def classifiers(passages: Passages) -> Section:
    """Return the comparison of fine-tuning with training from scratch."""
    count = len(passages.labels)
    rows = [("always the same source", f"{passages.baseline:.1%}", "")]
    for name, accuracy in (
        ("from scratch", passages.scratch),
        ("pretrained", passages.pretrained),
    ):
        rows.append((name, f"{accuracy:.1%}", interval(accuracy, count)))
    return Section(
        "Where does a passage come from?",
        f"{count:,} held-out passages from {', '.join(sorted(set(passages.labels)))}, with these "
        "names removed. Both models were trained for the same number of steps, each with a "
        "learning rate that suits it.",
        tables=[Table(("model", "accuracy", "95% interval"), rows, frozenset({1, 2}))],
        links={
            "Report on the pretrained one": "finetuned/report.html",
            "on the one from scratch": "from_scratch/report.html",
        },
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
    held_out = results_in(pathlib.Path(folder, "pretrained", "eval_results.txt"))
    passages = Passages.read(folder)
    packages = state["corpus"] == "package_docs"
    seconds = sum(stage["seconds"] for stage in state["done"].values())
    page = Page(
        title=f"An ALBERT from text, in {seconds / 60:.1f} minutes",
        subtitle="the documentation of the installed Python packages"
        if packages
        else f"the .txt files of {os.path.basename(state['corpus'])}",
        headlines=headlines(held_out, check, passages),
        sections=[
            pretraining(folder, held_out, check),
            filled_masks(check),
            classifiers(passages),
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
    order, pairs = held_out["sentence_order_accuracy"], check["sentence_order_examples"]
    print(f"masked tokens   {held_out['masked_lm_accuracy']:.1%} right on held-out documents")
    print(f"                {check['most_frequent_token_accuracy']:.1%} by always {word(check)}")
    print(f"sentence order  {order:.1%} right (95% interval {interval(order, pairs)})")
    print(f"                {check['most_frequent_order_accuracy']:.1%} by always the same answer")
    print(f"passages        {passages.pretrained:.1%} right, {passages.scratch:.1%} from scratch")
    print(f"                {passages.baseline:.1%} by always the same source")


cli = command(ReportOptions, run)

if __name__ == "__main__":
    cli()
