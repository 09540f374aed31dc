"""Text to TFRecords on a cluster: the same functions, moved about by Apache Beam.

    units -> runs, split by bucket | group by bucket -> parts | group by file -> output files

Each step leaves its result, and a record of what it counted, in a folder beside the output that all
machines can reach. A step that the runner repeats writes the same bytes again.
"""

from __future__ import annotations

import logging
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.examples import ExampleMaker, load_tokenizer
from data_prep.manifest import finished_manifest, no_examples
from data_prep.pipeline import join_parts, publish, shard_name, unit_name, write_part
from data_prep.plan import Plan, make_plan
from data_prep.runs import EXAMPLE, Bucket, token_dtype
from data_prep.workfolder import WorkFolder

logging.disable(logging.WARNING)  # Beam misses cloud libraries that may well not be needed
try:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
except ImportError:
    raise InputError(
        "--runner: Apache Beam is not installed; pip install 'albert-tf[beam]'"
    ) from None
finally:
    logging.disable(logging.NOTSET)

if TYPE_CHECKING:
    from data_prep.create_pretraining_data import Options

# Where a run of a unit stands among all runs, its examples, its tokens.
Part = tuple[tuple[int, int], bytes, bytes]


def create_pretraining_data(options: Options) -> dict[str, Any]:
    """Writes the TFRecord files and their manifest, and returns the manifest.

    The examples, and the bytes of the files, are those of `pipeline.create_pretraining_data`.

    Raises:
        InputError: as there, or the runner is not known.
    """
    start = time.monotonic()
    paths = files.expand_globs(options.input_file, "input_file")
    outputs = options.output_files
    for path in outputs:
        files.make_folder(os.path.dirname(path), "output_file")
    tokenizer = load_tokenizer(options)
    plan = make_plan(options, paths, tokenizer)
    if manifest := finished_manifest(plan):
        return manifest
    folder = options.work_dir or os.path.dirname(outputs[0])
    work = WorkFolder(os.path.join(folder, f".{os.path.basename(outputs[0])}.beam"))
    work.empty()
    try:
        _run_pipeline(plan, work)
        counts = work.counts(unit_name(unit) for unit in range(len(plan.units)))
        if not counts["examples"]:
            raise InputError(no_examples(plan, counts))
    except BaseException:
        work.remove()
        raise
    return publish(plan, work, tokenizer, start)


def _run_pipeline(plan: Plan, work: WorkFolder) -> None:
    options = [f"--runner={plan.options.runner}", *plan.options.beam_options]
    try:
        pipeline = beam.Pipeline(options=PipelineOptions(options))
    except ValueError as error:
        raise InputError(f"--runner: {plan.options.runner}: {error}") from None
    with pipeline:
        parts = (
            pipeline
            | "Units" >> beam.Create(range(len(plan.units)))
            | "SpreadUnits" >> beam.Reshuffle()
            | "Cut" >> beam.ParDo(_Cut(plan, work))
            | "GroupByBucket" >> beam.GroupByKey()
            | "Mask" >> beam.ParDo(_Mask(plan, work))
        )
        _ = parts | "GroupByFile" >> beam.GroupByKey() | "Join" >> beam.ParDo(_Join(plan, work))


class _Step(beam.DoFn):
    """A step on a worker machine, with the vocabulary loaded once."""

    def __init__(self, plan: Plan, work: WorkFolder):
        self._plan, self._work = plan, work

    def setup(self) -> None:
        self._maker = ExampleMaker(self._plan.options, self._plan.buckets)


class _Cut(_Step):
    def process(self, unit: int) -> Iterator[tuple[int, Part | None]]:
        counts: Counter[str] = Counter()
        for number, run in enumerate(self._maker.runs_of(self._plan.units[unit], counts)):
            for bucket in np.flatnonzero(np.diff(run.begins)).tolist():
                examples, tokens = run.bucket(bucket)
                yield bucket, ((unit, number), examples.tobytes(), tokens.tobytes())
        self._work.finish(unit_name(unit), {"counts": counts})
        if unit == 0:  # so that every bucket comes up, even one without an example
            yield from ((bucket, None) for bucket in range(self._plan.buckets))


class _Mask(_Step):
    def process(self, element: tuple[int, Iterable[Part | None]]) -> Iterator[tuple[int, int]]:
        bucket, parts = element
        dtype = token_dtype(self._maker.tokenizer.vocab_size)
        in_order = sorted((part for part in parts if part), key=lambda part: part[0])
        write_part(
            self._work,
            self._maker,
            bucket,
            [
                Bucket(np.frombuffer(examples, EXAMPLE), np.frombuffer(tokens, dtype))
                for _, examples, tokens in in_order
            ],
        )
        yield bucket // self._plan.buckets_per_file, bucket


class _Join(beam.DoFn):
    def __init__(self, plan: Plan, work: WorkFolder):
        self._plan, self._work = plan, work

    def process(self, element: tuple[int, Iterable[int]]) -> Iterator[str]:
        shard, _ = element
        join_parts(self._plan, self._work, shard)
        yield shard_name(shard)
