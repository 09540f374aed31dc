"""Text to TFRecord shards with all cores of a machine or a Dask cluster, in two resumable passes.

Pass 1 turns units of text into runs; pass 2 turns buckets of examples into parts of TFRecord files
(see `example_maker` and `runs`). Every finished unit and part is recorded in a hidden work folder,
so a killed run resumes from there when the same command is started again.
"""

import logging
import os
import platform
from collections import Counter
from collections.abc import Iterator

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.record_index import index_records
from albert_tf.logs import counted
from albert_tf.terminal import ThroughputLine
from data_prep.example_maker import ExampleMaker
from data_prep.manifest_writer import check_examples
from data_prep.plan import Plan
from data_prep.runs import DamagedRunError, read_bucket, write_run
from data_prep.tfrecords import write_records
from data_prep.work_folder import WorkFolder, concatenate
from data_prep.workers import AnyWorkers, start_workers

logger = logging.getLogger(__name__)


def unit_name(number: int) -> str:
    return f"unit-{number:05d}"


def run_name(unit: int, number: int) -> str:
    return f"{unit_name(unit)}-{number:03d}.run"


def unit_of(run: str) -> int:
    """Return the number of the unit that a run belongs to."""
    return int(run.split("-")[1])


def part_name(bucket: int) -> str:
    return f"part-{bucket:05d}.tfrecord"


def shard_name(number: int) -> str:
    return f"shard-{number:05d}.tfrecord"


def make_files(plan: Plan, work: WorkFolder) -> None:
    """Make the runs, parts and whole files that do not exist yet.

    Raises:
        InputError: If the text is not UTF-8 or yields no example.
    """
    units = [unit for unit in range(len(plan.units)) if not work.record(unit_name(unit))]
    shards = [
        shard for shard in range(len(plan.options.output_files)) if not _is_made(plan, work, shard)
    ]
    made = [
        bucket
        for bucket in range(plan.buckets)
        if bucket // plan.buckets_per_file not in shards or work.is_intact(part_name(bucket))
    ]
    buckets = [bucket for bucket in range(plan.buckets) if bucket not in made]
    if not (units or shards):
        return
    text_bytes = plan.text_bytes * plan.options.dupe_factor
    with start_workers(plan.options, text_bytes, _prepare_worker, (plan, work)) as workers:
        _make_runs(plan, units, workers)
        names = [unit_name(unit) for unit in range(len(plan.units))]
        counts = work.counts(names)
        with work.kept_after_error(is_useful=False):
            check_examples(plan, counts)
        runs = [run for name in names for run in work.require_record(name)["runs"]]
        written = work.counts(part_name(bucket) for bucket in made)["written_examples"]
        with ThroughputLine("wrote", "examples", counts["examples"], written) as progress:
            for examples in _make_parts(work, buckets, runs, workers):
                written += examples
                progress.update(written)
        for _ in workers.map(_make_shard, shards):
            pass


def _make_runs(plan: Plan, units: list[int], workers: AnyWorkers) -> None:
    sizes = [unit.end - unit.begin for unit in plan.units]
    before = plan.text_bytes - sum(sizes[unit] for unit in units)
    done = documents = examples = 0
    with ThroughputLine("tokenized", "MB", plan.text_bytes / 1e6, before / 1e6) as progress:
        for unit, counts in zip(units, workers.map(_make_run, units), strict=True):
            done += sizes[unit]
            documents += counts["documents"]
            examples += counts["examples"]
            details = f"{counted(documents, 'document')}, {counted(examples, 'example')}"
            progress.update((before + done) / 1e6, details)


