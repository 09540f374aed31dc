"""Pretrains ALBERT on TFRecords.

    albert-pretrain --do_train --albert_config_file=configs/model/base_v2.json \\
        --input_file='data/train.tfrecord*' --output_dir=out
"""

from albert_tf.engines.early_failures import tell_others
from albert_tf.engines.registry import select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import
from albert_tf.options import command
from albert_tf.original_flags import PRETRAINING
from albert_tf.training.folder import check_early
from albert_tf.training.options import PretrainingOptions


def run(options: PretrainingOptions) -> None:
    select_engine(options.engine)
    check_early(options)
    with quiet_import():
        load_keras()
        from albert_tf.training.pretraining import pretrain_checked

    pretrain_checked(options)


main = command(PretrainingOptions, run, original=PRETRAINING, keeps_memory=True, failed=tell_others)
