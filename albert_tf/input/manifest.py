"""The manifest beside TFRecord files of pretraining examples: what they hold, and how it was made.

Data preparation writes it; training reads it, to refuse files that do not fit its flags by the name
of the flag, and to draw the masks of files that hold none.
"""

from __future__ import annotations

import contextlib
import glob
import json
import os
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.masking import Masking

_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


def manifest_file(output: str) -> str:
    """`d/a.tfrecord`, or a shard such as `d/a.tfrecord-00000-of-00008` -> `d/a.manifest.json`."""
    return os.path.splitext(_SHARD.sub("", output))[0] + ".manifest.json"


def read_manifest(path: str) -> dict[str, Any]:
    """The manifest in a file.

    Raises:
        InputError: it is damaged, or not a manifest.
    """
    with contextlib.suppress(ValueError):
        manifest = json.loads(files.read_text(path))
        if isinstance(manifest, dict) and {"settings", "files", "vocab_size"} <= manifest.keys():
            return manifest
    raise InputError(f"{path}: not a manifest of create_pretraining_data")


def find_manifests(records: Sequence[str]) -> dict[str, dict[str, Any]]:
    """The manifests that list any of some TFRecord files, by path.

    Args:
        records: the files; those without a manifest, such as the original's, are fine.

    Raises:
        InputError: a manifest that has the name of these files' manifest is damaged.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in sorted({os.path.dirname(path) for path in records}):
        names = {os.path.basename(path) for path in records if os.path.dirname(path) == folder}
        expected = {os.path.basename(manifest_file(name)) for name in names}
        for path in files.matches(os.path.join(glob.escape(folder), "*.manifest.json")):
            try:
                manifest = read_manifest(path)
            except InputError:
                if os.path.basename(path) in expected:
                    raise
                continue  # something else of that name
            if names & set(manifest["files"]):
                found[path] = manifest
    return found


class DynamicMasks(NamedTuple):
    """How training draws the masks of files that hold none.

    Attributes:
        masking: how much to mask, in what spans.
        special_ids: ids that are never masked.
        mask_id: id of `[MASK]`.
        replacement_ids: int32, ids from which random replacements are drawn.
    """

    masking: Masking
    special_ids: tuple[int, ...]
    mask_id: int
    replacement_ids: np.ndarray


def dynamic_masks(
    manifests: dict[str, dict[str, Any]], max_predictions_per_seq: int
) -> DynamicMasks | None:
    """How the masks of files with these manifests are to be drawn; None if they hold their masks.

    Raises:
        InputError: some of the files hold masks and some do not, or they are to be masked in
            different ways.
    """
    settings = {
        path: manifest["settings"].get("masking", "static") for path, manifest in manifests.items()
    }
    if "dynamic" not in settings.values():
        return None
    parts = []
    for path, manifest in manifests.items():
        if settings[path] != "dynamic":
            raise InputError(
                f"--input_file: {path} says masking=static, other manifests say dynamic; use files "
                "of one kind"
            )
        flags, vocabulary = manifest["settings"], manifest["vocabulary"]
        masking = Masking(
            max_predictions_per_seq,
            flags["masked_lm_prob"],
            flags["ngram"],
            flags["favor_shorter_ngram"],
            flags["do_permutation"],
            flags["do_whole_word_mask"],
        )
        parts.append((masking, vocabulary))
        if parts[0] != parts[-1]:
            raise InputError(
                f"--input_file: {path} was made with another vocabulary or other masking flags "
                f"than {next(iter(manifests))}; dynamic masks need the same"
            )
    masking, vocabulary = parts[0]
    return DynamicMasks(
        masking,
        tuple(vocabulary["special_ids"]),
        vocabulary["mask_id"],
        np.concatenate([np.arange(a, b, dtype=np.int32) for a, b in vocabulary["replacement_ids"]]),
    )


def check_manifests(
    manifests: dict[str, dict[str, Any]],
    max_seq_length: int,
    max_predictions_per_seq: int,
    vocab_size: int,
) -> None:
    """Compares what files hold with the flags of a training run.

    Raises:
        InputError: they differ; the message names the flag, both values and the manifest.
    """
    for path, manifest in manifests.items():
        made = manifest["settings"]
        if made["max_seq_length"] != max_seq_length:
            raise InputError(
                f"--max_seq_length: {max_seq_length}, but {path} says that the examples were made "
                f"with {made['max_seq_length']}"
            )
        is_static = made.get("masking", "static") == "static"
        if is_static and made["max_predictions_per_seq"] != max_predictions_per_seq:
            raise InputError(
                f"--max_predictions_per_seq: {max_predictions_per_seq}, but {path} says that the "
                f"examples were made with {made['max_predictions_per_seq']}"
            )
        if manifest["vocab_size"] > vocab_size:
            raise InputError(
                f"--albert_config_file: vocab_size is {vocab_size}, but {path} says that the "
                f"examples were made with a vocabulary of {manifest['vocab_size']} pieces"
            )


def pair_objective(manifests: dict[str, dict[str, Any]]) -> str:
    """What the pairs in files with these manifests are to teach: "sop", "nsp" or "none".

    Raises:
        InputError: not the same for all of them.
    """
    found = {m["settings"].get("pair_objective") or "sop": path for path, m in manifests.items()}
    if len(found) > 1:
        listed = ", ".join(f"{path}: {objective}" for objective, path in sorted(found.items()))
        raise InputError(f"--input_file: files of different --pair_objective ({listed})")
    return next(iter(found), "sop")
