"""Minimal pairs: how often a model finds a good sentence more probable than a bad one.

The model needs no training for it, so this shows what pretraining has taught: agreement, word
order, reference, ... Sentences are compared by their pseudo-log-likelihoods (`PLL-word-l2r` and,
as `original`, that of single tokens; see `albert_tf.training.likelihood`).
"""

import logging
import zlib
from collections.abc import Callable, Sequence

import keras
import numpy as np

from albert_tf.engines.base import Engine
from albert_tf.errors import InputError
from albert_tf.input.examples import Features, MemoryStream, length_buckets
from albert_tf.input.minimal_pairs import Pair
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.likelihood import (
    LOG_PROBABILITIES,
    LikelihoodModel,
    pseudo_log_likelihoods,
)
from albert_tf.training.loop import predict
from albert_tf.training.pair_results import ALL, results

logger = logging.getLogger(__name__)


class PairScorer:
    """Scores pairs with the current weights of a pretraining model.

    Args:
        engine, model: on which and with which log-probabilities are computed.
        tokenizer: with the vocabulary of the model.
        pairs: at least one.
        batch_size: sequences in a batch, over all devices.

    Raises:
        InputError: If a sentence is too long for the model, or an engine cannot be fed with it.
    """

    def __init__(
        self,
        engine: Engine,
        model: keras.Model,
        tokenizer: Tokenizer,
        pairs: Sequence[Pair],
        batch_size: int,
    ):
        self._engine, self._tokenizer, self._batch_size = engine, tokenizer, batch_size
        self._pairs = pairs
        texts = [text for pair in pairs for text in (pair.good, pair.bad)]
        self._sequences = tokenizer(texts, padding=False)["input_ids"]
        limit, longest = model.config.max_position_embeddings, 0
        for number, ids in enumerate(self._sequences):
            if len(ids) > limit:
                raise InputError(
                    f"{pairs[number // 2].location}: {len(ids):,} tokens; the model reads at most "
                    f"{limit:,}"
                )
            longest = max(longest, len(ids))
        same = sum(map(np.array_equal, self._sequences[::2], self._sequences[1::2]))
        if same:
            logger.warning(
                "minimal pairs: in %s of %s, both sentences are the same tokens; these are wrong",
                f"{same:,}", f"{len(pairs):,}",
            )  # fmt: skip
        self._length = next(each for each in length_buckets(limit) if each >= longest)
        checksum = zlib.crc32("\n".join(texts).encode())
        engine.workers.check_same({"minimal pairs": {"count": len(pairs), "checksum": checksum}})
        outputs = (LOG_PROBABILITIES,)
        self._step = engine.prediction_step(LikelihoodModel(model), outputs, engine.devices)

    def scores(self, progress: Callable[[int], None] = lambda texts: None) -> np.ndarray:
        """Return log-likelihoods, float64 `[pairs, 2, 2]`: good and bad, word-l2r and original."""
        is_tpu = self._engine.devices.is_tpu

        def log_probabilities(features: Features) -> np.ndarray:
            stream = MemoryStream(
                features, self._length, self._batch_size, pad_to_max_length=is_tpu
            )
            return predict(self._engine, self._step, stream)[LOG_PROBABILITIES]

        found = pseudo_log_likelihoods(
            self._sequences, self._tokenizer, log_probabilities, (True, False), progress
        )
        return found.reshape(-1, 2, 2)

    def results(self) -> dict[str, float]:
        """Return accuracies of all pairs, by both scores, and of each phenomenon; see `results`."""
        scores = self.scores()
        original = results(self._pairs, scores[..., 1])
        return {
            **results(self._pairs, scores[..., 0]),
            f"{ALL}_original_accuracy": original[f"{ALL}_accuracy"],
        }
