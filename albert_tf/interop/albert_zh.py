"""Variables of albert_zh (github.com/brightmart/albert_zh) under the names of the original.

`albert_tf.albert_zh_config` describes how the network differs.
"""

import functools

import numpy as np

from albert_tf.errors import InputError
from albert_tf.weights import Tensor, shape_text

FACTORS = ("bert/embeddings/word_embeddings", "bert/embeddings/word_embeddings_2")

_LAYER = "bert/encoder/layer_shared/"
_BLOCK = "bert/encoder/transformer/group_0/inner_group_0/"
_SCOPES = {
    "attention/self/": "attention_1/self/",
    "attention/output/dense/": "attention_1/output/dense/",
    "attention/output/LayerNorm/": "LayerNorm/",
    "intermediate/dense/": "ffn_1/intermediate/dense/",
    "output/dense/": "ffn_1/intermediate/output/dense/",
    "output/LayerNorm/": "LayerNorm_1/",
}


def original_name(name: str) -> str:
    """Return the name of a variable in the original's checkpoints; other names are kept."""
    rest = name.removeprefix(_LAYER)
    if rest != name:
        for scope, original in _SCOPES.items():
            if rest.startswith(scope):
                return f"{_BLOCK}{original}{rest.removeprefix(scope)}"
    return name


def refuse_grouped(path: str, tensors: dict[str, Tensor]) -> None:
    """Raise InputError for the "fast" models, whose feed-forward networks have groups."""
    for tensor in tensors.values():
        if "/ffn_1/" in tensor.name and len(tensor.shape) == 3:
            raise InputError(
                f"{path}: {tensor.name} has shape {list(tensor.shape)}: the feed-forward network "
                f"is divided into {tensor.shape[-1]} groups (modeling_google_fast.py), "
                "which is another network than ALBERT's and is not computed"
            )


def multiply_factors(path: str, tensors: dict[str, Tensor]) -> tuple[str, ...]:
    """Replace both factors of the word embeddings in `tensors` by their product, if there are two.

    The decoder of the masked language model uses the same factors, so it is tied to the product as
    the original's is to its embeddings.

    Returns:
        A note for the user, if there are two factors.

    Raises:
        InputError: If they cannot be multiplied.
    """
    table, projection = map(tensors.get, FACTORS)
    if table is None or projection is None:
        return ()
    if not len(table.shape) == len(projection.shape) == 2 or table.shape[1] != projection.shape[0]:
        raise InputError(
            f"{path}: {table.name} {list(table.shape)} and {projection.name} "
            f"{list(projection.shape)} are not two factors of word embeddings"
        )
    del tensors[FACTORS[1]]
    shape = (table.shape[0], projection.shape[1])
    name = f"{table.name} x {projection.name.rpartition('/')[2]}"
    read = functools.partial(_product, table, projection)
    tensors[FACTORS[0]] = Tensor(name, shape, shape, read)
    return (
        f"note: the word embeddings are stored as two factors, {shape_text(table.shape)} and "
        f"{shape_text(projection.shape)} (albert_zh), and loaded as their product, "
        f"{shape_text(shape)}: the outputs are the same, and training changes the product",
    )


def _product(table: Tensor, projection: Tensor) -> np.ndarray:
    return np.matmul(table.read(), projection.read(), dtype=np.float32)
