"""The health of a run: metrics, throughput, memory, steps that are not finite, and advice."""

import dataclasses
import math
import resource
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import numpy as np

from albert_tf.engines.steps import StepResults
from albert_tf.errors import InputError
from albert_tf.hardware import GIB
from albert_tf.input.manifest import Rows
from albert_tf.logs import counted
from albert_tf.modeling.losses import Objective, means
from albert_tf.training.options import PretrainingOptions, TrainingOptions


@dataclasses.dataclass(frozen=True)
class Workload:
    """What one step computes, and on what.

    `flops` returns operations of the model on an example, or a row, by its length, forward and
    backward; `peak_flops` are those per second that all devices together can do, None if unknown.
    `rows` is what rows have if batches consist of them.
    """

    batch_size: int
    flops: Callable[[int], float]
    peak_flops: float | None = None
    rows: Rows | None = None

    def rates(self, seconds: float, lengths: np.ndarray) -> dict[str, float]:
        """`examples_per_second`, `tokens_per_second` and, if the peak is known, `mfu`.

        Of rows also `rows_per_second` and `real_tokens_per_second`. Some steps took so many
        seconds; `lengths` are of the sequences of each, padding included.
        """
        sequences = len(lengths) * self.batch_size / max(seconds, 1e-9)
        tokens = float(np.mean(lengths))
        rates = {"examples_per_second": sequences, "tokens_per_second": sequences * tokens}
        if self.rows:
            rates["examples_per_second"] = sequences * self.rows.examples
            rates["rows_per_second"] = sequences
            rates["real_tokens_per_second"] = sequences * self.rows.tokens
        if self.peak_flops:
            found, counts = np.unique(lengths, return_counts=True)
            flops = np.dot([self.flops(int(length)) for length in found], counts) / len(lengths)
            rates["mfu"] = sequences * float(flops) / self.peak_flops
        return rates


# A loss has diverged above this multiple of the first one, or of 1 if that was less.
_DIVERGED = 5.0
# The metric that carries the number of skipped steps over a restart; missing where it is 0.
_IN_A_ROW = "nonfinite_in_a_row"


