"""Starting an ALBERT from a BERT: the decomposition of its embeddings, the means of its layers."""

import dataclasses

import numpy as np
import pytest

import albert_tf
from albert_tf.config import AlbertConfig
from albert_tf.interop.from_bert import as_albert
from albert_tf.interop.loading import open_weights
from albert_tf.weights import Tensor, Weights
from tests.conftest import GOLDEN, refusal
from tests.support.oracle import Oracle

FOLDER = str(GOLDEN / "hf_bert_pretraining")
BERT = AlbertConfig.from_json_file(f"{FOLDER}/config.json")
H, E = BERT.hidden_size, 12
ALBERT = dataclasses.replace(BERT, embedding_size=E, num_hidden_groups=1, parameter_sharing=None)
TABLES = "word_embeddings", "position_embeddings", "token_type_embeddings"
KERNEL = "bert/encoder/embedding_hidden_mapping_in/kernel"


def held(values, config=BERT):
    """Return values by path as weights in memory."""
    tensors = {p: Tensor(p, v.shape, v.shape, lambda v=v: v) for p, v in values.items()}
    return Weights("albert_tf", "memory", tensors, config=config)


def embeddings(rank: int = H, seed: int = 0) -> dict[str, np.ndarray]:
    """Return the embeddings of a BERT, in `rank` directions and another mean in every row."""
    random = np.random.default_rng(seed)
    directions = random.normal(0, 1, (rank, H))
    directions -= directions.mean(axis=1, keepdims=True)
    values = {
        name: random.normal(0, 1, (rows, rank)) @ directions + random.normal(0, 1, (rows, 1))
        for name, rows in zip(TABLES, (70, 9, 2), strict=True)
    }
    norm = {"LayerNorm/gamma": random.uniform(0.5, 2, H), "LayerNorm/beta": random.normal(0, 1, H)}
    return {f"bert/embeddings/{name}": value for name, value in {**values, **norm}.items()}


def test_tables_are_truncated_decompositions():
    """Of all sums of their rows, of which tokens are as frequent as Zipf's law says."""
    values = embeddings()
    found = as_albert(held(values), ALBERT, {})
    tables = [values[f"bert/embeddings/{name}"] for name in TABLES]
    tables = [table - table.mean(axis=1, keepdims=True) for table in tables]
    words, positions, segments = tables
    sums = (words[:, None, None] + positions[:, None] + segments).reshape(-1, H)
    frequencies = np.repeat(1 / np.arange(1, len(words) + 1), len(positions) * len(segments))
    frequencies /= frequencies.sum()
    _, sizes, right = np.linalg.svd(sums * np.sqrt(frequencies)[:, None], full_matrices=False)
    scale = values["bert/embeddings/LayerNorm/gamma"]
    kernel = found.tensors[KERNEL].read()
    for name, table in zip(TABLES, tables, strict=True):
        product = found.tensors[f"bert/embeddings/{name}"].read() @ kernel
        expected = table @ right[:E].T @ right[:E] * scale
        np.testing.assert_allclose(product, expected, rtol=1e-4, atol=1e-4)
    kept = np.sum(sizes[:E] ** 2) / np.sum(sizes**2)
    assert f"the {E} largest of {H} directions, {kept:.0%} of" in found.notes[0]


def test_layers_read_what_they_read_in_the_bert():
    """As far as so many directions hold the embeddings."""
    values = embeddings(rank=E - 1)
    found = as_albert(held(values), ALBERT, {})
    small = Oracle(ALBERT, {path: tensor.read() for path, tensor in found.tensors.items()})
    ids, segments = np.array([3, 69, 0, 7]), np.array([0, 0, 1, 1])
    expected = Oracle(BERT, values).embed(ids, segments)
    read = small.dense("bert/encoder/embedding_hidden_mapping_in", small.embed(ids, segments))
    np.testing.assert_allclose(read, expected, atol=1e-5)


PATH = "bert/encoder/transformer/group_{}/inner_group_0/{}"


@pytest.mark.parametrize(
    ("groups", "expected"),
    [
        (1, ["0 1 2 3 4 5"]),
        (3, ["0 1", "2 3", "4 5"]),
        (4, ["0", "1 2", "3", "4 5"]),
        (6, ["0", "1", "2", "3", "4", "5"]),
        (7, ["0", "1", "2", "3", "4", "5"]),  # of which one is missing, as ever
    ],
)
def test_groups_are_means_of_their_layers(groups, expected):
    layers = [np.random.default_rng(number).normal(0, 1, (2, 3)) for number in range(6)]
    values = {PATH.format(number, "kernel"): layer for number, layer in enumerate(layers)}
    shapes = {PATH.format(number, "kernel"): (2, 3) for number in range(groups)}
    found = as_albert(held({**embeddings(), **values}), ALBERT, shapes).tensors
    means = [found[path].read() for path in shapes if path in found]
    for mean, numbers in zip(means, expected, strict=True):
        np.testing.assert_allclose(mean, np.mean([layers[int(n)] for n in numbers.split()], axis=0))


@pytest.mark.parametrize(
    ("changes", "from_first"),
    [
        ({}, False),
        ({}, True),
        ({"num_hidden_groups": 3}, False),
        ({"num_hidden_groups": 3, "parameter_sharing": "attention"}, False),
    ],
)
def test_a_published_bert_starts_a_smaller_model(changes, from_first):
    model = albert_tf.AlbertForPreTraining(dataclasses.replace(ALBERT, **changes))
    loaded = albert_tf.load_weights(model, FOLDER, init_from_group0=from_first)
    assert all(path.startswith("cls/predictions/transform/") for path in loaded.missing)
    assert len(loaded.missing) == 4
    (note,) = (note for note in loaded.notes if "directions" in note)
    assert not [note for note in loaded.notes if "num_hidden" in note]
    layers = "" if from_first else "the mean of 3 layers in "
    assert f"the start of a smaller model: {layers}" in note


def test_layers_that_share_start_from_the_mean_whatever_the_width_of_embeddings():
    shared = dataclasses.replace(BERT, num_hidden_groups=1, parameter_sharing="all")
    encoder = albert_tf.AlbertEncoder(shared)
    notes = albert_tf.load_weights(encoder, FOLDER).notes
    assert any(note.endswith("smaller model: the mean of 3 layers in 1 group") for note in notes)
    stored, path = open_weights(FOLDER), PATH.format(0, "ffn_1/intermediate/dense/kernel")
    layers = [stored.read(path.replace("group_0", f"group_{number}", 1)) for number in range(3)]
    (own,) = (weight for weight in encoder.weights if weight.path == path)
    np.testing.assert_allclose(own.numpy(), np.mean(layers, axis=0), atol=1e-7)


def test_other_widths_and_weights_are_refused():
    narrow = dataclasses.replace(ALBERT, hidden_size=16, embedding_size=8)
    message = refusal(albert_tf.load_weights, albert_tf.AlbertForPreTraining(narrow), FOLDER)
    assert "has shape [150, 32]" in message
    with_nan = embeddings()
    with_nan[f"bert/embeddings/{TABLES[0]}"][3, 4] = np.nan
    assert "contains NaN or infinity" in refusal(as_albert, held(with_nan), ALBERT, {})
