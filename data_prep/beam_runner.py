"""Text to TFRecord shards on a cluster: the functions of the local run, distributed by Apache Beam.

    units -> runs, split by bucket | group by bucket -> parts | group by file -> output files

Each step writes its result, and a record of its counts, to a folder next to the output that all
machines can access. A step that the runner repeats writes the same bytes again.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections import Counter
from collections.abc import Iterable, Iterator

import numpy as np

from albert_tf.errors import InputError
from data_prep.example_maker import ExampleMaker
from data_prep.manifest_writer import check_examples
from data_prep.plan import Plan
from data_prep.runs import EXAMPLE, Bucket
from data_prep.shards import join_parts, shard_name, unit_name, write_part
from data_prep.work_folder import WorkFolder

logging.disable(logging.WARNING)  # Beam reports missing cloud libraries that may not be needed
try:
    import apache_beam as beam
    from apache_beam.options.pipeline_options import PipelineOptions
except ImportError:
    raise InputError(
        "`runner`: Apache Beam is not installed; pip install 'albert-tf[beam]'"
    ) from None
finally:
    logging.disable(logging.NOTSET)

# (unit, number of the run in the unit), the examples of a bucket in this run, their tokens.
SerializedSlice = tuple[tuple[int, int], bytes, bytes]


@contextlib.contextmanager
def make_shards(plan: Plan) -> Iterator[WorkFolder]:
    """Make all output files of a plan.

    Yields:
        The folder that contains the files, with the bytes that `local_runner.make_shards` writes.

    Raises:
        InputError: If the text is not UTF-8 or yields no example, or if the runner is unknown.
    """
    first = plan.options.output_files[0]
    folder = plan.options.work_dir or os.path.dirname(first)
    path = os.path.join(folder, f".{os.path.basename(first)}.beam")
    with WorkFolder.create(path, plan) as work:
        try:
            _run_pipeline(plan, work)
            check_examples(plan, work.counts(unit_name(unit) for unit in range(len(plan.units))))
        except BaseException:
            work.remove()
            raise
        yield work


def _run_pipeline(plan: Plan, work: WorkFolder) -> None:
    options = [f"--runner={plan.options.runner}", *plan.options.beam_options]
    try:
        pipeline = beam.Pipeline(options=PipelineOptions(options))
    except ValueError as error:
        raise InputError(f"`runner`={plan.options.runner}: {error}") from None
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
    """A step on a worker machine, which loads the vocabulary once."""

    def __init__(self, plan: Plan, work: WorkFolder):
        self._plan, self._work = plan, work

    def setup(self) -> None:
        self._maker = ExampleMaker(self._plan.options, self._plan.buckets)


class _Cut(_Step):
    def process(self, unit: int) -> Iterator[tuple[int, SerializedSlice | None]]:
        counts: Counter[str] = Counter()
        for number, run in enumerate(self._maker.runs_of(self._plan.units[unit], counts)):
            for bucket in np.flatnonzero(np.diff(run.begins)).tolist():
                examples, tokens = run.bucket(bucket)
                yield bucket, ((unit, number), examples.tobytes(), tokens.tobytes())
        self._work.finish(unit_name(unit), {"counts": counts})
        if unit == 0:  # so that every bucket is made, even one without examples
            yield from ((bucket, None) for bucket in range(self._plan.buckets))


class _Mask(_Step):
    def process(
        self, element: tuple[int, Iterable[SerializedSlice | None]]
    ) -> Iterator[tuple[int, int]]:
        bucket, slices = element
        dtype = self._maker.token_dtype
        in_order = sorted((part for part in slices if part), key=lambda part: part[0])
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
