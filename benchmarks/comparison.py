"""Compares implementations on one workload: starts them, warms them up, times them in rounds."""

import contextlib
import dataclasses
import math
import statistics
from typing import NamedTuple

from albert_tf.options import option
from albert_tf.terminal import ProgressLine
from benchmarks.implementations.workload import Workload
from benchmarks.interleaving import Implementation, ProcessFailed, in_rounds
from benchmarks.measurements import Measurement
from benchmarks.parts import PARTS

OURS = "albert_tf"
IMPLEMENTATIONS = (OURS, "Hugging Face", "Hugging Face, compiled", "KerasHub")
PRODUCTS = "matrix products"
# A feed-forward layer of ALBERT-base on 8 sequences of 128 tokens.
PRODUCT_SHAPE = (1024, 768, 3072)


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the suite."""

    only: tuple[str, ...] = option(
        (), f"Parts to run, by default all that need no GPU: {', '.join(PARTS)}."
    )
    redraw: bool = option(False, "Draw the pictures of results again, and exit.")
    repeats: int = option(0, "Rounds; 0 for 5, or 2 with --quick.", minimum=0)
    results: str | None = option(
        None, "Folder of the results; by default benchmarks/results, with --quick build/benchmarks."
    )
    quick: bool = option(
        False, "Use the smallest shapes and shortest rounds, to check that everything works."
    )
    works: str = option(
        "",
        "Only work whose name contains this, such as 'base, 8 x 128'; writes to build/benchmarks.",
    )
    books: str | None = option(
        None, "Folder of .txt files to read instead of the documentation of installed packages."
    )
    spm_model_file: str | None = option(
        None, "SentencePiece model for --books, instead of one that is trained on them."
    )


class Suite:
    """Settings of all measurements, and the implementations that are unavailable.

    Attributes:
        repeats: number of rounds.
        round_seconds: how long each implementation should run in a round.
        unavailable: name of an implementation -> why it cannot be imported here.
    """

    def __init__(self, options: Options):
        self.options = options
        self.quick = options.quick
        self.repeats = options.repeats or (2 if options.quick else 5)
        self.round_seconds = 0.02 if options.quick else 3.0
        self.progress = ProgressLine()
        self.unavailable: dict[str, str] = {}


class Case(NamedTuple):
    """One implementation on one workload.

    Attributes:
        implementation: a key of the table in `benchmarks.implementations`.
        flops: operations of one example, by formula; 0 if unknown.
        work: name of the work in the results; cases of the same work are compared.
    """

    name: str
    implementation: str
    workload: Workload
    flops: int
    work: str


def products(
    dtype: str, shape: tuple[int, int, int] = PRODUCT_SHAPE, implementation: str = PRODUCTS
) -> Case:
    """Return the lower bound of a step: its matrix products alone, at this machine's own rate.

    They are of `[rows, inner]` and `[inner, columns]`.
    """
    workload = Workload("products", {"shape": shape}, 1, 0, dtype=dtype)
    return Case(PRODUCTS, implementation, workload, 2 * math.prod(shape), PRODUCTS)


def compare(
    suite: Suite, what: str, cases: list[Case], left_out: dict[str, str], bound: Case | None = None
) -> list[Measurement]:
    """Measure cases in interleaved rounds, together with the machine's rate of matrix products.

    Args:
        cases: all of the same precision.
        left_out: receives the cases that failed or cannot be imported, with the reason.
        bound: the products; by default TensorFlow's, in the precision of the cases.

    Returns:
        One measurement for each case that did not fail, in the order given. The lower bound of each
        round is the time of the operations by formula at the rate of matrix products in this round.
    """
    cases = [case for case in cases if suite.options.works in case.work]
    if not cases:
        return []
    bound = bound or products(cases[0].workload.dtype)
    running: list[_Running] = []
    with contextlib.ExitStack() as stack:
        for case in (*cases, bound):
            if reason := suite.unavailable.get(case.implementation):
                left_out[case.implementation] = reason
                continue
            suite.progress.update(f"{what}: {case.name} starts")
            try:
                implementation = Implementation(case.implementation, case.workload)
                stack.enter_context(implementation)
                running.append(_Running.warmed_up(case, implementation, suite))
            except ProcessFailed as failed:
                _leave_out(suite, case, failed, left_out)
        for _, one in in_rounds(running, suite.repeats):
            suite.progress.update(f"{what}: {one.case.name}")
            if one in running:
                try:
                    one.seconds.append(one.implementation.run(one.steps))
                except ProcessFailed as failed:
                    _leave_out(suite, one.case, failed, left_out)
                    running.remove(one)
    rates = []
    if running and running[-1].case is bound:
        last = running.pop()
        rates = [last.steps * bound.flops / seconds for seconds in last.seconds]
    return [one.measured(rates) for one in running]


@dataclasses.dataclass(eq=False)
class _Running:
    """An implementation that has started.

    Attributes:
        first: seconds of the first step, with compilation.
        steps, seconds: of each round.
    """

    case: Case
    implementation: Implementation
    first: float
    steps: int
    seconds: list[float] = dataclasses.field(default_factory=list)

    @classmethod
    def warmed_up(cls, case: Case, implementation: Implementation, suite: Suite) -> "_Running":
        """Run steps that warm up compilers and cache, and find the number for a round."""
        first = implementation.run(1)
        implementation.run(1)
        count, seconds = 1, implementation.run(1)
        while seconds < suite.round_seconds / 8:
            count *= 4
            seconds = implementation.run(count)
        steps = max(1, round(suite.round_seconds * count / seconds))
        return cls(case, implementation, first, steps)

    def measured(self, rates: list[float]) -> Measurement:
        """Return the measurement, given the operations/s of matrix products in each round."""
        case, workload, device = self.case, self.case.workload, self.implementation.device
        sequences = self.steps * workload.batch_size
        lower_bound = [sequences * case.flops / rate for rate in rates] if case.flops else None
        step_seconds = statistics.median(self.seconds) / self.steps
        return Measurement(
            case.work,
            case.name,
            self.seconds,
            amount=sequences,
            unit="sequences",
            lower_bound=lower_bound or None,
            peak_memory=device.get("peak_memory") or self.implementation.peak_memory,
            details={
                **dataclasses.asdict(workload),
                "steps_per_round": self.steps,
                "flops_per_sequence": case.flops,
                "matrix_products_flops_per_second": rates,
                "compile_seconds": max(0.0, self.first - step_seconds),
                "device": device,
            },
        )


def _leave_out(suite: Suite, case: Case, failed: ProcessFailed, left_out: dict[str, str]) -> None:
    if failed.reason.startswith("ModuleNotFoundError"):  # it will fail the next time, too
        suite.unavailable[case.implementation] = failed.reason
        left_out[case.implementation] = failed.reason
    else:
        left_out[f"{case.name}: {case.work}"] = failed.reason
