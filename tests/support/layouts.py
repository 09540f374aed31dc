"""Published weights in small: the files, names and config keys of each place, as archives.

Model Garden's ALBERT is computed with its einsums.
"""

import io
import json
import pathlib
import tarfile

import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from albert_tf.config import AlbertConfig

# All keys of albert_config.json in Google's archives, of which some mean nothing today.
_UNUSED = {
    "net_structure_type": 0,
    "gap_size": 0,
    "num_memory_blocks": 0,
    "inner_group_num": 1,
    "down_scale_factor": 1,
}

# Model Garden's name of a variable -> ours, for values that are the same in both.
CONFIG_KEYS = {
    "vocab_size": "vocab_size",
    "embedding_width": "embedding_size",
    "hidden_size": "hidden_size",
    "num_layers": "num_hidden_layers",
    "num_attention_heads": "num_attention_heads",
    "max_sequence_length": "max_position_embeddings",
    "type_vocab_size": "type_vocab_size",
    "intermediate_size": "intermediate_size",
    "dropout_rate": "hidden_dropout_prob",
    "attention_dropout_rate": "attention_probs_dropout_prob",
}


HEAD = "bert/cls/predictions"


def shapes(config: AlbertConfig, head: bool) -> dict[str, tuple[int, ...]]:
    """Return shapes of the variables that `AlbertEncoder` has there, and of its masked LM head."""
    words, e, h = config.vocab_size, config.embedding_size, config.hidden_size
    heads = config.num_attention_heads
    size, inner = h // heads, config.intermediate_size
    found = {
        "word_embeddings/embeddings": (words, e),
        "position_embedding/embeddings": (config.max_position_embeddings, e),
        "type_embeddings/embeddings": (config.type_vocab_size, e),
        "embeddings/layer_norm/gamma": (e,),
        "embeddings/layer_norm/beta": (e,),
        "embedding_projection/kernel": (e, h),
        "embedding_projection/bias": (h,),
        "transformer/self_attention/attention_output/kernel": (heads, size, h),
        "transformer/self_attention/attention_output/bias": (h,),
        "transformer/self_attention_layer_norm/gamma": (h,),
        "transformer/self_attention_layer_norm/beta": (h,),
        "transformer/intermediate/kernel": (h, inner),
        "transformer/intermediate/bias": (inner,),
        "transformer/output/kernel": (inner, h),
        "transformer/output/bias": (h,),
        "transformer/output_layer_norm/gamma": (h,),
        "transformer/output_layer_norm/beta": (h,),
        "pooler_transform/kernel": (h, h),
        "pooler_transform/bias": (h,),
    }
    for name in ("query", "key", "value"):
        found[f"transformer/self_attention/{name}/kernel"] = (h, heads, size)
        found[f"transformer/self_attention/{name}/bias"] = (heads, size)
    if head:
        found |= {
            f"{HEAD}/output_bias/bias": (words,),
            f"{HEAD}/transform/dense/kernel": (h, e),
            f"{HEAD}/transform/dense/bias": (e,),
            f"{HEAD}/transform/LayerNorm/gamma": (e,),
            f"{HEAD}/transform/LayerNorm/beta": (e,),
        }
    return found


class Variables(tf.Module):
    """Random variables of given names, each reachable by two ways, as in what Keras saves."""

    def __init__(self, named: dict[str, tuple[int, ...]], seed: int = 0):
        super().__init__()
        random = np.random.default_rng(seed)
        self.by_name = {
            name: tf.Variable(random.normal(0, 0.4, shape).astype("float32"), name=name)
            for name, shape in named.items()
        }
        self.flat = list(self.by_name.values())


class ModelGardenAlbert(tf.Module):
    """The encoder, and its masked LM head where `head` says so, with random weights."""

    def __init__(self, config: AlbertConfig, head: bool = True, scope: str = "", rename=()):
        super().__init__()
        self._layers = config.num_hidden_layers
        self._size = config.hidden_size // config.num_attention_heads
        full = {}
        for name in shapes(config, head):
            full[name] = scope + name
            for old, new in rename:
                full[name] = full[name].replace(old, new)
        sizes = shapes(config, head)
        self.weights = Variables({full[name]: size for name, size in sizes.items()})
        self._of = {name: self.weights.by_name[full[name]] for name in sizes}

    def value(self, name: str) -> np.ndarray:
        return self._of[name].numpy()

    def _affine(self, equation: str, inputs, name: str):
        return tf.einsum(equation, inputs, self._of[f"{name}/kernel"]) + self._of[f"{name}/bias"]

    def _norm(self, inputs, name: str):
        mean, variance = tf.nn.moments(inputs, [-1], keepdims=True)
        scaled = (inputs - mean) / tf.sqrt(variance + 1e-12)
        return scaled * self._of[f"{name}/gamma"] + self._of[f"{name}/beta"]

    def __call__(self, words, mask, types):
        hidden = (
            tf.gather(self._of["word_embeddings/embeddings"], words)
            + self._of["position_embedding/embeddings"][: tf.shape(words)[1]]
            + tf.gather(self._of["type_embeddings/embeddings"], types)
        )
        hidden = self._norm(hidden, "embeddings/layer_norm")
        hidden = self._affine("bse,eh->bsh", hidden, "embedding_projection")
        attention = "transformer/self_attention"
        # Padding is masked with -1e9 there and -1e4 here: both leave it no weight.
        blocked = (1.0 - tf.cast(mask, tf.float32))[:, None, None, :] * -1e9
        for _ in range(self._layers):
            query, key, value = (
                self._affine("bsh,hnd->bsnd", hidden, f"{attention}/{name}")
                for name in ("query", "key", "value")
            )
            scores = tf.einsum("btnd,bsnd->bnst", key, query * self._size**-0.5)
            weights = tf.nn.softmax(scores + blocked)
            context = tf.einsum("bnst,btnd->bsnd", weights, value)
            attended = self._affine("bsnd,ndh->bsh", context, f"{attention}/attention_output")
            hidden = self._norm(hidden + attended, "transformer/self_attention_layer_norm")
            inner = self._affine("bsh,hi->bsi", hidden, "transformer/intermediate")
            fed = self._affine(
                "bsi,ih->bsh", tf.nn.gelu(inner, approximate=True), "transformer/output"
            )
            hidden = self._norm(hidden + fed, "transformer/output_layer_norm")
        pooled = tf.tanh(self._affine("bh,hk->bk", hidden[:, 0], "pooler_transform"))
        return {"sequence_output": hidden, "pooled_output": pooled}

    def mlm(self, sequence_output, positions):
        gathered = tf.gather(sequence_output, positions, batch_dims=1)
        hidden = self._affine("bph,he->bpe", gathered, f"{HEAD}/transform/dense")
        hidden = self._norm(tf.nn.gelu(hidden, approximate=True), f"{HEAD}/transform/LayerNorm")
        logits = tf.einsum("bpe,ve->bpv", hidden, self._of["word_embeddings/embeddings"])
        return logits + self._of[f"{HEAD}/output_bias/bias"]


