"""Rows of several examples: outputs and gradients are those of each example alone."""

import dataclasses

import keras
import numpy as np
import pytest

from albert_tf.engines.base import create_engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.engines.steps import StepOptions
from albert_tf.errors import InputError
from albert_tf.input.rows import Places
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.modeling.heads import AlbertForPreTraining, AlbertForSequenceClassification
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization.optimizers import Lamb
from tests.support.backends import BACKEND, as_numpy, gradient_function
from tests.support.tiny import LENGTH, PREDICTIONS, WITHOUT_DROPOUT, batch

PLACES = Places.one_after_the_other(np.array([0, 0, 0, 1]), batch(4)["input_mask"].sum(1))
EXAMPLES = batch(4)
# Three times as long, for three examples.
PADDED = {
    name: np.pad(values, [(0, 0), (0, 2 * values.shape[1])]) for name, values in EXAMPLES.items()
}
ROWS = PLACES.pack(PADDED, pad_id=0) | {
    name: np.stack([PADDED[name][:3, :PREDICTIONS].ravel(), PADDED[name][3]])
    for name in EXAMPLES
    if name.startswith("masked_lm_")
}
ROWS["masked_lm_positions"][0] += np.repeat(PLACES.begin[:3], PREDICTIONS)
WIDE = dataclasses.replace(
    WITHOUT_DROPOUT, max_position_embeddings=3 * LENGTH, initializer_range=0.1
)


@pytest.fixture(autouse=True)
def _same_weights():
    keras.utils.set_random_seed(0)


def assert_all_equal(found, expected, tolerance=1e-6):
    """Compare arrays by name, relative to the largest element of all: some are rounding alone."""
    atol = tolerance * max(np.abs(each).max() for each in expected.values())
    for name, each in expected.items():
        np.testing.assert_allclose(found[name], each, rtol=0, atol=atol, err_msg=name)


def model_inputs(examples):
    names = ("input_ids", "segment_ids", "input_mask", *AlbertEncoder.feature_names)
    return {name: examples[name] for name in names if name in examples}


@pytest.mark.integration
@pytest.mark.parametrize(("dtype", "tolerance"), [("float32", 1e-6), ("mixed_bfloat16", 2e-2)])
@pytest.mark.parametrize("attention", ["dot_product", "backend"])
def test_outputs_losses_and_gradients_are_those_of_examples(attention, dtype, tolerance):
    model = AlbertForPreTraining(WIDE, attention=attention, dtype=dtype)
    objective, paths = PretrainingObjective(), [w.path for w in model.trainable_variables]

    def loss(outputs, examples):
        sums, weights = objective.sums(outputs, examples), objective.weights(examples)
        outputs = {name: outputs[name] for name in ("sequence_output", "pooled_output")}
        return objective.loss(sums, weights), (outputs, sums, weights)

    gradients_of = gradient_function(model, loss)

    def results(examples):
        others, gradients = as_numpy(gradients_of(examples))
        return *others, dict(zip(paths, gradients, strict=True))

    found, expected = results(ROWS), results(EXAMPLES)
    outputs, alone = found[0], expected[0]
    assert np.isfinite(outputs["sequence_output"]).all()
    outputs["pooled_output"] = outputs["pooled_output"][PLACES.row, PLACES.number]
    outputs["sequence_output"] = np.concatenate(
        [outputs["sequence_output"][row, b : b + n] for row, _, b, n in zip(*PLACES, strict=True)]
    )
    alone["sequence_output"] = alone["sequence_output"][EXAMPLES["input_mask"] > 0]
    for one, other in zip(found, expected, strict=True):
        assert_all_equal(one, other, tolerance)


# LAMB divides the first moment by the root of the second. From zero, an element whose gradient is
# rounding gets an update of any size; if the second moment starts at this, that is rounding, too.
VARIANCE = 1e-4


def updated(examples, fit=False, attention="dot_product", **options):
    """Return weights, and each of the moments, after a step of the engine or of Keras's `fit`."""
    keras.utils.set_random_seed(0)
    engine = create_engine(BACKEND, DeviceOptions(engine=BACKEND, num_replicas=1))
    with engine.devices.scope():
        model = AlbertForPreTraining(WIDE, attention=attention)
        optimizer = Lamb(1.0, global_clipnorm=1.0)  # `fit` clips as engines do
    parts = model, optimizer, PretrainingObjective(), engine.devices
    step = engine.training_step(*parts, StepOptions(**options))
    tree = as_numpy(step.tree)
    tree["optimizer"] = {k: v + VARIANCE * ("adam_v" in k) for k, v in tree["optimizer"].items()}
    step.tree = tree
    if fit:
        model.compile(optimizer)
        model.fit(examples, batch_size=len(examples["input_ids"]), verbose=0)
    else:
        step(iter([examples]), 1)
    tree = as_numpy(step.tree)
    moments = tree["optimizer"].items()
    return tree["params"], *({k: v for k, v in moments if k[-1] == kind} for kind in "mv")


# TensorFlow's functions take long to trace; JAX compiles each step.
@pytest.mark.integration
@pytest.mark.usefixtures("op_by_op" if BACKEND == "tensorflow" else "_same_weights")
@pytest.mark.filterwarnings("ignore:Even though the .*:UserWarning")
@pytest.mark.parametrize(
    "way", [{"micro_batches": 2, "remat": True, "attention": "backend"}, {}, {"fit": True}], ids=str
)
def test_an_update_is_that_of_examples(way):
    for found, expected in zip(updated(ROWS, **way), updated(EXAMPLES), strict=True):
        assert_all_equal(found, expected)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cls_positions": None}, "rows have example_ids and cls_positions, both, and no input_m"),
        ({"input_mask": np.ones_like(ROWS["input_ids"])}, "both, and no input_mask; got"),
        ({"example_ids": ROWS["example_ids"] + 3}, "example_ids contains .* must be in .0, 3."),
        ({"cls_positions": ROWS["cls_positions"] - 1}, "cls_positions contains -1"),
        ({"cls_positions": ROWS["cls_positions"][:1]}, r"shape .1, 3., but must be .2, examples."),
        ({"cls_positions": ROWS["cls_positions"] + 1}, "1, but example 1 of a row begins at 0"),
    ],
)
def test_what_is_no_row_is_refused(changes, message):
    features = {n: v for n, v in {**model_inputs(ROWS), **changes}.items() if v is not None}
    with pytest.raises(InputError, match=message):
        AlbertEncoder(WIDE)(features)
    with pytest.raises(InputError, match="unknown key 'cls_positions'"):
        AlbertForSequenceClassification(WIDE, 2)(model_inputs(ROWS))
    with pytest.raises(InputError, match="`batch`: rows have next_sentence_weights"):
        PretrainingObjective().weights(
            {name: v for name, v in ROWS.items() if name != "next_sentence_weights"}
        )
