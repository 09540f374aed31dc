"""Examples of TFRecord files whose features and lengths are not known in advance, and as text."""

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.example_parser import feature_lengths
from albert_tf.input.features import (
    Feature,
    encoder_features,
    limited,
    pretraining_features,
    row_features,
)
from albert_tf.input.manifest import find_manifests
from albert_tf.input.record_reader import iter_examples, iter_records
from albert_tf.input.rows import Places, unpacked
from albert_tf.logs import counted
from albert_tf.pair_objectives import PAIR_OBJECTIVES
from albert_tf.tokenizers import Tokenizer

LEGEND = "[MASK→a]: a is masked and predicted; [KEPT→a]: a is kept; [b→a]: a is replaced by b"
WIDTH = 100
_MASKS = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
_EXAMPLES_AT_ONCE = 1024
_ANY_VOCABULARY = 2**31

Batch = dict[str, np.ndarray]  # by feature name, [batch, *shape]


def find_features(paths: Sequence[str]) -> dict[str, Feature]:
    """Return the pretraining features of some files, with the lengths of their first examples.

    Raises:
        InputError: If a file is damaged, not for pretraining, or differs from the first one, or if
            there is no example at all.
    """
    # Data preparation writes as many files as asked for, some without an example.
    found = {path: features for path in paths if (features := _features_of(path))}
    if not found:
        raise InputError(f"{paths[0]}: contains no example, nor does any other input file")
    first_path, first = next(iter(found.items()))
    for path, features in found.items():
        if features != first:
            raise InputError(
                f"{path}: the features differ from those of {first_path} ({_listed(features)}; "
                f"{_listed(first)}); inspect the files separately"
            )
    return first


def _features_of(path: str) -> dict[str, Feature]:
    """Return the features of the first example of a file; none if there is no example."""
    record = next(iter_records(path), None)
    if record is None:
        return {}
    try:
        lengths = feature_lengths(record)
    except ValueError:
        raise InputError(f"{path}: the records are not of type tf.train.Example") from None
    if "example_ids" in lengths:
        return _features_of_rows(path, lengths)
    missing = [name for name in encoder_features(0) if name not in lengths]
    if missing:
        raise InputError(
            f"{path}: not a file for pretraining: it has no feature {missing[0]!r}, but "
            f"{', '.join(sorted(lengths)) or 'none'}"
        )
    found = {
        name: Feature((lengths[name],), feature.dtype)
        for name, feature in pretraining_features(0, 0).items()
        if name in lengths
    }
    masks = [found[name].shape for name in _MASKS if name in found]
    if len(set(masks)) > 1 or len(masks) not in (0, len(_MASKS)):
        raise InputError(
            f"{path}: the features {', '.join(_MASKS)} are incomplete or differ in length"
        )
    if len({found[name].shape for name in encoder_features(0)}) > 1:
        raise InputError(f"{path}: {', '.join(encoder_features(0))} have different lengths")
    return found


def _features_of_rows(path: str, lengths: Mapping[str, int]) -> dict[str, Feature]:
    expected = row_features(lengths.get("input_ids", 0), lengths.get("masked_lm_positions"))
    if {name: feature.shape[0] for name, feature in expected.items()} != lengths:
        raise InputError(
            f"{path}: not as create_pretraining_data --pack_rows writes rows ({_listed(expected)})"
        )
    return limited(expected, _ANY_VOCABULARY, type_vocab_size=2)


def batches(paths: Sequence[str], features: Mapping[str, Feature]) -> Iterator[Batch]:
    """Yield all examples, file after file, in batches; those of rows with `row` and `number` in it.

    Raises:
        InputError: If a file is damaged, or its examples have different lengths.
    """
    rows = 0
    for path in paths:
        for batch in iter_examples(path, features, _EXAMPLES_AT_ONCE):
            _check(path, batch)
            if "example_ids" not in batch:
                yield batch
                continue
            places = Places.find(batch["example_ids"])
            yield unpacked(batch) | {"row": rows + places.row, "number": places.number}
            rows += len(batch["input_ids"])


def read_some(
    paths: Sequence[str], features: Mapping[str, Feature], first: int, number: int
) -> Batch:
    """Read examples `first` to `first + number` (exclusive), as far as they exist.

    Raises:
        InputError: If the files contain at most `first` examples.
    """
    parts: list[Batch] = []
    seen = 0
    for batch in batches(paths, features):
        count = len(batch["input_ids"])
        chosen = slice(max(0, first - seen), first + number - seen)
        parts.append({name: values[chosen] for name, values in batch.items()})
        seen += count
        if seen >= first + number:
            break
    if seen <= first:
        raise InputError(f"`first`={first}: the files contain only {counted(seen, 'example')}")
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _check(path: str, batch: Batch) -> None:
    sequence = batch["input_ids"].shape[1]
    positions = batch.get("masked_lm_positions", np.zeros(1))
    if positions.min(initial=0) < 0 or positions.max(initial=0) >= sequence:
        raise InputError(f"{path}: masked_lm_positions exceed the {sequence} tokens of an example")
    for name in ("input_ids", "masked_lm_ids"):
        if name in batch and batch[name].min(initial=0) < 0:
            raise InputError(f"{path}: {name} contains a negative id")


def _listed(features: Mapping[str, Feature]) -> str:
    return ", ".join(f"{name} {feature.shape[0]}" for name, feature in features.items())


