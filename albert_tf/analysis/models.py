"""Opens what is analyzed."""

import os

import keras

from albert_tf.analysis.analysis_options import ModelOptions
from albert_tf.config import CONFIG_FILE
from albert_tf.configs import model_configs
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists
from albert_tf.interop.loading import Preset, open_preset
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.text_models.base import create_with_weights


def weights_of(name: str) -> str:
    """Return the name of the weights of a model: those next to a config, if that is named.

    Raises:
        InputError: If the name is that of a config that comes without weights.
    """
    if os.path.basename(name) in (CONFIG_FILE, "config.json"):
        return os.path.dirname(name) or "."
    if name in model_configs() and not exists(name):
        raise InputError(f"`model`={name}: is a config without weights; must be a model with them")
    return name


def open_model(name: str, options: ModelOptions) -> Preset:
    """Open weights by name, as `open_preset`; they are not read yet."""
    with arguments_renamed(name="model", vocabulary="spm_model_file"):
        return open_preset(weights_of(name), options.spm_model_file, options.do_lower_case)


def create_encoder(preset: Preset) -> keras.Model:
    """Return the encoder of opened weights, in float32."""
    with arguments_renamed(name="model"):
        encoder, _ = create_with_weights(lambda: AlbertEncoder(preset.config), preset, seed=0)
    return encoder
