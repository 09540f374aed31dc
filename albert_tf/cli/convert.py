"""Conversion of weights between formats."""

from __future__ import annotations

from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.options import command
from albert_tf.quiet import quiet_import


def run(options: ConvertOptions) -> None:
    with quiet_import():
        from albert_tf.interop.convert import convert

    convert(options)


main = command(ConvertOptions, run)
