"""Checkpoints at listed steps: saved where a run passes them, kept, and noted where it does not."""

import dataclasses

import numpy as np
import pytest

from albert_tf.checkpoints import TensorFlowFolder, step_of
from albert_tf.interop.loading import open_weights
from albert_tf.training.pretraining import pretrain
from tests.conftest import refusal
from tests.support.pretraining import options_of
from tests.support.tiny import CONFIG


def steps_in(folder) -> list[int]:
    return [step_of(path) for path in TensorFlowFolder(str(folder)).all()]


@pytest.mark.slow
def test_listed_steps_are_saved_and_kept(tmp_path, caplog):
    steps = {"num_train_steps": 6, "num_warmup_steps": 1, "train_batch_size": 8}
    plain = options_of(tmp_path, CONFIG, 16, save_checkpoints_steps=3, **steps)
    pretrain(plain)
    options = dataclasses.replace(
        plain, output_dir=str(tmp_path / "listed"), save_checkpoints_steps=4,
        save_steps=("5", "1", "3"), keep_checkpoint_max=1,
    )  # fmt: skip
    pretrain(options)
    assert steps_in(tmp_path / "listed") == [1, 3, 5, 6]
    assert "`save_steps`" not in caplog.text
    both = [
        open_weights(f"{folder}/model.ckpt-3") for folder in (tmp_path / "out", tmp_path / "listed")
    ]
    for path in both[0].tensors:
        np.testing.assert_array_equal(*(each.read(path) for each in both), err_msg=path)

    more = dataclasses.replace(options, num_train_steps=9, save_steps=("2", "3", "7"))
    pretrain(more)
    assert steps_in(tmp_path / "listed") == [1, 3, 5, 7, 9], "also those of an earlier list"
    assert "`save_steps`: not saved, as training resumes from step 6: 2" in caplog.messages
    short = {"output_dir": str(tmp_path / "short"), "max_train_minutes": 1e-9}
    pretrain(dataclasses.replace(options, **short))
    assert "`save_steps`: not saved, as training ended at step 2: 3, 5" in caplog.text


@pytest.mark.parametrize("listed", [("0",), ("3", "7"), ("1.5",), ("x",)])
def test_steps_that_no_run_reaches_are_refused(tmp_path, listed):
    options = options_of(tmp_path, CONFIG, 16, num_train_steps=6, save_steps=listed)
    assert refusal(pretrain, options) == (
        f"`save_steps`={','.join(listed)}: must be steps from 1 to 6, the last training step"
    )
