"""An encoder with the interface of the text encoders that TF-Hub publishes.

encoder = tf.saved_model.load("export/encoder")
encoder(preprocess(texts))["pooled_output"]             # [batch, hidden]
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import keras
import tensorflow as tf

# Signature -> the inputs it names, in the model's order: ids, mask, segments, masked positions.
_TOKENS = ("input_word_ids", "input_mask", "input_type_ids")
SIGNATURES = {
    "serving_default": _TOKENS,
    "tokens": ("input_ids", "input_mask", "segment_ids"),  # as the original's modules
    "mlm": (*_TOKENS, "masked_lm_positions"),
    "sop": _TOKENS,
}


class Head(NamedTuple):
    """A head of a pretraining model.

    Attributes:
        output: what it gives.
        name: what the model calls that.
        scope: what the paths of its weights begin with.
    """

    output: str
    name: str
    scope: str


HEADS = {
    "mlm": Head("mlm_logits", "masked_lm_logits", "cls/predictions/"),
    "sop": Head("sop_logits", "sentence_order_logits", "cls/seq_relationship/"),
}


class ExportedModel(tf.Module):
    """A model that is called on a dictionary of inputs and can go on training.

    Args:
        model: an encoder, or a model with one inside.
        weights: its weights that count as trainable here.
        inputs: names of the inputs, those of `_TOKENS` first.
        outputs: name here -> name in the model, of outputs beside the encoder's.

    Attributes:
        variables, trainable_variables: lists of all weights.
        regularization_losses: none.
    """

    # In place of properties of tf.Module, which would not be there once it is loaded.
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
        # Not tracked: a model of Keras would have every weight saved a second time.
        object.__setattr__(self, "_model", model)
        object.__setattr__(self, "_inputs", inputs)
        object.__setattr__(self, "_outputs", outputs or {})
        # What the functions read, for who keeps only a member of what was loaded.
        encoder = getattr(model, "encoder", model)
        self.dropout_state = encoder.seed_generator.state.value
        self.model_variables = [weight.value for weight in model.weights]
        self.regularization_losses = []
        self.trainable_variables = [weight.value for weight in weights if weight.trainable]
        self.variables = [weight.value for weight in weights]

    @tf.function(autograph=False)
    def __call__(self, inputs, training=False):
        """Outputs of a batch.

        Args:
            inputs: `input_word_ids`, `input_mask`, `input_type_ids`, int32 `[batch, seq]`, and
                `masked_lm_positions` `[batch, predictions]` where they are asked for.
            training: whether dropout acts.

        Returns:
            `pooled_output` and `default` `[batch, hidden]`, `sequence_output`
            `[batch, seq, hidden]`, the list `encoder_outputs`, with the output of every layer, and
            the logits of the head, if it is called with one.
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
        """Traces inference and training, for any batch and length."""
        inputs = {name: tf.TensorSpec([None, None], tf.int32, name) for name in self._inputs}
        for training in (False, True):
            self.__call__.get_concrete_function(inputs, training=training)


class ExportedEncoder(ExportedModel):
    """An encoder and, of a pretraining model, its heads.

    Args:
        model: the encoder, or the pretraining model.
        config_file: kept as an asset.
        vocabulary_files: kept as assets, the one of the tokenizer first.
        do_lower_case: kept as a variable, for whoever tokenizes.
        heads: of "mlm" and "sop" those that the model has.

    Attributes:
        mlm: of a pretraining model: the same with `masked_lm_positions` and `mlm_logits`
            `[batch, predictions, vocab]`.
        sop: of a pretraining model: the same with `sop_logits` `[batch, 2]`, 1 = swapped.
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
        # First of all, for the keys of the weights to be those of training checkpoints, so that an
        # export can be read as one.
        self.params = {weight.path: weight.value for weight in model.weights}
        super().__init__(encoder, encoder.weights)
        object.__setattr__(self, "_heads", tuple(heads))
        for name in heads:
            head = HEADS[name]
            weights = [w for w in model.weights if w.path.startswith(("bert/", head.scope))]
            outputs = {head.output: head.name}
            setattr(self, name, ExportedModel(model, weights, SIGNATURES[name], outputs))
        self.albert_config_file = tf.saved_model.Asset(config_file)
        self.vocab_file, *others = map(tf.saved_model.Asset, vocabulary_files)
        self.vocab_lists = others
        self.do_lower_case = tf.Variable(do_lower_case, trainable=False)

    def trace(self) -> None:
        super().trace()
        for name in self._heads:
            getattr(self, name).trace()

    def signatures(self) -> dict:
        """Serving signatures on token ids, by name; see `SIGNATURES` for their inputs.

        `serving_default`, and `tokens`, give `pooled_output` and `sequence_output`; `mlm` and
        `sop`, of a pretraining model, the logits alone.
        """
        of_encoder = ("pooled_output", "sequence_output")
        names = [name for name in SIGNATURES if name not in HEADS]
        signatures = {name: _signature(self, name, of_encoder) for name in names}
        for name in self._heads:
            signatures[name] = _signature(getattr(self, name), name, (HEADS[name].output,))
        return signatures


def features(input_word_ids, input_mask, input_type_ids, masked_lm_positions=None) -> dict:
    """What the models of this project take, from what encoders at TF-Hub take."""
    named = {"input_ids": input_word_ids, "input_mask": input_mask, "segment_ids": input_type_ids}
    if masked_lm_positions is not None:
        named["masked_lm_positions"] = masked_lm_positions
    return named


def _signature(module: ExportedModel, name: str, outputs: Sequence[str]):
    names = SIGNATURES[name]
    specs = [tf.TensorSpec([None, None], tf.int32, given) for given in names]

    def serve(*given):
        found = module(dict(zip(SIGNATURES["mlm"], given, strict=False)))
        return {output: found[output] for output in outputs}

    return tf.function(serve, autograph=False).get_concrete_function(*specs)
