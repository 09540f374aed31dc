"""Frozen variables keep their bits and have no moments, resumed or not."""

from __future__ import annotations

import types

import pytest

from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.finetuning.single_run import freeze_variables, frozen_file
from albert_tf.modeling.heads import AlbertForSequenceClassification
from tests.support import frozen_runs
from tests.support.finetuning import options_of
from tests.support.tiny import CONFIG


@pytest.mark.slow
def test_frozen_variables_stay_as_they_are(tmp_path, capsys):
    frozen_runs.check(tmp_path)
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


def test_a_decay_out_of_range_is_found_early(tmp_path):
    options = options_of(tmp_path, tmp_path / "out", layer_decay=1.5)
    with pytest.raises(InputError, match="`layer_decay`=1.5: must be above 0 and at most 1"):
        options.check()
