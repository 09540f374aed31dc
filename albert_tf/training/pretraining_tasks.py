"""What pretraining can learn, one declarative object each.

The manifest of the training data names the task that the data was made for (`pair_objective`). To
add one, make data with another name there, and register a `PretrainingTask` of that name before
calling `pretrain`:

    register_pretraining_task(PretrainingTask(
        name="replaced",
        model=AlbertForReplacedTokens,
        heads=("masked_lm", "replaced"),
        features=replaced_token_features,
        objective=ReplacedTokenObjective(),
        flops_per_example=replaced_token_flops,
    ))
"""

import dataclasses
import functools
from collections.abc import Callable

import keras

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.flops import pretraining_flops
from albert_tf.input.features import Feature, pretraining_features
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import Objective, PretrainingObjective
from albert_tf.pair_objectives import PAIR_OBJECTIVES

# Features that training draws by itself where the files contain no masks.
_DRAWN = "masked_lm_"


@dataclasses.dataclass(frozen=True)
class PretrainingTask:
    """A pretraining task: model, features, loss, metrics and cost.

    Attributes:
        name: its key in `PRETRAINING_TASKS`, and what manifests call it.
        model: creates the model with its heads, called as `model(config, dtype=policy)`.
        heads: names of the heads that the loss trains.
        features: `(max_seq_length, max_predictions_per_seq)` -> what an example contains, inputs
            and labels, with static masks.
        objective: loss and metrics of the model's outputs on a batch of these features.
        flops_per_example: `(config, max_seq_length, max_predictions_per_seq)` -> operations on one
            example, forward and backward.

    Example:
        >>> from albert_tf.training.pretraining_tasks import find_pretraining_task
        >>> task = find_pretraining_task("sop")
        >>> task.heads
        ('masked_lm', 'sentence_order')
        >>> sorted(task.stored_features(512, 20, dynamic_masks=True))
        ['input_ids', 'input_mask', 'next_sentence_labels', 'segment_ids', 'token_boundary']
    """

    name: str
    model: Callable[..., keras.Model]
    heads: tuple[str, ...]
    features: Callable[[int, int], dict[str, Feature]]
    objective: Objective
    flops_per_example: Callable[[AlbertConfig, float, float], float]

    def stored_features(
        self, max_seq_length: int, max_predictions_per_seq: int, dynamic_masks: bool
    ) -> dict[str, Feature]:
        """Return what an example in a file contains, which has no masks if training draws them.

        The lengths include padding.
        """
        features = self.features(max_seq_length, max_predictions_per_seq)
        if not dynamic_masks:
            return features
        return {name: f for name, f in features.items() if not name.startswith(_DRAWN)}

    def measured_by(self, other: "PretrainingTask") -> bool:
        """Return whether a model of this task can be evaluated on data of another one."""
        return self.model is other.model and set(other.heads) <= set(self.heads)


PRETRAINING_TASKS: dict[str, PretrainingTask] = {}


def register_pretraining_task(task: PretrainingTask) -> None:
    """Make a task available to training data that names it in its manifest.

    Example:
        >>> import dataclasses
        >>> from albert_tf.training.pretraining_tasks import find_pretraining_task
        >>> task = dataclasses.replace(find_pretraining_task("sop"), name="my_sentence_order")
        >>> albert_tf.register_pretraining_task(task)
        >>> find_pretraining_task("my_sentence_order") is task
        True
    """
    PRETRAINING_TASKS[task.name] = task


def find_pretraining_task(name: str) -> PretrainingTask:
    """Return the task called `name`.

    Raises:
        InputError: If there is none of that name.
    """
    if name not in PRETRAINING_TASKS:
        raise InputError(f"`pair_objective`={name}: must be one of {', '.join(PRETRAINING_TASKS)}")
    return PRETRAINING_TASKS[name]


# Masked language model (paper section 3.1), alone or with a binary task on pairs of segments.
for _name, _pair_objective in PAIR_OBJECTIVES.items():
    register_pretraining_task(
        PretrainingTask(
            name=_name,
            model=AlbertForPreTraining,
            heads=("masked_lm", *(("sentence_order",) if _pair_objective.part else ())),
            features=pretraining_features,
            objective=PretrainingObjective(_name),
            flops_per_example=functools.partial(
                pretraining_flops, sentence_order=_pair_objective.part is not None
            ),
        )
    )
