"""Steps that are not finite, and the numbers that tell how a run is doing."""

import dataclasses
import functools
import json
import re
import time

import keras
import numpy as np
import pytest
import tensorflow as tf

from albert_tf.engines.steps import StepOptions
from albert_tf.engines.tensorflow.batches import ending_at_once
from albert_tf.engines.tensorflow.devices import TensorFlowDevices
from albert_tf.engines.tensorflow.engine import TensorFlowEngine
from albert_tf.engines.tensorflow.step import TrainingStep
from albert_tf.errors import InputError
from albert_tf.input.manifest import Rows
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.optimization import create_optimizer
from albert_tf.training.health import Health, Workload
from tests.conftest import refusal, slow
from tests.support.pretraining import train_on
from tests.support.tiny import CONFIG, batch

# Scales of the loss: it and the gradient are not numbers; the gradient's norm overflows; the loss
# alone is not finite.
BAD = {"nan": np.nan, "overflow": 1e30, "loss": np.inf}


class Scaled(PretrainingObjective):
    """The pretraining losses times `scale` of the batch; where that is infinite, plus it."""

    def sums(self, outputs, batch):
        sums = super().sums(outputs, batch)
        scale = tf.reduce_max(batch["scale"])
        added = tf.where(tf.math.is_inf(scale), scale, 0.0)
        factor = tf.where(tf.math.is_inf(scale), 1.0, scale)
        return {n: v * factor + added if n in self.losses else v for n, v in sums.items()}


def build(optimizer="lamb", micro_batches=1, clip_norm=1.0):
    keras.utils.set_random_seed(7)
    # One layer: tracing and compiling more is what would take long.
    return TrainingStep(
        AlbertForPreTraining(dataclasses.replace(CONFIG, num_hidden_layers=1)),
        create_optimizer(optimizer, 0.01),
        Scaled(),
        TensorFlowDevices(),
        StepOptions(micro_batches=micro_batches, clip_norm=clip_norm),
    )


@functools.cache
def built_once(*settings) -> tuple[TrainingStep, dict]:
    """Return a step, traced when first called, and the values that it starts from."""
    step = build(*settings)
    return step, keras.tree.map_structure(lambda value: value.numpy(), step.tree)


def as_new(*settings) -> TrainingStep:
    """Return the step that many tests share, set back to its start."""
    step, initial = built_once(*settings)
    step.tree = initial
    return step


def scaled_batches(scales, count=4):
    return [
        {**batch(count, seed=n), "scale": np.full(count, scale, "float32")}
        for n, scale in enumerate(scales)
    ]


def data(scales, count=4):
    batches = scaled_batches(scales, count)
    stacked = {name: np.stack([b[name] for b in batches]) for name in batches[0]}
    return ending_at_once(tf.data.Dataset.from_tensor_slices(stacked))


def state(step):
    """Return all weights and moments, by path."""
    optimizer = step.optimizer
    variables = step.model.trainable_weights + optimizer._moments + optimizer._variances
    return {variable.path: variable.numpy() for variable in variables}


IN_MICRO_BATCHES = ("adamw", 2, 0.0)  # not clipped


@pytest.mark.integration
@pytest.mark.parametrize(
    ("settings", "bad"),
    [*(((), bad) for bad in BAD), (IN_MICRO_BATCHES, "nan"), (IN_MICRO_BATCHES, "overflow")],
)
def test_a_step_that_is_not_finite_changes_nothing_but_its_number(settings, bad):
    step = as_new(*settings)
    micro_batches = step.options.micro_batches
    # As many examples at a time as in the other tests: XLA compiles for every number of them.
    iterator = iter(data([1, 1, BAD[bad], BAD[bad], 1], count=4 * micro_batches))
    step(iterator, 2)
    before = state(step)
    results = step(iterator, 2)
    np.testing.assert_equal(state(step), before)
    assert int(step.optimizer.iterations.numpy()) == 4
    assert results.history["finite"].tolist() == [0, 0]
    finite_norms = np.isfinite(results.history["gradient_norm"])
    assert finite_norms.tolist() == [bad == "loss"] * 2
    assert all(total == 0 for total in (*results.sums.values(), *results.weights.values()))

    step(iterator, 1)
    for path, value in state(step).items():
        assert np.isfinite(value).all(), path
        if "key" not in path or "bias" not in path:  # whose gradient is zero
            assert not np.array_equal(value, before[path]), path


