"""Writes `report.html`, with the results, the time and the memory of the stages.

python -m examples.demo.write_report --output_dir=demo
"""

import dataclasses
import importlib.metadata
import json
import os
import pathlib
import platform
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.files import read_lines, read_text, write_text
from albert_tf.input.features import pretraining_features
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex
from albert_tf.options import command, option
from albert_tf.report.charts import SMOOTHED, Curve, draw_curves
from albert_tf.report.intervals import wilson
from albert_tf.report.sections import Headline, Page, Section, render, table
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.held_out import HeldOut, filled_masks
from albert_tf.training.pair_results import pairs_table
from albert_tf.training.rows import readable_rows
from examples.demo.stages import STAGES
from experiments.workspace import results_in


@dataclasses.dataclass(frozen=True)
class ReportOptions:
    output_dir: str = option(help="Folder of the demo.")


class Results(NamedTuple):
    """What the stages have measured.

    Attributes:
        state: content of `stages.json`.
        held_out: results of pretraining on held-out documents.
        check: those of the export, and of always giving the most frequent answer.
        sources: of the held-out passages.
        pretrained, scratch: accuracies of classifiers of passages with and without pretraining.
    """

    state: dict
    held_out: dict[str, float]
    check: dict
    sources: list[str]
    pretrained: float
    scratch: float

    @classmethod
    def read(cls, folder: str) -> "Results":
        lines = list(read_lines(f"{folder}/passages/eval.tsv"))[1:]
        held_out, *classified = (
            results_in(pathlib.Path(folder, name, "eval_results.txt"))
            for name in ("pretrained", "finetuned", "from_scratch")
        )
        return cls(
            json.loads(read_text(f"{folder}/stages.json")),
            held_out,
            json.loads(read_text(f"{folder}/export_check.json")),
            [line.split("\t")[1] for line in lines],
            *(each["eval_accuracy"] for each in classified),
        )

    @property
    def minutes(self) -> float:
        return sum(stage["seconds"] for stage in self.state["done"].values()) / 60

    @property
    def commonest_source(self) -> float:
        """Accuracy of always predicting the most frequent source."""
        return max(map(self.sources.count, self.sources)) / len(self.sources)

    @property
    def commonest_token(self) -> str:
        """The most frequent token as text, in quotation marks."""
        text = self.check["most_frequent_token"].removeprefix("\u2581")
        return f"\N{LEFT DOUBLE QUOTATION MARK}{text}\N{RIGHT DOUBLE QUOTATION MARK}"


def interval(accuracy: float, examples: int) -> str:
    """Return the 95% interval of an accuracy (Wilson)."""
    low, high, _ = wilson(round(accuracy * examples), examples)
    return f"95% interval {low:.1%} to {high:.1%}"


def headlines(results: Results) -> list[Headline]:
    """Return what pretraining is good for, its results, and whether the export repeats them."""
    check, count = results.check, len(results.sources)
    masked_lm, order = (
        results.held_out[name] for name in ("masked_lm_accuracy", "sentence_order_accuracy")
    )
    difference = max(
        abs(check["masked_lm_accuracy"] - masked_lm), abs(check["sentence_order_accuracy"] - order)
    )
    return [
        Headline(
            "passages classified by source, without and with pretraining",
            f"{results.scratch:.1%} \N{RIGHTWARDS ARROW} {results.pretrained:.1%}",
            [
                f"with: {interval(results.pretrained, count)}, {count:,} passages",
                f"{results.commonest_source:.1%} by always predicting the same source",
            ],
        ),
        Headline(
            "masked tokens of held-out documents",
            f"{masked_lm:.1%}",
            [
                f"{check['most_frequent_token_accuracy']:.1%} by always predicting "
                f"{results.commonest_token}, {check['masked_tokens']:,} tokens",
            ],
        ),
        Headline(
            "order of two segments",
            f"{order:.1%}",
            [
                f"{interval(order, check['sentence_order_examples'])}, "
                f"{check['sentence_order_examples']:,} pairs",
                f"{check['most_frequent_order_accuracy']:.1%} by always giving the same answer",
            ],
        ),
        Headline(
            "exported and loaded again",
            "the same" if difference < 5e-7 else f"differs by {difference:.2g}",
            ["both accuracies, with only TensorFlow and SentencePiece"],
        ),
    ]


