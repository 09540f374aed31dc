"""Checks whether a pretraining configuration fits a TPU slice, without a TPU.

    python -m albert_tf.tpu.preflight --flagfile=configs/pretraining/xxlarge_v1.cfg \\
        --topology=v3:16x16
"""

import bisect
import contextlib
import dataclasses
import importlib.util
import json
import logging
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Iterator
from typing import Any

from albert_tf.children import child
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import is_remote, to_json
from albert_tf.hardware import GENERATIONS, GIB, Slice, known_slices, parse_slice, tpu_precision
from albert_tf.input.features import most_examples
from albert_tf.input.manifest import (
    check_manifests,
    find_manifests,
    number_of_records,
    number_of_tokens,
    record_files,
)
from albert_tf.logs import counted
from albert_tf.options import command
from albert_tf.terminal import ProgressLine, duration
from albert_tf.tpu.bounds import Compiled, StepTime, for_share, step_time
from albert_tf.tpu.preflight_options import PreflightOptions, Request
from albert_tf.training.options import PretrainingOptions

logger = logging.getLogger(__name__)

_LARGEST = 256  # larger micro-batches gain nothing, as the matrix units are already saturated
_PROBE_TRIPS = 2  # two micro-batches, so that the program contains the loop and its accumulators
_PROBE_DEVICES = 4

_TIMES = f"{'bound, ms':>9}  {'by':7}  {'estimate, ms':>12}  {'likely, ms':>13}  {'days':>13}"
_COLUMNS = (
    f"{'micro-batch':>11}  {'remat':5}  {'HBM needed of GiB':>17}  {'fits':4}  {'TFLOP':>8}  "
    f"{'GB moved':>8}  {_TIMES}  {'kernels, ms':>11}  {'of peak':>7}"
)
_SLICE_COLUMNS = f"{'slice':12}  {'accelerator':13}  {'devices':>7}  {'micro-batch':>11}  {_TIMES}"
_DAY = 24 * 60 * 60

# What the columns mean.
_SLICE_LEGEND = (
    "bound: lower bound of the step time, at the full rate of the limiting resource (by).",
    "estimate: the compiler's cycle count plus the network; without input, evaluation and "
    "checkpoints. likely, days: scaled by how published steps compare with their estimates.",
)
_LEGEND = (
    "TFLOP, GB moved: matrix products and HBM traffic of one step on one device.",
    *_SLICE_LEGEND,
    "kernels: part of the estimate for fused attention and, on v6e and TPU7x, the feed-forward "
    "networks, by their schedules. of peak: TFLOP / estimate, relative to the peak rate.",
)


def _heading(options: PreflightOptions, where: Slice | None = None) -> list[str]:
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


