"""Training ends after so many minutes: at the step that fits, over restarts, on all workers."""

import contextlib
import dataclasses
import json
import logging
import threading
import types

import numpy as np
import pytest

from albert_tf.config import AlbertConfig
from albert_tf.engines.steps import StepResults
from albert_tf.engines.workers import Workers
from albert_tf.training import loop
from albert_tf.training.evaluation import PeriodicEvaluation
from albert_tf.training.health import Workload
from albert_tf.training.log import TrainingLog
from albert_tf.training.options import PretrainingOptions

COMPILING = 60.0
OPTIONS = PretrainingOptions(
    output_dir="out",
    num_train_steps=1000,
    save_checkpoints_steps=20,
    iterations_per_loop=10,
    train_batch_size=8,
    max_seq_length=8,
    max_train_minutes=25 / 60,
)


class Clock(threading.local):
    """Replaces the module `time`; every thread has a time of its own."""

    now = 0.0
    seconds_per_step = 1.0

    def monotonic(self) -> float:
        return self.now


class Step:
    """Takes a second per step, and a minute to compile; nothing is computed."""

    def __init__(self, clock: Clock, step: int = 0, dies_at: int | None = None):
        self.clock, self.step, self.dies_at, self.calls = clock, step, dies_at, []
        self.model, self.objective = types.SimpleNamespace(config=AlbertConfig(vocab_size=10)), None

    def __call__(self, batches, count: int) -> StepResults:
        self.clock.now += count * self.clock.seconds_per_step + COMPILING * (not self.calls)
        self.calls.append(count)
        self.step += count
        if self.dies_at is not None and self.step >= self.dies_at:
            raise KeyboardInterrupt
        return StepResults({}, {}, {}, {"length": np.full(count, 8.0)})

    def check_replicas(self) -> None:
        pass


class Checkpoints(contextlib.AbstractContextManager):
    """Notes the steps that are saved."""

    def __init__(self, step: Step):
        self.step, self.saved, self.latest, self.good = step, [], None, None
        self.folder = types.SimpleNamespace(find=lambda argument: "")

    def __exit__(self, *error) -> None:
        pass

    def save(self, is_good: bool) -> None:
        self.saved.append(self.step.step)
        self.latest = f"model.ckpt-{self.step.step}"

    def check(self, *steps) -> None:
        pass

    wait = resume = check


HEALTH = types.SimpleNamespace(
    metrics=lambda results, step: {},
    check=lambda good: None,
    warning=lambda step, good: None,
    ending=lambda good: None,
    resume=lambda rows: [],
    is_good=True,
)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(loop, "time", clock)
    monkeypatch.setattr(loop, "Health", lambda *given: HEALTH)
    return clock


def run(clock, folder, step=0, dies_at=None, workers=None, evaluation=None, **changes):
    """Train from a step on; return the calls of the step and the checkpoints."""
    training_step = Step(clock, step, dies_at)
    checkpoints = Checkpoints(training_step)
    engine = types.SimpleNamespace(
        workers=workers or Workers(),
        iterate=lambda stream, step: iter(stream),
        devices=types.SimpleNamespace(memory_peak=lambda: None, peak_flops=lambda peak: None),
    )
    options = dataclasses.replace(OPTIONS, output_dir=str(folder), **changes)
    loop.train(engine, training_step, [], checkpoints, options, 1.0, evaluation)
    return training_step.calls, checkpoints.saved


def seconds(folder) -> list[float]:
    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line)["training_seconds"] for line in lines]


def test_the_last_call_has_the_steps_that_fit(clock, tmp_path, capsys):
    # One step to compile, which does not count, and 25 seconds of one step each.
    assert run(clock, tmp_path) == ([1, 1, 10, 8, 6], [20, 26])
    assert seconds(tmp_path) == [0, 1, 11, 19, 25]
    line = "stopping after step 26: trained for 0.4167 minutes, of which 0.416667 were allowed"
    assert capsys.readouterr().out == f"{line}\n"


def test_the_progress_line_has_the_time_to_the_limit(tmp_path, capsys):
    with contextlib.closing(TrainingLog(str(tmp_path), 10**9, 0, Workload(8, float))) as log:
        log.write(1, {}, np.full(1, 8.0), seconds_left=65.0)
    assert capsys.readouterr().err.startswith("step 1/1000000000  1:05 left  ")


def test_a_run_that_is_killed_has_the_rest_and_then_is_over(clock, tmp_path, caplog):
    with pytest.raises(KeyboardInterrupt):
        run(clock, tmp_path, dies_at=23)
    # What was trained after the checkpoint of step 20 is lost, with its time.
    assert run(clock, tmp_path, step=20) == ([1, 1, 5], [27])
    assert seconds(tmp_path) == [0, 1, 11, 19, 19, 20, 25]
    with caplog.at_level(logging.INFO):
        assert run(clock, tmp_path, step=27) == ([], [])
    assert "stopping after step 27: trained for 0.4167 minutes" in caplog.text
    assert run(clock, tmp_path, step=27, max_train_minutes=0.5) == ([1, 1, 4], [33])
    assert run(clock, tmp_path, step=33, num_train_steps=35, max_train_minutes=0) == ([2], [35])


def test_a_limit_that_is_added_later_counts_what_was_trained_before(clock, tmp_path):
    rows = [(10, 70, 0.1), (20, 80, 8), (25, 99, 8), (30, 70, 0.1), (35, 90, 16)]
    text = [
        json.dumps({"step": step, "seconds": seconds, "examples_per_second": rate}) + "\n"
        for step, seconds, rate in rows
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(text))
    # 10, 5 and 2.5 seconds, besides those in which two processes compiled.
    assert run(clock, tmp_path, step=35) == ([1, 1, 3, 4], [40, 44])


def test_evaluations_do_not_count(clock, tmp_path):
    def evaluate():
        clock.now += 100
        return {"loss": 1.0}

    evaluation = PeriodicEvaluation(Workers(), evaluate, 7, str(tmp_path))
    assert run(clock, tmp_path, evaluation=evaluation)[1] == [20, 26]


def test_workers_stop_at_the_same_step_by_the_clock_of_the_chief(clock, tmp_path):
    barrier, parts, results = threading.Barrier(2), [[], []], {}

    def train(index: int) -> None:
        def all_reduce(values: list[float]) -> list[float]:
            parts[index] = values
            barrier.wait(30)
            total = [sum(pair) for pair in zip(*parts, strict=True)]
            barrier.wait(30)
            return total

        clock.seconds_per_step = (1.0, 4.0)[index]
        workers = Workers(["a:1", "b:1"], index, all_reduce)
        results[index] = run(clock, tmp_path, workers=workers)

    threads = [threading.Thread(target=train, args=[index], daemon=True) for index in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == dict.fromkeys(range(2), ([1, 1, 10, 8, 6], [20, 26]))
