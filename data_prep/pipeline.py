"""Text to TFRecords on one machine, with all its cores: in two passes, resumable, the same bytes.

Pass 1 turns units of text into runs, pass 2 buckets of examples into parts of TFRecord files (see
`examples` and `runs`). Every unit and every part is finished work in a hidden folder: whoever
starts the same command again after a kill goes on from there. The output files take their names at
the very end, all at once, and the manifest after them.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.manifest import manifest_file
from data_prep import parallel
from data_prep.examples import ExampleMaker, load_tokenizer
from data_prep.manifest import build_manifest, finished_manifest, no_examples, write_manifest
from data_prep.plan import Plan, make_plan
from data_prep.progress import Progress
from data_prep.records import write_records
from data_prep.runs import read_buckets, token_dtype, write_run
from data_prep.workfolder import HashedFile, WorkFolder, concatenate, move

if TYPE_CHECKING:
    from data_prep.create_pretraining_data import Options

# A process of its own takes a second to start.
_BYTES_WORTH_A_PROCESS = 2_000_000


def create_pretraining_data(options: Options) -> dict[str, Any]:
    """Writes the TFRecord files and their manifest, all or none, and returns the manifest.

    Raises:
        InputError: an input is missing, empty or not UTF-8, the vocabulary does not fit, the
            output cannot be written, or the text gives no example.
    """
    start = time.monotonic()
    paths = files.expand_globs(options.input_file, "input_file")
    for path in options.output_files:
        files.make_folder(os.path.dirname(path), "output_file")
    tokenizer = load_tokenizer(options)
    plan = make_plan(options, paths, tokenizer)
    if manifest := finished_manifest(plan):
        return manifest
    work = WorkFolder(plan)
    try:
        counts = make_parts(plan, work)
    except InputError:
        work.remove()  # this input would end the same way again
        raise
    shards = [_join_parts(plan, work, shard) for shard in range(len(options.output_files))]
    files.remove(manifest_file(options.output_files[0]))  # soon it would not fit its files
    for shard, path in enumerate(options.output_files):
        if not work.is_whole(_shard(shard), path):
            move(work.file(_shard(shard)), path)
    manifest = build_manifest(plan, tokenizer, counts, shards, time.monotonic() - start)
    write_manifest(plan, manifest)
    work.remove()
    return manifest


def make_parts(plan: Plan, work: WorkFolder) -> Counter[str]:
    """Makes what is not there yet of the runs and the parts; returns the counts of all of them.

    Raises:
        InputError: the text is not UTF-8, or gives no example.
    """
    units = [unit for unit in range(len(plan.units)) if not work.record(_unit(unit))]
    buckets = [
        bucket
        for bucket in range(plan.buckets)
        if not work.record(_shard(bucket // plan.buckets_per_file))
        and not work.is_whole(_part(bucket))
    ]
    processes = min(
        parallel.process_count(plan.options.num_processes),
        1 + plan.text_bytes * plan.options.dupe_factor // _BYTES_WORTH_A_PROCESS,
    )
    if units or buckets:
        with parallel.Workers(processes, _prepare_worker, (plan, work)) as workers:
            _make_runs(plan, units, workers)
            counts = _counts(work, [_unit(unit) for unit in range(len(plan.units))])
            if not counts["examples"]:
                raise InputError(no_examples(plan, counts))
            runs = [
                run for unit in range(len(plan.units)) for run in work.record(_unit(unit))["runs"]
            ]
            with Progress("wrote", "examples", counts["examples"]) as progress:
                written = 0
                for examples in workers.map(_make_part, [(bucket, runs) for bucket in buckets]):
                    written += examples
                    progress.update(written)
    pieces = [_unit(unit) for unit in range(len(plan.units))]
    return _counts(work, pieces + [_part(bucket) for bucket in range(plan.buckets)])


def _make_runs(plan: Plan, units: list[int], workers: parallel.Workers) -> None:
    sizes = [unit.end - unit.begin for unit in plan.units]
    before = plan.text_bytes - sum(sizes[unit] for unit in units)
    done = documents = 0
    with Progress("tokenized", "MB", plan.text_bytes / 1e6, before / 1e6) as progress:
        for unit, counts in zip(units, workers.map(_make_run, units), strict=True):
            done += sizes[unit]
            documents += counts["documents"]
            progress.update(
                (before + done) / 1e6, f"{documents:,} documents, {counts['examples']:,} examples"
            )


class _Worker:
    """What a process needs for every unit and every bucket."""

    def __init__(self, plan: Plan, work: WorkFolder):
        self.plan, self.work = plan, work
        self.maker = ExampleMaker(plan.options, plan.buckets)


_worker: _Worker


def _prepare_worker(plan: Plan, work: WorkFolder) -> None:
    global _worker
    _worker = _Worker(plan, work)


def _make_run(number: int) -> Counter[str]:
    """Pass 1: tokenizes and cuts a unit."""
    work, counts, names = _worker.work, Counter(), []
    for run in _worker.maker.runs_of(_worker.plan.units[number], counts):
        names.append(f"{_unit(number)}-{len(names):03d}.run")
        with files.replacing(work.file(names[-1])) as partial:
            write_run(partial, run)
    work.finish(_unit(number), {"runs": names, "counts": counts})
    return counts


def _make_part(task: tuple[int, list[str]]) -> int:
    """Pass 2: shuffles, masks and writes a bucket."""
    bucket, runs = task
    plan, work, maker, counts = _worker.plan, _worker.work, _worker.maker, Counter()
    paths = [work.file(run) for run in runs]
    parts = list(read_buckets(paths, bucket, plan.buckets, token_dtype(maker.tokenizer.vocab_size)))
    with files.replacing(work.file(_part(bucket))) as partial, HashedFile(partial) as file:
        for features in maker.examples_of(parts, counts):
            write_records(file, features)
    work.finish(_part(bucket), {**file.record, "counts": counts})
    return counts["written_examples"]


def _join_parts(plan: Plan, work: WorkFolder, shard: int) -> dict[str, Any]:
    """Makes an output file of its parts, still in the work folder; returns its record."""
    name = _shard(shard)
    if work.is_whole(name) or work.is_whole(name, plan.options.output_files[shard]):
        return work.record(name)
    first = shard * plan.buckets_per_file
    parts = [_part(bucket) for bucket in range(first, first + plan.buckets_per_file)]
    examples = sum(work.record(part)["counts"].get("written_examples", 0) for part in parts)
    if len(parts) == 1:
        record = {key: work.record(parts[0])[key] for key in ("bytes", "sha256")}
        os.replace(work.file(parts[0]), work.file(name))
    else:
        record = concatenate([work.file(part) for part in parts], work.file(name))
    work.finish(name, {**record, "examples": examples})
    for part in parts:
        files.remove(work.file(part))
    return work.record(name)


def _counts(work: WorkFolder, pieces: list[str]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for piece in pieces:
        counts.update(work.record(piece)["counts"])
    return counts


def _unit(number: int) -> str:
    return f"unit-{number:05d}"


def _part(bucket: int) -> str:
    return f"part-{bucket:05d}.tfrecord"


def _shard(number: int) -> str:
    return f"shard-{number:05d}.tfrecord"
