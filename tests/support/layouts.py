"""Published weights in small: the files, names and config keys of each place, as archives."""

import io
import json
import pathlib
import tarfile

import numpy as np
import tensorflow as tf
from safetensors.numpy import load_file, save_file

from albert_tf.config import AlbertConfig
from tests.support.model_garden import ModelGardenAlbert, shapes

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


def split_weights(folder: pathlib.Path) -> None:
    """Turn model.safetensors into two files and an index."""
    tensors = load_file(folder / "model.safetensors")
    (folder / "model.safetensors").unlink()
    places = {name: f"part-{n % 2}.safetensors" for n, name in enumerate(sorted(tensors))}
    for part in set(places.values()):
        save_file({n: tensors[n] for n in tensors if places[n] == part}, folder / part)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": places}))


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
