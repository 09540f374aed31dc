"""What a run of data preparation is to do, and whether it is the same run as one before."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING

from albert_tf import files
from albert_tf.tokenizers import Tokenizer
from data_prep.units import Unit, split_into_units

if TYPE_CHECKING:
    from data_prep.create_pretraining_data import Options

# Raised when the same flags and input come to give other examples.
VERSION = 1
# Flags that decide where and how fast, not what is made.
_WITHOUT_EFFECT = {"num_processes", "work_dir", "runner", "beam_options"}

# Two bytes a token, so a bucket takes some 100 MB at most while it is shuffled and written.
_TOKENS_PER_BUCKET = 32_000_000
_FEWEST_BUCKETS = 16  # so that even a single file is made by several processes
_BYTES_PER_TOKEN = 3


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run, as far as flags and input decide it.

    Attributes:
        options: the flags.
        paths: the input files.
        units: the input in units of work.
        buckets_per_file: the examples of an output file come from so many buckets.
        fingerprint: a hash that differs where the output might.
    """

    options: Options
    paths: tuple[str, ...]
    units: tuple[Unit, ...]
    buckets_per_file: int
    fingerprint: str

    @property
    def buckets(self) -> int:
        return self.buckets_per_file * len(self.options.output_files)

    @property
    def text_bytes(self) -> int:
        return sum(unit.end - unit.begin for unit in self.units)


def make_plan(options: Options, paths: Sequence[str], tokenizer: Tokenizer) -> Plan:
    """The plan for some input files; always the same one for the same input and flags."""
    units = split_into_units(paths)
    outputs = len(options.output_files)
    tokens = sum(unit.end - unit.begin for unit in units) * options.dupe_factor // _BYTES_PER_TOKEN
    buckets = max(_FEWEST_BUCKETS, -(-tokens // _TOKENS_PER_BUCKET))
    made_from = {
        "version": VERSION,
        "settings": {
            name: value
            for name, value in dataclasses.asdict(options).items()
            if name not in _WITHOUT_EFFECT
        },
        "input": [[path, *files.file_identity(path)] for path in paths],
        "vocabulary": files.sha256_of(tokenizer.path),
    }
    fingerprint = hashlib.sha256(json.dumps(made_from, sort_keys=True).encode()).hexdigest()
    return Plan(options, tuple(paths), tuple(units), -(-buckets // outputs), fingerprint)
