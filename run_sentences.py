"""Fine-tunes sentence vectors; `python run_sentences.py --help` lists the flags.

    python run_sentences.py --do_train --do_eval \\
        --train_file=pairs.tsv --eval_file=held_out.tsv \\
        --init_checkpoint=albert/albert-base-v2 --output_dir=out
"""

from albert_tf.tasks.sentences import main

if __name__ == "__main__":
    main()
