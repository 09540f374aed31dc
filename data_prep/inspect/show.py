"""How examples are shown: the names of ids and labels, and the examples as text."""

import dataclasses
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.manifest import find_manifests
from albert_tf.pair_objectives import PAIR_OBJECTIVES
from albert_tf.tokenizers import Tokenizer
from data_prep.inspect.reading import Batch

LEGEND = "[MASK→a]: a is masked and predicted; [KEPT→a]: a is kept; [b→a]: a is replaced by b"
WIDTH = 100


@dataclasses.dataclass
class Names:
    """How ids and labels are shown.

    Attributes:
        tokenizer: the tokenizer; None to show ids.
        labels: meaning of the labels 0 and 1.
        notes: what the user should know about it, one line each.
    """

    tokenizer: Tokenizer | None
    labels: tuple[str, str] = PAIR_OBJECTIVES["sop"].labels
    notes: tuple[str, ...] = ()

    @classmethod
    def find(cls, paths: Sequence[str], vocabulary: str | None) -> "Names":
        """Find the names for some files.

        Args:
            paths: the TFRecord files.
            vocabulary: a vocabulary file, instead of the one that a manifest next to the files
                names.

        Raises:
            InputError: If `vocabulary` is not a vocabulary, or a manifest is damaged.
        """
        manifests = find_manifests(paths)
        settings: dict[str, Any] = next((m["settings"] for m in manifests.values()), {})
        objective = PAIR_OBJECTIVES.get(settings.get("pair_objective") or "sop")
        labels = objective.labels if objective else cls.labels
        if vocabulary:
            return cls(Tokenizer.load(vocabulary), labels)
        named = settings.get("spm_model_file") or settings.get("vocab_file")
        if not named:
            note = "showing ids: neither a flag nor a manifest next to the files names a vocabulary"
            return cls(None, labels, (note,))
        if not files.exists(named):
            note = f"showing ids: {named}, named in {next(iter(manifests))}, does not exist"
            return cls(None, labels, (note,))
        return cls(Tokenizer.load(named), labels)

    def check(self, ids: np.ndarray) -> None:
        """Check that ids are within the vocabulary.

        Raises:
            InputError: If one is not.
        """
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


def examples(batch: Batch, names: Names, first: int) -> Iterator[str]:
    """Yield each example as lines of text: a summary, then its segments.

    Args:
        names: names of the ids.
        first: number of the first example.
    """
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
    for position, id, weight in zip(
        example["masked_lm_positions"].tolist(),
        example["masked_lm_ids"].tolist(),
        example["masked_lm_weights"].tolist(),
        strict=True,
    ):
        if weight > 0:
            seen = int(example["input_ids"][position])
            kind = {mask_id: "MASK", id: "KEPT"}.get(seen, names.piece(seen))
            tokens[position] = f"[{kind}→{names.piece(id)}]"
    return tokens


def _summary(example: Batch, names: Names) -> str:
    """`120 tokens, 8 padding; 18 masked; swapped (label 1)`."""
    is_token = example["input_mask"] > 0
    parts = [f"{is_token.sum()} tokens, {(~is_token).sum()} padding"]
    if "masked_lm_weights" in example:
        parts.append(f"{(example['masked_lm_weights'] > 0).sum()} masked")
    else:
        parts.append("not masked yet")
    if "next_sentence_labels" in example:
        label = int(example["next_sentence_labels"][0])
        parts.append(f"{names.labels[label > 0]} (label {label})")
    return "; ".join(parts)
