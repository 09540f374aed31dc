"""Fine-tuning with frozen variables."""

from __future__ import annotations

import dataclasses
import pathlib

import keras
import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.finetuning.run import fine_tune
from albert_tf.interop.loading import open_weights
from albert_tf.tasks.classification.task import ClassificationTask
from tests.support.finetuning import options_of
from tests.support.kinds_of_tasks import write_weights

FREEZE = ("bert/embeddings/*", "bert/encoder/embedding_hidden_mapping_in/bias")


def is_frozen(path: str) -> bool:
    return path.startswith("bert/embeddings/") or path == FREEZE[1]


def check(folder: pathlib.Path) -> None:
    """Train, try to resume with other frozen variables, and resume an interrupted run."""
    weights = write_weights(folder)
    settings = {"engine": keras.backend.backend(), "do_eval": False, "optimizer": "adamw"}
    options = options_of(folder, folder / "out", **settings)
    start = {name: value() for name, value in values(weights).items()}

    def train(name: str, steps: int, **changes) -> pathlib.Path:
        changed = dataclasses.replace(
            options,
            output_dir=str(folder / name),
            init_checkpoint=weights,
            freeze=FREEZE,
            layer_decay=0.5,
            warmup_step=0,
            schedule="wsd",
            train_step=steps,
            **changes,
        )
        fine_tune(changed, ClassificationTask)
        return folder / name

    trained = train("whole", 4)
    weights_after = values(trained)
    for path, before in start.items():
        assert np.array_equal(weights_after[path](), before) == is_frozen(path), path
    moments = open_weights(str(trained)).optimizer
    assert len(moments) == 2 * sum(not is_frozen(path) for path in weights_after)
    assert not [path for path in moments if "word_embeddings" in path]
    for freeze in ((), FREEZE[:1]):
        changed = dataclasses.replace(options, output_dir=str(trained), freeze=freeze, train_step=6)
        with pytest.raises(InputError, match="whole was trained with bert/embeddings/") as caught:
            fine_tune(changed, ClassificationTask)
        assert str(caught.value).startswith(f"`freeze`={','.join(freeze)}: ")
    train("parts", 2)
    resumed = values(train("parts", 4))
    for path, read in values(trained).items():
        np.testing.assert_array_equal(resumed[path](), read(), err_msg=path)


def values(folder: pathlib.Path) -> dict:
    return {name: tensor.read for name, tensor in open_weights(str(folder)).tensors.items()}
