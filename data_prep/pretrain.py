"""Pretrains ALBERT on TFRecords.

    albert-pretrain --do_train --albert_config_file=configs/model/base_v2.json \\
        --input_file='data/train-*.tfrecord' --output_dir=out
"""

# Not in `albert_tf`, which does not import `data_prep`: `--eval_reading_set` creates examples.

from __future__ import annotations

from typing import Any

from albert_tf import original_flags
from albert_tf.engines.registry import select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import
from albert_tf.logs import logs_on_console
from albert_tf.options import command
from albert_tf.training.model_config import check_early
from albert_tf.training.options import PretrainingOptions


def run(options: PretrainingOptions) -> None:
    select_engine(options.engine)
    check_early(options)
    with quiet_import():
        load_keras()
        from albert_tf.training.pretraining import pretrain_checked

    pretrain_checked(options, _make_reading_set)


def _make_reading_set(options: PretrainingOptions, manifests: dict[str, dict[str, Any]]) -> str:
    from data_prep import reading_set  # the sentence splitter is loaded only where there is text

    with logs_on_console("data_prep"):  # `command` only shows the logs of the options' package
        return reading_set.make_reading_set(options, manifests)


main = command(PretrainingOptions, run, original=original_flags.PRETRAINING, keeps_memory=True)
