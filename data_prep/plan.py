"""The plan of a run of data preparation, and the fingerprint that identifies the run."""

import dataclasses
from collections.abc import Sequence

from albert_tf import files
from albert_tf.tokenizers import Tokenizer
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.text_units import TEXT_PER_COMPRESSED, TextUnit, split_into_units
from data_prep.work_folder import fingerprint_of

# Incremented whenever the same options and input give other examples.
VERSION = 4

# A token takes two bytes, so a bucket takes some 100 MB at most while it is shuffled and written.
_TOKENS_PER_BUCKET = 32_000_000
_MIN_BUCKETS = 16  # so that several processes can share the work on a single file
_BYTES_PER_TOKEN = 3
# Pairs of nsp exchange segments within a bucket, which must have some of several documents.
_MIN_TOKENS_OF_NSP = 1_000_000


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run, as far as options and input determine it.

    Attributes:
        options: the options of the run.
        paths: the input files.
        units: the input in units of work.
        buckets_per_file: number of buckets whose examples form an output file.
        fingerprint: hash of everything that affects the output.
    """

    options: PretrainingDataOptions
    paths: tuple[str, ...]
    units: tuple[TextUnit, ...]
    buckets_per_file: int
    fingerprint: str

    @property
    def buckets(self) -> int:
        """Number of buckets of all output files."""
        return self.buckets_per_file * len(self.options.output_files)

    def buckets_of(self, shard: int) -> range:
        """Return the numbers of the buckets of an output file."""
        first = shard * self.buckets_per_file
        return range(first, first + self.buckets_per_file)

    @property
    def text_bytes(self) -> int:
        """Size of the input."""
        return sum(unit.end - unit.begin for unit in self.units)


def make_plan(options: PretrainingDataOptions, paths: Sequence[str], tokenizer: Tokenizer) -> Plan:
    """Plan a run; deterministic for the same options and input files."""
    units = split_into_units(paths)
    outputs = len(options.output_files)
    text = sum(
        (unit.end - unit.begin) * (TEXT_PER_COMPRESSED if unit.is_compressed else 1)
        for unit in units
    )
    tokens = text * options.dupe_factor // _BYTES_PER_TOKEN
    least = _MIN_BUCKETS
    if options.objective == "nsp":
        least = min(least, max(1, tokens // _MIN_TOKENS_OF_NSP))
    buckets = max(least, -(-tokens // _TOKENS_PER_BUCKET))
    fingerprint = fingerprint_of(
        dataclasses.asdict(options),
        version=VERSION,
        input=[[path, *files.file_identity(path)] for path in paths],
        vocabulary=[files.sha256_of(tokenizer.path), tokenizer.normalization.to_dict()],
    )
    return Plan(options, tuple(paths), tuple(units), -(-buckets // outputs), fingerprint)
