"""Recognizes a pretraining run that is still on the plateau where pretraining begins.

There, a model knows the frequencies of words and of their neighbors, and attention does not help
yet: loss and accuracy hardly change for hundreds to many thousands of steps.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np

# Measured on runs that did and did not leave it, of 2 layers on English novels: on the plateau, the
# loss falls by at most 3 % while the number of steps doubles, and 12 to 15 % of the masked tokens
# are predicted; a run that leaves it soon passes both limits.
_LARGEST_FALL, _HIGHEST_ACCURACY = 0.035, 0.17

# A run is judged once, after this share of its steps, but not before this many.
_SHARE, _FEWEST_STEPS = 0.1, 1000

LOSS, ACCURACY = "masked_lm_loss", "masked_lm_accuracy"


class PlateauWatch:
    """Judges a run once, from the records of its log.

    Args:
        total_steps: step at which the run ends.
        rows: records before those that `advice` gets.
    """

    def __init__(self, total_steps: int, rows: Iterable[Mapping[str, float]] = ()):
        self._at = max(int(total_steps * _SHARE), _FEWEST_STEPS)
        self._rows: list[tuple[float, float, float]] = []
        for row in rows:
            self._add(row)

    def advice(self, row: Mapping[str, float]) -> str | None:
        """Return a line for the user, once, if the run is on the plateau.

        Args:
            row: record of the latest steps.
        """
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
