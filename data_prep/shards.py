"""Names of pieces of finished work; buckets to parts of TFRecord files, parts to whole files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from albert_tf import files
from albert_tf.input.record_index import index_records
from data_prep.example_maker import ExampleMaker
from data_prep.plan import Plan
from data_prep.runs import Bucket
from data_prep.tfrecords import write_records
from data_prep.work_folder import HashedFile, WorkFolder, concatenate


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


def write_part(work: WorkFolder, maker: ExampleMaker, bucket: int, slices: Sequence[Bucket]) -> int:
    """Write the examples of a bucket as a part of an output file.

    Args:
        work: the folder to write in.
        maker: shuffles and masks the examples.
        bucket: number of the bucket.
        slices: the content of the bucket, in the order of the units.

    Returns:
        The number of examples.
    """
    counts: Counter[str] = Counter()
    name = part_name(bucket)
    with files.replacing(work.file(name), durable=False) as partial, HashedFile(partial) as file:
        for features in maker.examples_of(slices, counts):
            write_records(file, features)
    work.finish(name, {**file.record, "counts": counts})
    return counts["written_examples"]


def join_parts(plan: Plan, work: WorkFolder, shard: int) -> None:
    """Concatenate the parts of an output file, inside the work folder, and remove them."""
    if is_made(plan, work, shard):
        return
    name = shard_name(shard)
    parts = _parts_of(plan, shard)
    examples = work.counts(parts)["written_examples"]
    if len(parts) == 1:
        whole = work.require_record(parts[0])
        record = {key: whole[key] for key in ("bytes", "sha256")}
        files.rename(work.file(parts[0]), work.file(name), durable=False)
    else:
        record = concatenate([work.file(part) for part in parts], work.file(name))
    index = index_records(work.file(name))
    work.finish(name, {**record, "examples": examples, "index": index})
    for part in parts:
        files.remove(work.file(part))


def _parts_of(plan: Plan, shard: int) -> list[str]:
    first = shard * plan.buckets_per_file
    return [part_name(bucket) for bucket in range(first, first + plan.buckets_per_file)]


def is_made(plan: Plan, work: WorkFolder, shard: int) -> bool:
    """Return whether an output file is complete, in the work folder or under its final name."""
    if any(work.record(part) is None for part in _parts_of(plan, shard)):
        return False  # their counts are needed
    name = shard_name(shard)
    return work.is_intact(name) or work.is_intact(name, plan.options.output_files[shard])
