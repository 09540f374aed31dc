"""Opens what is analyzed."""

from __future__ import annotations

import keras

from albert_tf.analysis.analysis_options import ModelOptions
from albert_tf.errors import arguments_renamed
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.text_models.base import create_with_weights
from albert_tf.text_models.presets import Preset, open_preset


def open_model(name: str, options: ModelOptions) -> Preset:
    """Open weights by name; they are not read yet.

    Raises:
        InputError: If the weights cannot be fetched or read, or come without config or vocabulary.
    """
    with arguments_renamed(name="model", vocabulary="spm_model_file"):
        return open_preset(name, options.spm_model_file, options.do_lower_case)


def create_encoder(preset: Preset) -> keras.Model:
    """Return the encoder of opened weights, in float32.

    Raises:
        InputError: If weights of the encoder are missing.
    """
    with arguments_renamed(name="model"):
        encoder, _ = create_with_weights(lambda: AlbertEncoder(preset.config), preset, seed=0)
    return encoder
