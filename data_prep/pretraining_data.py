"""From text to TFRecord files with a manifest: options in, files with their final names out.

All cores of a machine, or a Dask cluster, work in two resumable passes. Pass 1 turns units of text
into runs; pass 2 turns buckets of examples into parts of TFRecord files (see `example_maker` and
`runs`). Every finished unit and part is recorded in a hidden work folder, so a killed run resumes
from there when the same command is started again.
"""

import contextlib
import glob
import logging
import os
import platform
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.children import stoppable
from albert_tf.errors import InputError
from albert_tf.input.manifest import find_manifests, manifest_file, read_manifest, without_shard
from albert_tf.input.record_index import index_file, index_records, write_indexes
from albert_tf.logs import counted
from albert_tf.terminal import ThroughputLine
from albert_tf.tokenizers import Tokenizer
from data_prep.example_maker import ExampleMaker, load_tokenizer, masking_of
from data_prep.parallel import Workers
from data_prep.plan import (
    Plan,
    build_manifest,
    check_examples,
    check_labels,
    finished_manifest,
    make_plan,
    write_manifest,
)
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.runs import Bucket, DamagedRunError, read_bucket, write_run
from data_prep.text_units import readable, text_files
from data_prep.tfrecords import write_records
from data_prep.work_folder import WorkFolder, concatenate, move
from data_prep.workers import DaskWorkers, start_workers

logger = logging.getLogger(__name__)


@stoppable()
def create_pretraining_data(options: PretrainingDataOptions) -> dict[str, Any]:
    """Write TFRecord files of pretraining examples and their manifest, and return that.

    All files are written, or none. An interrupted run resumes when the function is called again
    with the same options and input. A finished run is not repeated if the files are unchanged.

    Raises:
        InputError: If an option is invalid; if an input file is missing, empty or not UTF-8; if
            the vocabulary does not match; if the output cannot be written; or if the text yields
            no example.
    """
    start = time.monotonic()
    options.check()
    paths = text_files(options.input_file)
    outputs = options.output_files
    files.check_outputs(
        {"output_file": [*outputs, manifest_file(outputs[0]), index_file(outputs[0])]},
        {
            "input_file": paths,
            "spm_model_file": [options.spm_model_file],
            "vocab_file": [options.vocab_file],
        },
    )
    _check_manifest(outputs)
    for path in outputs:
        files.make_folder(os.path.dirname(path), "output_file")
    tokenizer = load_tokenizer(options)
    paths = readable(paths, files.check_utf8, options.skip_bad_files, [])
    plan = make_plan(options, paths, tokenizer)
    if manifest := finished_manifest(plan):
        return manifest
    note = masking_of(options).shortfall(options.max_seq_length)
    # Of dynamic masks, training decides; but rows are full when they have no room for predictions.
    if note and (options.masking == "static" or options.pack_rows):
        logger.info("%s", note)
    with WorkFolder.resume(outputs[0], options.work_dir, plan.fingerprint) as work:
        with work.kept_after_error():
            _make_files(plan, work)
        return _publish(plan, work, tokenizer, start)


def _unit(number: int) -> str:
    return f"unit-{number:05d}"


def _part(bucket: int) -> str:
    return f"part-{bucket:05d}.tfrecord"


def _shard(number: int) -> str:
    return f"shard-{number:05d}.tfrecord"


def _make_files(plan: Plan, work: WorkFolder) -> None:
    """Make the runs, parts and whole files that do not exist yet."""
    names = list(map(_unit, range(len(plan.units))))
    units = [number for number, name in enumerate(names) if not work.record(name)]
    shards = [n for n in range(len(plan.options.output_files)) if not _is_made(plan, work, n)]
    buckets = [
        bucket
        for shard in shards
        for bucket in plan.buckets_of(shard)
        if not work.is_intact(_part(bucket))
    ]
    if not (units or shards):
        return
    text_bytes = plan.text_bytes * plan.options.dupe_factor
    with start_workers(plan.options, text_bytes, _prepare_worker, (plan, work)) as workers:
        _make_runs(plan, units, workers)
        counts = work.counts(names)
        with work.kept_after_error(is_useful=False):
            check_examples(plan, counts)
        runs = [run for name in names for run in work.require_record(name)["runs"]]
        made = set(range(plan.buckets)).difference(buckets)
        written = work.counts(map(_part, made))["written_examples"]
        reported: set[str] = set()
        with ThroughputLine("wrote", "examples", counts["examples"], written) as progress:
            tasks = [(bucket, runs) for bucket in buckets]
            for examples, damaged in workers.map(_make_part, tasks):
                for path in sorted(damaged - reported):
                    logger.warning("%s: damaged or lost; making it again", path)
                reported |= damaged
                written += examples
                progress.update(written)
        for _ in workers.map(_make_shard, shards):
            pass


def _make_runs(plan: Plan, units: list[int], workers: Workers | DaskWorkers) -> None:
    sizes = [unit.end - unit.begin for unit in plan.units]
    done = plan.text_bytes - sum(sizes[unit] for unit in units)
    documents = examples = 0
    with ThroughputLine("tokenized", "MB", plan.text_bytes / 1e6, done / 1e6) as progress:
        for unit, counts in zip(units, workers.map(_make_run, units), strict=True):
            done += sizes[unit]
            documents += counts["documents"]
            examples += counts["examples"]
            details = f"{counted(documents, 'document')}, {counted(examples, 'example')}"
            progress.update(done / 1e6, details)


_worker: tuple[Plan, WorkFolder, ExampleMaker]


def _prepare_worker(plan: Plan, work: WorkFolder) -> None:
    global _worker
    if not os.path.isdir(work.path):
        raise InputError(
            f"`work_dir`: {work.path} does not exist on {platform.node()}; name a folder that all "
            "machines share"
        )
    _worker = plan, work, ExampleMaker(plan.options, plan.buckets)


