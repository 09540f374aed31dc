"""Text to TFRecords on one machine, with all its cores: in two passes, resumable, the same bytes.

Pass 1 turns units of text into runs, pass 2 buckets of examples into parts of TFRecord files (see
`examples` and `runs`). Every unit and every part is finished work in a hidden folder: whoever
starts the same command again after a kill goes on from there. The output files take their names at
the very end, all at once, and the manifest after them.
"""

from __future__ import annotations

import os
import re
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.manifest import manifest_file
from albert_tf.tokenizers import Tokenizer
from data_prep import parallel
from data_prep.examples import ExampleMaker, load_tokenizer
from data_prep.manifest import build_manifest, finished_manifest, no_examples, write_manifest
from data_prep.plan import Plan, make_plan
from data_prep.progress import Progress
from data_prep.records import write_records
from data_prep.runs import Bucket, read_buckets, token_dtype, write_run
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
    with WorkFolder.resume(plan) as work:
        try:
            make_parts(plan, work)
        except InputError:
            work.remove()  # this input would end the same way again
            raise
        for shard in range(len(options.output_files)):
            join_parts(plan, work, shard)
        return publish(plan, work, tokenizer, start)


def publish(plan: Plan, work: WorkFolder, tokenizer: Tokenizer, start: float) -> dict[str, Any]:
    """Moves the finished files to their places and writes the manifest; returns it.

    Args:
        plan: the run.
        work: where the files are, all of them.
        tokenizer: the vocabulary.
        start: when the run began, by `time.monotonic`.
    """
    outputs = plan.options.output_files
    files.remove(manifest_file(outputs[0]))  # soon it would not fit its files
    for shard, path in enumerate(outputs):
        if not work.is_whole(shard_name(shard), path):
            move(work.file(shard_name(shard)), path)
    counts = work.counts(
        [unit_name(unit) for unit in range(len(plan.units))]
        + [part_name(bucket) for bucket in range(plan.buckets)]
    )
    records = [work.record(shard_name(shard)) for shard in range(len(outputs))]
    manifest = build_manifest(plan, tokenizer, counts, records, time.monotonic() - start)
    write_manifest(plan, manifest)
    work.remove()
    _warn_of_others(outputs)
    return manifest


def _warn_of_others(outputs: Sequence[str]) -> None:
    """Tells of shards that a run with another --num_shards left: a glob would read them too."""
    pattern = re.sub(r"-\d{5}-of-\d{5}$", "-*-of-*", outputs[0])
    others = set(files.matches(pattern)) - set(outputs) if pattern != outputs[0] else ()
    if others:
        print(f"remove what is not of this run: {', '.join(sorted(others))}", file=sys.stderr)


def make_parts(plan: Plan, work: WorkFolder) -> None:
    """Makes what is not there yet of the runs and the parts.

    Raises:
        InputError: the text is not UTF-8, or gives no example.
    """
    units = [unit for unit in range(len(plan.units)) if not work.record(unit_name(unit))]
    shards = [
        shard for shard in range(len(plan.options.output_files)) if _is_made(plan, work, shard)
    ]
    made = [
        bucket
        for bucket in range(plan.buckets)
        if bucket // plan.buckets_per_file in shards or work.is_whole(part_name(bucket))
    ]
    buckets = [bucket for bucket in range(plan.buckets) if bucket not in made]
    if not (units or buckets):
        return
    processes = min(
        parallel.process_count(plan.options.num_processes),
        1 + plan.text_bytes * plan.options.dupe_factor // _BYTES_WORTH_A_PROCESS,
    )
    with parallel.Workers(processes, _prepare_worker, (plan, work)) as workers:
        _make_runs(plan, units, workers)
        names = [unit_name(unit) for unit in range(len(plan.units))]
        counts = work.counts(names)
        if not counts["examples"]:
            raise InputError(no_examples(plan, counts))
        runs = [run for name in names for run in work.record(name)["runs"]]
        written = work.counts(part_name(bucket) for bucket in made)["written_examples"]
        with Progress("wrote", "examples", counts["examples"], written) as progress:
            for examples in workers.map(_make_part, [(bucket, runs) for bucket in buckets]):
                written += examples
                progress.update(written)


def _make_runs(plan: Plan, units: list[int], workers: parallel.Workers) -> None:
    sizes = [unit.end - unit.begin for unit in plan.units]
    before = plan.text_bytes - sum(sizes[unit] for unit in units)
    done = documents = examples = 0
    with Progress("tokenized", "MB", plan.text_bytes / 1e6, before / 1e6) as progress:
        for unit, counts in zip(units, workers.map(_make_run, units), strict=True):
            done += sizes[unit]
            documents += counts["documents"]
            examples += counts["examples"]
            details = f"{documents:,} documents, {examples:,} examples"
            progress.update((before + done) / 1e6, details)


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
        names.append(f"{unit_name(number)}-{len(names):03d}.run")
        with files.replacing(work.file(names[-1])) as partial:
            write_run(partial, run)
    work.finish(unit_name(number), {"runs": names, "counts": counts})
    return counts


def _make_part(task: tuple[int, list[str]]) -> int:
    """Pass 2: shuffles, masks and writes a bucket."""
    bucket, runs = task
    maker, work = _worker.maker, _worker.work
    paths = [work.file(run) for run in runs]
    dtype = token_dtype(maker.tokenizer.vocab_size)
    parts = list(read_buckets(paths, bucket, _worker.plan.buckets, dtype))
    return write_part(work, maker, bucket, parts)


def write_part(work: WorkFolder, maker: ExampleMaker, bucket: int, parts: Sequence[Bucket]) -> int:
    """Writes the examples of a bucket as a part of a file; returns how many there are."""
    counts: Counter[str] = Counter()
    name = part_name(bucket)
    with files.replacing(work.file(name)) as partial, HashedFile(partial) as file:
        for features in maker.examples_of(parts, counts):
            write_records(file, features)
    work.finish(name, {**file.record, "counts": counts})
    return counts["written_examples"]


def join_parts(plan: Plan, work: WorkFolder, shard: int) -> None:
    """Makes an output file of its parts, still in the work folder."""
    if _is_made(plan, work, shard):
        return
    name = shard_name(shard)
    first = shard * plan.buckets_per_file
    parts = [part_name(bucket) for bucket in range(first, first + plan.buckets_per_file)]
    examples = work.counts(parts)["written_examples"]
    if len(parts) == 1:
        record = {key: work.record(parts[0])[key] for key in ("bytes", "sha256")}
        files.rename(work.file(parts[0]), work.file(name))
    else:
        record = concatenate([work.file(part) for part in parts], work.file(name))
    work.finish(name, {**record, "examples": examples})
    for part in parts:
        files.remove(work.file(part))


def _is_made(plan: Plan, work: WorkFolder, shard: int) -> bool:
    """Whether an output file is made, be it in the work folder or in its place already."""
    name = shard_name(shard)
    return work.is_whole(name) or work.is_whole(name, plan.options.output_files[shard])


def unit_name(number: int) -> str:
    return f"unit-{number:05d}"


def part_name(bucket: int) -> str:
    return f"part-{bucket:05d}.tfrecord"


def shard_name(number: int) -> str:
    return f"shard-{number:05d}.tfrecord"
