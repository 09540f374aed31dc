"""What the fine-tuning programs differ in; what they share is `albert_tf.finetuning.run`."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.input.examples import Features
from albert_tf.modeling.losses import Objective
from albert_tf.report.sections import Section


@dataclasses.dataclass(frozen=True)
class ExampleSet:
    """Examples of one file or folder, ready for the model.

    Attributes:
        name: what tells it from others of its split, such as "matched"; "" where there is one.
        features: what the model reads.
        examples: what they were made from, for scores, predictions and the report.
    """

    name: str
    features: Features
    examples: Sequence[Any]


class Problem(abc.ABC):
    """One kind of fine-tuning: its examples, its model, its scores and its files.

    Made from the program's options by `create`, which reads and checks every input, so that
    nothing of a bad one shows only after training.

    Attributes:
        sets: split ("train", "eval", "predict") -> its sets; only those that are asked for.
        objective: what training minimises.
        outputs: names of the model's outputs that scores and predictions are made of.
        metric: the result by which checkpoints and runs are compared; the higher the better, but
            for names that end in "loss".
    """

    sets: dict[str, list[ExampleSet]]
    objective: Objective
    outputs: tuple[str, ...]
    metric: str

    @abc.abstractmethod
    def create_model(self, config: AlbertConfig, dtype: str) -> keras.Model:
        """The model, with initial weights; `dtype` is the name of a Keras policy."""

    @abc.abstractmethod
    def flops_per_example(self, config: AlbertConfig) -> float:
        """Operations of training on an example of the full length."""

    @abc.abstractmethod
    def description(self) -> dict[str, str]:
        """File name -> text of what stands beside the checkpoints, to be read without training."""

    @abc.abstractmethod
    def score(self, examples: ExampleSet, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        """Results of a set, by names such as `eval_accuracy`.

        Args:
            examples: of the split "eval".
            outputs: of the model, by the names in `outputs`, `[examples, ...]` in their order.
        """

    @abc.abstractmethod
    def write_predictions(
        self, folder: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> None:
        """Writes the files of `--do_predict`; arguments as in `score`, of the split "predict"."""

    def report(
        self, split: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> list[Section]:
        """What the report says of a set besides its results; nothing where a problem is silent.

        Args:
            split: "eval" or "predict"; the examples of the latter may have no labels.
            examples: of that split.
            outputs: as in `score`.
        """
        return []

    def collapsed(self, outputs: dict[str, np.ndarray]) -> str | None:
        """What shows that the model has learnt nothing, such as "only one class"; None if it has.

        Args:
            outputs: of all examples of a set of the split "eval", as in `score`.
        """
        return None

    def read_lines(self, lines: Sequence[str], first: int) -> ExampleSet:
        """Examples of lines of standard input: `--predict_file=-` works where this is defined.

        Args:
            lines: one example each.
            first: number of the first line, counted from 1; named in errors.

        Raises:
            InputError: a line is not what it should be.
        """
        raise NotImplementedError

    def result_lines(self, examples: ExampleSet, outputs: dict[str, np.ndarray]) -> list[str]:
        """A line for each example that `read_lines` made."""
        raise NotImplementedError
