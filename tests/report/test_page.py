"""Charts, breakdowns and the page that holds them."""

import re

import numpy as np
import pytest

from albert_tf.report import charts
from albert_tf.report.breakdowns import by_group, by_length, calibration
from albert_tf.report.intervals import wilson
from albert_tf.report.sections import (
    MOST_ERRORS,
    SHOWN_CARDS,
    Card,
    Headline,
    Page,
    Part,
    Section,
    Shade,
    Table,
    error_section,
    excerpt,
    marked_parts,
    render,
    text_table,
)
from tests.support.html import Reader, read_page

NASTY = "<script>alert(1)</script> & \"q\" 'a' $x_{$ \u4e2d"


def page(*sections, **changes):
    fields = {
        "title": "T", "subtitle": "S", "headlines": [], "command": "c",
        "versions": [("a", "1")],
    }  # fmt: skip
    return Page(sections=sections, **{**fields, **changes})


@pytest.mark.parametrize(
    "draw",
    [
        lambda: charts.chart(NASTY, [(NASTY, [1, 2], [1, 2]), ("b", [1], [1])]),
        lambda: charts.bars(NASTY, [charts.Bar(NASTY, 0.5, 0.2, 0.7)], NASTY),
        lambda: charts.scatter(NASTY, [1.0, 2.0], [2.0, 1.0], NASTY, NASTY),
    ],
)
def test_charts_escape_their_texts(draw):
    svg = Reader(draw())
    assert "script" not in svg.names()
    assert svg.text.count(NASTY) >= 1


def test_texts_are_escaped_everywhere():
    table = Table([NASTY, "n"], [[NASTY, Shade(NASTY, 0.5)]], title=NASTY, folded=NASTY)
    parts = [Part(NASTY), Part(NASTY, "truth")]
    section = Section(NASTY, NASTY, tables=[table], cards=[Card(NASTY, [(NASTY, parts)], parts)])
    text = render(
        page(
            section, title=NASTY, subtitle=NASTY,
            headlines=[Headline(NASTY, NASTY, [NASTY], NASTY)],
            command=NASTY, versions=[(NASTY, NASTY)],
        )
    )  # fmt: skip
    reader = read_page(text)
    assert reader.text.count(NASTY) == 23
    (cell,) = [each for name, each in reader.elements if each.get("data-name") == NASTY]
    assert "style" not in cell


def test_a_page_shows_what_there_is_and_folds_the_rest():
    cards = [Card(f"card {n}", [], [Part("a"), Part("b", "truth prediction")]) for n in range(10)]
    table = Table(["a", "none", "b"], [["x", "", Shade("y", 1.0)]], frozenset({1, 2}))
    svg = charts.chart("t", [("a", [1, 2], [1, 2])], chosen=2)
    section = Section("s", charts=[svg], tables=[table], cards=cards)
    text = render(page(section))
    reader = read_page(text)
    assert "none" not in reader.text, "the column is empty"
    assert [each.get("class") for name, each in reader.elements if name == "td"] == [
        "short", "number",
    ]  # fmt: skip
    assert text.index("<details") > text.index(f"card {SHOWN_CARDS - 1}")
    assert text.index("<details") < text.index(f"card {SHOWN_CARDS}")
    assert '<mark class="truth prediction">b</mark>' in text
    assert text[text.index("<svg") :].count("prefers-color-scheme: dark") == 1


def test_spans_that_overlap_are_marked():
    parts = marked_parts("abcdef", [(1, 4, "truth"), (3, 5, "prediction")])
    assert parts == [
        Part("a"), Part("bc", "truth"), Part("d", "truth prediction"), Part("e", "prediction"),
        Part("f"),
    ]  # fmt: skip


def test_calibration():
    confidence = np.array([0.95, 0.95, 0.65, 0.65])
    section = calibration(confidence, np.array([True, False, True, True]))
    assert "mean probability of 80.0%, and 75.0%" in section.text
    assert "calibration error is 40.0%" in section.text  # the mean of 0.45 and 0.35
    assert len(section.charts) == 1


def test_tables_as_text_align_numbers_to_the_right():
    rows = [("one", 1), ("twelve", "12"), ("", 3)]
    assert text_table(("name", "count"), rows, {1}) == (
        "name    count\none         1\ntwelve     12\n            3"
    )
    assert text_table(("name", "count"), rows) == "name    count\none     1\ntwelve  12\n        3"


def test_errors_are_counted_and_the_first_shown():
    rows = [(f"text {n}",) for n in range(MOST_ERRORS + 5)]
    section = error_section({"text": ""}, rows, 100)
    assert (
        section.text
        == f"{len(rows)} of 100 examples are predicted incorrectly. The 20 worst are listed."
    )
    assert section.tables[0].rows == rows[:MOST_ERRORS]
    none = error_section({"text": ""}, [], 7, unit="questions")
    assert none.text == "All 7 questions are predicted correctly."
    assert not none.tables


def test_long_texts_lose_their_middle():
    assert excerpt("abc", 10) == "abc"
    assert excerpt("a" * 50 + "b" * 50, 10) == "aaaaa [...] bbbbb"
    assert excerpt("one two three four five six", 16) == "one two [...] six"


def test_groups():
    right = np.array([True, False, True, True])
    section = by_group("By set", ["x", "x", "y", "y"], right)
    rows = section.tables[0].rows
    assert [row[:3] for row in rows] == [("x", "2", "50.0%"), ("y", "2", "100.0%")]
    low, high, _ = wilson(1, 2)
    assert rows[0][3] == f"{100 * low:.1f} to {high:.1%}"
    Reader(section.charts[0])


@pytest.mark.integration
def test_lengths_are_parted_without_a_gap():
    draw = np.random.default_rng(1)
    for _ in range(20):
        lengths = draw.integers(1, draw.integers(3, 60), draw.integers(2, 200))
        right = draw.random(len(lengths)) < 0.5
        sections = by_length(lengths, right)
        if len(set(lengths)) == 1:
            assert sections == []
        if not sections:
            continue
        rows = sections[0].tables[0].rows
        assert 2 <= len(rows) <= 5
        bounds = [list(map(int, re.findall(r"\d+", row[0]))) for row in rows]
        assert bounds == sorted(bounds)
        for bound, row in zip(bounds, rows, strict=True):
            of = right[(lengths >= bound[0]) & (lengths <= bound[-1])]
            assert row[1] == f"{len(of):,}"
            assert row[2] == f"{of.mean():.1%}"
        assert sum(int(row[1]) for row in rows) == len(lengths)