def _row(
    compiled: Compiled, where: Slice, micro: int, remat: bool, options: PreflightOptions
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


def _slice_row(where: Slice, micro: int | None, found: Compiled | str, steps: int) -> str:
    """Return the line for one slice, with its largest micro-batch or why there is none."""
    start = f"{where.name:12}  {where.accelerator:13}  {where.replicas:7}"
    if isinstance(found, str):
        return f"{start}  {found}"
    return f"{start}  {micro:11}  {_times(step_time(found, where), steps)}"


def _manifests(options: PreflightOptions) -> dict[str, dict[str, Any]]:
    """Return the manifests of the files to train on, by path, of those on this machine."""
    local = [pattern for pattern in options.input_file if not is_remote(pattern)]
    with contextlib.suppress(InputError):
        return find_manifests(record_files(local, "input_file"))
    return {}


def _has_rows(manifests: dict[str, dict[str, Any]]) -> bool:
    return any(manifest["settings"].get("pack_rows") for manifest in manifests.values())


def _epoch(options: PreflightOptions, fastest: StepTime) -> Iterator[str]:
    """Yield how long an epoch takes, and one of rows, if the files to train on are known."""

    def times(records: int) -> str:
        steps = records / options.train_batch_size
        return f"{steps:,.1f} steps, {' to '.join(duration(steps * s) for s in fastest.likely)}"

    by_path, length = _manifests(options), options.max_seq_length
    manifests = by_path.values()
    if not (count := sum(map(number_of_records, manifests))):
        return
    config = AlbertConfig.from_json_file(options.albert_config_file)
    try:
        check_manifests(by_path, length, options.max_predictions_per_seq, config.vocab_size)
    except InputError as error:
        yield f"note: {error}"
    examples = counted(sum(each.get("examples", 0) for each in manifests), "example")
    if _has_rows(by_path):
        yield f"an epoch of {counted(count, 'row')} ({examples}): {times(count)}"
        return
    yield f"an epoch of {examples}: {times(count)}"
    tokens = sum(map(number_of_tokens, manifests))
    rows = math.ceil(max(tokens / length, count / most_examples(length)))
    if rows < count:
        padding = f"{1 - tokens / (count * length):.1%} of it is padding"
        yield f"{padding}; with --pack_rows, at least {counted(rows, 'row')}: {times(rows)}"


def _conclusion(fitting: list[tuple[int, bool]], share: int) -> list[str]:
    """Return the largest micro-batch that fits, with and without rematerialization."""
    lines = []
    for remat in dict.fromkeys(remat for _, remat in fitting):
        micro = max(size for size, how in fitting if how == remat)
        flags = f"--micro_batch_size={micro}" if micro < share else "the whole share of a device"
        how = "with" if remat else "without"
        lines.append(f"largest micro-batch that fits {how} --remat: {micro} ({flags})")
    return lines


def check_installed() -> None:
    """Raise InputError if JAX or the TPU compiler is not installed."""
    for package in ("jax", "libtpu"):
        if importlib.util.find_spec(package) is None:
            raise InputError(
                f"the preflight requires {package}, which is not installed: "
                "pip install 'albert-tf[cpu,preflight]'"
            )


class Compiler:
    """Compiles training steps for slices, each in separate processes."""

    def __init__(self, options: PreflightOptions):
        self.options = options
        self.line = ProgressLine()
        self._folder = tempfile.mkdtemp(prefix="preflight-")
        weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._requests: dict[str, str] = {}
        self._has_rows = _has_rows(_manifests(options))

    def compile(self, where: Slice, batch: int, micro: int, remat: bool) -> Compiled:
        """Compile the training step of one replica of a slice, of a global batch."""
        sizes = {"train_batch_size": batch, "batch_size_warmup": ()}  # the largest counts
        asked = self.options.pretraining(micro, remat=remat, **sizes)
        if "jax" not in where.data.engines:  # nor do its kernels compile
            asked = dataclasses.replace(asked, attention="plain")
        what = f"{where.name}, micro-batch {micro}{', remat' if remat else ''}"
        request = self._request(where.replicas, asked)
        trips = batch // where.replicas // micro
        result = os.path.join(self._folder, "result")
        if self.options.engine == "jax":
            module, program = "jax_compiling", request
        else:
            module, program = "compiling", self._program(request, what)
        arguments = [program, where.name, str(trips), result]
        if error := self._run(module, arguments, f"{what}: compiling"):
            return Compiled(False, error=error)
        with open(result, encoding="utf-8") as file:
            return Compiled(**json.load(file))

    def _request(self, replicas: int, asked: PretrainingOptions) -> str:
        request = to_json(dataclasses.asdict(Request(replicas, asked, self._has_rows)))
        if request not in self._requests:
            path = os.path.join(self._folder, f"request-{len(self._requests)}.json")
            with open(path, "w", encoding="utf-8") as file:
                file.write(request)
            self._requests[request] = path
        return self._requests[request]

    def _program(self, request: str, what: str) -> str:
        """Return the file of a program of TensorFlow, which slices of as many devices share."""
        program = f"{request}.program"
        if os.path.exists(program):
            return program
        if error := self._run("lowering", [request, program], f"{what}: building"):
            raise InputError(f"{what}: the training step cannot be built ({error})")
        return program

    def _run(self, module: str, arguments: list[str], what: str) -> str | None:
        """Run a module in a separate process; return a line on why it failed, None if not."""
        seconds = 60 * self.options.compile_minutes
        # No framework must use GPUs, and the user's choice of a Keras backend does not apply.
        engine = self.options.engine
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "KERAS_BACKEND": engine}
        environment.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        started = time.monotonic()
        with tempfile.TemporaryFile("w+") as errors:
            with child(
                [sys.executable, "-m", f"albert_tf.tpu.{module}", *arguments],
                env=environment,
                stdout=errors,
                stderr=subprocess.STDOUT,
            ) as process:
                try:
                    while process.poll() is None:
                        past = time.monotonic() - started
                        if past > seconds:
                            process.kill()
                            return f"not done after {duration(past)} (--compile_minutes)"
                        self.line.update(what, duration(past))
                        time.sleep(0.2)
                finally:
                    self.line.clear()
            if process.returncode == 0:
                return None
            errors.seek(0)
            lines = [line.strip() for line in errors if line.strip()]
        if process.returncode < 0:
            return f"ended by signal {-process.returncode}; this machine may be out of memory"
        return lines[-1] if lines else f"ended with code {process.returncode}"


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


def one_slice(options: PreflightOptions, where: Slice) -> Iterator[str]:
    """Yield the lines of the report on one slice."""
    batch = options.train_batch_size
    if batch % where.replicas:
        raise InputError(
            f"`train_batch_size`={batch}: must be a multiple of the {where.replicas} devices of "
            f"{where.name}"
        )
    if options.engine not in where.data.engines:
        raise InputError(
            f"`topology`={where.name}: `engine`={options.engine} does not run on "
            f"{where.generation}; use `engine`={where.data.engines[0]}"
        )
    share = batch // where.replicas
    sizes = candidates(share, options.sizes())
    compiler = Compiler(options)
    yield from _heading(options, where)
    yield ""
    yield _COLUMNS
    fitting, failures, times = [], [], []
    for remat in (True,) if options.remat else (False, True):
        for micro in sizes:
            compiled = compiler.compile(where, batch, micro, remat)
            yield _row(compiled, where, micro, remat, options)
            if compiled.fits:
                fitting.append((micro, remat))
                times.append(step_time(compiled, where))
            else:
                failures.append(compiled.error)
                break  # larger micro-batches need more memory
    yield ""
    if not fitting:
        reason = next((error for error in failures if error), "a device has too little memory")
        raise InputError(f"`topology`={where.name}: no micro-batch can run ({reason})")
    yield from _conclusion(fitting, share)
    yield from _epoch(options, min(times, key=lambda time: time.estimate))
    yield from _LEGEND


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
    yield ""
    yield from _SLICE_LEGEND


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
    if options.dtype == "auto":
        options = dataclasses.replace(options, dtype=tpu_precision()[0])
    options.check()
    AlbertConfig.from_json_file(options.albert_config_file)
    where = parse_slice(options.topology) if options.topology else None
    check_installed()
    for line in all_slices(options) if where is None else one_slice(options, where):
        logger.info("%s", line)


cli = command(PreflightOptions, preflight)

if __name__ == "__main__":
    cli()