class Health:
    """Turns results of steps into metrics, and ends a run whose updates are all skipped.

    `max_nonfinite_steps` skipped steps in a row end it. `advice` is what to try after a run that
    has failed or diverged, a noun.
    """

    def __init__(self, objective: Objective, max_nonfinite_steps: int, advice: str):
        self._objective = objective
        self._limit = max_nonfinite_steps
        self._advice = advice
        self._in_a_row = 0
        self._first_loss: float | None = None
        self._loss = 0.0
        self._has_warned = False
        self._before = "no step before them was finite"
        self._skipped = ""
        self._failure: str | None = None

    def resume(self, rows: Iterable[Mapping[str, float]]) -> list[float]:
        """Continue after the records of a log; return the steps at which the run was not good."""
        bad = []
        for row in rows:
            skipped = 0 if "loss" in row else self._in_a_row + row.get("nonfinite_steps", 0)
            self._in_a_row = int(row.get(_IN_A_ROW, skipped))
            if "loss" in row:
                self._loss, norm = row["loss"], row.get("gradient_norm", math.nan)
                self._first_loss = self._loss if self._first_loss is None else self._first_loss
                self._before = f"by step {row['step']} they were {self._loss:.4g} and {norm:.4g}"
            if not self.is_good:
                bad.append(row["step"])
        return bad

    def metrics(self, results: StepResults, step: int) -> dict[str, float]:
        """Return the metrics of some steps, `step` the last of them.

        These are means of the objective over the finite steps; of the last step `learning_rate`, of
        the last finite one `gradient_norm` and the optimizer's measures; `parameter_norm`,
        `nonfinite_steps` and `input_wait_seconds`; `nonfinite_in_a_row` of the last steps, if they
        were skipped. Metrics that only a finite step has are missing if there is none.
        """
        history = results.history
        finite = history["finite"] > 0
        self._watch(history, results.scalars["parameter_norm"], step)
        metrics = dict(results.scalars)
        metrics["nonfinite_steps"] = float(np.sum(~finite))
        metrics |= {_IN_A_ROW: float(self._in_a_row)} if self._in_a_row else {}
        if finite.any():
            quantities = means(results.sums, results.weights)
            loss = sum(quantities[name] for name in self._objective.losses)
            metrics = {"loss": loss, **quantities, **metrics}
            self._loss = loss
            if self._first_loss is None:
                self._first_loss = float(history["loss"][finite][0])
            metrics["gradient_norm"] = float(history["gradient_norm"][finite][-1])
        else:
            metrics = {
                name: metrics[name]
                for name in metrics
                if name != "gradient_norm" and not name.startswith("trust_ratio")
            }
        return metrics

    def _watch(self, history: dict[str, np.ndarray], parameter_norm: float, last: int) -> None:
        steps = range(last - len(history["finite"]) + 1, last + 1)
        columns = (history[name] for name in ("finite", "loss", "gradient_norm"))
        for step, finite, loss, norm in zip(steps, *columns, strict=True):
            if finite:
                self._in_a_row = 0
                self._before = f"at step {step} they were {loss:.4g} and {norm:.4g}"
                continue
            self._in_a_row += 1
            self._skipped = (
                f"the updates of steps {step - self._in_a_row + 1} to {step} were skipped, since "
                f"loss or gradient norm was not finite (now {loss:.4g} and {norm:.4g}; "
                f"{self._before}; parameter norm {parameter_norm:.4g})"
            )
            if self._in_a_row >= self._limit and not self._failure:
                self._failure = f"`max_nonfinite_steps`={self._limit}: {self._skipped}"

    @property
    def _has_diverged(self) -> bool:
        return self._loss > _DIVERGED * max(self._first_loss or 0.0, 1.0)

    @property
    def is_good(self) -> bool:
        """Whether the last update was made, and the loss has not diverged."""
        return not (self._in_a_row or self._has_diverged)

    def warning(self, step: int, good: str | None) -> str | None:
        """Return a line when the loss has diverged, once.

        `good` is the last checkpoint from before.
        """
        if not self._has_diverged or self._has_warned:
            return None
        self._has_warned = True
        return (
            f"the loss has diverged to {self._loss:.4g} at step {step}, from "
            f"{self._first_loss:.4g} at first. {self._advised(good)}"
        )

    def ending(self, good: str | None) -> str | None:
        """Return a line for the end if the last updates were skipped; `good` as for `warning`."""
        return f"{self._skipped}. {self._advised(good)}" if self._in_a_row else None

    def check(self, good: str | None = None) -> None:
        """Raise InputError when too many steps in a row were skipped; `good` as for `warning`."""
        if self._failure:
            raise InputError(f"{self._failure}. {self._advised(good)}")

    def _advised(self, good: str | None) -> str:
        return f"Start from {good or 'scratch (another `output_dir`)'} with {self._advice}"


# Measured on runs that did and did not leave it, of 2 layers on English novels: on the plateau, the
# loss falls by at most 3 % while the number of steps doubles, and 12 to 15 % of the masked tokens
# are predicted; a run that leaves it soon passes both limits.
_LARGEST_FALL, _HIGHEST_ACCURACY = 0.035, 0.17

# A run is judged once, after this share of its steps, but not before this many.
_SHARE, _FEWEST_STEPS = 0.1, 1000

LOSS, ACCURACY = "masked_lm_loss", "masked_lm_accuracy"


