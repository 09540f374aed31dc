"""SavedModels of a trained model, with its vocabulary, that load without this package."""

from __future__ import annotations

import os
import tempfile

import keras
import tensorflow as tf

from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, replacing, tensorflow_errors_as_os_errors, write_text
from albert_tf.interop.formats import load_weights, open_weights
from albert_tf.interop.models import head_of
from albert_tf.interop.options import ExportOptions
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.tokenization import Tokenizer

_IDS = tf.TensorSpec([None, None], tf.int32)


class ExportedEncoder(tf.Module):
    """An encoder with the interface of the text encoders that TF-Hub publishes.

    Called on a dictionary of `input_word_ids`, `input_mask` and `input_type_ids` `[batch, seq]`
    int32, it returns `pooled_output` and `default` `[batch, hidden]`, `sequence_output`
    `[batch, seq, hidden]` and the list `encoder_outputs`.

    Args:
        model: the encoder, or the pretraining model for `mlm` and `sop` as well.
        config_file: kept as an asset.
        vocabulary_file: kept as an asset.
        do_lower_case: kept as a variable, for whoever tokenizes.
    """

    def __init__(
        self, model: keras.Model, config_file: str, vocabulary_file: str, do_lower_case: bool
    ):
        super().__init__(name="albert")
        # Not tracked: a model of Keras would have every weight saved a second time.
        object.__setattr__(self, "_model", model)
        object.__setattr__(self, "_encoder", getattr(model, "encoder", model))
        # Keys of the weights as in training checkpoints, so that an export can be read as one.
        self.params = {weight.path: weight.value for weight in model.weights}
        self.dropout_state = self._encoder.seed_generator.state.value
        self.albert_config_file = tf.saved_model.Asset(config_file)
        self.vocab_file = tf.saved_model.Asset(vocabulary_file)
        self.do_lower_case = tf.Variable(do_lower_case, trainable=False)

    @tf.function
    def __call__(self, inputs, training=False):
        outputs = self._encoder(_features(**inputs), training=training)
        return {**outputs, "default": outputs["pooled_output"]}

    def signatures(self) -> dict:
        """Serving signatures on token ids, by name.

        `serving_default`, and `tokens` with the original's names of inputs, give `pooled_output`
        and `sequence_output`. A pretraining model adds `mlm` (with `masked_lm_positions`
        `[batch, predictions]`, gives `mlm_logits`) and `sop` (gives `sop_logits`).
        """

        @tf.function(input_signature=[_IDS, _IDS, _IDS])
        def serving_default(input_word_ids, input_mask, input_type_ids):
            outputs = self._encoder(_features(input_word_ids, input_mask, input_type_ids))
            return {name: outputs[name] for name in ("pooled_output", "sequence_output")}

        @tf.function(input_signature=[_IDS, _IDS, _IDS])
        def tokens(input_ids, input_mask, segment_ids):
            return serving_default(input_ids, input_mask, segment_ids)

        if not isinstance(self._model, AlbertForPreTraining):
            return {"serving_default": serving_default, "tokens": tokens}

        @tf.function(input_signature=[_IDS, _IDS, _IDS, _IDS])
        def mlm(input_word_ids, input_mask, input_type_ids, masked_lm_positions):
            features = _features(input_word_ids, input_mask, input_type_ids)
            outputs = self._model({**features, "masked_lm_positions": masked_lm_positions})
            return {"mlm_logits": outputs["masked_lm_logits"]}

        @tf.function(input_signature=[_IDS, _IDS, _IDS])
        def sop(input_word_ids, input_mask, input_type_ids):
            outputs = self._model(_features(input_word_ids, input_mask, input_type_ids))
            return {"sop_logits": outputs["sentence_order_logits"]}

        return {"serving_default": serving_default, "tokens": tokens, "mlm": mlm, "sop": sop}


def _features(input_word_ids, input_mask, input_type_ids) -> dict:
    return {
        "input_ids": input_word_ids,
        "input_mask": input_mask,
        "segment_ids": input_type_ids,
    }


def export_saved_model(options: ExportOptions) -> None:
    """Writes a SavedModel of a checkpoint's encoder, and of its pretraining heads if it has them.

    Raises:
        InputError: the folder exists, or checkpoint, config and vocabulary do not fit together.
    """
    if exists(options.export_path):
        raise InputError(
            f"--export_path={options.export_path}: exists already; remove it or name another folder"
        )
    weights = open_weights(options.init_checkpoint, config=_config_of_flag(options))
    config = _config_of_flag(options) or weights.config
    if config is None:
        raise InputError(
            f"--init_checkpoint={options.init_checkpoint}: has no {CONFIG_FILE} beside it; name it "
            "with --albert_config_file"
        )
    tokenizer = Tokenizer.load(options.spm_model_file, options.do_lower_case)
    config.check_vocabulary(tokenizer.vocab_size, options.spm_model_file)

    pretrained = head_of(weights.tensors) == "pretraining"
    model = AlbertForPreTraining(config) if pretrained else AlbertEncoder(config)
    matched = load_weights(model, options.init_checkpoint)
    print(f"{matched.source}: {len(matched.loaded)} of {len(model.weights)} variables loaded")

    with tempfile.TemporaryDirectory() as folder:
        config_file = os.path.join(folder, CONFIG_FILE)
        write_text(config_file, config.to_json())
        module = ExportedEncoder(
            model, config_file, options.spm_model_file, do_lower_case=options.do_lower_case
        )
        inputs = dict.fromkeys(("input_word_ids", "input_mask", "input_type_ids"), _IDS)
        for training in (False, True):
            module.__call__.get_concrete_function(inputs, training=training)
        with replacing(options.export_path) as partial, tensorflow_errors_as_os_errors():
            tf.saved_model.save(module, partial, signatures=module.signatures())
    print(f"{options.export_path}: signatures {', '.join(sorted(module.signatures()))}")


def _config_of_flag(options: ExportOptions) -> AlbertConfig | None:
    path = options.albert_config_file
    return AlbertConfig.from_json_file(path) if path else None
