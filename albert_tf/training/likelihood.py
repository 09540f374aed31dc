"""Pseudo-log-likelihoods of texts: how probable a masked language model finds their tokens.

The sum, over all tokens of a text but `[CLS]` and `[SEP]`, of the log-probability of the token
when it is masked: alone (arXiv 1910.14659), or together with the rest of its word (`PLL-word-l2r`
of arXiv 2305.10588), without which the end of a rare word gives its beginning away. A text of n
tokens costs n sequences.
"""

from collections.abc import Callable, Sequence

import keras
import numpy as np

from albert_tf.input.examples import Features
from albert_tf.modeling.encoder_model import EncoderModel
from albert_tf.modeling.kernels import PLAIN, PLAIN_KERNELS, Execution
from albert_tf.tokenizers import Tokenizer

LOG_PROBABILITIES = "masked_lm_log_probabilities"

# Texts whose sequences are held in memory together, and sorted by length.
_TEXTS_AT_ONCE = 1024


class LikelihoodModel(keras.Model):
    """A pretraining model that also computes the log-probabilities of given tokens.

    So the logits, thousands of numbers for each token, stay on the device. A compiled step
    computes only the output that it returns.
    """

    def __init__(self, model: EncoderModel):
        super().__init__(name="likelihood")
        self.model = model
        self.feature_names = (*model.feature_names, "masked_lm_ids")
        self.built = True

    def call(self, features, training: bool = False, execution: Execution = PLAIN):
        """Return the outputs of the heads and, with `masked_lm_ids`, their log-probabilities.

        These are `LOG_PROBABILITIES`, float32 `[batch, predictions]`.
        """
        own = {name: each for name, each in features.items() if name != "masked_lm_ids"}
        outputs = self.model(own, training=training, heads_only=True, execution=execution)
        if "masked_lm_ids" in features:
            ids = features["masked_lm_ids"]
            losses, _ = PLAIN_KERNELS.score(outputs["masked_lm_logits"], ids)
            outputs = {**outputs, LOG_PROBABILITIES: -losses}
        return outputs


def pseudo_log_likelihoods(
    sequences: Sequence[np.ndarray],
    tokenizer: Tokenizer,
    predict: Callable[[Features], np.ndarray],
    rest_of_word: Sequence[bool] = (False,),
    progress: Callable[[int], None] = lambda texts: None,
) -> np.ndarray:
    """Compute the pseudo-log-likelihoods of texts.

    Args:
        sequences: `[CLS] text [SEP]` of each text, int32 `[seq]`.
        tokenizer: which pieces begin a word, as in masking, and the id of `[MASK]`.
        predict: returns `LOG_PROBABILITIES` of examples, `[examples, 1]`.
        rest_of_word: for each result, whether the tokens that follow in the same word are masked
            too. What several results have in common is computed once.
        progress: called with the number of texts that are done.

    Returns:
        float64 `[texts, results]`, in natural logarithms; 0 for a text without tokens.
    """
    scores = np.zeros((len(sequences), len(rest_of_word)))
    for start in range(0, len(sequences), _TEXTS_AT_ONCE):
        rows: list[np.ndarray] = []
        places: list[int] = []
        truth: list[int] = []
        numbers = []  # of the rows that each result of each text consists of
        for ids in sequences[start : start + _TEXTS_AT_ONCE]:
            hidden = [_hidden(ids, tokenizer.word_starts, rest) for rest in rest_of_word]
            of_text = np.empty((len(hidden), len(ids) - 2), np.int64)
            for number, masks in enumerate(hidden):
                is_new = (masks != hidden[0]).any(axis=1) | (number == 0)
                of_text[number] = of_text[0]
                of_text[number, is_new] = len(rows) + np.arange(is_new.sum())
                rows += list(np.where(masks[is_new], tokenizer.mask_id, ids))
                places += (1 + np.flatnonzero(is_new)).tolist()
                truth += ids[1:-1][is_new].tolist()
            numbers.append(of_text)
        if rows:
            columns = {"masked_lm_positions": places, "masked_lm_ids": truth}
            arrays = {name: np.array(each, np.int32)[:, None] for name, each in columns.items()}
            features = Features(
                ((row, np.zeros_like(row)) for row in rows), tokenizer.pad_id, arrays=arrays
            )
            found = predict(features)[:, 0].astype(np.float64)
            for number, of_text in enumerate(numbers, start=start):
                scores[number] = found[of_text].sum(axis=1)
        progress(start + len(numbers))
    return scores


def _hidden(ids: np.ndarray, word_starts: np.ndarray, rest_of_word: bool) -> np.ndarray:
    """Return what is masked to predict each token but the first and the last, `[tokens, seq]`."""
    places = np.arange(len(ids))
    hidden = np.eye(len(ids), dtype=bool)
    if rest_of_word:
        begins = word_starts[ids]
        begins[[0, 1, -1]] = True
        words = np.cumsum(begins)
        hidden |= (words == words[:, None]) & (places > places[:, None])
    return hidden[1:-1]
