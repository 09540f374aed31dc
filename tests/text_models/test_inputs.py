"""What text models accept, and the one-line errors for the rest."""

import numpy as np
import pytest

import albert_tf
from albert_tf.text_models import task_model
from albert_tf.text_models.fitting import FitArguments, epochs_of
from albert_tf.text_models.inputs import as_texts, as_texts_or_pairs
from albert_tf.training.restoring import load_initial_weights
from tests.conftest import GOLDEN
from tests.support.kinds_of_tasks import write_weights


class Series:
    """Like that of pandas."""

    ndim = 1

    def __init__(self, values):
        self._values = values

    def tolist(self):
        return list(self._values)


@pytest.mark.parametrize("kind", [list, tuple, np.array, Series])
def test_sequences_of_texts(kind):
    assert as_texts(kind(["a", "b"]), "texts") == ["a", "b"]
    assert as_texts_or_pairs(kind(["a", "b"]), "texts") == [("a", None), ("b", None)]
    assert as_texts("a", "texts") == ["a"]
    with pytest.raises(albert_tf.InputError, match=r"^`contexts`\[1\]: contains \\udce9, half of"):
        as_texts(kind(["a", "caf\udce9"]), "contexts")


def test_pairs_of_texts():
    pairs = [("a", "b"), ("c", "d")]
    assert as_texts_or_pairs(pairs, "texts") == as_texts_or_pairs(np.array(pairs), "texts") == pairs
    assert as_texts_or_pairs([], "texts") == []


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return write_weights(tmp_path_factory.mktemp("weights"))


@pytest.fixture(scope="module")
def classifier(weights):
    return albert_tf.TextClassifier.from_preset(weights, labels=["a", "b"], max_seq_length=16)


@pytest.mark.parametrize(
    ("method", "arguments", "message"),
    [
        ("predict", (["x", float("nan")],), r"^`texts`\[1\]: must be a text, not NaN \(float\)$"),
        ("predict", ({"a": 1},), r"^`texts`: must be a list, an array or a Series, not dict$"),
        ("predict", (["x", ("y", "z")],), r'^`texts`\[1\]: must be a text, not \["y", "z"\]'),
        ("predict", ([("y", "z", "w")],), r"^`texts`\[0\]: must be a text or a pair of texts"),
        ("predict", (["x", "the \ud83d cat"],), r"^`texts`\[1\]: contains \\ud83d, half of a surr"),
        ("predict", ([("x", "\udce9")],), r"^`texts`\[0\]: contains \\udce9, half of a surrogate"),
        ("predict", (["x"], 0), r"^`batch_size`=0: must be at least 1$"),
        ("evaluate", (["x"], ["a", "b"]), r"^`labels`: has 2 items, but `texts` has 1$"),
        ("evaluate", (["x"], ["c"]), r"^`labels`:0: label 'c' is not one of the training labels"),
        ("evaluate", (["x"], [None]), r"^`labels`\[0\]: must be a text or a number, not null"),
        ("evaluate", ([], []), r"^there is no example to evaluate on$"),
        ("fit", (["x"], ["\ud83d"]), r"^`labels`\[0\]: contains \\ud83d, half of a surrogate pair"),
        ("fit", ([], []), r"^`texts`: at least one is required to train on$"),
        ("fit", (["x"], ["a"], ["x"]), r"^`validation_data`: must be a tuple"),
    ],
)
def test_errors(classifier, method, arguments, message):
    with pytest.raises(albert_tf.InputError, match=message):
        getattr(classifier, method)(*arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"epoch": 3}, r"^`epoch`: is no argument of `fit`; these are epochs, steps, "),
        ({"epochs": 3, "steps": 9}, r"^`steps`=9 and `epochs`=3: give one$"),
        ({"steps": 2.5}, r"^`steps`=2.5: must be a whole number$"),
        ({"batch_size": 0}, r"^`batch_size`=0: must be at least 1$"),
        ({"epochs": float("inf")}, r"^`epochs`=inf: must be a number$"),
        ({"learning_rate": 0}, r"^`learning_rate`=0: must be above 0$"),
        ({"warmup_proportion": 2.0}, r"^`warmup_proportion`=2.0: must be 0 to 1$"),
        ({"warmup_proportion": -0.5}, r"^`warmup_proportion`=-0.5: must be 0 to 1$"),
        (
            {"optimizer": "adam"},
            r"^`optimizer`=adam: must be one of lamb, adamw, muon, or an optimizer",
        ),
        ({"optimizer": object(), "learning_rate": 1.0}, r"^`learning_rate`=1.0: belongs to"),
    ],
)
def test_errors_of_fit_arguments(arguments, message):
    with pytest.raises(albert_tf.InputError, match=message):
        FitArguments.checked(arguments)


