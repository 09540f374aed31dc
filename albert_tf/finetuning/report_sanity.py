"""What a report shows first: whether the model has learned anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from albert_tf.finetuning.task import ExampleSet, FineTuningTask, Outputs
from albert_tf.report.sections import Section, Table

# Words in names of results: a constant answer has no meaningful loss, and totals are no scores.
_NOT_SCORES = frozenset({"loss", "total"})

_COLLAPSED = "Try a lower --learning_rate, a longer warm-up, or another --random_seed."


def sanity_sections(
    task: FineTuningTask,
    reported: Sequence[tuple[ExampleSet, Outputs]],
    results: Mapping[str, str],
) -> list[Section]:
    """Warnings of sets with the same prediction throughout, and the scores of a constant answer.

    Args:
        task: computes them.
        reported: sets with the outputs of the model; only those of the split "eval" count.
        results: name -> value, as in `eval_results.txt`.
    """
    sections = []
    for examples, outputs in reported:
        if examples.split != "eval":
            continue
        if reason := task.collapse(outputs):
            text = f"{reason[0].upper()}{reason[1:]}. {_COLLAPSED}"
            title = _title("Warning: this run has collapsed", examples)
            sections.append(Section(title, text))
        if baseline := task.baseline(examples):
            rows = [
                (name, results[name], f"{value:.8g}")
                for name, value in baseline.results.items()
                if name in results and _NOT_SCORES.isdisjoint(name.split("_"))
            ]
            table = Table(("result", "model", baseline.answer), rows, frozenset({1, 2}))
            text = "The scores of the same answer for every example, without a model."
            sections.append(Section(_title("Baseline", examples), text, tables=[table]))
    return sorted(sections, key=lambda section: not section.title.startswith("Warning"))


def _title(text: str, examples: ExampleSet) -> str:
    return f"{text}: {examples.name}" if examples.name else text
