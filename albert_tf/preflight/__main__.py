"""Checks whether a pretraining configuration fits a TPU slice or GPUs, without either.

python -m albert_tf.preflight --flagfile=xxlarge_v1 --devices=v3:16x16
python -m albert_tf.preflight --engine=jax --flagfile=base_v2 --devices=h100x8
"""

import bisect
import dataclasses
import logging
import textwrap
from collections.abc import Iterator

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.hardware import GENERATIONS, GIB, Slice, known_slices, tpu_precision
from albert_tf.logs import counted
from albert_tf.options import command
from albert_tf.preflight.bounds import Compiled, StepTime, for_share, step_time
from albert_tf.preflight.compiler import Compiler, check_installed
from albert_tf.preflight.epochs import epoch
from albert_tf.preflight.gpus import Gpus, parse_devices
from albert_tf.preflight.options import PreflightOptions

logger = logging.getLogger(__name__)

_LARGEST = 256  # larger micro-batches gain nothing, as the matrix units are already saturated
_PROBE_TRIPS = 2  # two micro-batches, so that the program contains the loop and its accumulators
_PROBE_DEVICES = 4

_TIMES = f"{'bound, ms':>9}  {'likely, ms':>15}"
_COLUMNS = f"{'micro-batch':>11}  {'remat':5}  {'memory, GiB':>15}  {_TIMES}  {'days':>13}"
_SLICE_COLUMNS = f"{'slice':11}  {'accelerator':13}  {'micro-batch':>11}  {_TIMES}  {'days':>11}"
_DAY = 24 * 60 * 60


def _heading(options: PreflightOptions, where: Slice | Gpus | None = None) -> list[str]:
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
            f"{where.data.memory / GIB:.2f} GiB of memory for a program"
        )
    return [textwrap.fill(line, 80, subsequent_indent="    ") for line in lines]


def _likely(time: StepTime) -> str:
    low, high = time.likely
    return f"{1e3 * low:.1f}-{1e3 * high:.1f}"


def _days(time: StepTime, steps: int) -> str:
    low, high = time.likely
    return f"{steps * low / _DAY:.2f}-{steps * high / _DAY:.2f}"


def _times(time: StepTime) -> str:
    return f"{1e3 * time.bound:9.1f}  {_likely(time):>15}"


def _row(
    compiled: Compiled, where: Slice | Gpus, micro: int, remat: bool, options: PreflightOptions
) -> str:
    """Return the line for one micro-batch size."""
    start = f"{micro:11}  {'yes' if remat else 'no':5}"
    if compiled.error:
        return f"{start}  does not compile: {compiled.error}"
    available = compiled.available or where.data.memory
    start += f"  {f'{compiled.memory / GIB:.2f} of {available / GIB:.2f}':>15}"
    if not compiled.fits:
        return f"{start}  does not fit"
    time = step_time(compiled, where)
    return f"{start}  {_times(time)}  {_days(time, options.num_train_steps):>13}"


def _details(
    compiled: Compiled, where: Slice | Gpus, title: str, options: PreflightOptions
) -> Iterator[str]:
    """Yield what is known of one program, one figure a line."""
    time = step_time(compiled, where)
    yield title
    moved, reduced = compiled.memory_bytes / 1e9, compiled.reduced_bytes / 1e9
    lines = {
        "products": f"{compiled.flops / 1e12:.3f} TFLOP, {1e3 * time.compute:.1f} ms at peak",
        "memory traffic": f"{moved:.1f} GB, {1e3 * time.memory:.1f} ms",
        "all-reduce": f"{reduced:.3f} GB, {1e3 * time.network:.1f} ms",
        "bound": f"{1e3 * time.bound:.1f} ms, by {time.bound_by}",
        "estimate": f"{1e3 * time.estimate:.1f} ms, {time.compute / time.estimate:.0%} of peak",
        "fused kernels": f"{1e3 * time.kernels:.1f} ms of it",
        "likely": f"{_likely(time)} ms, {_days(time, options.num_train_steps)} days",
    }
    if isinstance(where, Gpus):
        kernels = counted(int(compiled.fused_attention), "kernel")
        lines["fused kernels"] += f", {kernels} of attention"
    if price := options.price_per_hour:
        low, high = (price * options.num_train_steps * each / 3600 for each in time.likely)
        digits = 2 if high < 100 else 0
        of_run = f"{low:,.{digits}f} to {high:,.{digits}f}"
        lines["price"] = f"{of_run}, at {price:,.2f} per hour for {where.name}"
    for name, text in lines.items():
        yield f"  {name:14}  {text}"


def _slice_row(where: Slice, micro: int | None, found: Compiled | str, steps: int) -> str:
    """Return the line for one slice, with its largest micro-batch or why there is none."""
    start = f"{where.name:11}  {where.accelerator:13}"
    if isinstance(found, str):
        return f"{start}  {found}"
    time = step_time(found, where)
    return f"{start}  {micro:11}  {_times(time)}  {_days(time, steps):>11}"


def candidates(share: int, micro_batch_sizes: list[int]) -> list[int]:
    """Return the micro-batch sizes to try for a device's share of examples, in ascending order.

    Without requested sizes, these are the powers of two and the whole share, up to a limit.

    Raises:
        InputError: If a requested size does not divide the share.
    """
    for size in micro_batch_sizes:
        if share % size:
            raise InputError(
                f"`micro_batch_sizes`={size}: does not divide the {counted(share, 'example')} of a "
                "device"
            )
    powers = [2**n for n in range(share.bit_length()) if share % 2**n == 0]
    return micro_batch_sizes or sorted({size for size in (*powers, share) if size <= _LARGEST})


