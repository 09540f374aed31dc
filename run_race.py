"""Fine-tunes ALBERT on RACE or other multiple choice; `python run_race.py --help` lists the flags.

    python run_race.py --do_train --do_eval --data_dir=data \\
        --init_checkpoint=pretrained/ --albert_config_file=pretrained/albert_config.json \\
        --spm_model_file=vocab.model --output_dir=out --max_seq_length=512 --max_qa_length=128
"""

from albert_tf.tasks.multiple_choice import main

if __name__ == "__main__":
    main()
