"""What a study is: what varies, what is measured, the paper's numbers, and how it is drawn.

A study is one of `experiments/studies.py`, or a Python file whose path is given to `python -m
experiments` and that assigns a `Study` to `STUDY`; experiments/README.md shows one.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from experiments.scales import Scale

# Name of a flag -> its value. True and False are written --flag and --noflag.
Flags: TypeAlias = Mapping[str, Any]

# Evaluation sets by name: how they differ from the training data of the scale.
OWN = "own"


@dataclasses.dataclass(frozen=True)
class Variant:
    """A row of a study: how its runs differ from the scale.

    Attributes:
        name: in tables and pictures.
        model: fields of the config.
        data: flags of data_prep.create_pretraining_data.
        training: flags of run_pretraining.py.
        text_share: share of the training text that is used.
        paper: the paper's numbers for this row, by heading; the first one, `model`, is what the
            paper calls it.
    """

    name: str
    model: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    data: Flags = dataclasses.field(default_factory=dict)
    training: Flags = dataclasses.field(default_factory=dict)
    text_share: float = 1.0
    paper: Mapping[str, str | float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Column:
    """Something measured of every run.

    Attributes:
        heading: in tables and pictures.
        metric: its name in `eval_results.txt`, or one of `parameters`, `gflops` (of a training
            example), `sequences_per_second`, `relative_speed` (a multiple of the reference's),
            `steps` and `downstream` (the average over the tasks of --tasks).
        on: evaluation set of the study that it is measured on; None if it is no evaluation.
        percent: whether it is a share, shown in percent.
        lower_is_better: as a loss.
        chance: value by chance, shown where a model has no head for it.
    """

    heading: str
    metric: str
    on: str | None = None
    percent: bool = False
    lower_is_better: bool = False
    chance: float | None = None


PARAMETERS = Column("parameters, millions", "parameters")
GFLOPS = Column("GFLOP per example", "gflops")
SPEED = Column("sequences/s", "sequences_per_second")
STEPS = Column("steps", "steps")
MASKED_LM = Column("masked-token accuracy, %", "masked_lm_accuracy", OWN, percent=True)
MASKED_LM_LOSS = Column("masked-token loss", "masked_lm_loss", OWN, lower_is_better=True)
SENTENCE_ORDER = Column(
    "sentence-order accuracy, %", "sentence_order_accuracy", OWN, percent=True, chance=0.5
)
DOWNSTREAM = Column("tasks, %", "downstream", percent=True)
LEARNED = (MASKED_LM, SENTENCE_ORDER, DOWNSTREAM)


@dataclasses.dataclass(frozen=True)
class Study:
    """A question, and the runs that answer it.

    Attributes:
        title: of its section and picture.
        source: where it is in the paper, such as "table 3".
        variants: `(scale)` -> the rows.
        picture: the column that is drawn, a dot with its interval for each variant; None to draw
            held-out accuracy of masked tokens over training, means of the seeds.
        reference: name of the variant that the others are compared with; by default the first.
        compared: the column in which they are compared.
        evaluate_on: name -> flags of create_pretraining_data for further evaluation sets. "own" is
            made like the training data of each variant.
        paper_compared: heading of the paper's numbers that `compared` corresponds to.
        trains: whether runs are trained; if not, only what needs no training is measured.
        timed: whether the speed of a training step is measured, in interleaved rounds.
        timed_batch: scale -> (sequences, tokens) in a timed step, instead of `Scale.timed_batch`.
        same_time: whether every run gets the time of `Scale.minutes` instead of a number of steps.
    """

    title: str
    source: str
    question: str
    variants: Callable[[Scale], Sequence[Variant]]
    columns: Sequence[Column]
    picture: Column | None = MASKED_LM
    reference: str | None = None
    compared: Column = MASKED_LM
    evaluate_on: Mapping[str, Flags] = dataclasses.field(default_factory=dict)
    paper_compared: str = "Avg"
    trains: bool = True
    timed: bool = False
    timed_batch: Mapping[str, tuple[int, int]] = dataclasses.field(default_factory=dict)
    same_time: bool = False

    def evaluation_sets(self) -> list[str]:
        """Return names of the evaluation sets that the columns need."""
        return list(dict.fromkeys(column.on for column in self.columns if column.on))
