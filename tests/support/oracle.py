"""The forward pass of ALBERT in NumPy and float64, written from the paper (arXiv 1909.11942).

As slow and as plain as it gets: one sequence and one attention head at a time. Weights are a
dictionary by the original's variable names.
"""

import math

import numpy as np

from albert_tf.config import AlbertConfig

ACTIVATIONS = {
    "gelu": lambda x: x * 0.5 * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))),
    "gelu_exact": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "relu": lambda x: np.where(x > 0, x, 0.0),
}


def random_weights(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, np.ndarray]:
    """Return float32 weights of a size that lets every part of the model show in its outputs."""
    random = np.random.default_rng(seed)
    weights = {}
    for name, shape in shapes.items():
        scale = 1 / math.sqrt(shape[0]) if name.endswith("kernel") else 0.3
        values = random.normal(0.0, scale, shape) + name.endswith("gamma")
        weights[name] = values.astype("float32")
    return weights


class Oracle:
    """A model with given weights.

    Args:
        config: shape of the model.
        weights: by variable name, of any float type.
    """

    def __init__(self, config: AlbertConfig, weights: dict[str, np.ndarray]):
        self.config = config
        self.weights = {name: np.asarray(value, "float64") for name, value in weights.items()}
        self.activation = ACTIVATIONS[config.hidden_act]
        # Of every layer computed so far, [heads, seq, seq].
        self.attentions: list[np.ndarray] = []

    def dense(self, name, x):
        return x @ self.weights[f"{name}/kernel"] + self.weights[f"{name}/bias"]

    def norm(self, name, x):
        centered = x - x.mean(-1, keepdims=True)
        deviation = np.sqrt((centered**2).mean(-1, keepdims=True) + 1e-12)
        return centered / deviation * self.weights[f"{name}/gamma"] + self.weights[f"{name}/beta"]

    def linear_head(self, scope, x):
        """Return logits of a head that stores its weights `[labels, hidden]`."""
        return x @ self.weights[f"{scope}/output_weights"].T + self.weights[f"{scope}/output_bias"]

    def embed(self, ids, segments):
        tables = [
            self.weights[f"bert/embeddings/{kind}_embeddings"]
            for kind in ("word", "token_type", "position")
        ]
        total = tables[0][ids] + tables[1][segments] + tables[2][: len(ids)]
        return self.norm("bert/embeddings/LayerNorm", total)

    def attend(self, scope, x, mask):
        query, key, value = (self.dense(f"{scope}/self/{n}", x) for n in ("query", "key", "value"))
        width = x.shape[-1] // self.config.num_attention_heads
        heads, weights = [], []
        for start in range(0, x.shape[-1], width):
            columns = slice(start, start + width)
            scores = query[:, columns] @ key[:, columns].T / math.sqrt(width)
            scores = scores + (1.0 - mask) * -10000.0
            powers = np.exp(scores - scores.max(-1, keepdims=True))
            weights.append(powers / powers.sum(-1, keepdims=True))
            heads.append(weights[-1] @ value[:, columns])
        self.attentions.append(np.stack(weights))
        return self.dense(f"{scope}/output/dense", np.concatenate(heads, axis=-1))

    def block(self, group, inner, x, mask):
        shared = self.config.parameter_sharing
        own = f"bert/encoder/transformer/group_{group}/inner_group_{inner}"
        first = f"bert/encoder/transformer/group_0/inner_group_{inner}"
        scope = first if shared == "attention" else own
        x = self.norm(f"{scope}/LayerNorm", x + self.attend(f"{scope}/attention_1", x, mask))
        scope = first if shared == "ffn" else own
        fed = self.activation(self.dense(f"{scope}/ffn_1/intermediate/dense", x))
        fed = self.dense(f"{scope}/ffn_1/intermediate/output/dense", fed)
        return self.norm(f"{scope}/LayerNorm_1", x + fed)

    def encode(self, ids, mask, segments):
        """Return the outputs `[seq, hidden]` of every block for `[seq]` features."""
        x = self.embed(ids, segments)
        if "bert/encoder/embedding_hidden_mapping_in/kernel" in self.weights:
            x = self.dense("bert/encoder/embedding_hidden_mapping_in", x)
        layers, groups = self.config.num_hidden_layers, self.config.num_hidden_groups
        outputs = []
        for group in range(groups):
            for _ in range(layers // groups):
                for inner in range(self.config.inner_group_num):
                    x = self.block(group, inner, x, np.float64(mask))
                    outputs.append(x)
        return outputs

    def pool(self, sequence):
        return np.tanh(self.dense("bert/pooler/dense", sequence[0]))

    def masked_lm(self, sequence, positions):
        scope = "cls/predictions"
        x = self.activation(self.dense(f"{scope}/transform/dense", sequence[positions]))
        x = self.norm(f"{scope}/transform/LayerNorm", x)
        table = self.weights["bert/embeddings/word_embeddings"]
        return x @ table.T + self.weights[f"{scope}/output_bias"]

    def pretraining(self, features) -> dict[str, np.ndarray]:
        """Return what `AlbertForPreTraining` gives for a batch, its encoder's blocks stacked."""
        rows = zip(
            *(features[name] for name in ("input_ids", "input_mask", "segment_ids")), strict=True
        )
        blocks = [self.encode(*row) for row in rows]
        last = [each[-1] for each in blocks]
        pooled = np.stack([self.pool(each) for each in last])
        positions = features["masked_lm_positions"]
        masked = [self.masked_lm(x, at) for x, at in zip(last, positions, strict=True)]
        return {
            "encoder_outputs": np.stack(blocks, axis=1),
            "sequence_output": np.stack(last),
            "pooled_output": pooled,
            "masked_lm_logits": np.stack(masked),
            "sentence_order_logits": self.linear_head("cls/seq_relationship", pooled),
        }