def test_errors_of_from_preset(weights, monkeypatch):
    for arguments, message in (
        ({"target": "ranking"}, r"^`target`=ranking: must be one of classification, regression, "),
        ({"labels": ["a", "a"]}, r"^`labels`=\['a', 'a'\]: must be distinct"),
        ({"labels": "ab"}, r"^`labels`: must be a list, an array or a Series, not str$"),
        ({"train_file": "x"}, r"^`train_file`: must be one of max_seq_length, "),
        ({"max_seq_length": 99}, r"^`max_seq_length`=99: must be at most 24, the model's max_pos"),
        ({"dtype": "float8"}, r"^`dtype`=float8: must be one of float32, bfloat16$"),
    ):
        with pytest.raises(albert_tf.InputError, match=message):
            albert_tf.TextClassifier.from_preset(weights, **arguments)
    without_head = albert_tf.TextClassifier.from_preset(weights)
    for is_export, message in ((False, "has no head for this task; call"), (True, "is an export")):
        if is_export:
            monkeypatch.setattr(task_model.files, "exists", lambda path: "classifier" in path)
        with pytest.raises(albert_tf.InputError, match=message):
            without_head.predict("x")


def test_a_default_length_fits_the_model(weights):
    chooser = albert_tf.MultipleChoice.from_preset(weights)
    assert chooser.predict_proba(["a"], ["b"], [["c", "d"]]).shape == (1, 2)


def test_no_texts(classifier):
    assert classifier.predict([]) == []
    assert classifier.predict_proba([]).shape == (0, 2)


@pytest.mark.parametrize(
    ("steps", "steps_per_pass", "epochs", "expected"),
    [
        (20, 9, None, (3, 9)),  # the last has 2
        (6313, 2105, 3, (3, 2105)),
        (1, 1, 3, (1, 1)),
        (7, 3, 2.5, (3, 3)),
        (5, 9, None, (1, 5)),
    ],
)
def test_epochs(steps, steps_per_pass, epochs, expected):
    assert epochs_of(steps, steps_per_pass, epochs) == expected


@pytest.mark.integration
def test_random_variables_are_warned_of(weights, tmp_path, caplog):
    def warned(use, *arguments, **settings):
        caplog.clear()
        made = use(*arguments, **settings)
        found = [record.message for record in caplog.records if record.levelname == "WARNING"]
        return made, found[0].partition(": left at initial values, ")[2] if found else ""

    head = "random until trained: classifier/output_weights{}"
    new, shapes = head.format(", classifier/output_bias"), " (2x16 in the file, 3x16 in the model)"
    model, text = warned(albert_tf.TextClassifier.from_preset, weights, labels=["a", "b"])
    assert text == new
    kinds = albert_tf.AlbertForSequenceClassification, albert_tf.AlbertForQuestionAnswering
    assert warned(albert_tf.from_preset, weights, kinds[0], num_labels=3)[1] == new
    saved = f"{tmp_path}/saved"
    model.save(saved)
    for labels, expected in ((2, ""), (3, head.format(shapes))):
        model, text = warned(albert_tf.from_preset, saved, kinds[0], num_labels=labels)
        assert text.partition(", classifier/output_bias")[0] == expected
        # Fine-tuning starts with a new head: only that there is another one is a surprise.
        assert warned(load_initial_weights, model, saved)[1] == text
        assert warned(load_initial_weights, model, weights)[1] == ""
    # Models of answers have no use for the pooler that their weights lack.
    assert warned(albert_tf.from_preset, f"{GOLDEN}/hf_tiny_qa", kinds[1])[1] == ""
    assert "pooler" in warned(albert_tf.from_preset, f"{GOLDEN}/hf_tiny_qa")[1]
