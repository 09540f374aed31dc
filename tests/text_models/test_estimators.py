"""What Python expects: paths of any kind, copies and pickles, the protocol of scikit-learn."""

import copy
import functools
import inspect
import pathlib
import pickle
import shutil

import joblib
import numpy as np
import pytest
from sklearn.base import clone, is_classifier, is_regressor
from sklearn.metrics import r2_score
from sklearn.model_selection import cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import albert_tf
from albert_tf.interop.keras_weights import write_keras_weights
from tests.conftest import GOLDEN
from tests.support.kinds_of_tasks import write_weights

TEXTS = ["cat dog", "saw", "bird cat horse dog", "drill file"]
PAIRS = [["cat", "saw"]] * 4
SPANS = {"squad_head": "conditional", "max_query_length": 4, "doc_stride": 4}

# Class -> settings with which its head is known, and what it computes.
MODELS = {
    "MaskedLM": ({}, lambda model: model.score(TEXTS)),
    "MultipleChoice": ({"max_qa_length": 8}, lambda m: m.predict_proba(TEXTS, TEXTS, PAIRS)),
    "QuestionAnswerer": (SPANS, lambda model: model.predict(TEXTS, TEXTS)),
    "SentenceEncoder": ({}, lambda model: model.encode(TEXTS)),
    "TextClassifier": ({"labels": [1, 2.5]}, lambda model: model.predict_proba(TEXTS)),
    "TokenClassifier": ({"labels": ["O", "B-X", "I-X"]}, lambda model: model.predict(TEXTS)),
}

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("op_by_op"),
    pytest.mark.filterwarnings("ignore:Even though the `tf.config.experimental_run_functions_eage"),
]


@pytest.fixture
def weights(tmp_path) -> pathlib.Path:
    """Return a file of weights with the head of pretraining, in a folder of its own."""
    path = pathlib.Path(write_weights(tmp_path))
    config = albert_tf.AlbertConfig.from_json_file(path.parent / "albert_config.json")
    write_keras_weights(str(path), albert_tf.AlbertForPreTraining(config))
    return path


def create(name: str, weights: pathlib.Path, **arguments):
    settings = MODELS[name][0] | ({} if name == "MaskedLM" else {"max_seq_length": 16})
    return getattr(albert_tf, name).from_preset(weights, **settings | arguments)


estimator = functools.partial(create, "TextClassifier", epochs=1, learning_rate=0.01, verbose=0)


@pytest.mark.parametrize("name", MODELS)
def test_copies_of_a_text_model_need_no_files(name, weights, tmp_path):
    model, compute = create(name, weights), MODELS[name][1]
    expected, copies = compute(model), [copy.deepcopy(model)]
    joblib.dump(model, tmp_path / "model.joblib")
    shutil.rmtree(weights.parent)
    copies.append(joblib.load(tmp_path / "model.joblib"))
    if name == "TextClassifier":
        copies[1].save(tmp_path / "saved")
        copies.append(albert_tf.TextClassifier.from_preset(tmp_path / "saved"))
    for again in copies:
        np.testing.assert_equal(compute(again), expected)


@pytest.mark.parametrize("ending", ["model", "txt"])
def test_copies_of_a_tokenizer_need_no_files(ending, weights, tmp_path):
    source = weights.parent / "vocab.txt"
    source = source if ending == "txt" else GOLDEN / "own_text" / "vocabulary.model"
    path = pathlib.Path(shutil.copy(source, tmp_path / f"moved.{ending}"))
    tokenizer, text = albert_tf.Tokenizer.load(path), "The cat[MASK] sat, 1999, dog"
    flat = tokenizer.encode_flat([text])
    with_offsets = tokenizer.encode_with_offsets(text, special_symbols=True)
    stored = pickle.dumps(copy.deepcopy(tokenizer))
    path.write_text("another file")
    again = pickle.loads(stored)
    np.testing.assert_equal(again.encode_flat([text]), flat)
    np.testing.assert_equal(again.encode_with_offsets(text, special_symbols=True), with_offsets)
    assert pathlib.Path(again.path).read_bytes() == source.read_bytes()


def test_model_classes_are_created_by_name_and_pickled_by_keras(weights):
    model = albert_tf.AlbertForSequenceClassification.from_preset(weights, num_labels=3)
    encoder = albert_tf.AlbertEncoder.from_preset(weights)
    for again in (model.encoder, pickle.loads(pickle.dumps(encoder))):
        np.testing.assert_equal(again.get_weights(), encoder.get_weights())


