"""Implementations of attention, and how to choose one.

`AlbertEncoder(config, attention=...)` takes the name of a row of `ATTENTION` or a function:

    attention(query, key, value, attention_mask, dropout=None) -> context

    query:          [batch, heads, queries, head_size]; in the last layer of a training step there
                    are fewer queries than keys.
    key, value:     [batch, heads, seq, head_size].
    attention_mask: [batch, seq], 1 for tokens and 0 for padding; for rows of several examples,
                    `ExampleIds`.
    dropout:        None, or a function that drops elements of a tensor of attention weights. It
                    drops the same elements every time it is called within one layer.
    context:        [batch, heads, queries, head_size], in the dtype of `query`.

For example:

    @keras.saving.register_keras_serializable(package="my_project")
    def causal_attention(query, key, value, attention_mask, dropout=None):
        ...

    encoder = AlbertEncoder(config, attention=causal_attention)

Only registered functions can be saved with a model (`get_config`); they are then found again by
the name under which Keras knows them, "my_project>causal_attention".
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import keras
from keras import ops

from albert_tf.errors import InputError

# What the original adds to the scores of padding before the softmax.
MASKED_SCORE = -10000.0

DEFAULT = "dot_product"


class ExampleIds(NamedTuple):
    """The attention mask of rows: a position attends to the positions of its own example.

    These are the numbers of examples at the queries `[batch, queries]` and the keys `[batch, seq]`.
    Padding has the number 0: what it attends to has no meaning, but is finite.
    """

    queries: Any
    keys: Any


def may_attend(attention_mask):
    """Return where queries attend to keys, bool `[batch, 1, queries, seq]`; 1 for all queries."""
    if isinstance(attention_mask, ExampleIds):
        queries, keys = attention_mask
        return ops.equal(queries[:, None, :, None], keys[:, None, None, :])
    return ops.cast(attention_mask, "bool")[:, None, None, :]


def mask_scores(attention_mask):
    """Return what is added to attention scores, float32 `[batch, 1, queries, seq]`.

    That is 0 where a query attends and -10000 where it does not. For an `attention_mask`
    `[batch, seq]`, which is 0 for padding, one query stands for all.
    """
    if isinstance(attention_mask, ExampleIds):
        return ops.where(may_attend(attention_mask), 0.0, MASKED_SCORE)
    return ((1.0 - ops.cast(attention_mask, "float32")) * MASKED_SCORE)[:, None, None, :]


def attention_weights(query, key, attention_mask):
    """softmax(Q K^T / sqrt(d) + mask), before dropout (arXiv 1706.03762, section 3.2.1).

    Arguments are those of an attention, as above.

    Returns:
        `[batch, heads, queries, seq]` in the dtype of `query`; rows sum to 1.
    """
    scale = query.shape[-1] ** -0.5
    scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))
    # The softmax is float32 under bfloat16, too.
    weights = ops.softmax(ops.cast(scores, "float32") * scale + mask_scores(attention_mask))
    return ops.cast(weights, scores.dtype)


def dot_product_attention(query, key, value, attention_mask, dropout=None):
    """Return scaled dot-product attention, as the original computes it."""
    weights = attention_weights(query, key, attention_mask)
    return ops.matmul(weights if dropout is None else dropout(weights), value)


def backend_attention(query, key, value, attention_mask, dropout=None):
    """`keras.ops.dot_product_attention`, which JAX and PyTorch may run as one fused kernel.

    Raises:
        InputError: If there is dropout, which this operation does not have.
    """
    if dropout is not None:
        raise InputError(
            "`attention_probs_dropout_prob`: must be 0 with `attention`='backend', which has no "
            "dropout"
        )
    # Keras expects positions before heads.
    query, key, value = (ops.transpose(each, (0, 2, 1, 3)) for each in (query, key, value))
    context = ops.dot_product_attention(query, key, value, mask=may_attend(attention_mask))
    return ops.transpose(context, (0, 2, 1, 3))


# All of these compute the same function.
# An engine may replace the row `DEFAULT` by a fused kernel (`albert_tf.modeling.kernels`).
ATTENTION: dict[str, Callable] = {
    DEFAULT: dot_product_attention,
    "backend": backend_attention,
}


def find_attention(attention: str | Callable) -> str | Callable:
    """Return the key of `ATTENTION` for an attention, or else its function.

    Args:
        attention: a key of `ATTENTION`, the name of a function registered with
            `keras.saving.register_keras_serializable`, or the function itself.

    Raises:
        InputError: If there is no function of this name.
    """
    for name, function in ATTENTION.items():
        if attention in (name, function):
            return name
    function = attention if callable(attention) else keras.saving.get_registered_object(attention)
    if function is None:
        raise InputError(
            f"`attention`={attention!r}: must be one of {', '.join(ATTENTION)}, a function, or the "
            "name of a function registered with keras.saving.register_keras_serializable"
        )
    return function


def attention_name(attention: str | Callable) -> str:
    """Return the name from which `find_attention` finds this attention in another process.

    Raises:
        InputError: If it is a function that is not registered with Keras.
    """
    if isinstance(attention, str):
        return attention
    name = keras.saving.get_registered_name(attention)
    if keras.saving.get_registered_object(name) is not attention:
        raise InputError(
            f"`attention`={attention!r}: a model with this function cannot be saved; decorate the "
            "function with @keras.saving.register_keras_serializable(package=...)"
        )
    return name
