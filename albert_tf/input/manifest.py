"""The manifest next to TFRecord files of pretraining examples: their content and their settings.

Data preparation writes it. Training reads it to reject files that do not match its options, and to
draw the masks of files without masks.
"""

import dataclasses
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, NotRequired, TypedDict

import numpy as np
from msgspec import Meta

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.files import Natural, Positive, converted, read_json
from albert_tf.input.masking import Masking, Masks
from albert_tf.tokenizers.normalization import UNRECORDED, Normalization

# More than any vocabulary has; arrays of this size are no burden.
_MOST_IDS = 10_000_000

_Id = Annotated[int, Meta(ge=0, le=_MOST_IDS)]
_Share = Annotated[float, Meta(ge=0, le=1)]

# In the order of `Masking`.
_OF_DYNAMIC_MASKING = (
    "masked_lm_prob",
    "ngram",
    "favor_shorter_ngram",
    "do_permutation",
    "do_whole_word_mask",
)


@dataclasses.dataclass(frozen=True)
class _Settings:
    """The settings in a manifest that something depends on."""

    max_seq_length: Positive
    max_predictions_per_seq: Positive
    masking: Literal["static", "dynamic"] = "static"
    masked_lm_prob: _Share | None = None
    ngram: Positive | None = None
    favor_shorter_ngram: bool | None = None
    do_permutation: bool | None = None
    do_whole_word_mask: bool | None = None
    pair_objective: str | None = None
    language: str | None = None
    spm_model_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    pack_rows: bool = False


@dataclasses.dataclass(frozen=True)
class _Vocabulary:
    """The vocabulary that examples were made with; `replacement_ids` are half-open ranges."""

    special_ids: list[_Id]
    mask_id: _Id
    replacement_ids: Annotated[list[tuple[_Id, _Id]], Meta(min_length=1)]
    sha256: str = ""
    normalization: Normalization = UNRECORDED


class _Source(TypedDict):
    format: str


class _CorpusSettings(TypedDict):
    language: str


class _Corpus(TypedDict):
    settings: _CorpusSettings
    sources: NotRequired[list[_Source]]


@dataclasses.dataclass(frozen=True)
class Manifest:
    """What a manifest must be like; the manifest itself remains a dictionary with more in it."""

    settings: _Settings
    files: dict[str, Natural]
    vocab_size: _Id
    vocabulary: _Vocabulary | None = None
    sha256: dict[str, str] = dataclasses.field(default_factory=dict)
    corpora: dict[str, _Corpus] = dataclasses.field(default_factory=dict)
    swapped_in_training: bool = False
    text_bytes: Natural = 0
    documents: Natural = 0
    sentences: Natural = 0
    tokens: Natural = 0
    examples: Natural = 0
    rows: Natural = 0

    @property
    def normalization(self) -> Normalization:
        """How text was normalized; earlier versions recorded only whether it was lower-cased."""
        recorded = self.vocabulary.normalization if self.vocabulary else UNRECORDED
        return recorded.otherwise(Normalization(self.settings.do_lower_case))

    def __post_init__(self) -> None:
        if self.settings.masking == "static":
            return
        if self.vocabulary is None:
            raise ValueError("masking is dynamic, which requires a vocabulary")
        for name in _OF_DYNAMIC_MASKING:
            if getattr(self.settings, name) is None:
                raise ValueError(f"masking is dynamic, which requires settings.{name}")


_SHARD = re.compile(r"-\d{5}-of-\d{5}$")


def manifest_file(output: str) -> str:
    """`d/a.tfrecord`, or a shard such as `d/a.tfrecord-00000-of-00008` -> `d/a.manifest.json`.

    Names with other endings stay whole, so that `d/a.train` and `d/a.eval` have one each.
    """
    return without_shard(output).removesuffix(".tfrecord") + ".manifest.json"


def without_shard(path: str) -> str:
    """`d/a.tfrecord-00000-of-00008` -> `d/a.tfrecord`."""
    return _SHARD.sub("", path)


def record_files(patterns: Iterable[str], argument: str) -> list[str]:
    """As `files.expand_globs`, without what data preparation writes next to TFRecord files."""
    return files.expand_globs(patterns, argument, (".manifest.json", ".index.json"))


def read_manifest(path: str) -> dict[str, Any]:
    """Read a manifest.

    Raises:
        InputError: If the file is damaged, or not a manifest.
    """
    try:
        manifest = read_json(path, dict[str, Any])
        converted(manifest, path, Manifest)
    except InputError as error:
        reason = str(error).removeprefix(f"{path}: ")
        raise InputError(f"{path}: not a manifest of create_pretraining_data ({reason})") from None
    return manifest