def test_a_classifier_is_an_estimator_of_scikit_learn(weights):
    classifier = estimator(weights, labels=None)
    assert (is_classifier(classifier), hasattr(classifier, "classes_")) == (True, False)
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = make_pipeline(lower, classifier)
    texts, labels = [text.upper() for text in TEXTS], np.array(["a", "b", "a", "b"])
    assert np.isfinite(cross_val_score(pipeline, texts, labels, cv=2, scoring="roc_auc")).all()
    assert classifier.task is None, "scikit-learn trains clones"
    pipeline.set_params(textclassifier__epochs=None, textclassifier__steps=2).fit(texts, labels)
    assert (classifier.step, classifier.classes_.tolist()) == (2, ["a", "b"])
    predicted = pipeline.predict(texts)
    assert predicted == classifier.predict(TEXTS)
    assert pipeline.score(texts, [*predicted[:3], "unknown"]) == 0.75


def test_parameters_and_clones(weights):
    classifier = estimator(weights, seed=3)
    given = {"name": weights, "seed": 3, "max_seq_length": 16, "epochs": 1, "target": None}.items()
    assert classifier.get_params().items() >= given
    before = classifier.predict_proba(TEXTS)
    classifier.fit(TEXTS, [1, 2.5, 1, 2.5])
    trained = classifier.predict_proba(TEXTS)
    again = clone(classifier)
    np.testing.assert_array_equal(again.predict_proba(TEXTS), before)
    assert again.get_params() == classifier.get_params()
    assert classifier.set_params(epochs=2) is classifier
    np.testing.assert_array_equal(classifier.predict_proba(TEXTS), trained)
    classifier.set_params(labels=["x", "y"], epochs=None)
    assert (classifier.labels, classifier.step) == (["x", "y"], 0)
    for wrong, message in ({"epoch": 2}, "must be one of name, labels"), ({"epochs": 0}, "above 0"):
        with pytest.raises(albert_tf.InputError, match=message):
            classifier.set_params(**wrong)


def test_scores_of_numbers_and_several_labels(weights):
    stars = estimator(weights, target="regression", labels=None)
    numbers = [0.5, 0.1, 0.3, 2]
    assert stars.score(TEXTS, numbers) == pytest.approx(r2_score(numbers, stars.predict(TEXTS)))
    assert is_regressor(stars)
    several = estimator(weights, target="multi_label")
    truth = [labels[::-1] for labels in several.predict(TEXTS)]
    assert several.score(TEXTS, [["unknown"], *truth[1:]]) == 0.75


def test_paths_may_be_of_pathlib(weights, tmp_path):
    config, vocabulary = weights.parent / "albert_config.json", weights.parent / "vocab.txt"
    for function, *arguments in (
        (albert_tf.AlbertConfig.from_json_file, config),
        (albert_tf.Tokenizer.load, vocabulary),
        (albert_tf.Preprocessor, weights.parent),
        (albert_tf.load_weights, albert_tf.from_preset(weights), weights),
        (functools.partial(albert_tf.MaskedLM.from_preset, vocabulary=vocabulary), weights),
        (albert_tf.SentenceEncoder.from_preset(weights).save, tmp_path / "saved"),
    ):
        function(*arguments)
    public = [getattr(albert_tf, name) for name in albert_tf.__all__]
    found = [each for value in public for _, each in inspect.getmembers(value, inspect.isroutine)]
    for each in filter(inspect.isroutine, [*public, *found]):
        if str(getattr(each, "__module__", "")).startswith("albert_tf") and each.__name__[0] != "_":
            for name in {"path", "folder", "vocabulary"} & {*inspect.signature(each).parameters}:
                assert "PathLike" in str(inspect.signature(each).parameters[name]), (each, name)


@pytest.mark.parametrize("folder", ["~/saved", "a/../sa[v]ed/", pathlib.Path("saved #1")])
def test_a_model_is_saved_where_any_path_says(tmp_path, monkeypatch, folder):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    model = albert_tf.TextClassifier.from_preset(write_weights(tmp_path), labels=["a", "b"])
    model.save(folder)
    name = pathlib.Path(folder).name
    assert (tmp_path / name / "labels.json").exists()
    assert not {"~", "a"} & {path.name for path in tmp_path.iterdir()}
    assert albert_tf.TextClassifier.from_preset(folder).labels == ["a", "b"]