def _make_run(number: int) -> Counter[str]:
    plan, work, maker = _worker
    counts: Counter[str] = Counter()
    names: list[str] = []
    for run in maker.runs_of(plan.units[number], counts):
        names.append(f"{_unit(number)}-{len(names):03d}.run")
        with files.replacing(work.file(names[-1]), durable=False) as partial:
            write_run(partial, run)
    work.finish(_unit(number), {"runs": names, "counts": counts})
    return counts


def _make_part(task: tuple[int, list[str]]) -> tuple[int, set[str]]:
    """Shuffle, mask and write a bucket.

    Returns:
        The number of examples, and the runs that a disk had damaged or lost since they were
        written, and that were made again.
    """
    bucket, runs = task
    _, work, maker = _worker
    damaged: set[str] = set()
    slices: list[Bucket] = []
    for path in map(work.file, runs):
        try:
            slices.append(read_bucket(path, bucket, maker.token_dtype))
        except DamagedRunError:
            damaged.add(path)
            _make_run(int(os.path.basename(path).split("-")[1]))
            try:
                slices.append(read_bucket(path, bucket, maker.token_dtype))
            except DamagedRunError:
                raise OSError(
                    f"{path}: not as it was written, for the second time; is the disk in order?"
                ) from None
    counts: Counter[str] = Counter()
    name = _part(bucket)
    with files.replacing(work.file(name), durable=False) as partial, open(partial, "wb") as file:
        for features in maker.examples_of(slices, counts):
            write_records(file, features)
    work.finish(name, {**work.identity(name), "counts": counts})
    return counts["written_examples"], damaged


def _make_shard(shard: int) -> None:
    """Concatenate the parts of an output file, inside the work folder, and remove them."""
    plan, work, _ = _worker
    if _is_made(plan, work, shard):
        return
    name = _shard(shard)
    parts = list(map(_part, plan.buckets_of(shard)))
    counts = work.counts(parts)
    records = counts["written_rows"] or counts["written_examples"]
    if len(parts) == 1:
        whole = work.require_record(parts[0])
        record = {key: whole[key] for key in ("bytes", "sha256")}
        files.rename(work.file(parts[0]), work.file(name), durable=False)
    else:
        concatenate([work.file(part) for part in parts], work.file(name))
        record = work.identity(name)
    index = index_records(work.file(name))
    work.finish(name, {**record, "examples": records, "index": index})
    for part in parts:
        files.remove(work.file(part))


def _is_made(plan: Plan, work: WorkFolder, shard: int) -> bool:
    """Return whether an output file is complete, in the work folder or under its final name."""
    if not all(map(work.record, map(_part, plan.buckets_of(shard)))):
        return False  # their counts are needed
    name = _shard(shard)
    return work.is_intact(name) or work.is_intact(name, plan.options.output_files[shard])


def _publish(plan: Plan, work: WorkFolder, tokenizer: Tokenizer, start: float) -> dict[str, Any]:
    """Move the finished files to their final names; write and return their manifest."""
    outputs = plan.options.output_files
    part_counts = work.counts(map(_part, range(plan.buckets)))
    with work.kept_after_error(is_useful=False):
        check_labels(plan, part_counts)
    for path in _descriptions(outputs):  # they do not describe the new files
        files.remove(path)
    for shard, path in enumerate(outputs):
        if not work.is_intact(_shard(shard), path):
            move(work.file(_shard(shard)), path)
    unit_counts = [work.counts([_unit(unit)]) for unit in range(len(plan.units))]
    records = [work.require_record(_shard(shard)) for shard in range(len(outputs))]
    write_indexes(outputs, [record["index"] for record in records])
    seconds = time.monotonic() - start
    manifest = build_manifest(plan, tokenizer, unit_counts, part_counts, records, seconds)
    write_manifest(plan, manifest)
    work.remove()
    _warn_about_stale_shards(outputs)
    return manifest


def _check_manifest(outputs: Sequence[str]) -> None:
    path = manifest_file(outputs[0])
    described: list[str] = []
    with contextlib.suppress(InputError):
        described = list(read_manifest(path)["files"])
    for file in (os.path.join(os.path.dirname(path), name) for name in described):
        alike = without_shard(file) == without_shard(outputs[0]) or file in outputs
        if not alike and manifest_file(file) == path and files.exists(file):
            raise InputError(
                f"`output_file`={outputs[0]}: {path} is the manifest of {file}; choose another name"
            )


def _descriptions(outputs: Sequence[str]) -> Iterator[str]:
    """Yield the manifests and indexes of these files only, under names of any revision."""
    manifests = {manifest_file(outputs[0])}
    with contextlib.suppress(InputError):
        names = set(map(os.path.basename, outputs))
        found = find_manifests(outputs)
        manifests |= {path for path in found if names.issuperset(found[path]["files"])}
    for path in manifests:
        yield from (path, path.removesuffix(".manifest.json") + ".index.json")


def _warn_about_stale_shards(outputs: Sequence[str]) -> None:
    """Warn of shards, which a glob would also match, and work of runs with other `num_shards`."""
    folder, name = os.path.split(without_shard(outputs[0]))
    is_shard = outputs[0] != os.path.join(folder, name)
    of_shards = f"{glob.escape(name)}-*-of-*"
    stale = set(files.files_in(folder, of_shards)) - set(outputs) if is_shard else set()
    for pattern in (f".{glob.escape(name)}.work", f".{of_shards}.work"):
        stale.update(files.files_in(folder, pattern))
    if stale:
        logger.warning(
            "these files are from another run; remove them: %s", ", ".join(sorted(stale))
        )
