"""The benchmarks: their arithmetic, their files, failing processes, and their commands.

That of one GPU runs on fakes.
"""

import contextlib
import dataclasses
import json
import os
import pathlib
import subprocess
import types

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.flops import pretraining_flops
from benchmarks import comparison, glue, measurements, other_language, parts
from benchmarks.comparison import OURS, PRODUCTS, Case, Options, Suite, compare, products
from benchmarks.implementations.workload import Workload
from benchmarks.interleaving import ProcessFailed, Spread, in_rounds
from benchmarks.measurements import Measurement, comparison_table, reference_of
from benchmarks.parts import pretraining_on_gpu, pretraining_step
from benchmarks.pictures import Bar, Panel, draw
from tests.conftest import ROOT, run_python

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
    assert "".join(item for _, item in in_rounds("ab", 3)) == "abbaab"


@pytest.fixture
def result():
    ours = measurement(OURS, [1.0, 2.0], amount=4.0, lower_bound=[0.5, 1.0], peak_memory=2**30)
    theirs = measurement("others", [2.0, 4.0], amount=4.0, peak_memory=2**31)
    both = [dataclasses.replace(each, details={"steps_per_round": 2}) for each in (ours, theirs)]
    table = comparison_table("A step", both, OURS)
    bars = [Bar("tiny", each.implementation, each.rate, 8.0) for each in both]
    panels = [Panel("bars", "sequences/s", bars), Panel("second", "s", bars[:1])]
    return measurements.Result("A step", both, [table], panels, {"absent": "not installed"})


def test_pictures_of_results_are_drawn_again_and_the_page_has_their_numbers(result):
    ours = result.measurements[0]
    written = json.loads((ROOT / "benchmarks/results/pretraining_step.json").read_text())
    again = [Measurement(**each) for each in written["measurements"]]
    title, panels = pretraining_step.picture(again)
    assert [panel.title for panel in panels] == ["ALBERT-base", "ALBERT-large"]
    assert all(len(panel.bars) == 4 * 3 for panel in panels)
    page = " ".join((ROOT / "docs/performance.md").read_text().split())
    assert title in page
    assert "limit of matrix products" in draw(
        "t", [Panel("p", "u", [Bar("g", "n", ours.rate, 8.0)])]
    )


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


# Parts and the ways that are at least there.
PARTS = {
    "text_to_records": {"tokenize", "1 process", "2 processes"},
    "pretraining_step": {OURS},
    "records_to_batches": {"1 core"},
    "finetuning_and_inference": {OURS},
    "scaling": {OURS},
    "startup": {OURS, "XLA", "graph", "TensorFlow"},
    "pretraining_on_gpu": {"albert_tf on JAX", "Hugging Face"},
}
QUICK, *SLOW = PARTS


@pytest.mark.integration
@pytest.mark.slow
@pytest.mark.parametrize(
    "name", [QUICK, *(pytest.param(name, marks=pytest.mark.manual) for name in SLOW)]
)
def test_quick_runs(name, tmp_path):
    flags = "--quick", f"--only={name}", "--repeats=1", f"--results={tmp_path}"
    done = run_python("-m", "benchmarks", *flags)
    assert done.returncode == 0, done.stderr
    assert f"[1/1] {name}" in done.stdout
    assert "| --- | ---: |" in done.stdout
    content = json.loads((tmp_path / f"{name}.json").read_text())
    assert {each["implementation"] for each in content["measurements"]} >= PARTS[name]
    for each in content["measurements"]:
        assert all(seconds >= 0 for seconds in each["seconds"])
    # Whatever is not installed is left out, and nothing else.
    for who, reason in content["left_out"].items():
        assert reason.startswith("ModuleNotFoundError") or "No module named" in reason, who
    assert set(parts.PARTS) == set(PARTS)


class OnGpu(Actor):
    """A step takes a second, and ten the first time; a product a microsecond."""

    failing: dict[str, str] = {}

    def run(self, steps):
        if self.name in self.failing:
            raise ProcessFailed(self, self.failing[self.name], 1)
        self.count += 1
        self.device = {"platform": "gpu", "name": "NVIDIA H100 80GB HBM3", "peak_memory": 3 * 2**30}
        if self.name == "matrix products on JAX":
            return steps * 1e-6
        return steps * (1.0 if self.count > 1 else 10.0)


@pytest.fixture
def fakes(monkeypatch):
    """Return implementations that take a given time."""
    monkeypatch.setattr(comparison, "Implementation", OnGpu)
    monkeypatch.setattr(OnGpu, "failing", {})
    return OnGpu


