"""Translation of a config of albert_zh (github.com/brightmart/albert_zh) to an `AlbertConfig`.

The first Chinese ALBERT models come from BERT's code. Their network differs from the original
ALBERT only in the embeddings: the product of two factors, V x E and E x H, takes the place of the
word embeddings, and positions, segments and the layer normalization have the width H. This is the
network of an ALBERT with E = H, whose layers need no projection.
"""

from typing import Any

from albert_tf.errors import InputError

# Keys of BERT's configs that no code reads. They may be left over in a config of the original, too.
BERT_KEYS = (
    "directionality",
    "pooler_fc_size",
    "pooler_num_attention_heads",
    "pooler_num_fc_layers",
    "pooler_size_per_head",
    "pooler_type",
)


# Keys that every config of the original has some of, and those of albert_zh none.
_ORIGINAL_KEYS = (
    "num_hidden_groups",
    "inner_group_num",
    "net_structure_type",
    "gap_size",
    "num_memory_blocks",
    "down_scale_factor",
    "layers_to_keep",
    "parameter_sharing",
)


def is_albert_zh(values: dict[str, Any]) -> bool:
    """Return whether a config is one of albert_zh: BERT's keys, and the width of a factor."""
    is_original = any(key in values for key in _ORIGINAL_KEYS)
    has_factors = "embedding_size" in values and any(key in values for key in BERT_KEYS)
    return has_factors and not is_original


def fields_of(values: dict[str, Any], source: str) -> dict[str, Any]:
    """Translate a config of albert_zh to the fields of an `AlbertConfig`.

    Unknown keys are kept, so that `AlbertConfig.from_dict` can report them.

    Raises:
        InputError: If the layers are normalized before attention and feed-forward network.
    """
    if values.get("ln_type") not in (None, "postln"):
        raise InputError(
            f"{source}: ln_type={values['ln_type']!r}: the layer normalizations come before "
            "attention and feed-forward network (pre-norm), which is another network than ALBERT's "
            "and is not computed; models with ln_type='postln' and the models in the original "
            "format (names ending in _google, Google's albert_*_zh) are"
        )
    fields = {key: v for key, v in values.items() if key not in (*BERT_KEYS, "ln_type")}
    return {**fields, "embedding_size": values.get("hidden_size", values["embedding_size"])}