def pretraining(folder: str, results: Results) -> list[Section]:
    """Return the model with its curve, and held-out masks as it fills them."""
    config = AlbertConfig.from_json_file(f"{folder}/pretrained/albert_config.json")
    name, steps = "masked_lm_accuracy", results.held_out["global_step"]
    curves = [
        Curve("training", readable_rows(f"{folder}/pretrained/metrics.jsonl"), name, smoothed=True),
        Curve("held out", [{**results.held_out, "step": steps}], name),
    ]
    always = (f"always {results.commonest_token}", results.check["most_frequent_token_accuracy"])
    text = (
        f"An encoder of {config.parameter_count():,} parameters: {config.num_hidden_layers} layers "
        f"that share one set of weights, H = {config.hidden_size}, {config.vocab_size:,} pieces. "
        f"Trained for {steps:,.0f} steps. {SMOOTHED}"
    )
    charts = draw_curves("Masked-token accuracy", curves, [always], percent=True)
    made = json.loads(read_text(f"{folder}/records/eval.manifest.json"))["settings"]
    features = pretraining_features(made["max_seq_length"], made["max_predictions_per_seq"])
    index = RecordIndex.create([f"{folder}/records/eval.tfrecord"])
    held_out = HeldOut(RecordStream(index, features, 64), 1, f"{folder}/pretrained")
    tokenizer = Tokenizer.load(f"{folder}/vocabulary.model")
    sections = [Section("Pretraining", text, charts=charts), *filled_masks(held_out, tokenizer)]
    if "pairs_accuracy" in results.held_out:  # of English
        text = "How often the good one of two sentences is more probable; 50% by chance."
        sections.append(Section("Minimal pairs", text, tables=[pairs_table(results.held_out)]))
    return sections


def stages(done: dict[str, dict]) -> Section:
    """Return time and memory of every stage, and links to the reports of those that train."""
    columns = {"stage": "", "what it does": "", "seconds": ".1f", "memory, MB": ",.0f"}
    made = [(stage, done[stage.name]) for stage in STAGES if stage.name in done]
    rows = [(s.title, s.purpose, each["seconds"], each["peak_megabytes"]) for s, each in made]
    links = {
        "Report on pretraining": "pretrained/report.html",
        "on the classifier": "finetuned/report.html",
        "on the one from scratch": "from_scratch/report.html",
    }
    return Section("Stages", tables=[table(columns, rows)], links=links)


def run(options: ReportOptions) -> None:
    results = Results.read(options.output_dir)
    corpus, check = results.state["corpus"], results.check
    packages = corpus == "package_docs"
    page = Page(
        title=f"An ALBERT from text, in {results.minutes:.1f} minutes",
        subtitle="the documentation of the installed Python packages"
        if packages
        else f"the .txt files of {os.path.basename(corpus)}",
        headlines=headlines(results),
        sections=[
            *pretraining(options.output_dir, results),
            stages(results.state["done"]),
        ],
        command="make demo" if packages else f"make demo CORPUS={corpus}",
        versions=[
            ("Keras", importlib.metadata.version("keras")),
            ("Python", platform.python_version()),
        ],
    )
    write_text(f"{options.output_dir}/report.html", render(page))
    order = results.held_out["sentence_order_accuracy"]
    masked, token = results.held_out["masked_lm_accuracy"], results.commonest_token
    print(f"masked tokens   {masked:.1%} right on held-out documents")
    print(f"                {check['most_frequent_token_accuracy']:.1%} by always {token}")
    between = interval(order, check["sentence_order_examples"])
    print(f"sentence order  {order:.1%} right ({between})")
    print(f"                {check['most_frequent_order_accuracy']:.1%} by always the same answer")
    print(f"passages        {results.pretrained:.1%} right, {results.scratch:.1%} from scratch")
    print(f"                {results.commonest_source:.1%} by always the same source")


cli = command(ReportOptions, run)

if __name__ == "__main__":
    cli()
