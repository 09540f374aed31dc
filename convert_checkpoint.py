"""Converts ALBERT weights between formats; `python convert_checkpoint.py --help` lists the flags.

python convert_checkpoint.py --to=huggingface --input=albert_base/ --output=albert-base-hf
"""

from albert_tf.export.export_options import ConvertOptions
from albert_tf.options import command
from albert_tf.quiet import quiet_import


def run(options: ConvertOptions) -> None:
    with quiet_import():  # TensorFlow loads only when there is work
        from albert_tf.interop.convert import convert

    convert(options)


cli = command(ConvertOptions, run)

if __name__ == "__main__":
    cli()
