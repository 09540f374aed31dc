"""What to call the ids in a file: by the pieces of its vocabulary, where that is to be had."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.manifest import find_manifests
from albert_tf.tokenizers import Tokenizer

# What label 1 says of the second segment, by --pair_objective.
_LABELS = {
    "sop": ("in order", "swapped"),
    "nsp": ("next", "from another document"),
    "none": ("one segment", "one segment"),
}


@dataclasses.dataclass
class Names:
    """How to show ids and labels.

    Attributes:
        tokenizer: None where ids stay ids.
        labels: what the labels 0 and 1 mean.
        notes: what the user should know about this.
    """

    tokenizer: Tokenizer | None
    labels: tuple[str, str] = _LABELS["sop"]
    notes: tuple[str, ...] = ()

    @classmethod
    def find(cls, paths: Sequence[str], vocabulary: str | None) -> Names:
        """By a vocabulary file, or else by the manifests beside the files.

        Raises:
            InputError: the vocabulary that was asked for is none, or a manifest is damaged.
        """
        manifests = find_manifests(paths)
        settings = next((manifest["settings"] for manifest in manifests.values()), {})
        labels = _LABELS.get(settings.get("pair_objective") or "sop", _LABELS["sop"])
        if vocabulary:
            return cls(Tokenizer.load(vocabulary), labels)
        named = settings.get("spm_model_file") or settings.get("vocab_file")
        if not named:
            note = "ids are shown: no manifest beside the files names a vocabulary, nor does a flag"
            return cls(None, labels, (note,))
        if not files.exists(named):
            note = f"ids are shown: {named}, which {next(iter(manifests))} names, is not there"
            return cls(None, labels, (note,))
        return cls(Tokenizer.load(named), labels)

    def check(self, ids: np.ndarray) -> None:
        """Refuses ids beyond the vocabulary."""
        if self.tokenizer and ids.max(initial=0) >= self.tokenizer.vocab_size:
            raise InputError(
                f"{self.tokenizer.path} has {self.tokenizer.vocab_size:,} pieces, but the files "
                f"hold id {ids.max()}: name their vocabulary by --spm_model_file or --vocab_file"
            )

    def piece(self, id: int) -> str:
        """`▁the`, or `14`."""
        return self.tokenizer.pieces[id] if self.tokenizer else str(id)

    def word(self, ids: Iterable[int]) -> str:
        """`the`, or `14`; `14+25` for a word of two pieces."""
        if not self.tokenizer:
            return "+".join(map(str, ids))
        return self.tokenizer.decode(ids) or "".join(map(self.piece, ids))

    def mask_id(self, seen: np.ndarray, ids: np.ndarray) -> int:
        """The id of `[MASK]`; by guess, what stands most often where something was masked.

        Args:
            seen: ids that stand at masked places.
            ids: ids that stood there.
        """
        if self.tokenizer:
            return self.tokenizer.mask_id
        changed = seen[seen != ids]
        return int(np.bincount(changed).argmax()) if len(changed) else -1
