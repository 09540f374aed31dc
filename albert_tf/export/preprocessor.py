"""Turns strings into the inputs of an encoder, with the interface of TF-Hub's preprocessors.

preprocess = tf.saved_model.load("export/preprocess")
preprocess(tf.constant(["The cat sat."]))               # input_word_ids, input_mask, ...

tokens = [preprocess.tokenize(questions), preprocess.tokenize(answers)]
preprocess.bert_pack_inputs(tokens, seq_length=64)
"""

from collections.abc import Sequence

import tensorflow as tf

from albert_tf.export.graph_packing import packed, truncate
from albert_tf.export.graph_tokenizers import GraphTokenizer
from albert_tf.tokenizers.packing import truncated_lengths

TEXTS = tf.TensorSpec([None], tf.string, "inputs")

# Feature of our models -> name of that input of TF-Hub encoders.
HUB_NAMES = {
    "input_ids": "input_word_ids",
    "input_mask": "input_mask",
    "segment_ids": "input_type_ids",
}


class _Tokenize(tf.Module):
    """Maps strings `[batch]` to int32 ids `[batch, (tokens)]` or `[batch, (words), (pieces)]`."""

    def __init__(self, tokenizer: GraphTokenizer):
        super().__init__(name="tokenize")
        self.tokenizer = tokenizer

    @tf.function(input_signature=[TEXTS], autograph=False)
    def __call__(self, inputs):
        return self.tokenizer.tokenize(inputs)

    @tf.function(input_signature=[], autograph=False)
    def get_special_tokens_dict(self):
        """Return the ids of the special symbols and the vocabulary size, as int32 scalars."""
        tokenizer = self.tokenizer
        numbers = {
            "vocab_size": tokenizer.vocab_size,
            "padding_id": tokenizer.pad_id,
            "start_of_sequence_id": tokenizer.cls_id,
            "end_of_segment_id": tokenizer.sep_id,
            "mask_id": tokenizer.mask_id,
        }
        return {name: tf.constant(number, tf.int32) for name, number in numbers.items()}


class _PackInputs(tf.Module):
    """Packs the ids of one or two texts into the inputs of an encoder."""

    def __init__(self, tokenizer: GraphTokenizer, seq_length: int):
        super().__init__(name="bert_pack_inputs")
        self._symbols = tokenizer.symbols
        self._seq_length = seq_length

    @tf.function(autograph=False)
    def __call__(self, inputs, seq_length=None):
        """Pack a batch. Texts that are too long are truncated at the end, the longer one first.

        `inputs` is a list of one or two int32 RaggedTensors, as `tokenize` returns them;
        `seq_length` the length in tokens, including special symbols, by default that of the
        preprocessor. Returned are `input_word_ids`, `input_mask`, `input_type_ids`, int32 `[batch,
        seq_length]`.
        """
        segments = [ids.merge_dims(1, -1) if ids.ragged_rank > 1 else ids for ids in inputs]
        static = self._seq_length if seq_length is None else None
        packed = self._packed(segments, tf.cast(seq_length if static is None else static, tf.int32))
        return {name: tf.ensure_shape(ids, [None, static]) for name, ids in packed.items()}

    @tf.function(autograph=False)
    def _packed(self, segments, seq_length):
        """Pack ids `[batch, (tokens)]`: traced once for one and two texts, whatever the call."""
        return pack(segments, self._symbols, seq_length)

    def trace(self) -> None:
        """Trace every kind of call, since a SavedModel contains only traced functions."""
        for rank in (1, 2):
            ids = tf.RaggedTensorSpec([None] * (rank + 1), tf.int32, rank)
            for count in (1, 2):
                for length in (None, tf.TensorSpec([], tf.int32, "seq_length")):
                    self.__call__.get_concrete_function([ids] * count, seq_length=length)


class PreprocessorExport(tf.Module):
    """Maps strings `[batch]` to the inputs of an encoder.

    These are `input_word_ids`, `input_mask` and `input_type_ids`, int32 `[batch, seq_length]`,
    special symbols included. The vocabulary and its `tokenizer_config.json` are saved as assets,
    and `do_lower_case` as a variable, for tokenizers outside the graph.

    Attributes:
        tokenize: maps strings to ids; `tokenize.get_special_tokens_dict()` returns the special ids.
        bert_pack_inputs: maps lists of ids to the inputs of the encoder.
    """

    def __init__(
        self, tokenizer: GraphTokenizer, files: Sequence[str], do_lower_case: bool, seq_length: int
    ):
        super().__init__(name="preprocess")
        self.tokenize = _Tokenize(tokenizer)
        self.bert_pack_inputs = _PackInputs(tokenizer, seq_length)
        self.files = [tf.saved_model.Asset(file) for file in files]
        self.do_lower_case = tf.Variable(do_lower_case, trainable=False)

    @tf.function(input_signature=[TEXTS], autograph=False)
    def __call__(self, inputs):
        # Here and not before, since `tf.saved_model.save` traces again whatever was traced before.
        with tf.init_scope():
            self.bert_pack_inputs.trace()
        return self.bert_pack_inputs([self.tokenize(inputs)])


def pack(
    segments: Sequence[tf.RaggedTensor], symbols, seq_length: int | tf.Tensor
) -> dict[str, tf.Tensor]:
    """Pack a batch of one or two segments to `seq_length` tokens, as `_PackInputs` does."""
    room = tf.maximum(tf.cast(seq_length, tf.int64) - len(segments) - 1, 0)
    lengths: Sequence[tf.Tensor] = [room]
    if len(segments) == 2:
        first, second = (part.row_lengths() for part in segments)
        lengths = truncated_lengths(first, second, room, tf)
    parts = [truncate(part, length) for part, length in zip(segments, lengths, strict=True)]
    features = packed(parts[0], parts[1] if len(parts) == 2 else None, symbols)
    padding = {"input_ids": symbols.pad}
    static = None if tf.is_tensor(seq_length) else seq_length
    inputs = {}
    for name, values in features.items():
        missing = tf.maximum(seq_length - tf.shape(values)[1], 0)
        values = tf.pad(values, [[0, 0], [0, missing]], constant_values=padding.get(name, 0))
        inputs[HUB_NAMES[name]] = tf.ensure_shape(values[:, :seq_length], [None, static])
    return inputs
