"""The plan of a run of data preparation, and the manifest of a finished one."""

import contextlib
import dataclasses
import logging
import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.files import read_json, to_json
from albert_tf.input.manifest import find_manifests, manifest_file
from albert_tf.logs import counted
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.unknown import NOTABLE_SHARE
from data_prep.example_maker import UNKNOWN_CHARACTER
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.text_units import TEXT_PER_COMPRESSED, TextUnit, split_into_units, text_files
from data_prep.work_folder import fingerprint_of, tool_versions

logger = logging.getLogger(__name__)

# Incremented whenever the same options and input give other examples.
VERSION = 4

# A token takes two bytes, so a bucket takes some 100 MB at most while it is shuffled and written.
_TOKENS_PER_BUCKET = 32_000_000
_MIN_BUCKETS = 16  # so that several processes can share the work on a single file
_BYTES_PER_TOKEN = 3
# Pairs of nsp exchange segments within a bucket, which must have some of several documents; and
# rows are filled within one.
_MIN_TOKENS_TOGETHER = 1_000_000

_MOST_CHARACTERS, _MOST_FILES = 50, 100
_TOOLS = ("albert-tf", "sentencepiece", "tokenizers", "numpy", "numba", "rjieba", "icu4py")


@dataclasses.dataclass(frozen=True)
class Plan:
    """A run, as far as options and input determine it.

    Attributes:
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
    if options.objective == "nsp" or options.pack_rows:
        least = min(least, max(1, tokens // _MIN_TOKENS_TOGETHER))
    buckets = max(least, -(-tokens // _TOKENS_PER_BUCKET))
    settings = dataclasses.asdict(options)
    if not options.pack_rows:
        del settings["pack_rows"]  # so that runs of earlier revisions resume
    fingerprint = fingerprint_of(
        settings,
        version=VERSION,
        input=[[path, *files.file_identity(path)] for path in paths],
        vocabulary=[files.sha256_of(tokenizer.path), tokenizer.normalization.to_dict()],
    )
    return Plan(options, tuple(paths), tuple(units), -(-buckets // outputs), fingerprint)


def build_manifest(
    plan: Plan,
    tokenizer: Tokenizer,
    unit_counts: Sequence[Counter[str]],
    part_counts: Counter[str],
    shards: list[dict[str, Any]],
    seconds: float,
) -> dict[str, Any]:
    """Return the content of `<first output>.manifest.json`: settings, input, statistics, versions.

    Args:
        unit_counts: of every unit.
        part_counts: sum of the counts of all parts.
        shards: number of records (`examples`), `bytes` and `sha256` of every output file.
        seconds: duration of the run since it was last started.
    """
    options = plan.options
    counts = Counter(part_counts)
    for of_unit in unit_counts:
        counts.update(of_unit)
    examples, tokens = counts["written_examples"], counts["example_tokens"]
    positions = (counts["written_rows"] or examples) * options.max_seq_length
    rows = {"rows": counts["written_rows"], "fill": tokens / positions} if options.pack_rows else {}
    names = [os.path.basename(path) for path in options.output_files]
    manifest = {
        "settings": dataclasses.asdict(options)
        | {"pair_objective": options.objective, "do_lower_case": tokenizer.do_lower_case},
        "vocabulary": {
            "sha256": files.sha256_of(tokenizer.path),
            "normalization": tokenizer.normalization.to_dict(),
            "special_ids": [tokenizer.cls_id, tokenizer.sep_id],
            "mask_id": tokenizer.mask_id,
            "replacement_ids": as_ranges(tokenizer.replacement_ids),
        },
        "vocab_size": tokenizer.vocab_size,
        "corpora": _corpora(plan.paths),
        "text_bytes": sum(
            of_unit["decompressed_bytes"] or unit.end - unit.begin
            for unit, of_unit in zip(plan.units, unit_counts, strict=True)
        ),
        "documents": counts["documents"],
        "sentences": counts["sentences"],
        "skipped_lines": counts["skipped_lines"],
        "skipped_files": sorted(set(text_files(options.input_file)) - set(plan.paths)),
        "tokens": counts["tokens"],
        **_unknown(plan, counts, unit_counts),
        "examples": examples,
        **rows,
        "files": {name: shard["examples"] for name, shard in zip(names, shards, strict=True)},
        "padding_share": 1 - tokens / positions,
        "truncated_tokens": counts["truncated_tokens"],
        "dropped_chunks": counts["dropped_chunks"],
    }
    if options.swapped_in_training:
        manifest["swapped_in_training"] = True
    else:
        manifest["positive_label_share"] = counts["positive_labels"] / examples
    if options.masking == "static":
        lengths = range(1, options.ngram + 1)
        manifest |= {
            "masked_tokens": counts["masked_tokens"],
            "masked_share": counts["masked_tokens"] / tokens,
            "ngrams_drawn": {str(n): counts[f"ngrams_drawn_{n}"] for n in lengths},
            "ngrams_masked": {str(n): counts[f"ngrams_masked_{n}"] for n in lengths},
        }
    return manifest | {
        "sha256": {name: shard["sha256"] for name, shard in zip(names, shards, strict=True)},
        "fingerprint": plan.fingerprint,
        "seconds": round(seconds, 3),
        "versions": tool_versions(_TOOLS),
    }


def _unknown(
    plan: Plan, counts: Counter[str], unit_counts: Sequence[Counter[str]]
) -> dict[str, Any]:
    characters = {
        name.removeprefix(UNKNOWN_CHARACTER): count
        for name, count in counts.items()
        if name.startswith(UNKNOWN_CHARACTER)
    }
    frequent = sorted(characters, key=lambda c: (-characters[c], c))[:_MOST_CHARACTERS]
    tokens, unknown = Counter[str](), Counter[str]()
    for unit, of_unit in zip(plan.units, unit_counts, strict=True):
        tokens[unit.path] += of_unit["tokens"]
        unknown[unit.path] += of_unit["unknown_tokens"]
    shares = {path: unknown[path] / tokens[path] for path in tokens if unknown[path]}
    notable = sorted((p for p in shares if shares[p] >= NOTABLE_SHARE), key=lambda p: -shares[p])
    lost = counts["characters_of_sampled_unknown_tokens"] / max(counts["sampled_unknown_tokens"], 1)
    return {
        "unknown_tokens": counts["unknown_tokens"],
        "unknown_character_share": lost * counts["unknown_tokens"] / max(counts["characters"], 1),
        "unknown_characters": {character: characters[character] for character in frequent},
        "unknown_share_by_file": {path: shares[path] for path in notable[:_MOST_FILES]},
    }


def write_manifest(plan: Plan, manifest: dict[str, Any]) -> None:
    text = to_json(manifest, indent=2, ensure_ascii=False) + "\n"
    files.write_text(manifest_file(plan.options.output_files[0]), text)


def finished_manifest(plan: Plan) -> dict[str, Any] | None:
    """Return the manifest of this plan, if a run has finished and its files are unchanged."""
    outputs = plan.options.output_files
    with contextlib.suppress(InputError):
        for path, manifest in find_manifests(outputs).items():
            if manifest.get("fingerprint") == plan.fingerprint and all(
                files.exists(file)
                and files.sha256_of(file) == manifest.get("sha256", {}).get(os.path.basename(file))
                for file in outputs
            ):
                logger.info("%s: the same command has already finished; checksums verified", path)
                return manifest
    return None


def check_examples(plan: Plan, counts: Counter[str]) -> None:
    """Raise InputError if the text of a plan, in the counts of all units, yields no example."""
    if counts["examples"]:
        return
    inputs = ", ".join(plan.options.input_file)
    if not counts["tokens"]:
        skipped = counts["skipped_lines"]
        lines = f" (skipped {counted(skipped, 'line')} of more than a megabyte)" if skipped else ""
        raise InputError(f"`input_file`: no text in {inputs}{lines}")
    if plan.options.one_segment_chunks == "drop":
        raise InputError(
            "`one_segment_chunks`=drop: every document is a single sentence, so there are no "
            "pairs; use split, and check that blank lines only separate documents"
        )
    least = "four words" if plan.options.packing == "fit" else "two tokens"
    raise InputError(
        f"`input_file`: every document in {inputs} is a single sentence of less than {least}, so "
        f"there are no pairs; a pair needs two sentences, or one of at least {least}"
    )


def check_labels(plan: Plan, counts: Counter[str]) -> None:
    """Raise InputError if no example of next sentence prediction has the label 1, in all parts.

    Pairs get their second segments within a part, so the documents of a small corpus may all stay
    apart.
    """
    options = plan.options
    if options.objective != "nsp" or counts["positive_labels"]:
        return
    name = "`pair_objective`=nsp" if options.pair_objective else "`random_next_sentence`"
    raise InputError(
        f"{name}: no example could get a second segment from another document; add text (at least "
        "two documents long enough for pairs, separated by blank lines), or use "
        "`pair_objective`=sop"
    )


def as_ranges(numbers: np.ndarray) -> list[list[int]]:
    """Return ascending numbers as half-open ranges: [5, 6, 7, 9] -> [[5, 8], [9, 10]]."""
    cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
    return [[int(part[0]), int(part[-1]) + 1] for part in np.split(numbers, cuts) if len(part)]


def _corpora(paths: Iterable[str]) -> dict[str, Any]:
    """Return the summaries that `extract_corpus` wrote for the input files, by file name."""
    found = {}
    for path in paths:
        text_file, _ = files.split_compression(path)
        name = os.path.basename(text_file)
        # Earlier revisions left out every ending, not only .txt.
        stems = (text_file.removesuffix(".txt"), os.path.splitext(text_file)[0])
        for stem in filter(lambda stem: files.exists(f"{stem}.corpus.json"), stems):
            with contextlib.suppress(InputError):
                summary = read_json(f"{stem}.corpus.json", dict[str, Any])
                outputs = map(os.path.basename, summary.get("outputs", ()))
                if stem == stems[0] or name in outputs:
                    found[os.path.basename(path)] = summary
                    break
    return found
