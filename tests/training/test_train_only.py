"""--train_only: the body stays in the first steps, however often the run is interrupted."""

import dataclasses

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.interop.loading import open_weights
from albert_tf.training.pretraining import pretrain
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
        *(
            (f"{each}", "must be embeddings:S")
            for each in ("embeddings", "pooler:9", "embeddings:0")
        ),
        ("embeddings:7", "needs `init_checkpoint`"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path, given, message):
    with pytest.raises(InputError, match=f"^`train_only`={given}: {message}"):
        pretrain(options_of(tmp_path, CONFIG, 16, num_train_steps=8, train_only=given))
