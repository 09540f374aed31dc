"""A cool-down that branches off a run is a resume with other flags."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest

from albert_tf.interop.loading import open_weights
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining import pretrain
from tests.support.tiny import CONFIG, LENGTH, PREDICTIONS, batch, write_records

ONE_LAYER = dataclasses.replace(CONFIG, num_hidden_layers=1)


@pytest.fixture
def train(tmp_path):
    """Train in a folder of that name; return the weights it holds then."""
    write_records(tmp_path / "train.tfrecord", batch(16))
    (tmp_path / "albert_config.json").write_text(ONE_LAYER.to_json())

    def run(folder, **flags):
        options = PretrainingOptions(
            albert_config_file=str(tmp_path / "albert_config.json"),
            output_dir=str(tmp_path / folder),
            input_file=(str(tmp_path / "train.tfrecord"),),
            do_train=True,
            max_seq_length=LENGTH,
            max_predictions_per_seq=PREDICTIONS,
            train_batch_size=4,
            iterations_per_loop=1,
            num_warmup_steps=2,
            learning_rate=0.05,
            schedule="wsd",
            **flags,
        )
        pretrain(options)
        weights = open_weights(str(tmp_path / folder))
        return {name: weights.read(name) for name in weights.tensors}

    return run


@pytest.mark.integration
@pytest.mark.slow
def test_a_copy_cooled_down_is_the_run_that_had_it_planned(train, tmp_path):
    planned = train("planned", num_train_steps=6, cooldown_steps=3)
    stable = train("stable", num_train_steps=3)
    shutil.copytree(tmp_path / "stable", tmp_path / "copy")
    cooled = train("copy", num_train_steps=6, cooldown_steps=3)
    for name, value in planned.items():
        np.testing.assert_allclose(cooled[name], value, rtol=0, atol=1e-6, err_msg=name)
    assert any(np.abs(stable[name] - value).max() > 1e-3 for name, value in planned.items())
    rows = (tmp_path / "copy" / "metrics.jsonl").read_text().splitlines()
    rates = [json.loads(row)["learning_rate"] for row in rows]
    assert rates[2] > rates[4] > rates[5]
