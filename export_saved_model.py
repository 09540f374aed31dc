"""Exports a trained ALBERT as a SavedModel; `python export_saved_model.py --help` lists the flags.

Replaces the original's export_to_tfhub.py.

    python export_saved_model.py --init_checkpoint=out --spm_model_file=vocab.model \\
        --export_path=export
"""

from albert_tf.cli.export import main

if __name__ == "__main__":
    main()
