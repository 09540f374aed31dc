"""A uniform sample of the sentences of text files, drawn by all workers.

Every sentence has a random number that depends on the seed and on where the sentence begins. The
sample consists of the sentences with the smallest numbers, so it does not matter which worker reads
which part of the text.
"""

import itertools
import logging
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf.input.masking import derive_seeds
from albert_tf.logs import counted
from albert_tf.terminal import ThroughputLine
from data_prep.parallel import Workers
from data_prep.text_units import (
    MAX_LINE_BYTES,
    TextUnit,
    decoded,
    in_parts,
    is_blank,
    lines_from,
    split_into_units,
)
from data_prep.work_folder import WorkFolder
from data_prep.workers import DaskWorkers, WorkerOptions, start_workers

logger = logging.getLogger(__name__)

_PART_BYTES = 4_000_000  # of the text of a compressed file
_ALL = np.uint64(2**64 - 1)
# The sample is reduced to its size when it exceeds it by this factor.
_SLACK = 1.25


class _Sentences(NamedTuple):
    """Sentences with their random numbers.

    Attributes:
        draws: uint64 `[sentences]`.
        positions: int64 `[sentences, 2]`, index of the file and offset in it.
    """

    draws: np.ndarray
    positions: np.ndarray
    texts: list[str]

    def take(self, chosen: np.ndarray) -> "_Sentences":
        texts = [self.texts[index] for index in chosen.tolist()]
        return _Sentences(self.draws[chosen], self.positions[chosen], texts)

    @property
    def record(self) -> dict[str, Any]:
        return {
            "draws": self.draws.tolist(),
            "positions": self.positions.tolist(),
            "texts": self.texts,
        }

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> "_Sentences":
        positions = np.array(record["positions"], np.int64).reshape(-1, 2)
        return cls(np.array(record["draws"], np.uint64), positions, record["texts"])


def sample_sentences(
    paths: Sequence[str],
    size: int,
    seed: int,
    options: WorkerOptions,
    work: WorkFolder | None = None,
) -> list[str]:
    """Draw a uniform sample of the lines of text files that are not blank.

    Args:
        size: number of sentences to draw; 0 for all of them.
        options: which workers read the files.
        work: keeps what was read of the same files, for the same sample, when the command ends.

    Returns:
        The sentences in the order of the text. Lines longer than a megabyte are left out, with a
        warning.

    Raises:
        InputError: If a file is not UTF-8.
    """
    units = split_into_units(paths)
    sizes: deque[int] = deque()  # of the units that are being read
    total = sum(unit.end - unit.begin for unit in units)
    parts: list[_Sentences] = []
    limit, found, done, skipped = _ALL, 0, 0, 0
    cut = itertools.chain.from_iterable(
        in_parts(unit, _PART_BYTES, document_sentences=1) for unit in units
    )

    def tasks() -> Iterator[tuple[TextUnit, np.uint64, int]]:
        for part in cut:
            sizes.append(part.end - part.begin)
            yield part, limit, seed  # the limit of the moment; workers read nothing beyond it

    def read(workers: Workers | DaskWorkers) -> Iterator[tuple[_Sentences, int]]:
        names = (f"sentences-{number:06d}" for number in itertools.count())
        name = next(names)
        while work and (record := work.record(name)):
            part = next(cut)
            sizes.append(part.end - part.begin)
            yield _Sentences.from_record(record), record["skipped"]
            name = next(names)
        for sentences, skipped in workers.map(_sentences_of, tasks()):
            if work:
                work.finish(name, sentences.record | {"skipped": skipped})
                name = next(names)
            yield sentences, skipped

    with (
        start_workers(options, total) as workers,
        ThroughputLine("read", "MB", total / 1e6) as progress,
    ):
        for part, long in read(workers):
            parts.append(part)
            skipped += long
            found += len(part.texts)
            if size and found > _SLACK * size:
                parts = [_smallest(_joined(parts), size)]
                limit, found = parts[0].draws.max(), size
            done += sizes.popleft()
            progress.update(done / 1e6)
    if skipped:
        logger.warning(
            "left out: %s of more than %s bytes", counted(skipped, "line"), f"{MAX_LINE_BYTES:,}"
        )
    sample = _joined(parts)
    if 0 < size < found:
        sample = _smallest(sample, size)
    return sample.take(np.lexsort(sample.positions.T[::-1])).texts


def _smallest(sentences: _Sentences, size: int) -> _Sentences:
    return sentences.take(np.argpartition(sentences.draws, size - 1)[:size])


def _joined(parts: Sequence[_Sentences]) -> _Sentences:
    return _Sentences(
        np.concatenate([np.empty(0, np.uint64), *(part.draws for part in parts)]),
        np.concatenate([np.empty((0, 2), np.int64), *(part.positions for part in parts)]),
        [text for part in parts for text in part.texts],
    )


def _sentences_of(task: tuple[TextUnit, np.uint64, int]) -> tuple[_Sentences, int]:
    """Read the sentences of a unit whose random numbers are below a limit, in any process.

    Returns:
        The sentences, and the number of lines that are too long.
    """
    unit, limit, seed = task
    offsets, lines, skipped = [], [], 0
    end = unit.text_end
    for offset, line, size in lines_from(unit):
        if offset >= end:
            break
        if size > MAX_LINE_BYTES:
            skipped += 1
        elif not is_blank(line):
            offsets.append(offset)
            lines.append(line)
    draws = derive_seeds(seed, unit.file, np.array(offsets, np.int64))
    chosen = np.flatnonzero(draws <= limit)
    positions = np.stack([np.full(len(offsets), unit.file), offsets], 1).astype(np.int64)
    texts = [decoded(lines[index], offsets[index], unit.path) for index in chosen.tolist()]
    return _Sentences(draws[chosen], positions[chosen], texts), skipped
