"""An encoder with the interface of the text encoders on TF-Hub.

encoder = tf.saved_model.load("export/encoder")
encoder(preprocess(texts))["pooled_output"]             # [batch, hidden]
"""

from collections.abc import Sequence
from typing import NamedTuple

import keras
import numpy as np
import tensorflow as tf

from albert_tf.config import AlbertConfig

# Signature -> names of its inputs, in order: ids, mask, segments, masked positions.
_TOKENS = ("input_word_ids", "input_mask", "input_type_ids")
SIGNATURES = {
    "serving_default": _TOKENS,
    "tokens": ("input_ids", "input_mask", "segment_ids"),  # as in the original project's modules
    "mlm": (*_TOKENS, "masked_lm_positions"),
    "sop": _TOKENS,
}


class PretrainingHead(NamedTuple):
    """A head: its output in the export and in the model, and the prefix of its weights' paths."""

    output: str
    name: str
    scope: str


PRETRAINING_HEADS = {
    "mlm": PretrainingHead("mlm_logits", "masked_lm_logits", "cls/predictions/"),
    "sop": PretrainingHead("sop_logits", "sentence_order_logits", "cls/seq_relationship/"),
}


class ExportedModel(tf.Module):
    """A model that is called on a dictionary of inputs and can be fine-tuned.

    Args:
        model: an encoder, or a model that contains one.
        weights: the weights to expose as trainable.
        inputs: names of the inputs, those of `_TOKENS` first.
        outputs: name in the export -> name in the model, for outputs other than the encoder's.
    """

    # These replace properties of tf.Module, which a loaded SavedModel does not have.
    variables: Sequence[tf.Variable] = ()
    trainable_variables: Sequence[tf.Variable] = ()

    def __init__(
        self,
        model: keras.Model,
        weights: Sequence[keras.Variable],
        inputs: tuple[str, ...] = _TOKENS,
        outputs: dict[str, str] | None = None,
    ):
        super().__init__(name="albert")
        # Not tracked: a tracked Keras model would be saved with a second copy of every weight.
        object.__setattr__(self, "_model", model)
        object.__setattr__(self, "_inputs", inputs)
        object.__setattr__(self, "_outputs", outputs or {})
        # All that the functions read, so that `mlm` or `sop` can be used alone after loading.
        self.dropout_state = getattr(model, "encoder", model).seed_generator.state.value
        self.model_variables = [weight.value for weight in model.weights]
        self.regularization_losses: list[tf.Tensor] = []
        self.trainable_variables = [weight.value for weight in weights if weight.trainable]
        self.variables = [weight.value for weight in weights]

    @tf.function(autograph=False)
    def __call__(self, inputs, training=False):
        """Compute the outputs for a batch.

        Args:
            inputs: `input_word_ids`, `input_mask`, `input_type_ids`, int32 `[batch, seq]`, and for
                `mlm` also `masked_lm_positions` `[batch, predictions]`.
            training: whether dropout is active.

        Returns:
            `pooled_output` and `default` `[batch, hidden]`, `sequence_output`
            `[batch, seq, hidden]`, `encoder_outputs`, a list with the output of every layer, and
            for `mlm` and `sop` the logits of the head.
        """
        outputs = self._model(features(**inputs), training=training)
        per_layer = self._model.config.inner_group_num
        return {
            **{name: outputs[name] for name in ("sequence_output", "pooled_output")},
            "default": outputs["pooled_output"],
            "encoder_outputs": outputs["encoder_outputs"][per_layer - 1 :: per_layer],
            **{name: outputs[here] for name, here in self._outputs.items()},
        }

    def trace(self) -> None:
        """Trace inference and training, for any batch size and length.

        `tf.saved_model.save` traces again whatever was traced before. The signatures therefore
        call this method while they are traced themselves, which is while they are saved.
        """
        inputs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in self._inputs}
        for training in (False, True):
            self.__call__.get_concrete_function(inputs, training=training)


