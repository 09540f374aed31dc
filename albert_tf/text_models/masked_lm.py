"""Fills masks in raw strings, and scores texts, with the masked-LM head of pretraining."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_softmax

from albert_tf.errors import InputError
from albert_tf.input.examples import Features
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.text_models.base import TextModel, create_with_weights
from albert_tf.text_models.inputs import as_list, as_texts, check_whole_number
from albert_tf.tokenizers import packing
from albert_tf.training.likelihood import (
    LOG_PROBABILITIES,
    LikelihoodModel,
    pseudo_log_likelihoods,
)

# Variables without which there is nothing to predict tokens with.
_HEAD = "cls/predictions/"


class Candidate(NamedTuple):
    """A token that may stand where a mask is.

    Attributes:
        text: the token as text, such as "paris".
        probability: its probability among all tokens of the vocabulary.
        token: the piece of the vocabulary, such as "▁paris".
        token_id: its id.
    """

    text: str
    probability: float
    token: str
    token_id: int


class MaskedLM(TextModel):
    """Predicts what masks in texts stand for.

        masked_lm = albert_tf.MaskedLM.from_preset("albert/albert-base-v2")
        masked_lm.fill_mask("Paris is the [MASK] of France.", top_k=3)
        masked_lm.score(["The cat sat on the mat.", "The cat sat mat the on."])

    The weights must have the masked-LM head, as those of pretraining and the published models do.
    The attribute `model` is an `albert_tf.AlbertForPreTraining`.

    Example:
        >>> masked_lm = albert_tf.MaskedLM.from_preset("albert/albert-base-v2")
        >>> candidates = masked_lm.fill_mask("Paris is the [MASK] of France.", top_k=3)
        >>> len(candidates)
        3
    """

    @classmethod
    def _from_preset(cls, preset, dtype):  # type: ignore[override]  # takes nothing else
        if preset.head != "pretraining":
            raise InputError(
                f"`name`={preset.name}: has no masked-LM head, but is a model of kind "
                f"{preset.head}; masks are filled by pretraining models"
            )
        model, matched = create_with_weights(
            lambda: AlbertForPreTraining(preset.config, dtype=dtype), preset, seed=0
        )
        if lacking := [path for path in matched.missing if path.startswith(_HEAD)]:
            raise InputError(
                f"`name`={preset.name}: parts of the masked-LM head are missing: "
                f"{', '.join(lacking)}"
            )
        return cls(model, preset.tokenizer)

    def fill_mask(
        self,
        texts: str | Sequence[str],
        top_k: int = 5,
        targets: Sequence[str] | None = None,
        batch_size: int = 32,
    ) -> list[Any]:
        """Predict the most probable tokens for every mask.

        A text is given to the model as `[CLS] text [SEP]`. If it has several masks, each is
        predicted independently of what the others may become.

        Args:
            texts: a text, or a sequence of texts, with one or more `[MASK]` each (spelled as in the
                vocabulary).
            top_k: number of candidates per mask.
            targets: the only candidates to consider: words that are one token of the vocabulary,
                or pieces of it such as "##ing". Their probabilities are still those among all
                tokens, so that they do not add up to 1.
            batch_size: texts that are computed at a time.

        Returns:
            For each mask, a list of `Candidate`, most probable first. A text with one mask is
            answered with this list, one with several masks with a list of such lists, in the order
            of the masks; and a sequence of texts with a list of these.

        Raises:
            InputError: If a text has no mask or is too long for the model, a target is not one
                token, or an argument is invalid.
        """
        check_whole_number("top_k", top_k, 1)
        check_whole_number("batch_size", batch_size, 1)
        candidates = self._target_ids(targets)
        sequences = self._encoded(as_texts(texts, "texts"), special_symbols=True)
        masks = [np.flatnonzero(ids == self.tokenizer.mask_id) for ids in sequences]
        for number, positions in enumerate(masks):
            if not len(positions):
                mask = self.tokenizer.pieces[self.tokenizer.mask_id]
                raise InputError(f"`texts`[{number}]: contains no {mask}")
        filled = [
            [self._candidates(row, candidates, top_k) for row in rows]
            for rows in self._log_probabilities(sequences, masks, batch_size)
        ]
        answers = [rows if len(rows) > 1 else rows[0] for rows in filled]
        return answers[0] if isinstance(texts, str) else answers

    def _predict_rows(
        self, columns: Mapping[str, list], batch_size: int, top_k: int, targets: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Fill the masks in rows of texts, for albert-predict."""
        results = []
        for answer in self.fill_mask(columns["text"], top_k, targets or None, batch_size):
            masks = answer if isinstance(answer[0], list) else [answer]
            candidates = [
                [{"text": each.text, "probability": each.probability} for each in mask]
                for mask in masks
            ]
            best = [mask[0].text for mask in masks]
            results.append({"prediction": best, "candidates": candidates})
        return results

    def score(
        self, texts: str | Sequence[str], batch_size: int = 32, rest_of_word: bool = False
    ) -> np.ndarray:
        """Compute the pseudo-log-likelihood of texts (arXiv 1910.14659).

        This is the sum, over all tokens of a text but `[CLS]` and `[SEP]`, of the log-probability
        of the token when it alone is masked. It serves to compare texts, such as the hypotheses of
        a speech recognizer. A text of n tokens costs n sequences.

        Args:
            texts: a text, or a sequence of texts.
            batch_size: sequences that are computed at a time, of all texts and of similar lengths.
            rest_of_word: whether the tokens that follow in the same word are masked too
                (`PLL-word-l2r` of arXiv 2305.10588), so that the end of a word does not give its
                beginning away. Words are those of whole-word masking.

        Returns:
            float64 `[texts]`, in natural logarithms, at most 0; 0 for a text without tokens.

        Raises:
            InputError: If a text is too long for the model, or an argument is invalid.
        """
        check_whole_number("batch_size", batch_size, 1)

        def log_probabilities(features: Features) -> np.ndarray:
            return self._predict(features, (LOG_PROBABILITIES,), batch_size)[LOG_PROBABILITIES]

        sequences = self._encoded(as_texts(texts, "texts"))
        scores = pseudo_log_likelihoods(
            sequences, self.tokenizer, log_probabilities, (rest_of_word,)
        )
        return scores[:, 0]

    def _predicting_model(self) -> LikelihoodModel:
        return LikelihoodModel(self.model)

    def _encoded(self, texts: list[str], special_symbols: bool = False) -> list[np.ndarray]:
        """`[CLS] text [SEP]` of each text, int32 `[seq]`."""
        rows = self.tokenizer(texts, padding=False, special_symbols=special_symbols)["input_ids"]
        longest = self.model.config.max_position_embeddings
        for number, ids in enumerate(rows):
            if len(ids) > longest:
                raise InputError(
                    f"`texts`[{number}]: {len(ids):,} tokens; the model reads at most {longest:,}"
                )
        return rows

    def _log_probabilities(
        self, sequences: list[np.ndarray], positions: list[np.ndarray], batch_size: int
    ) -> Iterator[np.ndarray]:
        """Yield the log-probabilities at the positions of each sequence, `[positions, vocab]`."""
        # The logits of all sequences at a time would not fit into memory.
        for start in range(0, len(sequences), batch_size):
            chunk = slice(start, start + batch_size)
            counts = list(map(len, positions[chunk]))
            # JAX compiles for every number of positions; few of them occur this way.
            width = 1 << (max(counts) - 1).bit_length()
            features = Features(
                ((ids, np.zeros_like(ids)) for ids in sequences[chunk]),
                self.tokenizer.pad_id,
                arrays={"masked_lm_positions": packing.pad(positions[chunk], width)},
            )
            logits = self._predict(features, ("masked_lm_logits",), batch_size)
            for row, count in zip(logits["masked_lm_logits"], counts, strict=True):
                yield log_softmax(row[:count].astype(np.float64), axis=-1)

    def _candidates(
        self, log_probabilities: np.ndarray, target_ids: np.ndarray, top_k: int
    ) -> list[Candidate]:
        order = np.argsort(-log_probabilities[target_ids], kind="stable")[:top_k]
        return [
            Candidate(
                self.tokenizer.decode([id]),
                float(np.exp(log_probabilities[id])),
                self.tokenizer.pieces[id],
                int(id),
            )
            for id in target_ids[order]
        ]

    def _target_ids(self, targets: Sequence[str] | None) -> np.ndarray:
        """Return the ids of the candidates, int64 `[candidates]`: the targets, or all tokens."""
        if targets is None:
            return np.arange(self.tokenizer.vocab_size)
        pieces = {piece: id for id, piece in enumerate(self.tokenizer.pieces)}
        ids = []
        for number, target in enumerate(as_texts(as_list(targets, "targets"), "targets")):
            encoded = self.tokenizer.encode(target)
            if len(encoded) == 1 and encoded != [self.tokenizer.unk_id]:
                ids += encoded
            elif target in pieces:
                ids.append(pieces[target])
            else:
                tokens = " ".join(self.tokenizer.tokenize(target)) or "nothing"
                raise InputError(
                    f"`targets`[{number}]={target!r}: must be one token of the vocabulary, but is "
                    f"{tokens}"
                )
        if not ids:
            raise InputError("`targets`=[]: must be at least one token")
        return np.array(list(dict.fromkeys(ids)))
