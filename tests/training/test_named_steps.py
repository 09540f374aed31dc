"""--save_steps and --train_only: what is kept and what moves at the steps that they name."""

import dataclasses

import numpy as np
import pytest

from albert_tf.checkpoints import TensorFlowFolder, step_of
from albert_tf.errors import InputError
from albert_tf.interop.loading import open_weights
from albert_tf.training.pretraining import pretrain
from tests.conftest import refusal
from tests.support.models import keras_file, random_model
from tests.support.pretraining import options_of
from tests.support.tiny import CONFIG

ONE_LAYER = dataclasses.replace(CONFIG, num_hidden_layers=1)  # tracing is what takes long
MOVE_FIRST = {"bert/embeddings/word_embeddings", "cls/predictions/output_bias"}


def training(tmp_path):
    """Return options of five steps, of which three train embeddings only."""
    start = str(keras_file(tmp_path / "start", random_model("pretraining", ONE_LAYER)))
    return options_of(
        tmp_path, ONE_LAYER, 16, num_train_steps=5, num_warmup_steps=1, train_batch_size=8,
        schedule="wsd", init_checkpoint=start, train_only="embeddings:3", save_steps=("3",),
    )  # fmt: skip


@pytest.mark.integration
def test_only_embeddings_move_before_the_step(tmp_path):
    options = training(tmp_path)
    pretrain(options)
    before = open_weights(options.init_checkpoint)

    def moved(step: int) -> set[str]:
        after = open_weights(f"{options.output_dir}/model.ckpt-{step}")
        return {p for p in after.tensors if not np.array_equal(after.read(p), before.read(p))}

    assert moved(3) == MOVE_FIRST
    assert moved(5) == before.tensors.keys()


@pytest.mark.integration
@pytest.mark.slow
def test_interruptions_before_and_after_the_step_change_nothing(tmp_path):
    options = training(tmp_path)
    pretrain(options)
    again = dataclasses.replace(options, output_dir=str(tmp_path / "again"), save_steps=())
    for last in (2, 4, 5):
        pretrain(dataclasses.replace(again, num_train_steps=last))
    resumed, whole = (open_weights(each.output_dir) for each in (again, options))
    for path in whole.tensors:
        np.testing.assert_array_equal(resumed.read(path), whole.read(path), err_msg=path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("embeddings", "must be embeddings:S"),
        ("pooler:9", "must be embeddings:S"),
        ("embeddings:0", "must be embeddings:S"),
        ("embeddings:7", "needs `init_checkpoint`"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, given, message):
    with pytest.raises(InputError, match=f"^`train_only`={given}: {message}"):
        pretrain(options_of(tmp_path, CONFIG, 16, num_train_steps=8, train_only=given))


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