@dataclasses.dataclass
class Names:
    """How ids and labels are shown.

    Attributes:
        tokenizer: the tokenizer; None to show ids.
        labels: meaning of the labels 0 and 1.
        note: what the user should know about it.
    """

    tokenizer: Tokenizer | None
    labels: tuple[str, str] = PAIR_OBJECTIVES["sop"].labels
    note: str = ""

    @classmethod
    def find(cls, paths: Sequence[str], vocabulary: str | None) -> "Names":
        """Find the names for some files.

        The vocabulary is the given one, or that which a manifest next to the files names.

        Raises:
            InputError: If `vocabulary` is not a vocabulary, or a manifest is damaged.
        """
        manifests = find_manifests(paths)
        settings: dict[str, Any] = next((m["settings"] for m in manifests.values()), {})
        objective = PAIR_OBJECTIVES.get(settings.get("pair_objective") or "sop")
        labels = objective.labels if objective else cls.labels
        named = vocabulary or settings.get("spm_model_file") or settings.get("vocab_file")
        if not named:
            note = "showing ids: neither a flag nor a manifest next to the files names a vocabulary"
        elif vocabulary or files.exists(named):
            return cls(Tokenizer.load(named), labels)
        else:
            note = f"showing ids: {named}, named in {next(iter(manifests))}, does not exist"
        return cls(None, labels, note)

    def check(self, ids: np.ndarray) -> None:
        """Raise InputError for ids that are not in the vocabulary."""
        if self.tokenizer and ids.max(initial=0) >= self.tokenizer.vocab_size:
            raise InputError(
                f"{self.tokenizer.path} has {self.tokenizer.vocab_size:,} pieces, but the files "
                f"contain id {ids.max()}; name their vocabulary with `spm_model_file` or "
                "`vocab_file`"
            )

    def piece(self, id: int) -> str:
        """Return the piece of an id: `▁the`, or `14` without a vocabulary."""
        return self.tokenizer.pieces[id] if self.tokenizer else str(id)

    def word(self, ids: Iterable[int]) -> str:
        """Return the word of some ids: `the`, or `14+25` without a vocabulary."""
        if not self.tokenizer:
            return "+".join(map(str, ids))
        return self.tokenizer.decode(ids) or "".join(map(self.piece, ids))

    def mask_id(self, seen: np.ndarray, ids: np.ndarray) -> int:
        """Return the id of `[MASK]`, or the most frequent id at masked positions.

        Args:
            seen: ids at masked positions, after masking.
            ids: the original ids at these positions.
        """
        if self.tokenizer:
            return self.tokenizer.mask_id
        changed = seen[seen != ids]
        return int(np.bincount(changed).argmax()) if len(changed) else -1


def as_text(batch: Batch, names: Names, first: int) -> Iterator[str]:
    """Yield examples, numbered from `first` on, as lines of text: a summary, then the segments."""
    names.check(batch["input_ids"])
    weights = batch.get("masked_lm_weights")
    mask_id = -1
    if weights is not None:
        names.check(batch["masked_lm_ids"])
        seen = np.take_along_axis(batch["input_ids"], batch["masked_lm_positions"], axis=1)
        mask_id = names.mask_id(seen[weights > 0], batch["masked_lm_ids"][weights > 0])
    for row in range(len(batch["input_ids"])):
        example = {name: values[row] for name, values in batch.items()}
        tokens = _tokens(example, names, mask_id)
        is_token = example["input_mask"] > 0
        lines = [f"example {first + row}: {_summary(example, names)}"]
        for number, letter in enumerate("AB"):
            positions = np.flatnonzero(is_token & (example["segment_ids"] == number))
            if len(positions):
                segment = " ".join(tokens[position] for position in positions)
                lines.append(
                    textwrap.fill(
                        segment,
                        WIDTH,
                        initial_indent=f"  {letter}  ",
                        subsequent_indent=" " * 5,
                        break_long_words=False,
                        break_on_hyphens=False,
                    )
                )
        yield "\n".join(lines)


def _tokens(example: Batch, names: Names, mask_id: int) -> list[str]:
    tokens = [names.piece(id) for id in example["input_ids"].tolist()]
    if "masked_lm_weights" not in example:
        return tokens
    masks = (example[name].tolist() for name in _MASKS)
    for position, id, weight in zip(*masks, strict=True):
        if weight > 0:
            seen = int(example["input_ids"][position])
            kind = {mask_id: "MASK", id: "KEPT"}.get(seen, names.piece(seen))
            tokens[position] = f"[{kind}→{names.piece(id)}]"
    return tokens


def _summary(example: Batch, names: Names) -> str:
    """`120 tokens, 8 padding; 18 masked; swapped (label 1)`."""
    is_token = example["input_mask"] > 0
    parts = [f"{is_token.sum()} tokens, {(~is_token).sum()} padding"]
    if "row" in example:
        parts = [f"{is_token.sum()} tokens, number {example['number']} of row {example['row']}"]
    if "masked_lm_weights" in example:
        parts.append(f"{(example['masked_lm_weights'] > 0).sum()} masked")
    else:
        parts.append("not masked yet")
    if "next_sentence_labels" in example:
        label = int(example["next_sentence_labels"][0])
        parts.append(f"{names.labels[label > 0]} (label {label})")
    return "; ".join(parts)
