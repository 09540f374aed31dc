"""The manifest of a finished run, and the one line about a run that gave nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import sys
from collections import Counter
from collections.abc import Iterable
from importlib import metadata
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.manifest import manifest_file, read_manifest
from albert_tf.tokenizers import Tokenizer
from data_prep.plan import Plan

_TOOLS = ("albert-tf", "sentencepiece", "tokenizers", "numpy", "numba")


def build_manifest(
    plan: Plan,
    tokenizer: Tokenizer,
    counts: Counter[str],
    shards: list[dict[str, Any]],
    seconds: float,
) -> dict[str, Any]:
    """What was made of what, as `<first output>.manifest.json` holds it.

    Args:
        plan: the run.
        tokenizer: its vocabulary.
        counts: of all units and parts.
        shards: `examples`, `bytes` and `sha256` of every output file.
        seconds: how long it took, since its last start.
    """
    options = plan.options
    examples, tokens = counts["written_examples"], counts["example_tokens"]
    names = [os.path.basename(path) for path in options.output_files]
    manifest = {
        "settings": dataclasses.asdict(options) | {"pair_objective": options.objective},
        "vocabulary": {
            "sha256": files.sha256_of(tokenizer.path),
            "special_ids": [tokenizer.cls_id, tokenizer.sep_id],
            "mask_id": tokenizer.mask_id,
            "replacement_ids": as_ranges(tokenizer.replacement_ids.tolist()),
        },
        "vocab_size": tokenizer.vocab_size,
        "corpora": _corpora(plan.paths),
        "text_bytes": plan.text_bytes,
        "documents": counts["documents"],
        "sentences": counts["sentences"],
        "skipped_lines": counts["skipped_lines"],
        "tokens": counts["tokens"],
        "examples": examples,
        "files": {name: shard["examples"] for name, shard in zip(names, shards, strict=True)},
        "padding_share": 1 - tokens / (examples * options.max_seq_length),
        "positive_label_share": counts["positive_labels"] / examples,
        "truncated_tokens": counts["truncated_tokens"],
        "dropped_chunks": counts["dropped_chunks"],
    }
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
        "versions": _versions(),
    }


def write_manifest(plan: Plan, manifest: dict[str, Any]) -> None:
    text = json.dumps(manifest, indent=2, ensure_ascii=False) + "\n"
    files.write_text(manifest_file(plan.options.output_files[0]), text)


def finished_manifest(plan: Plan) -> dict[str, Any] | None:
    """The manifest of this very plan, if its files are there and still what they were."""
    path = manifest_file(plan.options.output_files[0])
    if not files.exists(path):
        return None
    with contextlib.suppress(InputError):
        manifest = read_manifest(path)
        if manifest.get("fingerprint") == plan.fingerprint and all(
            files.exists(file)
            and files.sha256_of(file) == manifest["sha256"][os.path.basename(file)]
            for file in plan.options.output_files
        ):
            print(f"{path}: made before by the same command, checksums verified", file=sys.stderr)
            return manifest
    return None


def no_examples(plan: Plan, counts: Counter[str]) -> str:
    """Why a run gave no example, and what to do."""
    if not counts["tokens"]:
        skipped = counts["skipped_lines"]
        lines = f" ({skipped} lines of more than a megabyte were left out)" if skipped else ""
        return f"--input_file: no text in {', '.join(plan.paths)}{lines}"
    return (
        "--one_segment_chunks: every document is a single sentence, so no pair is left; "
        "use split, and check that blank lines stand between documents only"
    )


def as_ranges(numbers: Iterable[int]) -> list[list[int]]:
    """[5, 6, 7, 9] -> [[5, 8], [9, 10]]: ascending numbers as ranges without their ends."""
    numbers = np.array(list(numbers))
    cuts = np.flatnonzero(np.diff(numbers) > 1) + 1
    return [[int(part[0]), int(part[-1]) + 1] for part in np.split(numbers, cuts) if len(part)]


def _corpora(paths: Iterable[str]) -> dict[str, Any]:
    """What extract_corpus wrote down about the texts that it made, by file name."""
    found = {}
    for path in paths:
        summary = os.path.splitext(path)[0] + ".corpus.json"
        if files.exists(summary):
            with contextlib.suppress(ValueError):
                found[os.path.basename(path)] = json.loads(files.read_text(summary))
    return found


def _versions() -> dict[str, str]:
    versions = {}
    for name in _TOOLS:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
