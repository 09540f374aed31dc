"""Packs token ids into the inputs of a model, inside a TensorFlow graph.

A `PreprocessorExport` turns strings into them, with the interface of TF-Hub's preprocessors.

preprocess = tf.saved_model.load("export/preprocess")
preprocess(tf.constant(["The cat sat."]))               # input_word_ids, input_mask, ...

tokens = [preprocess.tokenize(questions), preprocess.tokenize(answers)]
preprocess.bert_pack_inputs(tokens, seq_length=64)
"""

from collections.abc import Callable, Sequence

import tensorflow as tf

from albert_tf.export.graph_tokenizers import GraphTokenizer, Symbols
from albert_tf.tokenizers.packing import truncated_lengths

TEXTS = tf.TensorSpec([None], tf.string, "inputs")

# Feature of our models -> name of that input of TF-Hub encoders.
HUB_NAMES = {
    "input_ids": "input_word_ids",
    "input_mask": "input_mask",
    "segment_ids": "input_type_ids",
}


def slices(tokens: tf.RaggedTensor, rows, first, length) -> tf.RaggedTensor:
    """Slice rows of a ragged tensor `[texts, (tokens)]` into parts `[parts, (tokens)]`.

    Each is of a row and has the index of its first token in it and a length, int64 `[parts]`.
    """
    begin = tf.gather(tokens.row_starts(), rows) + first
    positions = tf.ragged.range(begin, begin + length)
    return positions.with_flat_values(tf.gather(tokens.flat_values, positions.flat_values))


def truncate(tokens: tf.RaggedTensor, length, from_end: bool = False) -> tf.RaggedTensor:
    """Truncate each row to its first, or last, `length` tokens, a scalar or int64 `[texts]`."""
    available = tokens.row_lengths()
    length = tf.minimum(available, tf.cast(length, tf.int64))
    first = available - length if from_end else tf.zeros_like(available)
    return slices(tokens, tf.range(tokens.nrows()), first, length)


def keep_ends(tokens: tf.RaggedTensor, length) -> tf.RaggedTensor:
    """Compute `albert_tf.tokenizers.packing.keep_ends` of each row."""
    length = tf.minimum(tokens.row_lengths(), tf.cast(length, tf.int64))
    first = (length + 3) // 4
    ends = [truncate(tokens, first), truncate(tokens, length - first, from_end=True)]
    return tf.concat(ends, axis=1)


def shortened(
    segments: Sequence[tf.RaggedTensor], seq_length: int | tf.Tensor, shorten: Callable = truncate
) -> list[tf.RaggedTensor]:
    """Make one or two segments fit into a length with their special symbols, the longer one first.

    These are texts `[texts, (tokens)]`, or the first and second ones of pairs. `shorten` is
    `truncate` or `keep_ends`.
    """
    room = tf.maximum(tf.cast(seq_length, tf.int64) - len(segments) - 1, 0)
    lengths: Sequence[tf.Tensor] = [room]
    if len(segments) == 2:
        first, second = (part.row_lengths() for part in segments)
        lengths = truncated_lengths(first, second, room, tf)
    return [shorten(part, length) for part, length in zip(segments, lengths, strict=True)]


def windows(tokens: tf.RaggedTensor, room: int) -> tuple[tf.Tensor, tf.Tensor, tf.RaggedTensor]:
    """Split texts `[texts, (tokens)]` as `albert_tf.tokenizers.packing.window_starts` says.

    Returns:
        The text of each window and its first token, int64 `[windows]`; and the tokens of each.
    """
    step = max(room // 2, 1)
    lengths = tokens.row_lengths()
    last = tf.maximum(lengths - room, 0)
    counts = (last + step - 1) // step + 1
    text = tf.repeat(tf.range(tokens.nrows()), counts)
    start = tf.minimum(tf.ragged.range(counts).flat_values * step, tf.gather(last, text))
    length = tf.minimum(tf.gather(lengths, text) - start, room)
    return text, start, slices(tokens, text, start, length)


def packed(
    first: tf.RaggedTensor, second: tf.RaggedTensor | None, symbols: Symbols
) -> dict[str, tf.Tensor]:
    """Pack `[CLS] first [SEP]` or `[CLS] first [SEP] second [SEP]`, padded to the longest.

    The texts are int32 `[texts, (tokens)]`, the features int32 `[texts, seq]`.
    """

    def column(id: int) -> tf.RaggedTensor:
        return tf.RaggedTensor.from_tensor(tf.fill([first.nrows(), 1], id))

    parts = [column(symbols.cls), first, column(symbols.sep)]
    second_parts = [] if second is None else [second, column(symbols.sep)]
    ids = tf.concat([*parts, *second_parts], axis=1)
    segments = [tf.zeros_like(part) for part in parts] + [tf.ones_like(p) for p in second_parts]
    return {
        "input_ids": ids.to_tensor(symbols.pad),
        "input_mask": tf.ones_like(ids).to_tensor(0),
        "segment_ids": tf.concat(segments, axis=1).to_tensor(0),
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
    parts = shortened(segments, seq_length)
    features = packed(parts[0], parts[1] if len(parts) == 2 else None, symbols)
    padding = {"input_ids": symbols.pad}
    static = None if tf.is_tensor(seq_length) else seq_length
    inputs = {}
    for name, values in features.items():
        missing = tf.maximum(seq_length - tf.shape(values)[1], 0)
        values = tf.pad(values, [[0, 0], [0, missing]], constant_values=padding.get(name, 0))
        inputs[HUB_NAMES[name]] = tf.ensure_shape(values[:, :seq_length], [None, static])
    return inputs
