"""Floating-point operations of a model, by formula; loads no TensorFlow.

What counts is what any implementation has to compute: the matrix products, a multiplication and an
addition as two operations. Look-ups of rows, softmax, normalisation, activations and anything
computed a second time to save memory do not count; nor does the last layer where none of its output
is needed.
"""

from __future__ import annotations

from albert_tf.config import AlbertConfig

# A product costs one product forward, and two of its size backward: for either of its factors.
TRAINING = 3


def encoder_flops(config: AlbertConfig, length: int, outputs: int | None = None) -> int:
    """Operations of the encoder on one example, forward, up to the last layer.

    Args:
        config: shape of the model.
        length: tokens in the example, padding included.
        outputs: positions at which the last layer's output is needed; all when absent.
    """
    e, h, i = config.embedding_size, config.hidden_size, config.intermediate_size
    projection = 2 * length * e * h if e != h else 0

    def block(outputs: int) -> int:
        query_key_value_output = 2 * 2 * (length + outputs) * h * h
        scores_and_context = 2 * 2 * outputs * length * h
        feed_forward = 2 * 2 * outputs * h * i
        return query_key_value_output + scores_and_context + feed_forward

    others = config.num_hidden_layers * config.inner_group_num - 1
    return projection + others * block(length) + block(length if outputs is None else outputs)


def pretraining_flops(
    config: AlbertConfig, length: int, predictions: int, sentence_order: bool = True
) -> int:
    """Operations of pretraining on one example, forward and backward.

    Args:
        config: shape of the model.
        length: tokens in the example, padding included.
        predictions: positions at which tokens are predicted, unused ones included.
        sentence_order: whether the order of the segments is predicted.
    """
    e, h = config.embedding_size, config.hidden_size
    masked_lm = predictions * (2 * h * e + 2 * e * config.vocab_size)
    order = _pooled_flops(config, 2) if sentence_order else 0
    return TRAINING * (encoder_flops(config, length, 1 + predictions) + masked_lm + order)


def classification_flops(config: AlbertConfig, length: int, num_labels: int) -> int:
    """Operations of training a classifier on one example, forward and backward."""
    return TRAINING * (encoder_flops(config, length, 1) + _pooled_flops(config, num_labels))


def span_flops(config: AlbertConfig, length: int) -> int:
    """Operations of training two logits per position, on one example, forward and backward."""
    return TRAINING * (encoder_flops(config, length) + 2 * length * config.hidden_size * 2)


def conditional_span_flops(config: AlbertConfig, length: int) -> int:
    """Operations of training starts, ends given them, and answerability, on one example."""
    h = config.hidden_size
    ends = 2 * (length + 1) * h * h  # of all positions, and of the true start
    logits = 2 * 2 * length * h
    answerability = 2 * length * h + 2 * 2 * h * h
    return TRAINING * (encoder_flops(config, length) + ends + logits + answerability)


def _pooled_flops(config: AlbertConfig, outputs: int) -> int:
    """The pooler and a linear head on it."""
    return 2 * config.hidden_size * (config.hidden_size + outputs)