def test_shares_of_the_peak_and_of_the_products_rate(fakes):
    suite = Suite(Options(repeats=2, works="base"))
    result = pretraining_on_gpu.run(suite)
    made = result.measurements[0]
    flops = pretraining_flops(AlbertConfig.preset("base"), 512, 20)
    assert made.rate.median == pytest.approx(16)
    assert made.lower_bound_share.median == pytest.approx(16 * flops / (2 * 8192**3 / 1e-6))
    assert made.details["compile_seconds"] == pytest.approx(9)
    text = result.markdown()
    assert f"| albert_tf on JAX | {16 * flops / 989.4e12:.1%} | 9.0 |" in text
    assert "| 3.00 |" in text, "GiB of the GPU"


def test_what_cannot_run_is_left_out_and_reported(fakes):
    fakes.failing["albert_tf on JAX"] = "jax.errors...: RESOURCE_EXHAUSTED: 9 GiB\nand more"
    fakes.failing["Hugging Face, compiled"] = "Traceback\nImportError: no torch"
    result = pretraining_on_gpu.run(Suite(Options(repeats=1)))
    assert {made.implementation for made in result.measurements} == {
        "albert_tf on JAX, fused attention",
        "Hugging Face",
    }
    assert result.left_out["albert_tf on JAX: base, 16 x 512, bfloat16"] == "out of memory"
    assert "ImportError: no torch" in result.markdown()


@pytest.mark.integration
def test_glue_makes_the_missing_runs_and_compares(tmp_path, monkeypatch, capsys):
    (tmp_path / "WNLI").mkdir()
    for name in ("train", "dev"):
        (tmp_path / "WNLI" / f"{name}.tsv").touch()
    started = []

    @contextlib.contextmanager
    def child(words, **outputs):
        started.append(words[1])
        score = {"-m": 0.5, "run_classifier.py": 0.75}[words[1]]
        (tmp_path / "run" / "eval_results.txt").write_text(f"eval_accuracy = {score}")
        yield types.SimpleNamespace(pid=0)

    def wait4(*_):
        code, seconds = 256 * (len(started) == 3), 2.0 if started[-1] == "-m" else 1.0
        return 0, code, types.SimpleNamespace(ru_utime=seconds, ru_stime=0, ru_maxrss=2**20)

    monkeypatch.setattr(glue, "child", child)
    monkeypatch.setattr(os, "wait4", wait4)
    options = glue.Options(str(tmp_path), "model", str(tmp_path), ("WNLI",), seeds=1)
    with pytest.raises(InputError, match="auto, WNLI, albert_tf, tensorflow: failed"):
        glue.main(options)
    glue.main(options)
    assert (len(started), started.count("-m")) == (7, 3)
    row = "| auto | WNLI | 1 | 75.0 | 50.0 | +25.0 | 2.00 (2.00 to 2.00) | 1.00 and 1.00 |"
    assert row in capsys.readouterr().out


def test_runs_are_reported_by_step_and_not_run_again(tmp_path, monkeypatch, capsys):
    """Means of seeds; a run that ended early is run again, a finished one is not."""
    trained = []

    def command(words):
        done = subprocess.CompletedProcess(words, 0)
        flags = dict(word.removeprefix("--").split("=", 1) for word in words if "=" in word)
        if "convert_checkpoint.py" in words:
            pathlib.Path(flags["output"]).mkdir(parents=True)
            return done
        trained.append(flags["output_dir"])
        folder, seed = pathlib.Path(flags["output_dir"]), int(flags["random_seed"])
        assert flags.get("init_checkpoint") == (
            None if "random" in folder.name else str(folder.parent / "start")
        )
        assert flags.get("train_only") == ("embeddings:200" if "first" in folder.name else None)
        folder.mkdir(parents=True, exist_ok=True)
        rows = [
            {"step": step, "masked_lm_accuracy": step / 1000 + seed / 10, "bits_per_character": 2}
            for step in (225, 450)
        ]
        (folder / "evaluations.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
        return done

    monkeypatch.setattr(other_language, "run_child", command)
    options = other_language.Options("made", str(tmp_path), ("tr",), steps=("225", "450"), seeds=2)
    for runs in (6, 1):
        trained.clear()
        other_language.run(options)
        assert len(trained) == len(set(trained)) == runs
        assert "| tr | 225 | adapted | 27.50 ± 63.53 | 2.00 ± 0.00 |" in capsys.readouterr().out
        (tmp_path / "tr/random-1/done").unlink()
    assert "embeddings first" in (tmp_path / "tr/curves.svg").read_text()