def one_place(options: PreflightOptions, where: Slice | Gpus) -> Iterator[str]:
    """Yield the lines of the report on one slice or on GPUs.

    Without requested sizes, the largest micro-batch that fits is found, from above. Programs with
    rematerialization are compiled if the largest candidate does not fit without.
    """
    batch = options.train_batch_size
    if batch % where.replicas:
        raise InputError(
            f"`train_batch_size`={batch}: must be a multiple of the {where.replicas} devices of "
            f"{where.name}"
        )
    if options.engine not in where.data.engines:
        raise InputError(
            f"`devices`={where.name}: `engine`={options.engine} cannot be compiled for it; use "
            f"`engine`={where.data.engines[0]}"
        )
    share = batch // where.replicas
    asked = options.sizes()
    sizes = candidates(share, asked)
    compiler = Compiler(options)
    yield from _heading(options, where)
    yield ""
    yield _COLUMNS
    fitting: dict[tuple[int, bool], Compiled] = {}
    failures = []
    for remat in (True,) if options.remat else (False, True):
        if (sizes[-1], False) in fitting:
            break
        for micro in sizes if asked else reversed(sizes):
            compiled = compiler.compile(where, batch, micro, remat)
            yield _row(compiled, where, micro, remat, options)
            if compiled.fits:
                fitting[micro, remat] = compiled
            else:
                failures.append(compiled.error)
            if compiled.fits != bool(asked):
                break  # larger micro-batches need more memory
    yield ""
    if not fitting:
        reason = next((error for error in failures if error), "a device has too little memory")
        raise InputError(f"`devices`={where.name}: no micro-batch can run ({reason})")
    times = {key: step_time(compiled, where) for key, compiled in fitting.items()}
    micro, remat = best = min(times, key=lambda key: times[key].estimate)
    how = f"--micro_batch_size={micro}" if micro < share else f"{micro}, the share of a device"
    how += ", --remat" if remat else ""
    yield from _details(fitting[best], where, f"fastest: {how}", options)
    yield from epoch(options, times[best])


def all_slices(options: PreflightOptions) -> Iterator[str]:
    """Yield the lines of the table of all known slices.

    For every generation, the largest micro-batch that fits is found on a small slice, since memory
    and costs of a micro-batch do not depend on the number of devices.
    """
    compiler = Compiler(options)
    yield from _heading(options)
    yield ""
    yield _SLICE_COLUMNS
    for name, generation in GENERATIONS.items():
        if options.engine not in generation.engines:
            continue
        slices = [known for known in known_slices() if known.generation == name]
        probe = next(known for known in slices if known.replicas >= _PROBE_DEVICES)
        shares = [options.train_batch_size / known.replicas for known in slices]
        sizes = options.sizes() or [2**n for n in range(9) if 2**n <= min(_LARGEST, max(shares))]
        found: dict[int, Compiled] = {}

        def too_large(micro: int, probe=probe, found=found) -> bool:
            batch = probe.replicas * micro * _PROBE_TRIPS
            found[micro] = compiler.compile(probe, batch, micro, options.remat)
            return not found[micro].fits

        fitting = sizes[: bisect.bisect_left(sizes, True, key=too_large)]
        for where in slices:
            micro, outcome = _on_slice(options, where, fitting, found)
            yield _slice_row(where, micro, outcome, options.num_train_steps)


def _on_slice(
    options: PreflightOptions, where: Slice, fitting: list[int], found: dict[int, Compiled]
) -> tuple[int | None, Compiled | str]:
    """Return the largest micro-batch of a slice with its costs, or None with the reason."""
    share, left = divmod(options.train_batch_size, where.replicas)
    if left or not share:
        return None, f"the batch is not divisible by {where.replicas} devices"
    if not fitting:
        errors = [compiled.error for compiled in found.values() if compiled.error]
        return None, errors[0] if errors else "does not fit"
    possible = [size for size in fitting if share % size == 0]
    if not possible:
        return None, f"no micro-batch of {fitting} divides {counted(share, 'example')}"
    # Sizes that were not compiled get the costs per example of the next larger one.
    micro = max(possible)
    nearest = min(size for size in found if size >= micro and found[size].fits)
    return micro, for_share(found[nearest], nearest, _PROBE_TRIPS, share)


def preflight(options: PreflightOptions) -> None:
    """Report whether and how fast the training step of the options can run.

    Raises:
        InputError: If an option is invalid, nothing fits, or the compiler is not installed.
    """
    where = parse_devices(options.devices) if options.devices else None
    if isinstance(where, Gpus):
        where = where.for_dtype(options.dtype)
        options = dataclasses.replace(options, dtype=where.dtype)
    elif options.dtype == "auto":
        options = dataclasses.replace(options, dtype=tpu_precision()[0])
    options.check()
    config = AlbertConfig.from_json_file(options.albert_config_file)
    config.check_length(options.max_seq_length, options.albert_config_file)
    check_installed(where)
    for line in all_slices(options) if where is None else one_place(options, where):
        logger.info("%s", line)


cli = command(PreflightOptions, preflight)

if __name__ == "__main__":
    cli()
