"""The report of a run, of a task that nothing was trained for."""

import dataclasses
import json
import shlex
from types import SimpleNamespace

import numpy as np
import pytest

from albert_tf.finetuning.run_report import write_report
from albert_tf.finetuning.task import Baseline, ExampleSet
from albert_tf.input.examples import Features
from albert_tf.report.intervals import Interval
from albert_tf.report.sections import Section, Table
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.training.command_line import command_line, commands, versions
from albert_tf.training.folder import START_FILE, start_file
from tests.conftest import parsed
from tests.support.html import read_page

NASTY = "<script>alert(1)</script>"


@pytest.fixture
def options(tmp_path):
    return MultipleChoiceOptions(
        output_dir=str(tmp_path), albert_config_file="c.json", spm_model_file="v.model",
        data_dir="some data", max_seq_length=9, max_qa_length=130, learning_rate=2e-5,
        do_train=False,
    )  # fmt: skip


@pytest.fixture
def examples():
    sequences = [([1] * length, [0] * length) for length in (4, 9, 9)]
    return ExampleSet("eval", "one", ["a", "b", "c"], Features(sequences, 0, tokens_cut=[0, 2, 5]))


def task_of(sections):
    asked = []

    def report_sections(examples, outputs):
        asked.append((examples.split, examples.name, outputs))
        return sections

    return SimpleNamespace(
        metric="eval_accuracy",
        metric_names=("eval_accuracy", "eval_loss"),
        percent=False,
        title="Kind",
        data_name=lambda examples: "data.json",
        report_sections=report_sections,
        asked=asked,
        collapse=lambda _, outputs: "every prediction is 'A'" if "logits" in outputs else None,
        baseline=lambda examples: Baseline("always 'A'", {"eval_accuracy": 0.7, "eval_loss": 9.0}),
    )


def test_everything_in_one_page(options, examples, tmp_path):
    (tmp_path / "eval_results.txt").write_text(
        "eval_accuracy = 0.66666667\neval_loss = 1.25\nglobal_step = 30\n"
    )
    training = [
        {"step": n, "loss": 1 / n, "classification_accuracy": 0.5, "learning_rate": 1e-3}
        for n in (10, 20, 30)
    ]
    lines = [json.dumps(row) for row in [*training, {"step": 30, "nonfinite_steps": 1.0}]]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 40, "lo']))
    evaluation = {"step": 20, "eval_accuracy": 0.5, "eval_loss": 1.5}
    (tmp_path / "evaluations.jsonl").write_text(json.dumps(evaluation) + "\n")
    outputs = {"logits": np.zeros((3, 2))}
    section = Section(
        "Errors",
        tables=[Table(["text"], [[NASTY]])],
        intervals={"eval_accuracy": Interval(0.2077, 0.9385, "Wilson")},
    )
    task = task_of([section])
    write_report(options, task, [examples], [(examples, outputs)])
    assert task.asked == [("eval", "one", outputs)]

    page = read_page((tmp_path / "report.html").read_text())
    assert "Kind: data.json" in page.text
    headline = "Accuracy 67% 95% interval 21 to 94% (Wilson) baseline 70% (always 'A') Not better"
    assert headline in page.text
    row = "eval_accuracy 67% 21 to 94% Wilson 70% (always 'A'). Not better than the baseline"
    assert f"{row} eval_loss 1.25 global_step 30" in page.text
    assert "The dotted line is the checkpoint: step 30 of 30." in page.text
    assert NASTY in page.text
    assert "Errors: one" in page.text
    warning = "Warning: this run has collapsed: one Every prediction is 'A'."
    assert page.text.index(warning) < page.text.index("Results")
    for title in ("Loss", "Training accuracy", "Evaluation", "Learning rate"):
        assert title in page.text
    assert sum(name == "svg" for name in (name for name, _ in page.elements)) == 4
    assert "eval one 3 2 (66.7%) 3 7 9 9" in page.text
    assert "'--data_dir=some data'" in page.text
    for name, version in versions():
        assert f"{name} {version}" in page.text
    assert "--max_qa_length=130" in page.text


def test_several_runs_are_compared(options, examples, tmp_path):
    (tmp_path / "eval_results.txt").write_text("eval_accuracy = 0.5\n")
    row = {"folder": "seed-1", "eval_accuracy": 0.5, "collapsed": "", "minimum": None}
    runs = {"metric": "eval_accuracy", "best": "seed-1", "settings": [row], "runs": [row, row]}
    (tmp_path / "seeds.json").write_text(json.dumps(runs))
    (tmp_path / "seed-1").mkdir()
    (tmp_path / "seed-1" / "metrics.jsonl").write_text('{"step": 1, "loss": 2.0}\n')
    write_report(options, task_of([]), [examples], [(examples, {})])
    page = read_page((tmp_path / "report.html").read_text())
    assert "Best run: seed-1." in page.text
    assert page.text.count("seed-1 0.5") == 3
    assert "collapsed: " not in page.text
    assert "Loss" in page.text, "the curves are those of the best run"


def test_predictions_alone_leave_the_report_of_the_evaluation(options, examples, tmp_path):
    (tmp_path / "eval_results.txt").write_text("eval_accuracy = 0.5\n")
    (tmp_path / "report.html").write_text("of the evaluation")
    predicted = dataclasses.replace(examples, split="predict")
    write_report(options, task_of([Section("Guesses")]), [predicted], [(predicted, {})])
    assert (tmp_path / "report.html").read_text() == "of the evaluation"
    page = read_page((tmp_path / "report_predictions.html").read_text())
    assert "Guesses: one" in page.text
    assert "eval_accuracy" not in page.text


def test_a_report_on_an_evaluation_has_the_command_that_trained(options, tmp_path):
    trained = dataclasses.replace(options, do_train=True, learning_rate=3e-4)
    (tmp_path / START_FILE).write_text(start_file(trained, "")[START_FILE])
    assert commands(options) == f"{command_line(trained)}\n\n{command_line(options)}"
    assert commands(trained) == command_line(trained)
    (tmp_path / START_FILE).write_text("[]")
    assert commands(options) == command_line(options)


def test_the_command_gives_the_same_options(options):
    options = dataclasses.replace(
        options, middle_only=True, data_dir="a 'b' c", init_checkpoint="x"
    )
    words = shlex.split(command_line(options))
    given = (word for word in words if word.startswith("--"))
    assert parsed(MultipleChoiceOptions, "program", *given) == options
    assert not [word for word in words if "warmup" in word], "what is as usual is left out"
