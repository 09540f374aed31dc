"""Names of the ids and labels in a file: the pieces of its vocabulary, if it is available."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.manifest import find_manifests
from albert_tf.pair_objectives import PAIR_OBJECTIVES
from albert_tf.tokenizers import Tokenizer


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
    def find(cls, paths: Sequence[str], vocabulary: str | None) -> Names:
        """Finds the names for some files.

        Args:
            paths: the TFRecord files.
            vocabulary: a vocabulary file, instead of the one that a manifest next to the files
                names.

        Raises:
            InputError: if `vocabulary` is not a vocabulary, or a manifest is damaged.
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
        """Checks that ids are within the vocabulary.

        Raises:
            InputError: if one is not.
        """
        if self.tokenizer and ids.max(initial=0) >= self.tokenizer.vocab_size:
            raise InputError(
                f"{self.tokenizer.path} has {self.tokenizer.vocab_size:,} pieces, but the files "
                f"contain id {ids.max()}; name their vocabulary with `spm_model_file` or "
                "`vocab_file`"
            )

    def piece(self, id: int) -> str:
        """The piece of an id: `▁the`, or `14` without a vocabulary."""
        return self.tokenizer.pieces[id] if self.tokenizer else str(id)

    def word(self, ids: Iterable[int]) -> str:
        """The word of some ids: `the`, or `14+25` without a vocabulary."""
        if not self.tokenizer:
            return "+".join(map(str, ids))
        return self.tokenizer.decode(ids) or "".join(map(self.piece, ids))

    def mask_id(self, seen: np.ndarray, ids: np.ndarray) -> int:
        """The id of `[MASK]`; without a vocabulary, the most frequent id at masked positions.

        Args:
            seen: ids at masked positions, after masking.
            ids: the original ids at these positions.
        """
        if self.tokenizer:
            return self.tokenizer.mask_id
        changed = seen[seen != ids]
        return int(np.bincount(changed).argmax()) if len(changed) else -1
