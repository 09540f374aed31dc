"""Fine-tunes ALBERT to tag words (NER); `python run_tagger.py --help` lists the flags.

    python run_tagger.py --do_train --do_eval --do_predict \\
        --train_file=train.conll --eval_file=dev.conll --predict_file=test.conll \\
        --init_checkpoint=albert/albert-base-v2 --output_dir=out
"""

from albert_tf.tasks.tagging import main

if __name__ == "__main__":
    main()
