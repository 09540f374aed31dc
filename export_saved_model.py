"""Exports a trained ALBERT as a SavedModel; `python export_saved_model.py --help` lists the flags.

    python export_saved_model.py --init_checkpoint=out --spm_model_file=vocab.model \\
        --export_path=export
"""

from albert_tf.export.export_options import ExportOptions
from albert_tf.options import command
from albert_tf.quiet import quiet_import


def run(options: ExportOptions) -> None:
    with quiet_import():  # TensorFlow loads only when there is work
        from albert_tf.export.exports import export_saved_model

    export_saved_model(options)


cli = command(ExportOptions, run)

if __name__ == "__main__":
    cli()
