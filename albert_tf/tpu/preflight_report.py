"""The preflight's report, line by line."""

from albert_tf.config import AlbertConfig
from albert_tf.hardware.slices import GIB, Slice
from albert_tf.logs import counted
from albert_tf.tpu.bounds import Compiled, StepTime, step_time
from albert_tf.tpu.preflight_options import PreflightOptions

_TIMES = f"{'bound, ms':>9}  {'by':7}  {'estimate, ms':>12}  {'likely, ms':>13}  {'days':>13}"
COLUMNS = (
    f"{'micro-batch':>11}  {'remat':5}  {'HBM needed of GiB':>17}  {'fits':4}  {'TFLOP':>8}  "
    f"{'GB moved':>8}  {_TIMES}  {'kernels, ms':>11}  {'of peak':>7}"
)
SLICE_COLUMNS = f"{'slice':12}  {'accelerator':13}  {'devices':>7}  {'micro-batch':>11}  {_TIMES}"
_DAY = 24 * 60 * 60

# What the columns mean.
SLICE_LEGEND = (
    "bound: lower bound of the step time, at the full rate of the limiting resource (by).",
    "estimate: the compiler's cycle count plus the network; without input, evaluation and "
    "checkpoints. likely, days: scaled by how published steps compare with their estimates.",
)
LEGEND = (
    "TFLOP, GB moved: matrix products and HBM traffic of one step on one device.",
    *SLICE_LEGEND,
    "kernels: part of the estimate for fused attention and, on v6e and TPU7x, the feed-forward "
    "networks, by their schedules. of peak: TFLOP / estimate, relative to the peak rate.",
)


def heading(options: PreflightOptions, where: Slice | None = None) -> list[str]:
    """Return the lines that describe the training run."""
    config = AlbertConfig.from_json_file(options.albert_config_file)
    lines = [
        f"{options.albert_config_file}: {config.parameter_count():,} parameters; "
        f"{options.optimizer}, batch {options.train_batch_size} of {options.max_seq_length} "
        f"tokens, {counted(options.num_train_steps, 'step')}, {options.dtype}, {options.engine} "
        f"with {options.attention} attention"
    ]
    if where:
        share = options.train_batch_size // where.replicas
        lines.append(
            f"{where.name} ({where.accelerator}): {counted(where.replicas, 'device')}, "
            f"{counted(share, 'example')} each, "
            f"{where.data.memory / GIB:.2f} GiB of HBM for a program"
        )
    return lines


def _times(time: StepTime, steps: int) -> str:
    low, high = time.likely
    likely = f"{1e3 * low:.1f}-{1e3 * high:.1f}"
    days = f"{steps * low / _DAY:.2f}-{steps * high / _DAY:.2f}"
    return (
        f"{1e3 * time.bound:9.1f}  {time.bound_by:7}  {1e3 * time.estimate:12.1f}  "
        f"{likely:>13}  {days:>13}"
    )


def row(
    compiled: Compiled,
    where: Slice,
    micro: int,
    remat: bool,
    options: PreflightOptions,
) -> str:
    """Return the line for one micro-batch size on one slice."""
    start = f"{micro:11}  {'yes' if remat else 'no':5}"
    if compiled.error:
        return f"{start}  does not compile: {compiled.error}"
    available = compiled.available or where.data.memory
    start += f"  {compiled.memory / GIB:8.2f} of {available / GIB:5.2f}"
    if not compiled.fits:
        return f"{start}  no"
    time = step_time(compiled, where)
    return (
        f"{start}  {'yes':4}  {compiled.flops / 1e12:8.3f}  {compiled.memory_bytes / 1e9:8.1f}  "
        f"{_times(time, options.num_train_steps)}  {1e3 * time.kernels:11.1f}  "
        f"{time.compute / time.estimate:7.0%}"
    )


def slice_row(where: Slice, micro: int | None, found: Compiled | str, steps: int) -> str:
    """Return the line for one slice, with its largest micro-batch or why there is none."""
    start = f"{where.name:12}  {where.accelerator:13}  {where.replicas:7}"
    if isinstance(found, str):
        return f"{start}  {found}"
    return f"{start}  {micro:11}  {_times(step_time(found, where), steps)}"


def conclusion(fitting: list[tuple[int, bool]], share: int) -> list[str]:
    """Return the largest micro-batch that fits, with and without rematerialization."""
    lines = []
    for remat in dict.fromkeys(remat for _, remat in fitting):
        micro = max(size for size, how in fitting if how == remat)
        flags = f"--micro_batch_size={micro}" if micro < share else "the whole share of a device"
        how = "with" if remat else "without"
        lines.append(f"largest micro-batch that fits {how} --remat: {micro} ({flags})")
    return lines
