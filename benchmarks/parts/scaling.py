"""How time and memory of a training step grow with batch size, length, depth and width."""

from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.flops import pretraining_flops
from benchmarks.comparison import OURS, Case, Suite, compare
from benchmarks.implementations.workload import Workload
from benchmarks.measurements import Measurement, Result, comparison_table
from benchmarks.parts.pretraining_step import PREDICTIONS, bar
from benchmarks.pictures import Panel


class Point(NamedTuple):
    """A model and a batch, of which one property is changed at a time."""

    batch: int = 8
    length: int = 128
    depth: int = 6
    width: int = 512

    def case(self, work: str) -> Case:
        config = AlbertConfig(
            hidden_size=self.width,
            num_hidden_layers=self.depth,
            num_attention_heads=self.width // 64,
            intermediate_size=4 * self.width,
        )
        workload = Workload("pretraining", config.to_dict(), self.batch, self.length, PREDICTIONS)
        flops = pretraining_flops(config, self.length, PREDICTIONS)
        return Case(OURS, OURS, workload, flops, work)


# Changed property -> its values and their unit.
AXES: dict[str, tuple[tuple[int, ...], str]] = {
    "batch": ((1, 2, 4, 8, 16, 32, 64), "sequences"),
    "length": ((32, 64, 128, 256, 512), "tokens"),
    "depth": ((1, 3, 6, 12, 24), "layers"),
    "width": ((256, 512, 1024, 2048), "hidden units"),
}


def run(suite: Suite) -> Result:
    """Return milliseconds per step, their lower bound, and peak memory along each axis."""
    axes, middle = AXES, Point()
    if suite.quick:
        axes = {name: (values[:2], unit) for name, (values, unit) in AXES.items()}
        axes["width"], middle = ((64, 128), axes["width"][1]), Point(2, 32, 1, 64)
    left_out: dict[str, str] = {}
    measurements: list[Measurement] = []
    tables = []
    for number, (axis, (points, unit)) in enumerate(axes.items(), start=1):
        works = {f"{axis}: {value} {unit}": value for value in points}
        cases = [middle._replace(**{axis: value}).case(work) for work, value in works.items()]
        what = f"scaling {number} of {len(axes)}: {axis}"
        measured = [each.in_batches() for each in compare(suite, what, cases, left_out)]
        rest = [f"{name} {value}" for name, value in middle._asdict().items() if name != axis]
        title = f"{axis}: {', '.join(rest)}"
        if measured:
            tables.append(comparison_table(title, measured, OURS))
        measurements += measured
    title, panels = picture(measurements)
    return Result(title, measurements, tables, panels, left_out)


def picture(measurements: Sequence[Measurement]) -> tuple[str, list[Panel]]:
    """Return a title, and a panel for each axis."""
    panels = []
    for axis, (_, unit) in AXES.items():
        of_axis = [each for each in measurements if each.work.startswith(f"{axis}: ")]
        if bars := [bar(each, each.work.split()[1]) for each in of_axis]:
            panels.append(Panel(f"{axis}, in {unit}", of_axis[0].speed_unit, bars))
    return "A training step by its size, float32", panels
