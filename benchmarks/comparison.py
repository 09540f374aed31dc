"""Compares implementations on one workload: starts them, warms them up, times them in rounds."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import NamedTuple

from albert_tf.progress import ProgressLine
from benchmarks.implementations.workload import Workload
from benchmarks.interleaving import Implementation, ProcessFailed, interleave
from benchmarks.lower_bounds import FLOPS, NAME
from benchmarks.measurements import Measurement

OURS = "albert_tf"
IMPLEMENTATIONS = (OURS, "Hugging Face", "Hugging Face, compiled", "KerasHub")


@dataclasses.dataclass
class Suite:
    """Settings of all measurements, and the implementations that are unavailable.

    Attributes:
        repeats: number of rounds.
        quick: whether to use the smallest shapes, to check that everything works.
        round_seconds: how long each implementation should run in a round.
        works: only work whose name contains this is measured.
        books: folder of .txt files to read instead of documentation, or None.
        progress: line that shows the progress.
        unavailable: name of an implementation -> why it cannot be imported here.
    """

    repeats: int = 5
    quick: bool = False
    round_seconds: float = 3.0
    works: str = ""
    books: str | None = None
    progress: ProgressLine = dataclasses.field(default_factory=ProgressLine)
    unavailable: dict[str, str] = dataclasses.field(default_factory=dict)


class Case(NamedTuple):
    """One implementation on one workload.

    Attributes:
        way: name in the results.
        implementation: a key of the table in `benchmarks.implementations`.
        workload: the work that it does.
        flops: operations of one example, by formula; 0 if unknown.
        work: name of the work in the results; cases of the same work are compared.
    """

    way: str
    implementation: str
    workload: Workload
    flops: int
    work: str


def compare(
    suite: Suite, what: str, cases: list[Case], left_out: dict[str, str]
) -> list[Measurement]:
    """Measures cases in interleaved rounds, together with the machine's rate of matrix products.

    Args:
        suite: settings.
        what: description for the progress line.
        cases: all of the same precision.
        left_out: receives the cases that failed or cannot be imported, with the reason.

    Returns:
        One measurement for each case that did not fail, in the order given. The lower bound of each
        round is the time of the operations by formula at the rate of matrix products in this round.
    """
    cases = [case for case in cases if suite.works in case.work]
    if not cases:
        return []
    running: list[_Running] = []
    with contextlib.ExitStack() as stack:
        lower_bound = Case(NAME, NAME, cases[0].workload, FLOPS, NAME)
        for case in (*cases, lower_bound):
            if reason := suite.unavailable.get(case.implementation):
                left_out[case.implementation] = reason
                continue
            suite.progress.update(f"{what}: {case.way} starts")
            try:
                implementation = Implementation(case.implementation, case.workload)
                stack.enter_context(implementation)
                running.append(_Running(case, implementation, _steps(implementation, suite)))
            except ProcessFailed as failed:
                _leave_out(suite, case, failed, left_out)
        _interleave(suite, what, running, left_out)
    rates = []
    if running and running[-1].case is lower_bound:
        products = running.pop()
        rates = [products.steps * FLOPS / seconds for seconds in products.seconds]
    return [one.measured(rates) for one in running]


@dataclasses.dataclass
class _Running:
    """An implementation that has started.

    Attributes:
        steps: number of steps in a round.
        seconds: of each round.
    """

    case: Case
    implementation: Implementation
    steps: int
    seconds: list[float] = dataclasses.field(default_factory=list)

    def measured(self, rates: list[float]) -> Measurement:
        """The measurement, given the rate of matrix products (operations/s) in each round."""
        case, workload = self.case, self.case.workload
        sequences = self.steps * workload.batch_size
        lower_bound = [sequences * case.flops / rate for rate in rates] if case.flops else None
        return Measurement(
            case.work,
            case.way,
            self.seconds,
            amount=sequences,
            unit="sequences",
            lower_bound=lower_bound or None,
            peak_memory=self.implementation.peak_memory,
            details={
                **dataclasses.asdict(workload),
                "steps_per_turn": self.steps,
                "flops_per_sequence": case.flops,
                "matrix_products_flops_per_second": rates,
            },
        )


def _steps(implementation: Implementation, suite: Suite) -> int:
    """The number of steps in a round, found after steps that warm up compilers and caches."""
    implementation.run(2)
    count, seconds = 1, implementation.run(1)
    while seconds < suite.round_seconds / 8:
        count *= 4
        seconds = implementation.run(count)
    return max(1, round(suite.round_seconds * count / seconds))


def _interleave(suite: Suite, what: str, running: list[_Running], left_out: dict[str, str]) -> None:
    """Times all implementations; starts over without one that fails."""

    def measure(one: _Running) -> float:
        suite.progress.update(f"{what}: {one.case.way}")
        return one.implementation.run(one.steps)

    while running:
        ways = {place: functools.partial(measure, one) for place, one in enumerate(running)}
        try:
            for place, seconds in interleave(ways, suite.repeats).items():
                running[place].seconds = seconds
            return
        except ProcessFailed as failed:
            (failed_one,) = (one for one in running if one.implementation is failed.implementation)
            _leave_out(suite, failed_one.case, failed, left_out)
            running.remove(failed_one)


def _leave_out(suite: Suite, case: Case, failed: ProcessFailed, left_out: dict[str, str]) -> None:
    if failed.reason.startswith("ModuleNotFoundError"):  # it will fail the next time, too
        suite.unavailable[case.implementation] = failed.reason
        left_out[case.implementation] = failed.reason
    else:
        left_out[f"{case.way}: {case.work}"] = failed.reason
