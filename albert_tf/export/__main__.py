"""Checks an export: `python -m albert_tf.export check DIR`."""

from albert_tf.engines.registry import select_engine
from albert_tf.environment import quiet_import
from albert_tf.export.export_options import CheckOptions
from albert_tf.options import command


def run(options: CheckOptions) -> None:
    select_engine("tensorflow")  # whatever KERAS_BACKEND says
    with quiet_import():  # loaded after the flags are parsed, so that --help is quick
        from albert_tf.export.check import check

    check(options)


cli = command(CheckOptions, run, positional="words")

if __name__ == "__main__":
    cli()
