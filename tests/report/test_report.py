"""Charts, breakdowns, 95 % intervals, and the page that holds them."""

import re

import numpy as np
import pytest

from albert_tf.finetuning.metrics import METRICS
from albert_tf.report import charts
from albert_tf.report.breakdowns import by_group, by_length, calibration
from albert_tf.report.intervals import (
    RESAMPLES,
    Interval,
    bootstrap,
    bootstrap_mean,
    number_text,
    wilson,
)
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
    cards = [Card(NASTY, [(NASTY, parts)], parts)]
    section = Section(NASTY, NASTY, tables=[table], cards=cards)
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


def test_names_and_values_are_at_the_ends_of_curves():
    svg = charts.chart("t", [("a", [1, 2], [0, 0.5]), ("b", [1, 2], [0, 0.49])], named_at_ends=True)
    places = {name: float(y) for y, name in re.findall(r'y="([\d.]+)"[^>]*>([ab] [\d.]+%)<', svg)}
    assert places["a 50.0%"] < places["b 49.0%"] - 10, "b's is below its curve"


def test_a_page_shows_what_there_is_and_folds_the_rest():
    cards = [Card(f"card {n}", [], [Part("a"), Part("b", "truth prediction")]) for n in range(10)]
    table = Table(["a", "none", "b"], [["x", "", Shade("y", 1.0)]], frozenset({1, 2}))
    svg = charts.chart("t", [("a", [1, 2], [1, 2])], chosen=2)
    text = render(page(Section("s", charts=[svg], tables=[table], cards=cards)))
    reader = read_page(text)
    assert "none" not in reader.text, "the column is empty"
    classes = [each.get("class") for name, each in reader.elements if name == "td"]
    assert classes == ["short", "number"]
    assert text.index("<details") > text.index(f"card {SHOWN_CARDS - 1}")
    assert text.index("<details") < text.index(f"card {SHOWN_CARDS}")
    assert '<mark class="truth prediction">b</mark>' in text
    (dark,) = re.findall("prefers-color-scheme: dark.*", text[text.index("<svg") :])
    assert '"fill: #ffffff"] { fill: transparent' in dark, "the page shows through"


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
    errors = f"{len(rows)} of 100 examples are predicted incorrectly. The 20 worst are listed."
    assert section.text == errors
    shown, folded = section.tables
    assert [*shown.rows, *folded.rows] == rows[:MOST_ERRORS]
    assert folded.folded == f"{len(folded.rows)} more"
    assert not shown.folded
    none = error_section({"text": ""}, [], 7, unit="questions")
    assert none.text == "All 7 questions are predicted correctly."
    assert not none.tables


def test_long_texts_lose_their_middle():
    assert excerpt("abc", 10) == "abc"
    assert excerpt("a" * 50 + "b" * 50, 10) == "aaaaa [...] bbbbb"
    assert excerpt("one two three four five six", 16) == "one two [...] six"


def test_groups():
    right = np.array([True, False, True, True])
    (section,) = by_group("By set", ["x", "x", "y", "y"], right)
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


@pytest.mark.parametrize(("right", "count"), [(0, 10), (10, 10), (1, 1), (3, 7)])
def test_wilson_by_its_formula(right, count):
    z, share = 1.959964, right / count
    middle = (share + z**2 / (2 * count)) / (1 + z**2 / count)
    half = z / (1 + z**2 / count) * np.sqrt(share * (1 - share) / count + (z / count / 2) ** 2)
    interval = wilson(right, count)
    assert interval.low == pytest.approx(middle - half, abs=1e-6)
    assert interval.high == pytest.approx(middle + half, abs=1e-6)


@pytest.mark.parametrize(
    ("value", "low", "high", "percent", "texts"),
    [
        (68.868, 62.35, 74.72, True, ("68.9%", "62.4 to 74.7%")),
        (50.0, 10.0, 90.0, True, ("50%", "10 to 90%")),
        (90.123, 90.1, 90.2, True, ("90.12%", "90.10 to 90.20%")),
        (0.62555, 0.5677, 0.6882, False, ("0.626", "0.568 to 0.688")),
        (11873.0, 1.0, 1.0, False, ("11,873", "")),
        (100.0, 100.0, 100.0, True, ("100.0%", "")),
    ],
)
def test_digits_fit_the_interval(value, low, high, percent, texts):
    assert number_text(value, Interval(low, high, ""), percent) == texts


def test_bootstrap_of_a_mean_is_that_of_the_normal_distribution(monkeypatch):
    values = np.random.default_rng(3).normal(5, 2, 400)
    interval = bootstrap_mean(values)
    error = 1.96 * values.std() / 20
    assert interval.low == pytest.approx(values.mean() - error, abs=0.04)
    assert interval.high == pytest.approx(values.mean() + error, abs=0.04)
    assert interval != bootstrap(lambda counts: counts @ values / 400, 400, seed=1)
    monkeypatch.setattr("albert_tf.report.intervals._MOST_COUNTS", 400 * 7)
    assert bootstrap_mean(values)[:2] == pytest.approx(interval[:2]), "in parts"


def test_draws_that_are_not_a_number_are_left_out():
    # The mean of the ones alone: nothing where none was drawn.
    low, high, _ = bootstrap(lambda counts: np.where(counts[:, 1], 1.0, np.nan), 2)
    assert (low, high) == (1, 1)
    assert np.isnan(bootstrap(lambda counts: np.full(len(counts), np.nan), 2).low)


def arrays(name, draw):
    """Return the truth and the predictions of a few examples."""
    count = draw.integers(2, 12)
    if name in ("pearson", "spearman", "mse"):  # with ties, and samples of equal values
        return draw.integers(0, 4, count) / 7, draw.integers(0, 4, count) / 3
    if name == "f1" or draw.random() < 0.3:
        return draw.integers(0, 2, (2, count))
    if name in ("micro_f1", "macro_f1", "exact_match") and draw.random() < 0.5:
        return draw.integers(0, 2, (2, count, 3))  # sets of labels
    return draw.integers(0, 4, (2, count))


@pytest.mark.parametrize("name", METRICS)
@pytest.mark.filterwarnings("ignore")  # of samples that lack a label
def test_metrics_of_many_samples_are_those_of_each(name):
    draw = np.random.default_rng(4)
    for _ in range(8):
        truth, predicted = arrays(name, draw)
        rows = draw.integers(0, len(truth), (10, len(truth)))
        counts = np.array([np.bincount(each, minlength=len(truth)) for each in rows], float)
        np.testing.assert_allclose(
            METRICS[name].of_samples(truth, predicted, counts),
            [METRICS[name].compute(truth[each], predicted[each]) for each in rows],
            atol=1e-12,
        )


def test_samples_are_drawn_with_replacement_one_after_the_other():
    draw, values = np.random.default_rng(0), np.random.default_rng(1).normal(size=30)
    means = [values[draw.integers(0, 30, 30)].mean() for _ in range(RESAMPLES)]
    assert bootstrap_mean(values)[:2] == pytest.approx(np.percentile(means, [2.5, 97.5]))
