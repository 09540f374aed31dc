"""Learning-rate schedules against their formulas in float64, at every kind of step there is."""

import math

import keras
import numpy as np
import pytest
from keras import ops

from albert_tf.errors import InputError
from albert_tf.optimization import SCHEDULES, create_schedule
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.training.options import PretrainingOptions

PEAK = 0.00176
OWN = {"polynomial": {"power": 1.0}, "wsd": {"cooldown_steps": 20_000}, "cosine": {}}
# The paper's length, that of version 2 of base, and one whose steps float32 cannot count.
LENGTHS = [(125_000, 3_125), (10_000_000, 3_125), (40_000_001, 3_125)]


def rates(schedule, steps):
    """Return rates at many steps at once, float64."""
    return np.asarray(ops.convert_to_numpy(schedule(np.asarray(steps, "int32"))), "float64")


def steps_of(total, warmup, cooldown=0):
    """Return every seam with its neighbors, the last steps, and steps spread over the run."""
    seams = [0, warmup, total - cooldown, total, total + 1000]
    near = [seam + offset for seam in seams for offset in range(-3, 4)]
    spread = np.linspace(0, total, 1001).astype(int)
    return np.unique([step for step in [*near, *spread] if step >= 0])


def formula(name, steps, total, warmup, final=0.0, start=0, power=1.0, cooldown_steps=0):
    """Return float64 rates."""
    steps = np.float64(steps)
    before_end = np.maximum(total - steps, 0)
    warm = start + warmup
    falls = {
        "polynomial": lambda: (before_end / total) ** power,
        "wsd": lambda: (
            np.minimum(before_end / cooldown_steps, 1)
            if cooldown_steps
            else np.ones_like(before_end)
        ),
        "cosine": lambda: (
            0.5 * (1 + np.cos(math.pi * np.clip((steps - warm) / (total - warm), 0, 1)))
        ),
    }
    after = PEAK * (final + (1 - final) * falls[name]())
    if not warmup:
        return after
    since = steps - start if name == "polynomial" else np.maximum(steps - start, 0)
    return np.where(steps < warm, PEAK * since / warmup, after)


def check_rates(steps, name, own, total, warmup, tolerance, final=0.0, start=0):
    schedule = create_schedule(
        name,
        PEAK,
        total,
        num_warmup_steps=warmup,
        start_warmup_step=start,
        final_learning_rate_ratio=final,
        **own,
    )
    expected = formula(name, steps, total, warmup, final, start, **own)
    relative, absolute = tolerance
    np.testing.assert_allclose(rates(schedule, steps), expected, rtol=relative, atol=absolute)


@pytest.mark.parametrize(("total", "warmup"), LENGTHS)
@pytest.mark.parametrize("final", [0.0, 0.1])
@pytest.mark.parametrize("name", SCHEDULES)
def test_rates_are_float32_of_the_formula(name, final, total, warmup):
    steps = steps_of(total, warmup, OWN[name].get("cooldown_steps", 0))
    # Relative to the rate itself, to the last step: nothing is lost where it nears 0.
    check_rates(steps, name, OWN[name], total, warmup, (1e-6, 1e-19), final)


CASES = [(name, OWN[name]) for name in SCHEDULES if name != "wsd"]
CASES += [("polynomial", {"power": power}) for power in (0.5, 2.0)]
CASES += [("wsd", {"cooldown_steps": steps}) for steps in (0, 1, 300, 1250)]


@pytest.mark.parametrize("final", [0.0, 0.25])
@pytest.mark.parametrize("start", [0, 700])
@pytest.mark.parametrize("warmup", [0, 50])
@pytest.mark.parametrize(("name", "own"), CASES)
def test_a_later_warm_up_and_none_at_all(name, own, warmup, start, final):
    check_rates(np.arange(2100), name, own, 2000, warmup, (1e-5, 1e-10), final, start)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_schedule_survives_its_own_config(name):
    own = dict.fromkeys(OWN[name], 5)
    schedule = create_schedule(
        name,
        PEAK,
        1000,
        num_warmup_steps=7,
        start_warmup_step=3,
        final_learning_rate_ratio=0.2,
        **own,
    )
    stored = keras.optimizers.schedules.serialize(schedule)
    again = keras.optimizers.schedules.deserialize(stored)
    assert type(again) is type(schedule)
    assert again.get_config() == schedule.get_config()
    steps = np.arange(1200)
    np.testing.assert_array_equal(rates(again, steps), rates(schedule, steps))


def test_a_scalar_step_of_any_kind_gives_a_float32_scalar():
    for name in SCHEDULES:
        schedule = create_schedule(name, PEAK, 1000, num_warmup_steps=10)
        variable = keras.Variable(500, dtype="int32")
        for step in (500, np.int64(500), variable.value):
            rate = schedule(step)
            assert keras.backend.standardize_dtype(rate.dtype) == "float32"
            assert tuple(rate.shape) == ()
            assert float(rate) == rates(schedule, [500])[0]


def test_unknown_schedule_names_the_known_ones():
    with pytest.raises(InputError, match=r"`schedule`=sine.*polynomial.*wsd.*cosine"):
        create_schedule("sine", PEAK, 10)


def options(**changes):
    needed = {"albert_config_file": "c", "output_dir": "o", "do_train": True, "input_file": ("i",)}
    return PretrainingOptions(**{**needed, **changes})


def test_flags_know_every_schedule_and_hold_all_of_its_arguments():
    given = {"poly_power": 2.0, "cooldown_steps": 77}
    common = {
        "learning_rate": 0.5,
        "num_train_steps": 900,
        "num_warmup_steps": 11,
        "start_warmup_step": 5,
        "final_learning_rate_ratio": 0.25,
    }
    for name, (_, arguments) in SCHEDULES.items():
        of_flags = {flag: given[flag] for flag in arguments.values()}
        chosen = options(schedule=name, **common, **of_flags)
        chosen.check()
        config = create_schedule(name, **chosen.schedule_arguments()).get_config()
        del config["name"]
        own = {argument: given[flag] for argument, flag in arguments.items()}
        assert config == common | own


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"cooldown_steps": 5}, r"`cooldown_steps`=5: is for `schedule`=wsd.*polynomial"),
        ({"schedule": "cosine", "poly_power": 2.0}, r"`poly_power`=2.0: .*polynomial.*cosine"),
        ({"schedule": "wsd", "cooldown_steps": 121_876}, r"`cooldown_steps`=121876: .*121875"),
        ({"schedule": "wsd", "cooldown_steps": -1}, r"`cooldown_steps`=-1: must be at least 0"),
        ({"final_learning_rate_ratio": 1.5}, r"`final_learning_rate_ratio`=1.5: .*be 0 to 1"),
        ({"final_learning_rate_ratio": -0.1}, r"`final_learning_rate_ratio`=-0.1: .*be 0 to 1"),
    ],
)
def test_wrong_values_are_errors_that_name_the_flag(changes, message):
    with pytest.raises(InputError, match=message):
        options(**changes).check()


def test_a_cool_down_fits_into_the_steps_of_epochs():
    options = QuestionAnsweringOptions(
        output_dir="out", do_train=True, num_train_epochs=2.0, train_batch_size=10, warmup_step=5,
        schedule="wsd", cooldown_steps=35,
    )  # fmt: skip
    options.check()
    options.resolved(200).check_steps()
    with pytest.raises(InputError, match=r"`cooldown_steps`=35: must be at most 34, .* 39 train"):
        options.resolved(195).check_steps()
