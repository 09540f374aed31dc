"""Converts ALBERT weights between formats.

    albert-convert --to=huggingface --input=albert_base/ --output=albert-base-hf

With --to=google, it replaces the original's export_checkpoints.py.
"""

from albert_tf.engines.registry import installed_engine, select_engine
from albert_tf.engines.startup import load_keras
from albert_tf.environment import quiet_import
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.options import command


def run(options: ConvertOptions) -> None:
    select_engine(installed_engine())
    with quiet_import():
        load_keras()
        from albert_tf.interop.convert import convert

    convert(options)


main = command(ConvertOptions, run)