def packed(folder: pathlib.Path) -> bytes:
    """Write a `.tar.gz` of a folder with `./` before all names, as `tar -C folder .` does."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
        archive.add(folder, ".")
    return buffer.getvalue()


def _config_text(config: AlbertConfig) -> str:
    values = {key: value for key, value in config.to_dict().items() if key != "parameter_sharing"}
    return json.dumps({**values, **_UNUSED})


def save(prefix: pathlib.Path, values: dict[str, np.ndarray]) -> None:
    """Write a checkpoint of a flat list of names."""
    prefix.parent.mkdir(parents=True, exist_ok=True)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(values),
        shape_and_slices=[""] * len(values),
        tensors=[tf.constant(value) for value in values.values()],
    )


def rewrite_weights(
    folder: pathlib.Path, name: str, parts: int = 1, dtype=np.float32, **options
) -> None:
    """Turn model.safetensors into another file, or several; `options` are of `torch.save`."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    stem, _, ending = name.rpartition(".")
    places = dict.fromkeys(tensors, name)
    if parts > 1:
        for number, key in enumerate(places):
            places[key] = f"{stem}-{number % parts + 1:05}-of-{parts:05}.{ending}"
        (folder / f"{name}.index.json").write_text(json.dumps({"weight_map": places}))
    for part in set(places.values()):
        inside = {key: value for key, value in tensors.items() if places[key] == part}
        if ending == "safetensors":
            save_file({key: value.astype(dtype) for key, value in inside.items()}, folder / part)
            continue
        import torch

        kind = getattr(torch, np.dtype(dtype).name)
        inside = {key: torch.tensor(value, dtype=kind) for key, value in inside.items()}
        torch.save(inside, folder / part, **options)


def google_checkpoint(
    folder: pathlib.Path, config: AlbertConfig, values: dict, vocabulary: pathlib.Path
) -> None:
    """Write an archive of the original project, a folder `albert_base` in it."""
    inside = folder / "albert_base"
    save(inside / "model.ckpt-best", {**values, "global_step": np.int64(125_000)})
    (inside / "model.ckpt-best.meta").write_bytes(b"a graph")
    (inside / "albert_config.json").write_text(_config_text(config))
    names = {".model": "30k-clean.model", ".txt": "vocab_chinese.txt"}
    (inside / names[vocabulary.suffix]).write_bytes(vocabulary.read_bytes())
    if vocabulary.suffix == ".model":
        (inside / "30k-clean.vocab").write_text("<pad>\t0\n")


def module_of_tensorflow_1(
    folder: pathlib.Path, config: AlbertConfig, values: dict, vocabulary: pathlib.Path
) -> None:
    """Write a TF-Hub module of the original, of a version that contains the config."""
    save(folder / "variables" / "variables", values)
    (folder / "saved_model.pb").write_bytes(b"a graph")
    (folder / "tfhub_module.pb").write_bytes(b"\x08\x03")
    (folder / "assets").mkdir()
    (folder / "assets" / "30k-clean.model").write_bytes(vocabulary.read_bytes())
    (folder / "assets" / "30k-clean.vocab").write_text("<pad>\t0\n")
    (folder / "assets" / "albert_config.json").write_text(_config_text(config))


def module_of_tensorflow_2(
    folder: pathlib.Path, config: AlbertConfig, values: dict, vocabulary: pathlib.Path
) -> None:
    """Write a TF-Hub SavedModel of Model Garden, with the config as Keras has it."""
    from albert_tf.interop.saved_model import MODEL_GARDEN_NAMES

    module = ModelGardenAlbert(config, head=False)
    for name, shape in shapes(config, head=False).items():
        module._of[name].assign(values[MODEL_GARDEN_NAMES[name]].reshape(shape))
    tf.saved_model.save(module, str(folder))
    arguments = {key: getattr(config, ours) for key, ours in CONFIG_KEYS.items()}
    notes = json.dumps({"config": {**arguments, "activation": "gelu"}})
    (folder / "keras_metadata.pb").write_bytes(b"\n\x12" + notes.encode())
    (folder / "assets" / "30k-clean.model").write_bytes(vocabulary.read_bytes())
    (folder / "assets" / "30k-clean.vocab").write_text("<pad>\t0\n")