class ExportedEncoder(ExportedModel):
    """An encoder and the pretraining heads that the model has, keys of `PRETRAINING_HEADS`.

    The config and the files of the vocabulary, that of the tokenizer first, are saved as assets;
    `do_lower_case` is saved as a variable, for tokenizers outside the graph.

    Attributes:
        mlm: for pretraining models, an `ExportedModel` that also takes `masked_lm_positions` and
            returns `mlm_logits` `[batch, predictions, vocab]`.
        sop: for pretraining models, an `ExportedModel` that also returns `sop_logits` `[batch, 2]`;
            class 1 means swapped.
    """

    def __init__(
        self,
        model: keras.Model,
        config_file: str,
        vocabulary_files: Sequence[str],
        do_lower_case: bool,
        heads: Sequence[str] = (),
    ):
        encoder = getattr(model, "encoder", model)
        # Must come first: the keys of the weights are then those of training checkpoints, so that
        # an export can be read like one.
        self.params = {weight.path: weight.value for weight in model.weights}
        super().__init__(encoder, encoder.weights)
        object.__setattr__(self, "_heads", tuple(heads))
        for name in heads:
            head = PRETRAINING_HEADS[name]
            weights = [w for w in model.weights if w.path.startswith(("bert/", head.scope))]
            outputs = {head.output: head.name}
            setattr(self, name, ExportedModel(model, weights, SIGNATURES[name], outputs))
        self.albert_config_file = tf.saved_model.Asset(config_file)
        self.vocab_file, *self.vocab_lists = map(tf.saved_model.Asset, vocabulary_files)
        self.do_lower_case = tf.Variable(do_lower_case, trainable=False)

    def signatures(self) -> dict:
        """Return the serving signatures on token ids by name; `SIGNATURES` lists their inputs.

        Saving them traces the functions of this object, `mlm` and `sop` that a SavedModel contains.

        `serving_default` and `tokens` return `pooled_output` and `sequence_output`; `mlm` and `sop`
        return only the logits.
        """
        of_encoder = [name for name in SIGNATURES if name not in PRETRAINING_HEADS]
        modules = dict.fromkeys(of_encoder, self) | {n: getattr(self, n) for n in self._heads}
        return {name: _signature(module, name) for name, module in modules.items()}


def features(input_word_ids, input_mask, input_type_ids, masked_lm_positions=None) -> dict:
    """Map the inputs of TF-Hub encoders to the features of this project's models."""
    named = {"input_ids": input_word_ids, "input_mask": input_mask, "segment_ids": input_type_ids}
    if masked_lm_positions is not None:
        named["masked_lm_positions"] = masked_lm_positions
    return named


def example_tokens(config: AlbertConfig, shortest: int, length: int, batch: int) -> dict:
    """Return random inputs of an encoder, int32 `[batch, length]`, used from `shortest` tokens on.

    They have padding and two segments.
    """
    used = np.linspace(min(shortest, length), length, batch).astype(int)[:, None]
    place = np.arange(length)
    mask = place < used
    ids = np.random.default_rng(0).integers(0, config.vocab_size, (batch, length)) * mask
    types = (place >= used // 2) & mask & (config.type_vocab_size > 1)
    return {n: v.astype(np.int32) for n, v in zip(_TOKENS, (ids, mask, types), strict=True)}


def outputs_of(signature: str) -> tuple[str, ...]:
    """Return the names of the outputs of a key of `SIGNATURES`."""
    head = PRETRAINING_HEADS.get(signature)
    return (head.output,) if head else ("pooled_output", "sequence_output")


def _signature(module: ExportedModel, name: str):
    specs = [tf.TensorSpec([None, None], tf.int32, given) for given in SIGNATURES[name]]

    @tf.function(autograph=False, input_signature=specs)
    def serve(*given):
        with tf.init_scope():  # not as part of this function
            module.trace()
        found = module(dict(zip(SIGNATURES["mlm"], given, strict=False)))
        return {output: found[output] for output in outputs_of(name)}

    return serve
