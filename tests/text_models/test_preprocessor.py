"""The layer gives the ids of the tokenizer from Python strings, in `tf.data` and in a model.

Also `keras.models.load_model` after nothing but `import albert_tf`, on another backend.
"""

import pathlib
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf

import albert_tf
from albert_tf.text_models import preprocessor as module
from albert_tf.text_models.preprocessor import Preprocessor
from albert_tf.tokenizers import Tokenizer
from tests.conftest import KERAS_ON_JAX, refusal, run_python, slow
from tests.support import references, tiny
from tests.support.backends import as_numpy
from tests.support.models import letters

TEXTS = ["A cat, 1999, sat.", "", "Ünï  [MASK] 中文\x00 " * 9, "b"]
PAIRS = ["of it", "é", "x " * 30, ""]
LENGTH = 16


KINDS = ("sentencepiece", "wordpiece")


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory) -> dict[str, Tokenizer]:
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text(letters(tiny.VOCAB))
    return {
        "sentencepiece": Tokenizer.load(str(references.OWN_VOCABULARY)),
        "wordpiece": Tokenizer.load(str(path), do_lower_case=False),
    }


def check(found, expected) -> None:
    assert list(found) == list(expected)
    for name, values in expected.items():
        assert found[name].dtype == "int32"
        np.testing.assert_array_equal(found[name], values)


@pytest.mark.parametrize("kind", KINDS)
def test_python_strings_and_arrays(tokenizers, kind):
    tokenizer = tokenizers[kind]
    layer = Preprocessor(tokenizer, LENGTH)
    singles = tokenizer(TEXTS, None, LENGTH, padding="max_length")
    pairs = tokenizer(TEXTS, PAIRS, LENGTH, padding="max_length")
    check(layer(TEXTS), singles)
    check(layer(np.array([text.encode() for text in TEXTS], object)), singles)
    check(layer((np.array(TEXTS, object), PAIRS)), pairs)
    check(layer(TEXTS[0]), {name: values[0] for name, values in singles.items()})
    features, labels = layer(TEXTS, [1, 0, 1, 0])
    check(features, singles)
    assert labels == [1, 0, 1, 0]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("kind", "in_graph"), [*((kind, False) for kind in KINDS), *slow(("wordpiece", True))]
)
def test_a_pipeline_of_tensorflow(tokenizers, monkeypatch, kind, in_graph):
    tokenizer = tokenizers[kind]
    if in_graph and not module._has_tensorflow_text():
        pytest.skip("TensorFlow Text is not installed")
    monkeypatch.setattr(module, "_has_tensorflow_text", lambda: in_graph)
    layer = Preprocessor(tokenizer, LENGTH)
    singles = tokenizer(TEXTS, None, LENGTH, padding="max_length")
    pairs = tokenizer(TEXTS, PAIRS, LENGTH, padding="max_length")
    texts = tf.data.Dataset.from_tensor_slices((TEXTS, list(range(len(TEXTS)))))
    batched = texts.batch(3).map(layer)
    assert batched.element_spec[0]["input_ids"].shape == (None, LENGTH)
    for dataset in (batched, texts.map(layer).batch(3)):
        (first, labels), (rest, _) = dataset.as_numpy_iterator()
        check({n: np.concatenate([first[n], rest[n]]) for n in first}, singles)
        assert labels.tolist() == [0, 1, 2]
    both = tf.data.Dataset.from_tensors((tf.constant(TEXTS), tf.constant(PAIRS)))
    (features,) = both.map(lambda text, pair: layer((text, pair))).as_numpy_iterator()
    check(features, pairs)


