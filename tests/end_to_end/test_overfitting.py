"""A model that cannot learn a few examples by heart has a fault between file and update."""

import json

import pytest
import tensorflow as tf

from albert_tf.cli import pretrain
from albert_tf.training.options import PretrainingOptions
from tests.end_to_end.conftest import LENGTH, PREDICTIONS, results_of

pytestmark = pytest.mark.integration

EXAMPLES = 64


@pytest.fixture
def records(project, tmp_path) -> str:
    """Return the first examples of the training data."""
    path = str(tmp_path / "few.tfrecord")
    with tf.io.TFRecordWriter(path) as writer:
        for record in tf.data.TFRecordDataset(str(project.train)).take(EXAMPLES):
            writer.write(record.numpy())
    return path


@pytest.fixture
def config(project, tmp_path) -> str:
    """Return a model of 80 thousand parameters, without dropout."""
    values = json.loads(project.config.read_text())
    values |= {
        "embedding_size": 32,
        "hidden_size": 64,
        "intermediate_size": 256,
        "num_attention_heads": 4,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
    }
    path = tmp_path / "albert_config.json"
    path.write_text(json.dumps(values))
    return str(path)


@pytest.mark.slow
def test_few_examples_are_learned_by_heart(records, config, tmp_path):
    options = PretrainingOptions(
        albert_config_file=config,
        input_file=(records,),
        output_dir=str(tmp_path / "out"),
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS,
        train_batch_size=EXAMPLES,
        optimizer="lamb",
        learning_rate=0.03,
        num_train_steps=200,
        num_warmup_steps=20,
        do_train=True,
        do_eval=True,
    )
    pretrain.run(options)
    results = results_of(tmp_path / "out")
    assert results["sentence_order_weight"] == EXAMPLES
    assert results["masked_lm_weight"] > 4 * EXAMPLES
    assert results["masked_lm_accuracy"] > 0.95
    assert results["sentence_order_accuracy"] > 0.95
