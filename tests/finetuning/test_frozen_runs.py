"""Frozen variables keep their bits and have no moments, resumed or not."""

import dataclasses
import pathlib
import types

import keras
import numpy as np
import pytest

from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.finetuning.command import fine_tune
from albert_tf.finetuning.single_run import freeze_variables, frozen_file
from albert_tf.interop.loading import open_weights
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.tasks.classification.task import ClassificationTask
from tests.support.finetuning import options_of
from tests.support.kinds_of_tasks import write_weights
from tests.support.tiny import CONFIG

FREEZE = ("bert/embeddings/*", "bert/encoder/embedding_hidden_mapping_in/bias")


def is_frozen(path: str) -> bool:
    return path.startswith("bert/embeddings/") or path == FREEZE[1]


def values(folder: pathlib.Path) -> dict:
    return {name: tensor.read for name, tensor in open_weights(str(folder)).tensors.items()}


@pytest.mark.slow
def test_frozen_variables_stay_as_they_are(tmp_path, capsys):
    """Train, and resume an interrupted run."""
    weights = write_weights(tmp_path)
    settings = {"engine": keras.backend.backend(), "do_eval": False, "optimizer": "adamw"}
    options = options_of(tmp_path, tmp_path / "out", **settings)
    start = {name: value() for name, value in values(weights).items()}

    def train(name: str, steps: int) -> pathlib.Path:
        changed = dataclasses.replace(
            options,
            output_dir=str(tmp_path / name),
            init_checkpoint=weights,
            freeze=FREEZE,
            layer_decay=0.5,
            warmup_step=0,
            schedule="wsd",
            train_step=steps,
        )
        fine_tune(changed, ClassificationTask)
        return tmp_path / name

    trained = train("whole", 4)
    weights_after = values(trained)
    for path, before in start.items():
        assert np.array_equal(weights_after[path](), before) == is_frozen(path), path
    moments = open_weights(str(trained)).optimizer
    assert len(moments) == 2 * sum(not is_frozen(path) for path in weights_after)
    assert not [path for path in moments if "word_embeddings" in path]
    train("parts", 2)
    resumed = values(train("parts", 4))
    for path, read in values(trained).items():
        np.testing.assert_array_equal(resumed[path](), read(), err_msg=path)
    assert "; frozen: 6 variables" in capsys.readouterr().out


@pytest.fixture
def engine():
    """Return what `freeze_variables` needs of an engine, with one checkpoint."""
    checkpoints = ["model.ckpt-5"]
    folder = types.SimpleNamespace(all=lambda: checkpoints)
    return types.SimpleNamespace(workers=Workers(), checkpoints_in=lambda path: folder)


def test_a_run_that_resumes_must_freeze_the_same(tmp_path, engine):
    first = options_of(tmp_path, tmp_path, freeze=("classifier/*", "bert/pooler/*"))
    for name, content in frozen_file(first).items():
        (tmp_path / name).write_text(content)
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)
    for freeze in ((), ("classifier/*",), ("classifier/*", "bert/embeddings/*")):
        options = options_of(tmp_path, tmp_path, freeze=freeze)
        with pytest.raises(InputError, match=r"was trained with bert/pooler/\*,classifier/\*; use"):
            freeze_variables(engine, model, options)
    assert len(model.trainable_weights) == len(model.weights)
    same = options_of(tmp_path, tmp_path, freeze=first.freeze[::-1])
    freeze_variables(engine, model, same)
    assert len(model.weights) - len(model.trainable_weights) == 4


def test_a_run_without_checkpoints_may_freeze_anything(tmp_path, engine):
    engine.checkpoints_in = lambda folder: types.SimpleNamespace(all=list)
    (tmp_path / "frozen.json").write_text('["classifier/*"]')
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)
    freeze_variables(engine, model, options_of(tmp_path, tmp_path))
    assert not (tmp_path / "frozen.json").exists()
    with pytest.raises(InputError, match="`freeze`=no/such: matches no variable"):
        freeze_variables(engine, model, options_of(tmp_path, tmp_path, freeze=("no/such",)))
