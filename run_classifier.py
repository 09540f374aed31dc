"""Fine-tunes ALBERT to classify text; `python run_classifier.py --help` lists the flags.

    python run_classifier.py --do_train --do_eval --task_name=table \\
        --train_file=train.tsv --eval_file=dev.tsv --text_column=text --label_column=label \\
        --init_checkpoint=pretrained/ --albert_config_file=pretrained/albert_config.json \\
        --spm_model_file=vocab.model --output_dir=out --max_seq_length=128
"""

from albert_tf.finetuning.finetuning_options import ClassifierOptions
from albert_tf.options import command
from albert_tf.quiet import quiet_import


def run(options: ClassifierOptions) -> None:
    with quiet_import():  # TensorFlow loads only when there is work
        from albert_tf.finetuning.classification.classification import Classification
        from albert_tf.finetuning.run import fine_tune

    fine_tune(options, Classification)


cli = command(ClassifierOptions, run)

if __name__ == "__main__":
    cli()