class PlateauWatch:
    """Judges once, from the records of a run's log, whether it is on the first plateau.

    There, a model knows the frequencies of words and of their neighbors, and attention does not
    help yet: loss and accuracy hardly change for hundreds to many thousands of steps.

    The run ends at `total_steps`; `rows` are the records before those that `advice` gets.
    """

    def __init__(self, total_steps: int, rows: Iterable[Mapping[str, float]] = ()):
        self._at = max(int(total_steps * _SHARE), _FEWEST_STEPS)
        self._rows: list[tuple[float, float, float]] = []
        for row in rows:
            self._add(row)

    def advice(self, row: Mapping[str, float]) -> str | None:
        """Return a line for the user, once, if the run is on the plateau by its latest record."""
        before = self._rows[-1][0] if self._rows else 0
        self._add(row)
        if LOSS not in row or not before < self._at <= row["step"]:
            return None
        now, half_way = self._mean(0.9, 1.0), self._mean(0.4, 0.5)
        if now is None or half_way is None:
            return None
        fall, accuracy = 1 - now[0] / half_way[0], now[1]
        if fall > _LARGEST_FALL or accuracy > _HIGHEST_ACCURACY:
            return None
        return (
            f"step {row['step']}: still on the plateau where pretraining begins: "
            f"{accuracy:.1%} of the masked tokens are predicted, and their loss fell by only "
            f"{max(fall, 0):.1%} while the number of steps doubled; docs/recipes.md says what helps"
        )

    def _add(self, row: Mapping[str, float]) -> None:
        if LOSS in row and (not self._rows or self._rows[-1][0] < self._at):
            self._rows.append((row["step"], row[LOSS], row[ACCURACY]))

    def _mean(self, begin: float, end: float) -> tuple[float, float] | None:
        """Return mean loss and accuracy from `begin` to `end`, as shares of the steps so far."""
        rows = np.array(self._rows)
        steps = rows[:, 0] / rows[-1, 0]
        chosen = rows[(steps > begin) & (steps <= end), 1:]
        return tuple(chosen.mean(0)) if len(chosen) else None


def memory(device_peak: int | None = None) -> dict[str, float]:
    """`host_memory_peak_gib` of this process and, if known, `device_memory_peak_gib`.

    `device_peak` is the peak memory use of the fullest device, in bytes.
    """
    unit = 1 if sys.platform == "darwin" else 1024
    host = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    peaks = {"host_memory_peak_gib": host / GIB}
    if device_peak is not None:
        peaks["device_memory_peak_gib"] = device_peak / GIB
    return peaks


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
    """Return the peak learning rate of pretraining by the square-root rule.

    None for an optimizer without a reference. The batch is that of all devices.
    """
    reference = REFERENCES.get(optimizer)
    if reference is None:
        return None
    return reference.learning_rate * math.sqrt(batch_size / reference.batch_size)


def warnings(options: PretrainingOptions, rows: Rows | None = None) -> list[str]:
    """Return a line for every setting that has made runs diverge, or leaves the body untrained.

    `rows` is what rows have if batches consist of them: the rules are about examples.
    """
    lines = []
    batch = round(options.train_batch_size * (rows.examples if rows else 1))
    named = f"{options.train_batch_size}{f' rows ({batch:,} examples)' if rows else ''}"
    rate = suitable_rate(options.optimizer, batch)
    if rate is not None and options.learning_rate > TOLERANCE * rate:
        known = REFERENCES[options.optimizer]
        lines.append(
            f"`learning_rate`={options.learning_rate:g} is high for `train_batch_size`={named}: "
            f"{known.source} {known.learning_rate:g} at {known.batch_size} corresponds to "
            f"{rate:.2g} here by the square-root rule; small models may tolerate more, large ones "
            "diverge"
        )
    warmup = options.num_train_steps * min(batch * _WARMUP_PER_EXAMPLE, _MOST_WARMUP)
    if options.optimizer == "lamb" and options.num_warmup_steps < math.floor(warmup / TOLERANCE):
        lines.append(
            f"`num_warmup_steps`={options.num_warmup_steps} is short for {options.num_train_steps} "
            f"steps of {counted(batch, 'example')}: LAMB's paper warms up for {warmup:.0f}"
        )
    if options.steps_of_embeddings >= options.num_train_steps:
        lines.append(f"`train_only`={options.train_only}: these are all steps of the run")
    return lines


def what_to_try(options: TrainingOptions) -> str:
    """Return advice for a run whose losses or gradients are not finite."""
    rate = suitable_rate(options.optimizer, options.train_batch_size)
    lower = f"a lower `learning_rate` than {options.learning_rate:g}"
    if rate is not None and rate < options.learning_rate:
        lower += f", such as {rate:.2g}"
    tries = [lower, "a longer warm-up"]
    if options.dtype != "float32":
        tries.append("`dtype`=float32")
    return ", or ".join(tries)
