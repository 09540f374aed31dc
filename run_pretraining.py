"""Pretrains ALBERT on TFRecords; `python run_pretraining.py --help` lists the flags.

    python run_pretraining.py --do_train --do_eval \\
        --albert_config_file=configs/model/base_v2.json --output_dir=out \\
        --input_file='data/train-*.tfrecord' --eval_input_file=data/eval.tfrecord
"""

from typing import Any

from albert_tf.options import command
from albert_tf.quiet import quiet_import
from albert_tf.training.options import PretrainingOptions


def run(options: PretrainingOptions) -> None:
    with quiet_import():  # TensorFlow loads only when there is work
        from albert_tf.training.pretraining import pretrain

    pretrain(options, make_reading_set)


def make_reading_set(options: PretrainingOptions, manifests: dict[str, dict[str, Any]]) -> str:
    from data_prep import reading_set  # the segmenter and its like load only when there is text

    return reading_set.make_reading_set(options, manifests)


cli = command(PretrainingOptions, run)

if __name__ == "__main__":
    cli()