@pytest.mark.integration
def test_skipped_steps_leave_no_trace_in_those_that_follow():
    """As if the others had been made alone, each at its own number."""
    step = as_new()
    results = step(iter(data([1, np.nan, 1, np.nan, np.nan, 1])), 6)
    skipping = state(step)
    step = as_new()
    finite = []
    for number in (0, 2, 5):
        step.optimizer.iterations.assign(number)
        finite.append(step(iter(data([1] * 6).skip(number)), 1))
    np.testing.assert_equal(state(step), skipping)
    for name in step.objective.quantities:
        total = sum(each.sums[name] for each in finite)
        assert results.sums[name] == pytest.approx(total, rel=1e-5)
    history = results.history
    assert history["finite"].tolist() == [1, 0, 1, 0, 0, 1]
    for name in ("gradient_norm", "loss"):
        expected = [each.history[name][0] for each in finite]
        np.testing.assert_allclose(history[name][[0, 2, 5]], expected, rtol=1e-6)


@pytest.mark.integration
def test_the_norm_is_of_all_parameters_after_the_last_step():
    step = as_new()
    found = step(iter(data([1, 1])), 2).scalars["parameter_norm"]
    squares = sum(
        (np.float64(weight.numpy()) ** 2).sum() for weight in step.model.trainable_weights
    )
    assert found == pytest.approx(np.sqrt(squares), rel=1e-5)


@pytest.mark.integration
def test_measures_are_those_of_the_last_finite_step():
    expected = as_new()(iter(data([1])), 1)
    actual = as_new()(iter(data([1, np.nan])), 2)
    for name in as_new().optimizer.measures:
        assert actual.scalars[name] == expected.scalars[name] > 0
    metrics = Health(Scaled(), 5, "").metrics(actual, 2)
    assert metrics["gradient_norm"] == expected.scalars["gradient_norm"]
    assert metrics["nonfinite_steps"] == 1


def run(tmp_path, scales, limit, per_loop=3, save_every=None, keep=5):
    step = as_new()
    train_on(
        scaled_batches(scales),
        TensorFlowEngine(step.devices),
        step,
        tmp_path,
        keep=keep,
        save_checkpoints_steps=save_every or len(scales),
        iterations_per_loop=per_loop,
        max_nonfinite_steps=limit,
        train_batch_size=4,
        peak_tflops=1.0,
    )
    return step


def records(folder):
    def refuse(text):
        raise AssertionError(f"{text} is no JSON")

    lines = (folder / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line, parse_constant=refuse) for line in lines]


@pytest.mark.integration
@pytest.mark.parametrize("per_loop", [3, *slow(1, 8)])
def test_a_run_ends_after_so_many_in_a_row(tmp_path, per_loop):
    scales = [1, np.nan, 1, np.nan, np.nan, np.nan, np.nan, 1]
    message = refusal(run, tmp_path, scales, limit=4, per_loop=per_loop)
    assert message.startswith("`max_nonfinite_steps`=4: the updates of steps 4 to 7 were skipped")
    assert "now nan and nan; at step 3 they were " in message
    assert "parameter norm " in message
    assert "). Start from scratch (another `output_dir`) with a lower `learning_rate`" in message
    assert not list(tmp_path.glob("model.ckpt-*")), "nothing is saved after it"
    # The steps before, and those that ended it, are on record.
    assert sum(row["nonfinite_steps"] for row in records(tmp_path)) == 5


@pytest.mark.integration
def test_a_run_that_diverges_keeps_the_checkpoint_from_before(tmp_path, caplog):
    def steps():
        return sorted(int(path.stem.rpartition("-")[2]) for path in tmp_path.glob("*.index"))

    scales = [1, 1, 1, 1e4, 1e4, 1e4, 1e4, 1e4, 1, np.nan, 1e4, np.nan, np.nan, np.nan, np.nan]
    message = refusal(run, tmp_path, scales, limit=4, save_every=2, per_loop=2, keep=1)
    good = f"{tmp_path}/model.ckpt-2"
    assert f"). Start from {good} with a lower `learning_rate`" in message
    assert steps() == [2, 14]
    (warning,) = (each.message for each in caplog.records if "diverged" in each.message)
    form = r"the loss has diverged to \S+ at step 4, from \S+ at first. Start from "
    form += re.escape(good) + " with a lower `learning_rate` .*"
    assert re.fullmatch(form, warning)
    for _ in range(2):  # from a checkpoint that is not good
        caplog.clear()
        with pytest.raises(InputError, match=f"steps 12 to 15 .* from {re.escape(good)} with"):
            run(tmp_path, scales, limit=4, save_every=2, per_loop=2, keep=1)
        assert steps() == [2, 14]
    longer = [*scales, *[1e4] * 6]
    run(tmp_path, longer, limit=5, save_every=2, per_loop=2, keep=1)
    assert re.fullmatch(form.replace("step 4", "step 16"), caplog.messages[-1])
    assert steps() == [2, 21]
    run(tmp_path, [*longer, np.nan, np.nan], limit=5, save_every=2, per_loop=2, keep=1)
    assert caplog.messages[-1].startswith("the updates of steps 22 to 23 were skipped, since ")
    assert f"). Start from {good} with a lower `learning_rate`" in caplog.messages[-1]
    assert steps() == [2, 23]
    run(tmp_path, [*longer, 1, 1, 1, 1], limit=5, save_every=2, per_loop=2, keep=1)
    assert steps() == [25], "a good one replaces all"


