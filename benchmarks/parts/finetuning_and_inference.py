"""Fine-tuning steps and inference of albert_tf and of other libraries."""

from collections.abc import Sequence

from albert_tf.config import AlbertConfig
from albert_tf.flops import TRAINING, classification_flops
from benchmarks.comparison import IMPLEMENTATIONS, OURS, Case, Suite
from benchmarks.implementations.workload import Workload
from benchmarks.measurements import Measurement, Result, comparison_table
from benchmarks.parts.pretraining_step import TINY, bar, compare_each
from benchmarks.pictures import Bar, Panel

BASE = AlbertConfig.preset("base")
# Sequences in a batch, tokens in a sequence, and precision.
CLASSIFICATION = (
    (8, 128, "float32"),
    (2, 512, "float32"),
    (8, 128, "bfloat16"),
    (2, 512, "bfloat16"),
)
INFERENCE = ((1, 128, "float32"), (8, 128, "float32"), (32, 128, "float32"), (1, 512, "float32"))


def run(suite: Suite) -> Result:
    """Return sequences/s in training and milliseconds per batch in inference."""
    config = TINY if suite.quick else BASE

    def works(task: str, shapes: tuple[tuple[int, int, str], ...]) -> list[list[Case]]:
        each = []
        for batch, length, dtype in ((2, 32, "float32"),) if suite.quick else shapes:
            work = f"{task}, {batch} x {length}, {dtype}"
            workload = Workload(task, config.to_dict(), batch, length, dtype=dtype)
            flops = classification_flops(config, length, 2)
            if task == "inference":
                flops //= TRAINING
            each.append([Case(name, name, workload, flops, work) for name in IMPLEMENTATIONS])
        return each

    part, left_out = "finetuning_and_inference", {}
    trained = compare_each(suite, part, works("classification", CLASSIFICATION), left_out)
    inferred = compare_each(suite, part, works("inference", INFERENCE), left_out)
    inferred = [each.in_batches() for each in inferred]
    tables = [
        comparison_table("Fine-tuning step", trained, OURS),
        comparison_table("Inference", inferred, OURS),
    ]
    title, panels = picture([*trained, *inferred])
    return Result(title, [*trained, *inferred], tables, panels, left_out)


def picture(measurements: Sequence[Measurement]) -> tuple[str, list[Panel]]:
    """Return a title, and a panel for each kind of work and precision."""
    drawn: dict[str, list[Bar]] = {}
    units = {}
    for each in measurements:
        kind, shape, dtype = each.work.split(", ")
        drawn.setdefault(f"{kind}, {dtype}", []).append(bar(each, shape))
        units[f"{kind}, {dtype}"] = each.speed_unit
    panels = [Panel(title, units[title], bars) for title, bars in drawn.items()]
    return "Fine-tuning and inference", panels
