"""Fine-tunes ALBERT to answer questions on texts; `python run_squad.py --help` lists the flags.

Replaces the original's run_squad_v1.py and run_squad_v2.py.

    python run_squad.py --do_train --do_eval --do_predict \\
        --train_file=train-v2.0.json --predict_file=dev-v2.0.json \\
        --init_checkpoint=pretrained/ --albert_config_file=pretrained/albert_config.json \\
        --spm_model_file=vocab.model --output_dir=out --max_seq_length=384 --num_train_epochs=3
"""

from albert_tf.tasks.question_answering import main

if __name__ == "__main__":
    main()
