"""A folder in place of published weights, which examples and notebooks load by name."""

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.interop.adjacent_files import AdjacentFiles
from albert_tf.interop.convert import write_model
from albert_tf.interop.converted_model import ConvertedModel
from albert_tf.interop.heads import create_model
from albert_tf.tokenizers import Tokenizer
from albert_tf.weights import Weights
from tests.conftest import GOLDEN

NAME = "albert/albert-base-v2"


def write_published(folder: str) -> None:
    """Write a Hugging Face folder with a shallow model of base's width."""
    tokenizer = Tokenizer.load(str(GOLDEN / "own_text" / "vocabulary.model"))
    config = AlbertConfig.preset(
        "base", vocab_size=tokenizer.vocab_size, num_hidden_layers=1, intermediate_size=64
    )
    model = create_model("pretraining", config, {})
    values = {weight.path: np.asarray(weight) for weight in model.weights}
    source = Weights("albert_tf", folder, {}, config)
    converted = ConvertedModel("pretraining", config, values, tokenizer, AdjacentFiles(), source)
    write_model(folder, converted, "huggingface")
