"""The benchmark suite: its arithmetic, its files, failing processes, and its command."""

import dataclasses
import json
import subprocess
import sys

import pytest

from benchmarks import comparison, measurements, parts
from benchmarks.comparison import (
    OURS,
    PRODUCTS,
    Case,
    Options,
    Suite,
    compare,
    products,
)  # fmt: skip
from benchmarks.implementations.workload import Workload
from benchmarks.interleaving import ProcessFailed, Spread, interleave
from benchmarks.measurements import Measurement, comparison_table, reference_of
from benchmarks.pictures import Bar, Panel

WORKLOAD = Workload("pretraining", {"vocab_size": 60}, 4, 16, 2)


def measurement(way, seconds, **more):
    return Measurement("tiny", way, seconds, **more)


def test_ratios_are_of_a_unit_of_work_in_the_same_round():
    ours = measurement("ours", [2.0, 4.0], amount=8.0)
    theirs = measurement("theirs", [2.0, 2.0], amount=2.0)
    assert (ours.rate, ours.unit_seconds) == (Spread(3.0, 2.0, 4.0), Spread(0.375, 0.25, 0.5))
    assert theirs.times_as_long(ours) == Spread(3.0, 2.0, 4.0)


def test_only_the_same_work_in_the_same_rounds_is_compared():
    ours, theirs = measurement("ours", [1.0]), measurement("theirs", [2.0])
    elsewhere = dataclasses.replace(ours, work="base")
    assert reference_of(theirs, [elsewhere, ours, theirs], "ours") is ours
    assert reference_of(ours, [ours, theirs], "ours") is None
    assert reference_of(measurement("x", [1.0, 2.0]), [ours], "ours") is None


def test_every_other_round_is_in_reverse_order():
    order = []
    ways = {name: lambda name=name: order.append(name) or len(order) for name in "ab"}
    assert interleave(ways, 3) == {"a": [1, 4, 5], "b": [2, 3, 6]}
    assert "".join(order) == "abbaab"


@pytest.fixture
def result():
    ours = measurement(OURS, [1.0, 2.0], amount=4.0, lower_bound=[0.5, 1.0], peak_memory=2**30)
    theirs = measurement("others", [2.0, 4.0], amount=4.0, peak_memory=2**31)
    both = [dataclasses.replace(each, details={"steps_per_round": 2}) for each in (ours, theirs)]
    table = comparison_table("A step", both, OURS)
    bars = [Bar("tiny", each.implementation, each.rate, 8.0) for each in both]
    panels = [Panel("bars", "sequences/s", bars), Panel("second", "s", bars[:1])]
    return measurements.Result("A step", both, OURS, [table], panels, {"absent": "not installed"})


def test_the_table_compares_with_ours(result):
    heads, _, ours, theirs = result.markdown().splitlines()[2:6]
    assert heads.count("|") == ours.count("|") == theirs.count("|")
    assert "| albert_tf | 3.00 (2.00 to 4.00) |  | 50% | 1.00 |" in ours
    assert "| others | 1.50 (1.00 to 2.00) | 2.00 (2.00 to 2.00) |  | 2.00 |" in theirs
    assert result.markdown().endswith("Left out: absent: not installed")


class Actor:
    """Stands in for a process: its name determines the time of a step; "dies" fails in a round."""

    started: list[str] = []

    def __init__(self, name, workload):
        self.name, self.peak_memory, self.count, self.device = name, 1, 0, {}
        self.started.append(name)
        if name == "absent":
            raise ProcessFailed(self, "ModuleNotFoundError: No module named 'absent'", 1)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        pass

    def run(self, steps):
        self.count += 1
        if self.name == "dies" and self.count > 4:
            raise ProcessFailed(self, "MemoryError: too large", 1)
        return steps * {"slow": 2.0, "dies": 2.0, PRODUCTS: products("float32").flops / 1e10}.get(
            self.name, 0.5
        )


def test_the_others_continue_when_one_fails(monkeypatch):
    monkeypatch.setattr(comparison, "Implementation", Actor)
    monkeypatch.setattr(Actor, "started", [])
    suite, left_out = Suite(Options(repeats=3)), {}
    suite.round_seconds = 4.0
    names = ["fast", "dies", "absent", "slow"]
    cases = [Case(name.title(), name, WORKLOAD, int(1e9), "tiny") for name in names]
    fast, slow = compare(suite, "test", cases, left_out)
    assert left_out == {
        "absent": "ModuleNotFoundError: No module named 'absent' (exit code 1)",
        "Dies: tiny": "MemoryError: too large (exit code 1)",
    }
    # Every round has the requested length.
    assert (fast.implementation, slow.implementation) == ("Fast", "Slow")
    assert list(fast.seconds) == list(slow.seconds) == [4.0] * 3
    assert (fast.amount, slow.amount) == (8 * 4, 2 * 4)
    assert slow.times_as_long(fast) == Spread(4.0, 4.0, 4.0)
    # 1e9 operations a sequence, at 1e10 a second, in rounds of several products.
    assert fast.lower_bound == pytest.approx([0.1 * 32] * 3)
    assert fast.lower_bound_share.median == pytest.approx(0.8)
    # What cannot be imported is not started again, but is reported again.
    assert compare(suite, "test", [cases[2]], again := {}) == []
    assert list(again) == ["absent"]
    assert Actor.started.count("absent") == 1


def bench(*flags):
    words = [sys.executable, "-m", "benchmarks", *flags]
    return subprocess.run(words, capture_output=True, text=True)


# Parts and the ways that are at least there.
QUICK = {
    "text_to_records": {"tokenize", "1 process", "2 processes"},
}
SLOW = {
    "pretraining_step": {OURS},
    "records_to_batches": {"1 core"},
    "finetuning_and_inference": {OURS},
    "scaling": {OURS},
    "startup": {OURS, "XLA", "graph", "TensorFlow"},
}


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(name, marks=pytest.mark.manual) for name in SLOW)],
)
def test_quick_runs(name, tmp_path):
    done = bench("--quick", f"--only={name}", "--repeats=1", f"--results={tmp_path}")
    assert done.returncode == 0, done.stderr
    assert f"[1/1] {name}" in done.stdout
    assert "| --- | ---: |" in done.stdout
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert {each["implementation"] for each in content["measurements"]} >= {**QUICK, **SLOW}[name]
    for each in content["measurements"]:
        assert all(seconds >= 0 for seconds in each["seconds"])
    # Whatever is not installed is left out, and nothing else.
    for who, reason in content["left_out"].items():
        assert reason.startswith("ModuleNotFoundError") or "No module named" in reason, who
    assert set(parts.PARTS) == {*QUICK, *SLOW}
