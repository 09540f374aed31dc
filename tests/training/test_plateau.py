"""Recorded curves of runs that stay on the plateau, and of runs that leave it."""

import json
import pathlib

import pytest

from albert_tf.training.health import PlateauWatch

CURVES = json.loads(pathlib.Path(__file__).with_name("plateau_curves.json").read_text())


def judged(name: str, at: int, resumed_from: int = 0) -> list[str]:
    """Return all advice for a run that is judged at a step, from its recorded curve."""
    rows = [
        {"step": step, "masked_lm_loss": loss, "masked_lm_accuracy": accuracy}
        for step, loss, accuracy in CURVES[name]
    ]
    before = [row for row in rows if row["step"] <= resumed_from]
    watch = PlateauWatch(10 * at, before)
    return [line for row in rows[len(before) :] if (line := watch.advice(row))]


@pytest.mark.parametrize(
    ("name", "at", "stays"),
    [
        ("lamb", 1000, True),
        ("lamb", 2400, False),
        ("adamw", 1000, True),
        ("adamw", 2400, False),
        ("muon", 1200, False),
        ("muon, high rate", 1200, True),
    ],
)
def test_a_run_is_judged_once(name, at, stays):
    for resumed_from in (0, at // 3, at - 100):
        lines = judged(name, at, resumed_from)
        assert len(lines) == stays
        assert all(line.startswith(f"step {at}: still on the plateau") for line in lines)
    assert judged(name, at, resumed_from=at) == []


def test_fine_tuning_and_runs_without_earlier_records_are_not_judged():
    watch = PlateauWatch(2000)
    assert [watch.advice({"step": step, "loss": 1.0}) for step in (500, 1000)] == [None, None]
    row = {"masked_lm_loss": 5.7, "masked_lm_accuracy": 0.14}
    assert PlateauWatch(2000).advice({"step": 1000, **row}) is None


def test_a_line_says_how_much_was_learned():
    watch = PlateauWatch(2000)
    for step in range(100, 1000, 100):
        watch.advice({"step": step, "masked_lm_loss": 5.8, "masked_lm_accuracy": 0.14})
    line = watch.advice({"step": 1000, "masked_lm_loss": 5.7, "masked_lm_accuracy": 0.15})
    assert "15.0% of the masked tokens" in line
    assert "fell by only 1.7%" in line


@pytest.mark.parametrize(("loss", "accuracy"), [(5.79, 0.3), (5.4, 0.15)])
def test_a_run_that_has_learned_or_learns_quickly_gets_no_advice(loss, accuracy):
    watch = PlateauWatch(2000)
    for step in range(100, 1000, 100):
        watch.advice({"step": step, "masked_lm_loss": 5.8, "masked_lm_accuracy": accuracy})
    row = {"step": 1000, "masked_lm_loss": loss, "masked_lm_accuracy": accuracy}
    assert watch.advice(row) is None
