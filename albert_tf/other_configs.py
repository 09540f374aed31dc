"""Translation of the configs of other projects: Hugging Face's, BERT's, and albert_zh's.

BERT is an ALBERT whose layers share nothing, each its own group, with embeddings of their width.

The first Chinese ALBERT models (github.com/brightmart/albert_zh) come from BERT's code. Their
network differs from the original ALBERT only in the embeddings: the product of two factors, V x E
and E x H, takes the place of the word embeddings, and positions, segments and the layer
normalization have the width H. This is an ALBERT with E = H, whose layers need no projection.
"""

import functools
import logging
from collections.abc import Container
from typing import Any

from albert_tf.errors import InputError

_logger = logging.getLogger(__name__)

# Hugging Face name -> ours. Their "gelu" is exact; the original's is the tanh approximation.
_ACTIVATIONS = {
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_fast": "gelu",
    "gelu_accurate": "gelu",
    "gelu_python_tanh": "gelu",
    "gelu": "gelu_exact",
    "gelu_python": "gelu_exact",
    "relu": "relu",
}

# Architectures that are read -> what their configs leave out if it is this.
_DEFAULTS: dict[str, dict[str, Any]] = {
    "albert": {"hidden_act": "gelu_new"},
    "bert": {
        "vocab_size": 30522,
        "hidden_size": 768,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
    },
}

_ONLY = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
}
# Of tensors that are not the weights themselves.
_UNQUANTIZED = {"quantization_config": None, "compression_config": None}

# Fields for heads, labels, symbols and generation, which do not affect the encoder.
_IGNORED = frozenset(
    """
    _attn_implementation_autoset _commit_hash _name_or_path architectures bad_words_ids
    begin_suppress_tokens bos_token_id chunk_size_feed_forward classifier_dropout_prob
    cross_attention_hidden_size decoder_start_token_id diversity_penalty do_sample dtype
    early_stopping encoder_no_repeat_ngram_size eos_token_id exponential_decay_length_penalty
    finetuning_task forced_bos_token_id forced_eos_token_id id2label is_encoder_decoder label2id
    language length_penalty license max_length min_length no_repeat_ngram_size num_beam_groups
    num_beams num_labels num_return_sequences output_attentions output_hidden_states output_past
    output_scores pad_token_id prefix problem_type remove_invalid_values repetition_penalty
    return_dict return_dict_in_generate sep_token_id suppress_tokens task_specific_params
    temperature tf_legacy_loss tie_encoder_decoder tie_word_embeddings tokenizer_class top_k top_p
    torch_dtype torchscript transformers_version typical_p use_bfloat16 use_cache
    """.split()  # noqa: SIM905
)

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


def check_only(values: dict[str, Any], only: dict[str, Any], source: str) -> None:
    """Raise InputError if a key of `only` has another value, and not null, in `values`."""
    for key, value in only.items():
        if values.get(key) not in (None, value):
            raise InputError(f"{source}: {key}={values[key]!r}: only {value!r} is supported")


def from_huggingface(values: dict[str, Any], known: Container[str], source: str) -> dict[str, Any]:
    """Translate a Hugging Face config to the fields of an `AlbertConfig`.

    Every version of that library, and every user of it, adds keys. Those that are not `known` are
    named and left out.

    Raises:
        InputError: If the values describe another architecture.
    """
    family = family_of(values, source)
    values = {**_DEFAULTS[family], **values}
    check_only(values, {**_ONLY, **_UNQUANTIZED}, source)
    unknown = values.keys() - _ONLY.keys() - _UNQUANTIZED.keys() - _IGNORED - {"model_type"}
    if values.get("classifier_dropout") is None:  # as in every BERT that transformers saves
        unknown.discard("classifier_dropout")
    if ignored := sorted(key for key in unknown if key not in known):
        _name_ignored(source, ", ".join(ignored))
    fields = {key: value for key, value in values.items() if key in known}
    fields["hidden_act"] = _ACTIVATIONS.get(str(fields["hidden_act"]), fields["hidden_act"])
    if family == "bert":
        width = fields["hidden_size"]
        check_only(fields, {"embedding_size": width}, source)
        fields |= {"embedding_size": width, "parameter_sharing": "none"}
    return fields


def family_of(values: dict[str, Any], source: str) -> str:
    """Return the architecture that a Hugging Face config describes: "albert" or "bert".

    Raises:
        InputError: If it is another one, such as RoBERTa or ELECTRA.
    """
    if is_plain_bert(values):
        return "bert"
    architecture = architecture_of(values)
    implied = [family for family in _DEFAULTS if architecture.lower().startswith(family)]
    named = implied if values.get("model_type") is None else [values["model_type"]]
    if not named or str(named[0]) not in _DEFAULTS:
        what = f"model_type={named[0]!r}" if named else f"architectures={architecture!r}"
        raise InputError(f"{source}: {what}: another network; {' and '.join(_DEFAULTS)} are read")
    return named[0]


def architecture_of(values: dict[str, Any]) -> str:
    """Return the class that a Hugging Face config names first, or AlbertModel."""
    named = values.get("architectures") or ["AlbertModel"]
    return str(named[0] if isinstance(named, list) else named)


def is_plain_bert(values: dict[str, Any]) -> bool:
    """Return whether a `config.json` names no architecture, and has the fields of a BERT alone."""
    has_shape = values.keys() >= {"hidden_size", "intermediate_size", "max_position_embeddings"}
    others = ("model_type", "architectures", "embedding_size", *_ORIGINAL_KEYS)
    is_other = any(values.get(key) is not None for key in others)
    # A RoBERTa, whose positions begin at 2, has a single type.
    return has_shape and not is_other and values.get("type_vocab_size", 1) != 1


@functools.cache  # once for each file, which several parts of a program read
def _name_ignored(source: str, keys: str) -> None:
    _logger.info("%s: ignored keys, which change nothing here: %s", source, keys)


def to_huggingface(fields: dict[str, Any], family: str) -> dict[str, Any]:
    """Translate the fields of an `AlbertConfig` to a Hugging Face config of a family.

    Hugging Face cannot share only attention or only feed-forward networks; every group has a copy.
    """
    theirs = {ours: name for name, ours in reversed(_ACTIVATIONS.items())}
    implied = {"parameter_sharing"}
    if family == "bert":
        implied |= {"embedding_size", "num_hidden_groups", "inner_group_num"}
    described = {key: value for key, value in fields.items() if key not in implied}
    activation = theirs[fields["hidden_act"]]
    fixed = {**_ONLY, "tie_word_embeddings": True, "model_type": family}
    return {**described, **fixed, "hidden_act": activation}


def is_albert_zh(values: dict[str, Any]) -> bool:
    """Return whether a config is one of albert_zh: BERT's keys, and the width of a factor."""
    is_original = any(key in values for key in _ORIGINAL_KEYS)
    has_factors = "embedding_size" in values and any(key in values for key in BERT_KEYS)
    return has_factors and not is_original


def from_albert_zh(values: dict[str, Any], source: str) -> dict[str, Any]:
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
