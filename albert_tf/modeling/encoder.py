"""AlbertEncoder: embeddings, a transformer whose layers share parameters, and the pooler.

Variable paths are the names of the original project (`bert/encoder/transformer/group_0/...`).
"""

from collections.abc import Callable

import keras
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.modeling.attention import ATTENTION, DEFAULT, ExampleIds
from albert_tf.modeling.kernels import PLAIN, Execution
from albert_tf.modeling.layers import (
    TransformerBlock,
    dense,
    dropout,
    fold_in,
    forward_seed,
    initializer,
    layer_norm,
    select,
)
from albert_tf.modeling.model import ROW_FEATURES, AlbertModel

_DROPOUTS_PER_BLOCK = 3


class AlbertEmbeddings(keras.layers.Layer):
    """Sum of token, position and segment embeddings, normalized, with dropout (paper section 3.1).

    Their width is E, `config.embedding_size` (factorized embedding).
    """

    def __init__(self, config: AlbertConfig, **kwargs):
        super().__init__(**kwargs)
        self.config = config
        self.norm = layer_norm(config, "LayerNorm", self.dtype_policy)

    def build(self, input_shape=None):
        def table(name, rows):
            return self.add_weight(
                name=name,
                shape=(rows, self.config.embedding_size),
                initializer=initializer(self.config.initializer_range),
            )

        self.word_embeddings = table("word_embeddings", self.config.vocab_size)
        self.token_type_embeddings = table("token_type_embeddings", self.config.type_vocab_size)
        self.position_embeddings = table("position_embeddings", self.config.max_position_embeddings)
        self.norm.build((None, None, self.config.embedding_size))

    def call(self, input_ids, segment_ids, seed=None, positions=None):
        """Embed integers `[batch, seq]` as `[batch, seq, embedding_size]`.

        Without `positions` `[batch, seq]`, these are 0, 1, 2, ...
        """
        words = ops.take(self.word_embeddings, input_ids, axis=0)
        # There are few segment ids; a product with one-hot rows has a dense gradient.
        segments = ops.matmul(
            ops.one_hot(segment_ids, self.config.type_vocab_size, dtype=self.compute_dtype),
            self.token_type_embeddings,
        )
        if positions is None:
            length = input_ids.shape[1] or ops.shape(input_ids)[1]
            places = self.position_embeddings[:length]
        else:
            places = ops.take(self.position_embeddings, positions, axis=0)
        embeddings = self.norm(words + segments + places)
        return dropout(embeddings, self.config.hidden_dropout_prob, seed, site=0)


