"""Exports a trained ALBERT as a SavedModel.

    albert-export --init_checkpoint=out --export_path=export

It replaces the original's export_to_tfhub.py.
"""

from albert_tf import original_flags
from albert_tf.engines.registry import select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import
from albert_tf.export.export_options import ExportOptions
from albert_tf.options import command


def run(options: ExportOptions) -> None:
    select_engine("tensorflow")  # whatever KERAS_BACKEND says
    with quiet_import():
        load_keras()
        from albert_tf.export.build import export_saved_model

    export_saved_model(options)


main = command(ExportOptions, run, original=original_flags.EXPORT, keeps_memory=True)