def find_manifests(records: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return the manifests, by path, that list at least one of some TFRecord files.

    Some, such as the original's, may have no manifest.

    Raises:
        InputError: If a file with the name of their manifest is damaged.
    """
    found: dict[str, dict[str, Any]] = {}
    for folder in sorted({os.path.dirname(path) for path in records}):
        names = {os.path.basename(path) for path in records if os.path.dirname(path) == folder}
        expected = {os.path.basename(manifest_file(name)) for name in names}
        for path in files.files_in(folder, "*.manifest.json"):
            try:
                manifest = read_manifest(path)
            except InputError:
                if os.path.basename(path) in expected:
                    raise
                continue  # unrelated to these files
            if names & set(manifest["files"]):
                found[path] = manifest
    return found


def dynamic_masks(
    manifests: dict[str, dict[str, Any]], max_predictions_per_seq: int
) -> Masks | None:
    """Return how to draw masks for the files of some manifests; None if the files contain masks.

    `manifests` are by path.

    Raises:
        InputError: If only some of the files contain masks, or if their settings differ.
    """
    masking_of = {
        path: manifest["settings"].get("masking", "static") for path, manifest in manifests.items()
    }
    if "dynamic" not in masking_of.values():
        return None
    parts: list[tuple[Masking, dict[str, Any], bool]] = []
    for path, manifest in manifests.items():
        if masking_of[path] != "dynamic":
            raise InputError(
                f"{path}: has masking=static, but other manifests have dynamic; use files with the "
                "same masking"
            )
        settings, vocabulary = manifest["settings"], manifest["vocabulary"]
        masking = Masking(max_predictions_per_seq, *map(settings.get, _OF_DYNAMIC_MASKING))
        parts.append((masking, vocabulary, manifest.get("swapped_in_training", False)))
        if parts[0][2] != parts[-1][2]:
            raise InputError(
                f"{path}: was made before or after training began to draw which pairs are swapped, "
                f"unlike {next(iter(manifests))}; use files made by the same version"
            )
        if parts[0] != parts[-1]:
            raise InputError(
                f"{path}: has another vocabulary or other masking settings than "
                f"{next(iter(manifests))}; with dynamic masking, they must be equal"
            )
    masking, vocabulary, swap_segments = parts[0]
    return Masks(
        masking,
        tuple(vocabulary["special_ids"]),
        vocabulary["mask_id"],
        np.concatenate([np.arange(a, b, dtype=np.int32) for a, b in vocabulary["replacement_ids"]]),
        swap_segments,
    )


def check_manifests(
    manifests: dict[str, dict[str, Any]],
    max_seq_length: int,
    max_predictions_per_seq: int,
    vocab_size: int,
) -> None:
    """Check the manifests of files, by path, against options of a training run and its model.

    Raises:
        InputError: If they differ.
    """
    for path, manifest in manifests.items():
        settings = manifest["settings"]
        if settings["max_seq_length"] != max_seq_length:
            raise InputError(
                f"`max_seq_length`={max_seq_length}: the examples were created with "
                f"{settings['max_seq_length']} ({path})"
            )
        is_static = settings.get("masking", "static") == "static"
        if is_static and settings["max_predictions_per_seq"] != max_predictions_per_seq:
            raise InputError(
                f"`max_predictions_per_seq`={max_predictions_per_seq}: the examples were created "
                f"with {settings['max_predictions_per_seq']} ({path})"
            )
        if manifest["vocab_size"] > vocab_size:
            raise InputError(
                f"{path}: the examples were created with a vocabulary of {manifest['vocab_size']} "
                f"pieces, but the model has only {vocab_size}"
            )


class Rows(NamedTuple):
    """What a row of several examples (`--pack_rows`) has on average: examples, and real tokens."""

    examples: float
    tokens: float


def packed_rows(manifests: Mapping[str, dict[str, Any]], records: Sequence[str]) -> Rows | None:
    """Return what the rows of TFRecord files have; None if each record is an example.

    `manifests` are by path.

    Raises:
        InputError: If only some of the files have rows.
    """
    packed = {path: m for path, m in manifests.items() if m["settings"].get("pack_rows")}
    if not packed:
        return None
    named = {
        os.path.join(os.path.dirname(path), n) for path, m in packed.items() for n in m["files"]
    }
    if unpacked := [path for path in records if path not in named]:
        raise InputError(
            f"{unpacked[0]}: has no manifest that says --pack_rows, but {next(iter(packed))} does; "
            "use files of one kind, each with its manifest"
        )
    total = max(sum(map(number_of_records, packed.values())), 1)
    tokens = sum(map(number_of_tokens, packed.values()))
    return Rows(sum(m.get("examples", 0) for m in packed.values()) / total, tokens / total)


def number_of_records(manifest: Mapping[str, Any]) -> int:
    """Return the number of rows, or of examples, in the files of a manifest."""
    return manifest.get("rows") or manifest.get("examples", 0)


def number_of_tokens(manifest: Mapping[str, Any]) -> float:
    """Return the number of tokens in the files of a manifest, without padding."""
    positions = number_of_records(manifest) * manifest["settings"]["max_seq_length"]
    return positions * (1 - manifest.get("padding_share", 0.0))


def vocabularies(manifests: Mapping[str, dict[str, Any]]) -> dict[str, str]:
    """Return SHA-256 of vocabulary -> path of a manifest, of those that record one."""
    digests = {path: (m.get("vocabulary") or {}).get("sha256") for path, m in manifests.items()}
    return {digest: path for path, digest in digests.items() if digest}


def pair_objective(manifests: dict[str, dict[str, Any]]) -> str:
    """Return the pair objective of the files of some manifests.

    Raises:
        InputError: If the manifests differ.
    """
    found = {m["settings"].get("pair_objective") or "sop": path for path, m in manifests.items()}
    if len(found) > 1:
        listed = ", ".join(f"{path}: {objective}" for objective, path in sorted(found.items()))
        raise InputError(f"the files have different pair objectives: {listed}")
    return next(iter(found), "sop")
