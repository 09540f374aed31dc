"""Learning rates and warm-ups that suit a batch size."""

from __future__ import annotations

import math
from typing import NamedTuple

from albert_tf.training.options import PretrainingOptions, TrainingOptions


class Reference(NamedTuple):
    """A learning rate that suits a batch size in pretraining; it scales with the square root."""

    learning_rate: float
    batch_size: int
    source: str


# LAMB: the square-root rule comes from its paper (arXiv 1904.00962), whose own rates follow it:
# 0.005 at 32,768, hence 0.00177 at 4096. AdamW: RoBERTa's 6e-4 at 8192 is on the same curve.
REFERENCES: dict[str, Reference] = {
    "lamb": Reference(0.00176, 4096, "ALBERT's"),
    "adamw": Reference(1e-4, 256, "BERT's"),
}

# Rates above this multiple of the suitable rate cause a warning.
TOLERANCE = 2.0

# Table in LAMB's paper: 1/320 of all steps warm up at batch 512, twice that at twice the batch, up
# to 1/5 at 32,768. ALBERT's 3,125 of 125,000 steps at 4096 are the same 1/40.
_WARMUP_PER_EXAMPLE = 1 / (320 * 512)
_MOST_WARMUP = 1 / 5


def suitable_rate(optimizer: str, batch_size: int) -> float | None:
    """The peak learning rate of pretraining by the square-root rule.

    Args:
        optimizer: its name.
        batch_size: examples in a step, over all devices.

    Returns:
        None for an optimizer without a reference.
    """
    reference = REFERENCES.get(optimizer)
    if reference is None:
        return None
    return reference.learning_rate * math.sqrt(batch_size / reference.batch_size)


def warnings(options: PretrainingOptions) -> list[str]:
    """A line for every setting of learning rate and warm-up that has made runs diverge."""
    lines = []
    batch, rate = (
        options.train_batch_size,
        suitable_rate(options.optimizer, options.train_batch_size),
    )
    if rate is not None and options.learning_rate > TOLERANCE * rate:
        known = REFERENCES[options.optimizer]
        lines.append(
            f"--learning_rate={options.learning_rate:g} is high for --train_batch_size={batch}: "
            f"{known.source} {known.learning_rate:g} at {known.batch_size} corresponds to "
            f"{rate:.2g} here by the square-root rule; small models may tolerate more, large ones "
            "diverge"
        )
    warmup = options.num_train_steps * min(batch * _WARMUP_PER_EXAMPLE, _MOST_WARMUP)
    if options.optimizer == "lamb" and options.num_warmup_steps < math.floor(warmup / TOLERANCE):
        lines.append(
            f"--num_warmup_steps={options.num_warmup_steps} is short for {options.num_train_steps} "
            f"steps of {batch} examples: LAMB's paper warms up for {warmup:.0f}"
        )
    return lines


def what_to_try(options: TrainingOptions) -> str:
    """Advice for a run whose losses or gradients are not finite."""
    rate = suitable_rate(options.optimizer, options.train_batch_size)
    lower = f"a lower `learning_rate` than {options.learning_rate:g}"
    if rate is not None and rate < options.learning_rate:
        lower += f", such as {rate:.2g}"
    tries = [lower, "a longer warm-up"]
    if options.dtype != "float32":
        tries.append("`dtype`=float32")
    return f"Try {', '.join(tries)}, from the latest checkpoint or from scratch"