def _make_parts(
    work: WorkFolder, buckets: list[int], runs: list[str], workers: AnyWorkers
) -> Iterator[int]:
    """Run pass 2 for some buckets; yield the numbers of their examples.

    Runs that a disk has damaged or lost since they were written are made again.

    Raises:
        OSError: If that happens to the same run twice.
    """
    remade: set[str] = set()
    while buckets:
        waiting: list[int] = []
        damaged: set[str] = set()
        made = workers.map(_make_part, [(bucket, runs) for bucket in buckets])
        for bucket, result in zip(buckets, made, strict=True):
            if isinstance(result, int):
                yield result
            else:
                waiting.append(bucket)
                damaged.add(result)
        for run in sorted(damaged):
            if run in remade:
                raise OSError(
                    f"{work.file(run)}: not as it was written, for the second time; is the disk in "
                    "order?"
                )
            logger.warning("%s: damaged or lost; making it again", work.file(run))
        for _ in workers.map(_make_run, sorted({unit_of(run) for run in damaged})):
            pass
        remade |= damaged
        buckets = waiting


class _Worker:
    def __init__(self, plan: Plan, work: WorkFolder):
        self.plan, self.work = plan, work
        self.maker = ExampleMaker(plan.options, plan.buckets)


_worker: _Worker


def _prepare_worker(plan: Plan, work: WorkFolder) -> None:
    global _worker
    if not os.path.isdir(work.path):
        raise InputError(
            f"`work_dir`: {work.path} does not exist on {platform.node()}; name a folder that all "
            "machines share"
        )
    _worker = _Worker(plan, work)


def _make_run(number: int) -> Counter[str]:
    work = _worker.work
    counts: Counter[str] = Counter()
    names: list[str] = []
    for run in _worker.maker.runs_of(_worker.plan.units[number], counts):
        names.append(run_name(number, len(names)))
        with files.replacing(work.file(names[-1]), durable=False) as partial:
            write_run(partial, run)
    work.finish(unit_name(number), {"runs": names, "counts": counts})
    return counts


def _make_part(task: tuple[int, list[str]]) -> int | str:
    """Pass 2: shuffles, masks and writes a bucket.

    Returns:
        The number of examples, or the name of a run that is damaged.
    """
    bucket, runs = task
    maker, work = _worker.maker, _worker.work
    try:
        slices = [read_bucket(work.file(run), bucket, maker.token_dtype) for run in runs]
    except DamagedRunError as damaged:
        return os.path.basename(damaged.args[0])
    counts: Counter[str] = Counter()
    name = part_name(bucket)
    with files.replacing(work.file(name), durable=False) as partial, open(partial, "wb") as file:
        for features in maker.examples_of(slices, counts):
            write_records(file, features)
    work.finish(name, {**work.identity(name), "counts": counts})
    return counts["written_examples"]


def _make_shard(shard: int) -> None:
    """Concatenate the parts of an output file, inside the work folder, and remove them."""
    plan, work = _worker.plan, _worker.work
    if _is_made(plan, work, shard):
        return
    name = shard_name(shard)
    parts = _parts_of(plan, shard)
    examples = work.counts(parts)["written_examples"]
    if len(parts) == 1:
        whole = work.require_record(parts[0])
        record = {key: whole[key] for key in ("bytes", "sha256")}
        files.rename(work.file(parts[0]), work.file(name), durable=False)
    else:
        concatenate([work.file(part) for part in parts], work.file(name))
        record = work.identity(name)
    index = index_records(work.file(name))
    work.finish(name, {**record, "examples": examples, "index": index})
    for part in parts:
        files.remove(work.file(part))


def _parts_of(plan: Plan, shard: int) -> list[str]:
    first = shard * plan.buckets_per_file
    return [part_name(bucket) for bucket in range(first, first + plan.buckets_per_file)]


def _is_made(plan: Plan, work: WorkFolder, shard: int) -> bool:
    """Return whether an output file is complete, in the work folder or under its final name."""
    if any(work.record(part) is None for part in _parts_of(plan, shard)):
        return False  # their counts are needed
    name = shard_name(shard)
    return work.is_intact(name) or work.is_intact(name, plan.options.output_files[shard])