@keras.saving.register_keras_serializable(package="albert_tf")
class AlbertEncoder(AlbertModel):
    """The ALBERT encoder with its pooler (paper section 3.1).

    Args:
        config: shape of the model.
        name: root of the variable paths; the default is the original's.
        attention: how attention is computed: a key of `albert_tf.modeling.attention.ATTENTION`, or
            a function with the signature described there.
        **kwargs: `dtype` ("float32" or "mixed_bfloat16") and other arguments of `keras.Model`.

    Raises:
        InputError: If there is no attention of this name.

    Example:
        >>> config = albert_tf.AlbertConfig(vocab_size=100, hidden_size=32, num_attention_heads=2)
        >>> encoder = albert_tf.AlbertEncoder(config)
        >>> ids, mask = np.array([[2, 14, 9, 3], [2, 14, 3, 0]]), np.array([[1] * 4, [1, 1, 1, 0]])
        >>> outputs = encoder({"input_ids": ids, "input_mask": mask})
        >>> tuple(outputs["sequence_output"].shape), tuple(outputs["pooled_output"].shape)
        ((2, 4, 32), (2, 32))
        >>> len(outputs["encoder_outputs"])
        12
    """

    feature_names = ROW_FEATURES

    def __init__(
        self,
        config: AlbertConfig,
        name: str = "bert",
        attention: str | Callable = DEFAULT,
        **kwargs,
    ):
        super().__init__(config, attention, name=name, **kwargs)
        self.seed_generator = keras.random.SeedGenerator(0, name="dropout_seed")
        policy, stddev = self.dtype_policy, config.initializer_range
        self.embeddings = AlbertEmbeddings(config, name="embeddings", dtype=policy)
        self.projection = None
        if config.embedding_size != config.hidden_size:
            self.projection = dense(
                config.hidden_size, stddev, "embedding_hidden_mapping_in", policy
            )
        # All groups in one list: Keras before 3.15 does not save nested lists of layers.
        self.blocks: list[TransformerBlock] = []
        inner = config.inner_group_num
        for number in range(config.num_hidden_groups * inner):
            first = self.blocks[number % inner] if number >= inner else None
            name = f"inner_group_{number % inner}"
            self.blocks.append(
                TransformerBlock(config, first, self.attention, name=name, dtype=policy)
            )
        self.pooler = dense(config.hidden_size, stddev, "dense", policy)
        self.build()

    def build(self, input_shape=None):
        hidden_shape = (None, None, self.config.hidden_size)
        self.embeddings.build()
        with keras.name_scope("encoder"):
            if self.projection is not None:
                self.projection.build((None, None, self.config.embedding_size))
            for number, block in enumerate(self.blocks):
                group = f"group_{number // self.config.inner_group_num}"
                with keras.name_scope("transformer"), keras.name_scope(group):
                    block.build(hidden_shape)
        with keras.name_scope("pooler"):
            self.pooler.build((None, self.config.hidden_size))

    def call(
        self,
        features,
        training: bool = False,
        output_attentions: bool = False,
        output_embeddings: bool = False,
        output_hidden_states: bool = False,
        execution: Execution = PLAIN,
    ):
        """Encode a batch.

        Args:
            features: dictionary of integers `[batch, seq]`: `input_ids`; `input_mask` (1 for
                tokens, 0 for padding; all ones if absent) and `segment_ids` (zeros if absent).
                `albert_tf.modeling.model.ALIASES` has other names for them, such as
                `attention_mask`. For rows of several examples, instead of `input_mask`,
                `example_ids` (1, 2, ... for tokens, 0 for padding) and `cls_positions`
                `[batch, examples]`, where each begins: positions start again with every example,
                and attention stays within it.
            training: whether dropout is applied.
            output_attentions: whether to return the attention weights of every layer, which are
                computed separately for this purpose.
            output_embeddings: whether to return what enters the first layer.
            output_hidden_states: whether to return the input of the first layer and the outputs
                of all layers as one list, as Hugging Face transformers does.
            execution: how an engine wants the layers executed.

        Returns:
            Dictionary in the model's compute dtype:

            - `sequence_output` `[batch, seq, hidden]`, the output of the last layer;
            - `pooled_output` `[batch, hidden]`, computed from the position of `[CLS]`; of rows
              `[batch, examples, hidden]`;
            - `encoder_outputs`, the list of the outputs `[batch, seq, hidden]` of all layers;
            - with `output_attentions`, `attentions`: the list of the weights
              `[batch, heads, seq, seq]` of all layers, before dropout;
            - with `output_embeddings`, `embedding_output` `[batch, seq, embedding_size]` and
              `projected_embeddings` `[batch, seq, hidden]`, the input of the first layer;
            - with `output_hidden_states`, `hidden_states`: the list of `projected_embeddings` and
              of all `encoder_outputs`.

        Raises:
            InputError: If a feature is missing or unknown, or its shape, dtype or values are
                invalid; with `output_attentions`, if attention is computed by a function that is
                not in the table `ATTENTION`, since its weights are unknown.
        """
        seed = forward_seed(self.seed_generator) if training else None
        attention_mask = attention_mask_of(features)
        embeddings = self._embed(features, seed)
        projected = hidden = self._project(embeddings)
        encoder_outputs = []
        for depth, layer in enumerate(execution.layer_calls(self.depth_blocks)):
            hidden = layer(hidden, attention_mask, seed=_layer_seed(seed, depth))
            encoder_outputs.append(hidden)
        outputs = {
            "sequence_output": hidden,
            "pooled_output": self._pool(_at_cls(hidden, features)),
            "encoder_outputs": encoder_outputs,
        }
        if output_embeddings:
            outputs |= {"embedding_output": embeddings, "projected_embeddings": projected}
        if output_hidden_states:
            outputs["hidden_states"] = [projected, *encoder_outputs]
        if output_attentions:
            layer_inputs = [projected, *encoder_outputs[:-1]]
            outputs["attentions"] = self._attentions(layer_inputs, attention_mask)
        return outputs

    def encode_at(self, features, positions, training: bool = False, execution: Execution = PLAIN):
        """Encode a batch for heads that read a few positions only.

        The last layer computes its output at these positions and at `[CLS]`, and nowhere else. A
        pretraining head reads 15 % of the positions, so this saves 6 % of a training step of base.

        Args:
            features: those of `call`, as of which are the other arguments.
            positions: integers `[batch, n]`; n may be 0.

        Returns:
            Dictionary of `sequence_output` `[batch, n, hidden]` at `positions`, and
            `pooled_output` `[batch, hidden]`, or of rows `[batch, examples, hidden]`.
        """
        features = self._read(features)
        seed = forward_seed(self.seed_generator) if training else None
        attention_mask = attention_mask_of(features)
        hidden = self._project(self._embed(features, seed))
        *layers, last_layer = execution.layer_calls(self.depth_blocks)
        for depth, layer in enumerate(layers):
            hidden = layer(hidden, attention_mask, seed=_layer_seed(seed, depth))
        begins = features.get("cls_positions")
        if begins is None:
            examples, positions = 1, ops.pad(positions, [[0, 0], [1, 0]])
        else:
            examples = begins.shape[1] or ops.shape(begins)[1]
            positions = ops.concatenate([begins, positions], axis=1)
            numbers = ops.take_along_axis(features["example_ids"], positions, axis=1)
            attention_mask = ExampleIds(numbers, attention_mask.keys)
        last_seed = _layer_seed(seed, len(layers))
        hidden = last_layer(hidden, attention_mask, positions=positions, seed=last_seed)
        pooled = self._pool(hidden[:, 0] if begins is None else hidden[:, :examples])
        return {"sequence_output": hidden[:, examples:], "pooled_output": pooled}

    @property
    def depth_blocks(self) -> list[TransformerBlock]:
        """The blocks in the order in which they are used, as often as they are used."""
        inner = self.config.inner_group_num
        repeats = self.config.num_hidden_layers // self.config.num_hidden_groups
        groups = [self.blocks[i : i + inner] for i in range(0, len(self.blocks), inner)]
        return [block for group in groups for _ in range(repeats) for block in group]

    def _embed(self, features, seed):
        input_ids, segment_ids = features["input_ids"], features.get("segment_ids")
        if segment_ids is None or self.config.type_vocab_size == 1:  # there is nothing to choose
            segment_ids = ops.zeros_like(input_ids)
        return self.embeddings(input_ids, segment_ids, seed, _positions(features))

    def _project(self, embeddings):
        return embeddings if self.projection is None else self.projection(embeddings)

    def _pool(self, at_cls):
        return ops.tanh(self.pooler(at_cls))

    def _attentions(self, layer_inputs, attention_mask):
        if self.attention not in ATTENTION:
            raise InputError(
                f"`output_attentions`=True: not available with `attention`={self.attention!r}, "
                f"only with one of {', '.join(ATTENTION)}"
            )
        return [
            block.attention.weights_of(hidden, attention_mask)
            for block, hidden in zip(self.depth_blocks, layer_inputs, strict=True)
        ]


def _at_cls(hidden, features):
    begins = features.get("cls_positions")
    return hidden[:, 0] if begins is None else select(hidden, begins)


def _positions(features):
    """Return the positions `[batch, seq]` of tokens in the examples of rows; None without rows."""
    numbers, begins = features.get("example_ids"), features.get("cls_positions")
    if numbers is None:
        return None
    begin = ops.take_along_axis(begins, ops.maximum(numbers - 1, 0), axis=1)
    length = numbers.shape[1] or ops.shape(numbers)[1]
    places = ops.arange(length, dtype=begin.dtype) - begin
    return ops.where(numbers > 0, places, 0)


def attention_mask_of(features):
    """Return the attention mask of the features of an encoder, as attention functions take it."""
    if (numbers := features.get("example_ids")) is not None:
        return ExampleIds(numbers, numbers)
    mask = features.get("input_mask")
    return ops.ones_like(features["input_ids"]) if mask is None else mask


def _layer_seed(seed, depth: int):
    # Site 0 is the dropout of the embeddings.
    return fold_in(seed, 1 + _DROPOUTS_PER_BLOCK * depth)
