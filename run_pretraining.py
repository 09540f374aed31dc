"""Pretrains ALBERT on TFRecords; `python run_pretraining.py --help` lists the flags.

    python run_pretraining.py --do_train --do_eval \\
        --albert_config_file=configs/model/base_v2.json --output_dir=out \\
        --input_file='data/train.tfrecord*' --eval_input_file=data/eval.tfrecord
"""

from albert_tf.cli.pretrain import main

if __name__ == "__main__":
    main()
