"""Floating-point operations of a model, by formula; loads no TensorFlow.

Only what every implementation has to compute is counted: matrix products, with a multiplication and
an addition as two operations. Embedding look-ups, softmax, normalization, activations and
recomputation are not counted, nor is the last layer at positions whose output is not used.
"""

from albert_tf.config import AlbertConfig

# The backward pass of a matrix product takes two products of its size, one for each factor.
TRAINING = 3


def encoder_flops(config: AlbertConfig, length: float, outputs: float | None = None) -> float:
    """Return the operations of the encoder for the forward pass of one example.

    Its `length` is in tokens, padding included; a mean need not be whole. `outputs` is the number
    of positions at which the output of the last layer is used; by default all.
    """
    e, h, i = config.embedding_size, config.hidden_size, config.intermediate_size
    projection = 2 * length * e * h if e != h else 0

    def block(outputs: float) -> float:
        query_key_value_output = 2 * 2 * (length + outputs) * h * h
        scores_and_context = 2 * 2 * outputs * length * h
        feed_forward = 2 * 2 * outputs * h * i
        return query_key_value_output + scores_and_context + feed_forward

    others = config.num_hidden_layers * config.inner_group_num - 1
    return projection + others * block(length) + block(length if outputs is None else outputs)


def pretraining_flops(
    config: AlbertConfig, length: float, predictions: float, sentence_order: bool = True
) -> float:
    """Return the operations of pretraining for the forward and backward pass of one example.

    Tokens are predicted at `predictions` positions; these and `length` include padding.
    """
    e, h = config.embedding_size, config.hidden_size
    masked_lm = predictions * (2 * h * e + 2 * e * config.vocab_size)
    order = _pooled_flops(config, 2) if sentence_order else 0
    return TRAINING * (encoder_flops(config, length, 1 + predictions) + masked_lm + order)


def classification_flops(config: AlbertConfig, length: int, num_labels: int) -> float:
    """Return the operations of training a classifier on one example."""
    return TRAINING * (encoder_flops(config, length, 1) + _pooled_flops(config, num_labels))


def token_classification_flops(config: AlbertConfig, length: int, num_labels: int) -> float:
    """Return the operations of training a classifier of every token on one example."""
    head = 2 * length * config.hidden_size * num_labels
    return TRAINING * (encoder_flops(config, length) + head)


def span_flops(config: AlbertConfig, length: int) -> float:
    """Return the operations of training two logits per position on one example."""
    return TRAINING * (encoder_flops(config, length) + 2 * length * config.hidden_size * 2)


def conditional_span_flops(config: AlbertConfig, length: int) -> float:
    """Return operations of training starts, ends given them, and answerability, on one example."""
    h = config.hidden_size
    ends = 2 * (length + 1) * h * h  # of all positions, and of the true start
    logits = 2 * 2 * length * h
    answerability = 2 * length * h + 2 * 2 * h * h
    return TRAINING * (encoder_flops(config, length) + ends + logits + answerability)


def _pooled_flops(config: AlbertConfig, outputs: int) -> float:
    """Return the operations of the pooler and a linear head."""
    return 2 * config.hidden_size * (config.hidden_size + outputs)
