"""Fine-tunes ALBERT to classify text; `python run_classifier.py --help` lists the flags.

    python run_classifier.py --do_train --do_eval --task_name=table \\
        --train_file=train.tsv --eval_file=dev.tsv --text_column=text --label_column=label \\
        --init_checkpoint=pretrained/ --albert_config_file=pretrained/albert_config.json \\
        --spm_model_file=vocab.model --output_dir=out --max_seq_length=128
"""

from albert_tf.tasks.classification import main

if __name__ == "__main__":
    main()
