"""Fine-tunes ALBERT on RACE or other multiple choice; `python run_race.py --help` lists the flags.

    python run_race.py --do_train --do_eval --data_dir=data \\
        --init_checkpoint=pretrained/ --albert_config_file=pretrained/albert_config.json \\
        --spm_model_file=vocab.model --output_dir=out --max_seq_length=512 --max_qa_length=128
"""

from albert_tf.finetuning.finetuning_options import RaceOptions
from albert_tf.options import command
from albert_tf.quiet import quiet_import


def run(options: RaceOptions) -> None:
    with quiet_import():  # TensorFlow loads only when there is work
        from albert_tf.finetuning.race.multiple_choice import MultipleChoice
        from albert_tf.finetuning.run import fine_tune

    fine_tune(options, MultipleChoice)


cli = command(RaceOptions, run)

if __name__ == "__main__":
    cli()
