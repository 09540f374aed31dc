"""Tables, findings and sections of the page, from the results of studies."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from experiments.results import Agreement, Difference, Estimate, Row, agreement
from experiments.study import Column, Study


def table(study: Study, rows: Sequence[Row]) -> str:
    """Return Markdown tables: ours with the difference from the reference; the paper's numbers."""
    columns = [column for column in study.columns if any(row.estimate(column) for row in rows)]
    theirs = list(dict.fromkeys(name for row in rows for name in row.paper))
    compared = [study.compared] if study.compared in columns and len(rows) > 1 else []
    heads = [column.heading for column in columns]
    heads += [f"difference in {column.heading.removesuffix(', %')}" for column in compared]
    reference = reference_of(study, rows)
    ours = [
        [row.name, *(_cell(column, row) for column in columns)]
        + [_difference(column, row, reference) for column in compared]
        for row in rows
    ]
    paper = [
        [row.name, *(str(row.paper.get(name, "")) for name in theirs)] for row in rows if row.paper
    ]
    tables = [_markdown(["", *heads], ours)]
    return "\n\n".join(tables + [_markdown(["in the paper", *theirs], paper)] * bool(paper))


def _markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [heads, ["---", *["---:"] * (len(heads) - 1)], *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def reference_of(study: Study, rows: Sequence[Row]) -> Row:
    """Return the row that the others are compared with."""
    names = [row.name for row in rows]
    return rows[names.index(study.reference)] if study.reference in names else rows[0]


def _cell(column: Column, row: Row) -> str:
    estimate = row.estimate(column)
    if estimate is None:
        return f"{100 * column.chance:.1f} (chance)" if column.chance is not None else ""
    return _text(column, estimate)


def _text(column: Column, estimate: Estimate) -> str:
    scale = 100 if column.percent else 1
    mean, margin = scale * estimate.mean, scale * estimate.margin
    if np.isnan(margin) or margin == 0:
        return f"{mean:,.0f}" if mean >= 1000 else f"{mean:.3g}"
    places = 1 if column.percent else max(0, 1 - int(np.floor(np.log10(margin))))
    return f"{mean:,.{places}f} ± {margin:,.{places}f}"


def _difference(column: Column, row: Row, reference: Row) -> str:
    if row is reference:
        return "reference"
    ours, others = (each.values.get(column.heading) for each in (row, reference))
    difference = Difference.of(ours, others) if ours and others else None
    if difference is None:
        return ""
    scale = 100 if column.percent else 1
    text = f"{scale * difference.value:+.3g}"
    return f"**{text}**" if difference.is_clear else f"({text})"


def findings(study: Study, rows: Sequence[Row]) -> str:
    """Return what the numbers show, in sentences."""
    found: Agreement = agreement(study, rows)
    if not found.pairs:
        return ""
    heading = study.compared.heading
    if max(len(row.values.get(heading, ())) for row in rows) < 2:
        return "One seed does not tell differences between models from those between seeds."
    if not found.clear:
        return f"No two models differ in “{heading}” by more than the spread of the seeds."
    differ = "differs" if found.clear == 1 else "differ"
    sentences = [
        f"Pairs of models that the paper compares: {found.pairs}. Of these, {found.clear} {differ} "
        f"here in “{heading}” by more than the spread of the seeds, {found.agree} of them in the "
        "order of the paper."
    ]
    if found.disagree:
        pairs = "; ".join(f"“{ours}” is better than “{other}”" for ours, other in found.disagree)
        sentences.append(f"Contrary to the paper, {pairs}.")
    return " ".join(sentences)


def section(
    study: Study, results: Mapping[str, Any], pictures: Sequence[tuple[str, str]]
) -> list[str]:
    """Return lines of a study's section of the page.

    Args:
        study: the study.
        results: content of its `results.json`.
        pictures: (path, description) of each.
    """
    rows = [Row(**row) for row in results["rows"]]
    # Speeds have a value for each round, whatever the number of seeds.
    seeds = max(len(row.curves) for row in rows)
    rounds = max(len(values) for row in rows for values in row.values.values())
    runs = f"Seeds: {seeds}" if study.trains else f"Rounds: {rounds}"
    machine = results["machine"]
    lines = [
        f"## {study.title}",
        "",
        f"Paper: {study.source}. {study.question}",
        "",
        "```",
        " \\\n    ".join(textwrap.wrap(results["command"], 84, break_on_hyphens=False)),
        "```",
        "",
        table(study, rows),
        "",
        f"{runs}. {results['date']}, {machine['cpu']}, {machine['cores']} cores.",
        "",
    ]
    if text := findings(study, rows):
        lines += [text, ""]
    if study.notes:
        lines += [study.notes.strip(), ""]
    # In one paragraph, so that the site shows them in pairs.
    lines += [f"![{description}]({path})" for path, description in pictures]
    return [*lines, ""]


def overview(studies: Sequence[Study]) -> str:
    """Return a table of what the paper claims, and what was found of it."""
    rows = [
        f"| {study.finding.claim} | {study.finding.holds} | {study.finding.numbers} "
        f"| [{study.title}](#{study.title.lower().replace(' ', '-')}) |"
        for study in studies
        if study.finding
    ]
    return "\n".join(["| the paper | here | numbers | study |", "|---|---|---|---|", *rows])


def unmeasured(studies: Mapping[str, Study]) -> list[str]:
    """Return lines of the section of the studies without results, by name."""
    if not studies:
        return []
    rows = [f"| `{name}` | {each.source} | {each.question} |" for name, each in studies.items()]
    return ["## Not measured yet", "", "| study | paper | question |", "|---|---|---|", *rows, ""]
