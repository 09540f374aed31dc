"""The table of pretraining objectives, and one that is registered from outside."""

import dataclasses
import json

import pytest
from keras import ops

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.flops import pretraining_flops
from albert_tf.input.features import pretraining_features, unmasked_features
from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.training import pretraining_tasks
from albert_tf.training.pretraining import pretrain
from albert_tf.training.pretraining_tasks import (
    PretrainingTask,
    find_pretraining_task,
    register_pretraining_task,
)
from tests.support.pretraining import options_of
from tests.support.tiny import CONFIG, LENGTH, PREDICTIONS, VOCAB


def test_objectives_are_found_by_name():
    assert set(pretraining_tasks.PRETRAINING_TASKS) >= {"sop", "nsp", "none"}
    with pytest.raises(InputError, match="`pair_objective`=xyz: must be one of sop, nsp, none"):
        find_pretraining_task("xyz")


def test_features_and_flops_are_those_of_the_formulas():
    task = find_pretraining_task("sop")
    assert task.stored_features(8, 2, dynamic_masks=True) == unmasked_features(8)
    assert task.stored_features(8, 2, dynamic_masks=False) == pretraining_features(8, 2)
    assert task.flops_per_example(CONFIG, 8, 2) == pretraining_flops(CONFIG, 8, 2, True)
    alone = find_pretraining_task("none").flops_per_example(CONFIG, 8, 2)
    assert alone == pretraining_flops(CONFIG, 8, 2, False)


def test_which_data_a_model_can_be_evaluated_on():
    sop, nsp, none = map(find_pretraining_task, ("sop", "nsp", "none"))
    assert sop.measured_by(nsp)
    assert sop.measured_by(none)
    assert not none.measured_by(sop)


class Confident(PretrainingObjective):
    """The masked language model with a penalty on large logits, and its size as a metric."""

    def __init__(self):
        super().__init__("none")
        self.quantities = (*self.quantities, "masked_lm_penalty")
        self.losses = (*self.losses, "masked_lm_penalty")

    def sums(self, outputs, batch):
        size = ops.mean(ops.square(outputs["masked_lm_logits"]), axis=-1)
        penalty = ops.sum(batch["masked_lm_weights"] * size)
        return {**super().sums(outputs, batch), "masked_lm_penalty": 1e-3 * penalty}


@pytest.mark.slow
def test_one_from_outside_is_trained_and_evaluated(tmp_path, monkeypatch):
    one_layer = dataclasses.replace(CONFIG, num_hidden_layers=1)
    monkeypatch.setattr(
        pretraining_tasks, "PRETRAINING_TASKS", dict(pretraining_tasks.PRETRAINING_TASKS)
    )
    flops: list[AlbertConfig] = []
    register_pretraining_task(
        PretrainingTask(
            name="confident",
            model=AlbertForPreTraining,
            heads=("masked_lm",),
            features=pretraining_features,
            objective=Confident(),
            flops_per_example=lambda config, *lengths: flops.append(config) or 1e6,
        )
    )
    options = options_of(
        tmp_path,
        one_layer,
        examples=16,
        do_eval=True,
        train_batch_size=4,
        eval_batch_size=4,
        num_train_steps=3,
        num_warmup_steps=1,
    )
    sizes = {"max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS}
    manifest = {
        "settings": {**sizes, "pair_objective": "confident"},
        "files": {"a.tfrecord": 16},
        "vocab_size": VOCAB,
    }
    (tmp_path / "a.manifest.json").write_text(json.dumps(manifest))
    wrong = {"best_checkpoint_metric": "sentence_order_accuracy", "eval_every_steps": 3}
    message = "^`best_checkpoint_metric`=sentence.*--pair_objective=confident; .* masked_lm_penalty"
    with pytest.raises(InputError, match=message):
        pretrain(dataclasses.replace(options, **wrong, eval_input_file=options.input_file))
    assert not (tmp_path / "out").exists()
    pretrain(options)
    assert flops == [one_layer]
    (row,) = map(json.loads, (tmp_path / "out" / "metrics.jsonl").read_text().splitlines())
    assert row["loss"] == pytest.approx(row["masked_lm_loss"] + row["masked_lm_penalty"], rel=1e-4)
    results = (tmp_path / "out" / "eval_results.txt").read_text()
    assert "masked_lm_penalty = " in results
    assert "sentence_order" not in results
