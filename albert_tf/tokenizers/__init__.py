"""Text to subword ids. `Tokenizer.load` chooses among the classes that are imported here."""

from albert_tf.tokenizers.base import Tokenizer
from albert_tf.tokenizers.sentencepiece import SentencePieceTokenizer
from albert_tf.tokenizers.wordpiece import WordPieceTokenizer

__all__ = ["SentencePieceTokenizer", "Tokenizer", "WordPieceTokenizer"]
