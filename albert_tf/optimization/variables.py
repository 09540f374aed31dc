"""Which variables a setting of an optimizer concerns: regular expressions for their paths."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError

# What depends on the vocabulary: the embeddings of pieces, and their bias in the masked LM.
OF_PIECES = ("/word_embeddings$", "predictions/output_bias$")


class RateScale(NamedTuple):
    """Factor of a learning rate, by a regular expression for paths of variables.

    It is 0 in the first `start` updates, which change moments alone.
    """

    pattern: str
    factor: float
    start: int = 0


def checked_patterns(argument: str, patterns: str | Sequence[str]) -> tuple[str, ...]:
    """Return one or several regular expressions as a tuple.

    Raises:
        InputError: If one is invalid; it names `argument`.
    """
    patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise InputError(
                f"`{argument}`={pattern}: must be regular expressions ({error})"
            ) from None
    return patterns


def matches(patterns: Sequence[str], path: str) -> bool:
    """Return whether any regular expression is found in `path`."""
    return any(re.search(pattern, path) for pattern in patterns)


def layer_decay_scales(config: AlbertConfig, decay: float) -> tuple[tuple[str, float], ...]:
    """Return factors of the learning rates, smaller with the distance from the head.

    Source: ULMFiT (arXiv 1801.06146), ELECTRA (arXiv 2003.10555).

    A variable at distance k is trained with the learning rate times `decay` to the power of k. With
    G groups of layers (`num_hidden_groups`), distances are

    - 0 for heads;
    - 1 for the pooler and the last group, 2 for the group before it, and so on to G for the first;
    - G + 1 for the embeddings and their projection.

    Layers of one group share their parameters, so they have the same distance. With the default of
    one group, there are three: heads, transformer, embeddings. What `parameter_sharing` shares
    among all groups belongs to the first one.

        scales = layer_decay_scales(config, 0.9)
        optimizer = albert_tf.create_optimizer("adamw", 5e-5, learning_rate_scales=scales)

    Args:
        config: shape of the model.
        decay: more than 0, at most 1.

    Returns:
        The argument `learning_rate_scales` of the optimizers; empty if `decay` is 1.

    Raises:
        InputError: If `decay` is out of range.

    Example:
        >>> scales = albert_tf.layer_decay_scales(albert_tf.AlbertConfig.preset("base"), 0.5)
        >>> sorted(factor for _, factor in scales)
        [0.25, 0.5, 0.5]
        >>> optimizer = albert_tf.create_optimizer("adamw", 5e-5, learning_rate_scales=scales)
    """
    if not 0 < decay <= 1:
        raise InputError(f"`layer_decay`={decay}: must be above 0 and at most 1")
    if decay == 1:
        return ()
    groups = config.num_hidden_groups
    encoder = r"(^|/)bert"
    embeddings = rf"{encoder}/(embeddings|encoder/embedding_hidden_mapping_in)/"
    transformer = rf"{encoder}/encoder/transformer/group_"
    return (
        (rf"{encoder}/pooler/", decay),
        *((rf"{transformer}{number}/", decay ** (groups - number)) for number in range(groups)),
        (embeddings, decay ** (groups + 1)),
    )
