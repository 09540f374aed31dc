"""Writes `report.html`, one self-contained file with the results and speed of every stage.

python -m examples.demo.write_report --output_dir=demo
"""

from __future__ import annotations

import dataclasses
import json
import os
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.files import read_lines, read_text, write_text
from albert_tf.options import command, option
from albert_tf.report.charts import Line, Mark, chart, smooth
from albert_tf.report.intervals import wilson
from albert_tf.report.page import html_template
from examples.demo.stages import STAGES


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    output_dir: str = option(help="Folder of the demo.")


class Accuracy(NamedTuple):
    """A fraction of correct predictions with its 95 % interval (Wilson)."""

    value: float
    low: float
    high: float
    examples: int

    @classmethod
    def of(cls, value: float, examples: int) -> Accuracy:
        low, high, _ = wilson(round(value * examples), examples)
        return cls(value, low, high, examples)

    def __str__(self) -> str:
        return f"{self.value:.1%}"

    @property
    def interval(self) -> str:
        return f"{self.low:.1%} to {self.high:.1%}"


def results_of(folder: str) -> dict[str, float]:
    """Read the values of an `eval_results.txt`."""
    lines = (line.split(" = ") for line in read_lines(f"{folder}/eval_results.txt"))
    return {name: float(value) for name, value in lines}


def metrics_of(folder: str) -> dict[str, list[float]]:
    """Read the columns of a `metrics.jsonl`, without records that have no finite step."""
    rows = [json.loads(line) for line in read_lines(f"{folder}/metrics.jsonl")]
    rows = [row for row in rows if "loss" in row]
    return {name: [row[name] for row in rows] for name in rows[0]}


def curves(pretrained: str, held_out: dict[str, float], check: dict) -> dict[str, str]:
    """Draw the charts of pretraining; return SVG text by name."""
    metrics = metrics_of(pretrained)
    step = metrics["step"]
    frequent = Mark("most frequent token", check["most_frequent_token_accuracy"])
    drawn = {}
    for objective, title, reference in (
        ("masked_lm", "Masked tokens", frequent),
        ("sentence_order", "Sentence order", Mark("chance", 0.5)),
    ):
        for quantity, unit in (("loss", " (nats)"), ("accuracy", "")):
            name, percent = f"{objective}_{quantity}", quantity == "accuracy"
            line = Line("training", step, smooth(metrics[name]))
            marks = [Mark("held-out documents, at the end", held_out[name], "#047857")]
            marks += [reference] * percent
            drawn[name] = chart(f"{title}: {quantity}{unit}", [line], marks, percent=percent)
    rate = Line("learning rate", step, metrics["learning_rate"])
    drawn["learning_rate"] = chart("Learning rate", [rate])
    rates = Line("sequences per second", step[1:], metrics["examples_per_second"][1:])
    drawn["examples_per_second"] = chart("Sequences per second", [rates])
    return drawn


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
        rates = sorted(metrics_of(f"{folder}/{trained[stage]}")["examples_per_second"])
        return f"{rates[len(rates) // 2]:.0f} sequences/s"
    return ""


def stage_table(folder: str, done: dict[str, dict]) -> list[dict]:
    return [
        {
            "title": stage.title,
            "purpose": stage.purpose,
            "seconds": done[stage.name]["seconds"],
            "memory": done[stage.name]["peak_megabytes"],
            "rate": rate_of(stage.name, done[stage.name]["seconds"], folder),
        }
        for stage in STAGES
        if stage.name in done
    ]


def run(options: ReportOptions) -> None:
    folder = options.output_dir
    state = json.loads(read_text(f"{folder}/stages.json"))
    check = json.loads(read_text(f"{folder}/export_check.json"))
    manifest = json.loads(read_text(f"{folder}/records/train.manifest.json"))
    held_out = results_of(f"{folder}/pretrained")
    config = AlbertConfig.from_json_file(f"{folder}/pretrained/albert_config.json")
    passages = list(read_lines(f"{folder}/passages/eval.tsv"))[1:]
    labels = [line.split("\t")[1] for line in passages]
    order = Accuracy.of(held_out["sentence_order_accuracy"], check["sentence_order_examples"])
    stages = stage_table(folder, state["done"])
    exported = ("masked_lm_accuracy", "sentence_order_accuracy")
    page = html_template("examples.demo", "report.html.j2")
    text = page.render(
        corpus="the documentation of the installed Python packages"
        if state["corpus"] == "package_docs"
        else f"the .txt files of {os.path.basename(state['corpus'])}",
        config=config,
        parameters=config.parameter_count(),
        manifest=manifest,
        held_out=held_out,
        check=check,
        masked_lm=Accuracy.of(held_out["masked_lm_accuracy"], check["masked_tokens"]),
        times_frequent=held_out["masked_lm_accuracy"] / check["most_frequent_token_accuracy"],
        sentence_order=order,
        classifiers=[
            (name, Accuracy.of(results_of(f"{folder}/{path}")["eval_accuracy"], len(passages)))
            for name, path in (("pretrained", "finetuned"), ("from scratch", "from_scratch"))
        ],
        labels=sorted(set(labels)),
        largest_label=max(labels.count(label) for label in set(labels)) / len(labels),
        export_difference=max(abs(check[name] - held_out[name]) for name in exported),
        charts=curves(f"{folder}/pretrained", held_out, check),
        stages=stages,
        total=f"{sum(stage['seconds'] for stage in stages) / 60:.1f}",
    )
    write_text(f"{folder}/report.html", text)
    print(f"masked tokens   {held_out['masked_lm_accuracy']:.1%} right on held-out documents")
    print(
        f"                {check['most_frequent_token_accuracy']:.1%} by always predicting "
        f"{check['most_frequent_token']!r}"
    )
    print(f"sentence order  {order} right (95 % interval {order.interval}), chance 50 %")


cli = command(ReportOptions, run)

if __name__ == "__main__":
    cli()
