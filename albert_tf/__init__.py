"""ALBERT (A Lite BERT, arXiv 1909.11942) for TensorFlow and Keras 3.

The public names are loaded when first used: `import albert_tf` alone loads neither TensorFlow nor
Keras.
"""

import importlib

_PUBLIC = {
    "AlbertConfig": "albert_tf.config",
    "AlbertEncoder": "albert_tf.modeling.encoder",
    "AlbertForPreTraining": "albert_tf.modeling.heads",
    "AlbertForSequenceClassification": "albert_tf.modeling.heads",
    "AlbertForQuestionAnswering": "albert_tf.modeling.heads",
    "AlbertForConditionalQuestionAnswering": "albert_tf.modeling.question_answering",
    "AlbertForMultipleChoice": "albert_tf.modeling.heads",
    "Lamb": "albert_tf.optimization.lamb",
    "AdamW": "albert_tf.optimization.adamw",
    "Tokenizer": "albert_tf.tokenizers",
    "load_weights": "albert_tf.interop.formats",
}

__all__ = sorted(_PUBLIC)


def __getattr__(name: str):
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__():
    return __all__
