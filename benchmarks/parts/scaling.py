"""How time and memory of a training step grow with batch size, length, depth and width."""

from __future__ import annotations

from typing import Any, NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from benchmarks.comparison import OURS, Case, Suite, compare
from benchmarks.implementations.workload import Workload
from benchmarks.interleaving import Spread
from benchmarks.measurements import Measurement
from benchmarks.pictures import Curve, Panel
from benchmarks.reporting import Result, Table, decimals

PREDICTIONS = 20


class Point(NamedTuple):
    """A model and a batch, of which one property is changed at a time."""

    batch: int = 8
    length: int = 128
    depth: int = 6
    width: int = 512

    def config(self) -> AlbertConfig:
        return AlbertConfig(
            hidden_size=self.width,
            num_hidden_layers=self.depth,
            num_attention_heads=self.width // 64,
            intermediate_size=4 * self.width,
        )


# Changed property -> its values and their unit.
AXES: dict[str, tuple[tuple[int, ...], str]] = {
    "batch": ((1, 2, 4, 8, 16, 32, 64), "sequences"),
    "length": ((32, 64, 128, 256, 512), "tokens"),
    "depth": ((1, 3, 6, 12, 24), "layers"),
    "width": ((256, 512, 1024, 2048), "hidden units"),
}
DTYPE = "float32"


def run(suite: Suite) -> Result:
    """Return seconds per step, their lower bound, and peak memory along each axis."""
    axes, middle = AXES, Point()
    if suite.quick:
        axes = {name: (values[:2], unit) for name, (values, unit) in AXES.items()}
        axes["width"], middle = ((64, 128), axes["width"][1]), Point(2, 32, 1, 64)
    left_out: dict[str, str] = {}
    measurements: list[Measurement] = []
    tables, panels, values = [], [], {}
    for number, (axis, (points, unit)) in enumerate(axes.items(), start=1):
        cases = [_case(middle._replace(**{axis: value}), f"{axis} {value}") for value in points]
        what = f"scaling {number} of {len(axes)}: {axis}"
        measured = compare(suite, what, cases, left_out)
        at = dict(zip((case.work for case in cases), points, strict=True))
        rest = {name: value for name, value in middle._asdict().items() if name != axis}
        title = f"{axis}: {', '.join(f'{name} {value}' for name, value in rest.items())}"
        tables.append(Table(title, *_rows(measured, at, unit)))
        if measured:
            panels.append(_panel(title, measured, at, unit))
            values[f"growth with {axis}"] = _growth(measured, at)
        measurements += measured
    title = f"A training step by its size, {DTYPE}"
    return Result(title, measurements, OURS, tables, panels, left_out, values)


def _case(point: Point, work: str) -> Case:
    config = point.config()
    predictions = min(PREDICTIONS, point.length)
    workload = Workload(
        "pretraining", config.to_dict(), point.batch, point.length, predictions, DTYPE
    )
    return Case(OURS, OURS, workload, pretraining_flops(config, point.length, predictions), work)


def _step_seconds(measurement: Measurement) -> Spread:
    steps = measurement.details["steps_per_round"]
    return Spread.of(seconds / steps for seconds in measurement.seconds)


def _lower_bound_seconds(measurement: Measurement) -> Spread:
    steps = measurement.details["steps_per_round"]
    return Spread.of(seconds / steps for seconds in measurement.lower_bound or [float("nan")])


def _rows(measured: list[Measurement], at: dict[str, int], unit: str):
    rows = []
    for each in measured:
        seconds, lower_bound = _step_seconds(each), _lower_bound_seconds(each)
        rows.append(
            (
                str(at[each.work]),
                format(seconds, decimals(seconds.median)),
                format(lower_bound.median, decimals(lower_bound.median)),
                format(lower_bound.median / seconds.median, ".0%"),
                f"{each.peak_memory / 2**30:.2f}",
            )
        )
    heads = (unit, "seconds/step", "lower bound, seconds", "share of the lower bound's rate")
    heads += ("peak memory, GiB",)
    return heads, rows


def _panel(title: str, measured: list[Measurement], at: dict[str, int], unit: str) -> Panel:
    places = [at[each.work] for each in measured]
    curves = [Curve("a step", places, [_step_seconds(each) for each in measured])]
    if all(each.lower_bound for each in measured):
        lower_bounds = [_lower_bound_seconds(each).median for each in measured]
        line = [Spread(value, value, value) for value in lower_bounds]
        curves.append(Curve("FLOPs at the rate of matrix products", places, line, dashed=True))
    return Panel(title, "seconds", curves=curves, x_label=unit)


def _growth(measured: list[Measurement], at: dict[str, int]) -> dict[str, Any]:
    """Return the last point relative to the first: time, operations and memory."""
    first, last = _step_seconds(measured[0]).median, _step_seconds(measured[-1]).median
    flops = [each.amount * each.details["flops_per_sequence"] for each in measured]
    per_step = [
        total / each.details["steps_per_round"] for total, each in zip(flops, measured, strict=True)
    ]
    return {
        "from": at[measured[0].work],
        "to": at[measured[-1].work],
        "seconds": last / first,
        "flops": per_step[-1] / per_step[0],
        "memory": measured[-1].peak_memory / measured[0].peak_memory,
    }
