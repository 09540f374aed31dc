"""Contestants on one workload: started, warmed up, given steps that fill a turn, and timed."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from typing import NamedTuple

from albert_tf.progress import ProgressLine
from benchmarks.contestants.workload import Workload
from benchmarks.floors import FLOPS, NAME
from benchmarks.measurements import Measurement
from benchmarks.turns import Contestant, Died, take_turns

OURS = "albert_tf"
CONTESTANTS = (OURS, "Hugging Face", "Hugging Face, compiled", "KerasHub")


@dataclasses.dataclass
class Suite:
    """How everything is measured, and who cannot take part.

    Attributes:
        repeats: turns of everything.
        quick: whether only to see that it works: the smallest shapes there are.
        turn_seconds: how long a turn is to be.
        works: part of the name of work that is to be done.
        books: folder of .txt files to read instead of documentation; None without.
        progress: where it is said how far things are.
        unavailable: name of a contestant -> why it cannot be loaded here.
    """

    repeats: int = 5
    quick: bool = False
    turn_seconds: float = 3.0
    works: str = ""
    books: str | None = None
    progress: ProgressLine = dataclasses.field(default_factory=ProgressLine)
    unavailable: dict[str, str] = dataclasses.field(default_factory=dict)


class Entrant(NamedTuple):
    """Who is to be timed.

    Attributes:
        way: what it is called in the results.
        contestant: one of `benchmarks.contestants`.
        workload: what it does.
        flops: of one example, by formula; 0 where they are not known.
        work: what it is called in the results; entrants of the same work are compared.
    """

    way: str
    contestant: str
    workload: Workload
    flops: int
    work: str


def compare(
    suite: Suite, what: str, entrants: list[Entrant], left_out: dict[str, str]
) -> list[Measurement]:
    """Measures entrants in turn, and the machine's rate of matrix products along with them.

    Args:
        suite: how.
        what: said while it goes on.
        entrants: all of the same precision.
        left_out: here goes who died or cannot be loaded, with the reason.

    Returns:
        One for each entrant that lived, in the order given. The floor of each turn is the time
        that the operations by formula take at the rate of matrix products in the same round.
    """
    entrants = [entrant for entrant in entrants if suite.works in entrant.work]
    if not entrants:
        return []
    running: list[_Running] = []
    with contextlib.ExitStack() as stack:
        floor = Entrant(NAME, NAME, entrants[0].workload, FLOPS, NAME)
        for entrant in (*entrants, floor):
            if reason := suite.unavailable.get(entrant.contestant):
                left_out[entrant.contestant] = reason
                continue
            suite.progress.update(f"{what}: {entrant.way} starts")
            try:
                contestant = Contestant(entrant.contestant, entrant.workload)
                stack.enter_context(contestant)
                running.append(_Running(entrant, contestant, _steps(contestant, suite)))
            except Died as died:
                _leave_out(suite, entrant, died, left_out)
        _take_turns(suite, what, running, left_out)
    rates = []
    if running and running[-1].entrant is floor:
        products = running.pop()
        rates = [products.steps * FLOPS / seconds for seconds in products.seconds]
    return [one.measured(rates) for one in running]


@dataclasses.dataclass
class _Running:
    """A contestant at work.

    Attributes:
        steps: that it makes in a turn.
        seconds: of its turns.
    """

    entrant: Entrant
    contestant: Contestant
    steps: int
    seconds: list[float] = dataclasses.field(default_factory=list)

    def measured(self, rates: list[float]) -> Measurement:
        """What came of it, beside matrix products at so many operations a second."""
        entrant, workload = self.entrant, self.entrant.workload
        sequences = self.steps * workload.batch_size
        floor = [sequences * entrant.flops / rate for rate in rates] if entrant.flops else None
        return Measurement(
            entrant.work,
            entrant.way,
            self.seconds,
            amount=sequences,
            unit="sequences",
            floor=floor or None,
            peak_memory=self.contestant.peak_memory,
            details={
                **dataclasses.asdict(workload),
                "steps_per_turn": self.steps,
                "flops_per_sequence": entrant.flops,
                "matrix_products_flops_per_second": rates,
            },
        )


def _steps(contestant: Contestant, suite: Suite) -> int:
    """Steps that fill a turn, after those for compilers and caches."""
    contestant.run(2)
    count, seconds = 1, contestant.run(1)
    while seconds < suite.turn_seconds / 8:
        count *= 4
        seconds = contestant.run(count)
    return max(1, round(suite.turn_seconds * count / seconds))


def _take_turns(suite: Suite, what: str, running: list[_Running], left_out: dict[str, str]) -> None:
    """Times everyone; begins again without whoever dies on the way, whom it takes out."""

    def turn(one: _Running) -> float:
        suite.progress.update(f"{what}: turn of {one.entrant.way}")
        return one.contestant.run(one.steps)

    while running:
        ways = {place: functools.partial(turn, one) for place, one in enumerate(running)}
        try:
            for place, seconds in take_turns(ways, suite.repeats).items():
                running[place].seconds = seconds
            return
        except Died as died:
            (dead,) = (one for one in running if one.contestant is died.contestant)
            _leave_out(suite, dead.entrant, died, left_out)
            running.remove(dead)


def _leave_out(suite: Suite, entrant: Entrant, died: Died, left_out: dict[str, str]) -> None:
    if died.reason.startswith("ModuleNotFoundError"):  # nor will it be there the next time
        suite.unavailable[entrant.contestant] = died.reason
        left_out[entrant.contestant] = died.reason
    else:
        left_out[f"{entrant.way}: {entrant.work}"] = died.reason
