"""Weights of any format in any model: found by looking, matched by name, never silently random."""

import dataclasses
import re
import shutil

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.heads import HEADS
from albert_tf.interop.loading import find_format, load_weights, open_weights
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForSequenceClassification
from tests.interop.test_convert import assert_same, run, values_at
from tests.support.models import CONFIGS, keras_file, random_model, values_of

pytestmark = pytest.mark.integration

CONFIG = CONFIGS["shared"]
LAYER = "bert/encoder/transformer/group_0/inner_group_0"


def changed(**fields):
    return dataclasses.replace(CONFIG, **fields)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """Return the same pretrained model in every format, and its weights."""
    folder = tmp_path_factory.mktemp("pretrained")
    model = random_model("pretraining", CONFIG)
    paths = {"keras": keras_file(folder / "keras", model)}
    for to in ("albert_tf", "google", "huggingface"):
        paths[to] = run(paths["keras"], folder / to, to)
    return paths, values_of(model)


@pytest.mark.parametrize(
    ("head", "format"),
    [
        *((head, "google") for head in HEADS),
        *(("pretraining", format) for format in ("keras", "albert_tf", "huggingface")),
        ("classifier", "huggingface"),
    ],
)
def test_every_model_starts_from_every_format(pretrained, head, format):
    paths, values = pretrained
    model = random_model(head, CONFIG, seed=1)
    before = values_of(model)
    matched = load_weights(model, str(paths[format]))
    for weight in model.weights:
        expected = values.get(weight.path, before[weight.path])
        np.testing.assert_array_equal(weight.numpy(), expected, err_msg=weight.path)
    assert set(matched.loaded) == set(before) & set(values)
    assert set(matched.missing) == set(before) - set(values)
    assert set(matched.unused) == set(values) - set(before)
    assert matched.notes == []


def test_formats_are_found_by_looking(pretrained, tmp_path):
    paths, _ = pretrained
    for name, path in paths.items():
        expected = "albert_tf" if name == "keras" else name
        assert find_format(str(path)) == expected
    for format, path in (
        ("huggingface", paths["huggingface"] / "model.safetensors"),
        ("google", paths["google"] / "model.ckpt-0"),
        ("google", paths["google"] / "model.ckpt-0.index"),
        ("google", paths["google"] / "model.ckpt-0.data-00000-of-00001"),
    ):
        assert open_weights(str(path)).format == format
    for name in ("a[1].ckpt", "[b]/a[1]", "[b]/c?*"):  # TensorFlow takes names for patterns
        (tmp_path / "[b]").mkdir(exist_ok=True)
        for file in paths["google"].glob("model.ckpt-0.*"):
            shutil.copy(file, tmp_path / file.name.replace("model.ckpt-0", name))
        weights = open_weights(f"{tmp_path}/{name}", config=CONFIG)
        assert weights.read("bert/pooler/dense/bias").any()
    # The archives of the original have no file `checkpoint`.
    archive = tmp_path / "albert_base"
    shutil.copytree(paths["google"], archive)
    (archive / "checkpoint").unlink()
    assert open_weights(str(archive)).format == "google"
    for file in archive.glob("model.ckpt-0.*"):
        shutil.copy(file, archive / file.name.replace("-0.", "-9."))
    with pytest.raises(InputError, match=r"`path`=.*several checkpoints; name one, .*-0"):
        open_weights(str(archive))


def test_a_head_of_other_labels_stays_fresh(tmp_path):
    trained = keras_file(tmp_path / "mnli", random_model("classifier", CONFIG, labels=3))
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)
    matched = load_weights(model, str(trained))
    assert matched.missing == ["classifier/output_weights", "classifier/output_bias"]
    assert matched.unused == sorted(matched.missing)
    first, second = repr(matched).splitlines()
    assert first.startswith(f"MatchedWeights({len(matched.loaded)} of {len(model.weights)} variab")
    assert second == "  missing: classifier/output_weights, classifier/output_bias)"
    same = AlbertForSequenceClassification(CONFIG, num_labels=3)
    assert not load_weights(same, str(trained)).missing


def test_what_shapes_do_not_show(pretrained):
    paths, _ = pretrained
    with pytest.raises(
        InputError, match=r"trained with num_attention_heads=3, but the model has 2"
    ):
        load_weights(AlbertEncoder(changed(num_attention_heads=2)), str(paths["huggingface"]))
    deeper = AlbertEncoder(changed(num_hidden_layers=9, hidden_act="relu"))
    matched = load_weights(deeper, str(paths["google"]))
    assert matched.notes == [
        f"note: num_hidden_layers is 3 in {matched.source}, but 9 in the model",
        f"note: hidden_act is gelu in {matched.source}, but relu in the model",
    ]


@pytest.mark.parametrize("format", ["albert_tf", "google", "huggingface"])
def test_every_group_starts_from_the_first(pretrained, format):
    paths, values = pretrained
    deeper = AlbertEncoder(changed(num_hidden_groups=3, inner_group_num=2))
    with pytest.raises(InputError, match=r"lacks .*inner_group_1.*`init_from_group0`"):
        load_weights(deeper, str(paths[format]))
    matched = load_weights(deeper, str(paths[format]), init_from_group0=True)
    assert not matched.missing
    for weight in deeper.weights:
        if "/attention_1/self/query/kernel" in weight.path:
            expected = values[f"{LAYER}/attention_1/self/query/kernel"]
            np.testing.assert_array_equal(weight.numpy(), expected)


def test_inner_groups_of_the_first_group_stay_apart(tmp_path):
    model = random_model("encoder", changed(inner_group_num=2))
    values = values_of(model)
    deeper = AlbertEncoder(changed(num_hidden_groups=3, inner_group_num=2))
    load_weights(deeper, str(keras_file(tmp_path / "m", model)), init_from_group0=True)
    for weight in deeper.weights:
        name = re.sub("/group_[12]/", "/group_0/", weight.path)
        np.testing.assert_array_equal(weight.numpy(), values[name], err_msg=weight.path)


def test_another_shape_is_an_error(pretrained):
    paths, _ = pretrained
    model = AlbertEncoder(changed(intermediate_size=44))
    with pytest.raises(
        InputError,
        match=r"ffn_1/intermediate/dense/kernel has shape \[24, 40\] \(stored as .*ffn.weight "
        r"\[40, 24\]\), but \[24, 44\] in the model",
    ):
        load_weights(model, str(paths["huggingface"]))


@pytest.mark.parametrize("format", ["albert_tf", "google", "huggingface"])
def test_weights_that_only_tensorflow_can_open(pretrained, format):
    """As on gs://: a path with a scheme."""
    paths, values = pretrained
    path = f"file://{paths[format]}"
    assert open_weights(path).config == CONFIG
    assert_same(values_at(path), values)
