"""The models. Importing the package registers all of them with Keras."""

from albert_tf.modeling import encoder, heads, question_answering

__all__ = ["encoder", "heads", "question_answering"]
