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

MOVE_FIRST = {"bert/embeddings/word_embeddings", "cls/predictions/output_bias"}


@pytest.mark.integration
def test_only_embeddings_move_before_the_step(tmp_path):
    start = str(keras_file(tmp_path / "start", random_model("pretraining", CONFIG)))
    options = options_of(
        tmp_path, CONFIG, 16, num_train_steps=5, num_warmup_steps=1, train_batch_size=8,
        schedule="wsd", init_checkpoint=start, train_only="embeddings:3", save_steps=("3",),
    )  # fmt: skip
    pretrain(options)
    before = open_weights(start)

    def moved(step: int) -> set[str]:
        after = open_weights(f"{options.output_dir}/model.ckpt-{step}")
        return {p for p in after.tensors if not np.array_equal(after.read(p), before.read(p))}

    assert moved(3) == MOVE_FIRST
    assert moved(5) == before.tensors.keys()

    again = dataclasses.replace(options, output_dir=str(tmp_path / "again"), save_steps=())
    for last in (2, 4, 5):
        pretrain(dataclasses.replace(again, num_train_steps=last))
    resumed, whole = (open_weights(each.output_dir) for each in (again, options))
    for path in before.tensors:
        np.testing.assert_array_equal(resumed.read(path), whole.read(path), err_msg=path)


@pytest.mark.parametrize("given", ["embeddings", "embeddings:0", "pooler:9", "embeddings:1.5"])
def test_other_parts_are_refused(tmp_path, given):
    with pytest.raises(InputError, match=f"^`train_only`={given}: must be embeddings:STEPS"):
        pretrain(options_of(tmp_path, CONFIG, 16, train_only=given))
