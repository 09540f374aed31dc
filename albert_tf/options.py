"""Options as data: a program's flags are the fields of one frozen dataclass.

    @dataclasses.dataclass(frozen=True)
    class Options:
        input_file: tuple[str, ...] = option(help="Files or globs, separated by commas.")
        max_seq_length: int = option(512, "Length of an example, in tokens.")

    cli = command(Options, run)      # run(options: Options) -> None

Library code takes the dataclass; only `command` ever looks at the command line.
"""

from __future__ import annotations

import dataclasses
import os
import sys
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from absl import app, flags, logging

from albert_tf.errors import InputError, Stopped, WorkerLost
from albert_tf.logs import logs_on_console

Options = TypeVar("Options")

_DEFINE = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    tuple: flags.DEFINE_list,
}


def option(
    default: Any = dataclasses.MISSING,
    help: str = "",
    choices: tuple[str, ...] = (),
    flag: str = "",
    aliases: tuple[str, ...] = (),
) -> Any:
    """A dataclass field that is also a flag.

    Args:
        default: the value without the flag; left out, the flag is required.
        help: what `--help` says.
        choices: the valid values, where they are few.
        flag: name of the flag, where it cannot be the field's (`from` is a word of Python).
        aliases: further names of the flag.
    """
    metadata = {"help": help, "choices": choices, "flag": flag, "aliases": aliases}
    return dataclasses.field(default=default, metadata=metadata)


def flag_name(field: dataclasses.Field) -> str:
    """The flag of a field."""
    return field.metadata["flag"] or field.name


def _flags_by_name(options_class: type) -> dict[str, str]:
    return {field.name: f"--{flag_name(field)}" for field in dataclasses.fields(options_class)}


def define_flags(options_class: type, flag_values: flags.FlagValues) -> None:
    """Defines one absl flag per field of `options_class`."""
    types_of = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        required = field.default is dataclasses.MISSING
        default = None if required else field.default
        if isinstance(default, tuple):
            default = list(default)
        common = {"flag_values": flag_values, "required": required, "module_name": sys.argv[0]}
        help, choices = field.metadata["help"], field.metadata["choices"]
        if choices:
            flags.DEFINE_enum(flag_name(field), default, list(choices), help, **common)
        else:
            define = _DEFINE[_plain_type(types_of[field.name])]
            define(flag_name(field), default, help, **common)
        for alias in field.metadata["aliases"]:
            flags.DEFINE_alias(alias, flag_name(field), flag_values, module_name=sys.argv[0])


def _plain_type(annotation: Any) -> type:
    """`str | None` -> str, `tuple[str, ...]` -> tuple."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (annotation,) = (a for a in typing.get_args(annotation) if a is not type(None))
    return typing.get_origin(annotation) or annotation


def from_flags(options_class: type[Options], flag_values: flags.FlagValues) -> Options:
    """The dataclass with the values of the parsed flags."""
    values = {}
    for field in dataclasses.fields(options_class):
        value = flag_values[flag_name(field)].value
        values[field.name] = tuple(value) if isinstance(value, list) else value
    return options_class(**values)


def _logging_packages(options_class: type) -> list[str]:
    """Loggers of a command: this package's, those of its own package and of its main module."""
    package = options_class.__module__.partition(".")[0]
    return sorted({"albert_tf", "__main__", package})


def command(
    options_class: type[Options], run: Callable[[Options], None], positional: str | None = None
) -> Callable[[], None]:
    """The console entry point that parses the flags and calls `run(options)`.

    Messages of module loggers (`logging.getLogger(__name__)`) appear on the console: INFO as plain
    lines on standard output, warnings on standard error.

    An `InputError`, or an error of the operating system, is printed as one line; the exit code is
    then 1, 130 after Ctrl-C, 143 after a SIGTERM that the work has heeded, and 75 after the loss of
    another process that took part.

    Args:
        options_class: dataclass of the flags.
        run: the work.
        positional: the tuple among the fields that arguments without a name are added to.
    """

    def main(arguments: list[str]) -> int:
        program = arguments[0].removesuffix("/__main__.py").rsplit("/", 1)[-1]
        logging.set_verbosity(logging.WARNING)
        try:
            options = from_flags(options_class, flags.FLAGS)
            if positional:
                named = getattr(options, positional)
                options = dataclasses.replace(options, **{positional: (*named, *arguments[1:])})
            elif len(arguments) > 1:
                raise InputError(
                    f"unexpected argument {arguments[1]!r}; flags are written --name=value"
                )
            with logs_on_console(*_logging_packages(options_class)):
                run(options)
        except InputError as error:
            error = error.with_names(_flags_by_name(options_class).get)
            print(f"{program}: error: {error}", file=sys.stderr)
            return 1
        except OSError as error:
            print(f"{program}: error: {error}", file=sys.stderr)
            return 1
        except Stopped as stopped:
            print(f"{program}: {stopped}", file=sys.stderr)
            return 128 + stopped.signal
        except WorkerLost as lost:
            print(f"{program}: {lost}", file=sys.stderr)
            sys.stdout.flush()
            sys.stderr.flush()
            # Threads of TensorFlow may still wait for the lost one, and Python's end for them.
            os._exit(lost.exit_code)
        except KeyboardInterrupt:
            print(f"{program}: interrupted", file=sys.stderr)
            return 130
        return 0

    def cli() -> None:
        define_flags(options_class, flags.FLAGS)
        app.run(main)

    return cli