@pytest.mark.slow
def test_a_keras_file_contains_the_vocabulary(tokenizers, tmp_path):
    given = tokenizers["sentencepiece"]
    path = tmp_path / "moves" / pathlib.Path(given.path).name
    path.parent.mkdir()
    shutil.copy(given.path, path)
    tokenizer = Tokenizer.load(str(path), normalization=given.normalization)
    strings = keras.Input((), dtype="string")
    model = keras.Model(strings, Preprocessor(tokenizer, LENGTH)(strings))
    expected = tokenizer(TEXTS, None, LENGTH, padding="max_length")
    model.save(tmp_path / "first.keras")
    check(keras.models.clone_model(model).layers[-1](TEXTS), expected)
    shutil.rmtree(path.parent)
    for saved, again in (("first", "second"), ("second", "third")):
        restored = keras.saving.load_model(tmp_path / f"{saved}.keras")
        check(restored.layers[-1](TEXTS), expected)
        restored.save(tmp_path / f"{again}.keras")


def test_invalid_arguments_are_named(tokenizers):
    layer = Preprocessor(tokenizers["wordpiece"])
    for call, message in [
        (lambda: Preprocessor(layer.tokenizer, 3), "`max_length`=3: must be at least 5"),
        (lambda: layer(("a", "b", "c")), "`texts`: a tuple of 3; must be a pair of texts"),
        (
            lambda: layer(tf.constant([["a"]])),
            "`texts`: a tensor of shape (1, 1); must be a text or [batch]",
        ),
        (lambda: layer(["a", None]), "`texts`[1]=None: must be a text, not NoneType"),
    ]:
        assert refusal(call) == message


LOAD = """
import importlib.util
import sys
import numpy as np
import albert_tf
assert not {"keras", "jax", "tensorflow"} & set(sys.modules)
importlib.util.find_spec("keras")  # as TensorFlow does
sys.modules["rich"] = None
try:
    import keras
except ImportError:  # it is repeated
    for name in [name for name in sys.modules if name.startswith(("keras", "rich"))]:
        del sys.modules[name]
import keras
registered = set(keras.saving.get_custom_objects())
public = [getattr(albert_tf, name) for name in albert_tf.__all__]
schedules = keras.optimizers.schedules.LearningRateSchedule
of_keras = (keras.layers.Layer, keras.optimizers.Optimizer, schedules)
serializable = [f"albert_tf>{each.__name__}" for each in public
                if isinstance(each, type) and issubclass(each, of_keras)]
assert len(serializable) > 10
assert set(serializable) <= registered, set(serializable) - registered
(folder,) = sys.argv[1:]
features = dict(np.load(f"{folder}/features.npz"))
for name in ("encoder", "head", "functional"):
    model = keras.models.load_model(f"{folder}/{name}.keras")
    outputs = keras.tree.flatten(model(features))
    np.save(f"{folder}/{name}.npy", keras.ops.convert_to_numpy(outputs[-1]))
assert type(model.optimizer).__name__ == "Lamb", model.optimizer
assert type(model.optimizer._learning_rate).__name__ == "WarmupPolynomialDecay"
"""


@pytest.mark.slow
def test_models_are_loaded_in_a_fresh_process(tmp_path):
    encoder = albert_tf.AlbertEncoder(tiny.CONFIG)
    head = albert_tf.AlbertForSequenceClassification(tiny.CONFIG, num_labels=3)
    names = ("input_ids", "input_mask", "segment_ids")
    features = {name: tiny.batch(2)[name] for name in names}
    inputs = {name: keras.Input((LENGTH,), dtype="int32", name=name) for name in names}
    outputs = keras.layers.Dense(2)(encoder(inputs)["pooled_output"])
    functional = keras.Model(inputs, outputs)
    schedule = albert_tf.create_schedule("polynomial", learning_rate=1e-3, num_train_steps=9)
    functional.compile(albert_tf.Lamb(schedule), "mse")
    models = {"encoder": encoder, "head": head, "functional": functional}
    for name, model in models.items():
        model.save(tmp_path / f"{name}.keras")
    np.savez(tmp_path / "features.npz", **features)
    done = run_python("-c", LOAD, tmp_path, **KERAS_ON_JAX)
    assert done.returncode == 0, done.stderr
    for name, model in models.items():
        expected = as_numpy(keras.tree.flatten(model(features))[-1])
        np.testing.assert_allclose(np.load(tmp_path / f"{name}.npy"), expected, atol=1e-5)