@pytest.mark.integration
def test_fewer_in_a_row_are_counted_and_the_run_goes_on(tmp_path, capsys):
    scales = [1, np.nan, np.nan, np.nan, 1, np.nan, np.nan, np.nan, 1, np.nan, np.nan, np.nan]
    step = run(tmp_path, scales, limit=4)
    assert int(step.optimizer.iterations.numpy()) == 12
    rows = records(tmp_path)
    assert [row["nonfinite_steps"] for row in rows] == [2, 2, 2, 3]
    assert "loss" in rows[0]
    # Of the last record no step was finite: nothing is made up for it.
    for name in ("loss", "masked_lm_accuracy", "gradient_norm", "trust_ratio_min"):
        assert name not in rows[3]
    assert rows[3]["learning_rate"] == pytest.approx(0.01)
    assert "9 steps skipped (not finite)" in capsys.readouterr().err


@pytest.mark.integration
def test_a_record_holds_what_is_promised(tmp_path):
    run(tmp_path, [1, 1, 1], limit=4)
    (row,) = records(tmp_path)
    parts = {f"{p}_{m}" for p in ("masked_lm", "sentence_order") for m in ("loss", "accuracy")}
    assert set(row) == parts | {
        "step", "seconds", "loss", "learning_rate", "gradient_norm", "parameter_norm",
        "trust_ratio_min", "trust_ratio_median", "trust_ratio_max", "examples_per_second",
        "tokens_per_second", "mfu", "input_wait", "nonfinite_steps", "host_memory_peak_gib",
    }  # fmt: skip
    assert row["tokens_per_second"] == pytest.approx(16 * row["examples_per_second"], rel=1e-6)
    assert row["mfu"] == pytest.approx(row["examples_per_second"] * 1e6 / 1e12, rel=1e-6)
    assert 0 <= row["input_wait"] <= 1
    assert 0.05 < row["host_memory_peak_gib"] < 64
    scalars = set()
    for path in (tmp_path / "train").iterdir():
        for event in tf.compat.v1.train.summary_iterator(str(path)):
            scalars |= {
                value.tag.partition("/")[2]
                for value in event.summary.value
                if value.metadata.plugin_data.plugin_name == "scalars"
            }
    same = set(row) - {"step", "examples_per_second"}
    assert scalars == same | {"sequences_per_second"}


def test_rates_are_of_the_lengths_that_were_computed():
    lengths = np.array([5.0, 5.0, 10.0, 2.0])
    rates = {"examples_per_second": 16.0, "tokens_per_second": 16 * 5.5}
    assert Workload(8, lambda length: length**2).rates(2.0, lengths) == rates
    found = Workload(8, lambda length: length**2, 1e12).rates(2.0, lengths)
    assert found == pytest.approx({**rates, "mfu": 16 * (25 + 25 + 100 + 4) / 4 / 1e12})
    found = Workload(8, lambda length: 9.0, 1e12, Rows(3.5, 9.75)).rates(2.0, np.full(4, 10.0))
    of_rows = {"rows_per_second": 16.0, "real_tokens_per_second": 16 * 9.75}
    both = {"examples_per_second": 16 * 3.5, "tokens_per_second": 160.0}
    assert found == pytest.approx({**of_rows, **both, "mfu": 16 * 9 / 1e12})


@pytest.mark.integration
def test_input_wait_is_the_time_that_data_comes_after_the_step_before():
    pause, steps = 0.05, 5
    step = as_new()
    elements = list(data([1] * steps))
    last = step.model.trainable_weights[-1]

    def late():
        for element in elements:
            before = last.numpy()  # not after, when the step may have been made already
            yield element
            # The next batch starts on its way when this step has written its last variable.
            deadline = time.monotonic() + 60
            while np.array_equal(last.numpy(), before) and time.monotonic() < deadline:
                time.sleep(0.001)
            time.sleep(pause)

    dataset = tf.data.Dataset.from_generator(
        late, output_signature={n: tf.TensorSpec(v.shape, v.dtype) for n, v in elements[0].items()}
    )
    waited = step(iter(ending_at_once(dataset)), steps).scalars["input_wait_seconds"]
    assert waited >= (steps - 1) * pause
