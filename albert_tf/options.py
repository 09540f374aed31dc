"""Options as data: a program's flags are the fields of one frozen dataclass.

    @dataclasses.dataclass(frozen=True)
    class Options:
        input_file: tuple[str, ...] = option(help="Files or globs, separated by commas.")
        max_seq_length: int = option(512, "Length of an example, in tokens.")

    cli = command(Options, run)      # run(options: Options) -> None

Library code takes the dataclass; only `command` ever looks at the command line.
"""

import dataclasses
import functools
import operator
import os
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from absl import app, flags, logging

from albert_tf import configs
from albert_tf.environment import raise_when_interrupted, restart_in_utf8, restart_with_kept_memory
from albert_tf.errors import InputError, Stopped, Unavailable, renamed
from albert_tf.files import normalized
from albert_tf.flag_help import GROUPS, declared, define_help, flag_name, is_required, parse_flags
from albert_tf.logs import logs_on_console, printable
from albert_tf.original_flags import OriginalFlag, ReplacedFlag, define_original_flags
from albert_tf.terminal import ending_quietly, is_unread, program_name, show, wrapped

Options = TypeVar("Options")

_DEFINE: dict[type, Callable[..., Any]] = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    tuple: flags.DEFINE_list,
}

# How the names of options end that are paths.
_PATHS = ("_dir", "_dirs", "_file", "_files", "_path")

# Limit of a number -> how a valid number compares with it, and that in words.
_LIMITS: dict[str, tuple[Callable[[float, float], bool], str]] = {
    "minimum": (operator.ge, "at least"),
    "above": (operator.gt, "above"),
    "maximum": (operator.le, "at most"),
    "below": (operator.lt, "below"),
}


def option(
    default: Any = dataclasses.MISSING,
    help: str = "",
    choices: Iterable[str] = (),
    flag: str = "",
    aliases: tuple[str, ...] = (),
    group: str = "",
    common: bool = False,
    path: str = "",
    needs: tuple[str, ...] = (),
    **limits: float,
) -> Any:
    """Declare a dataclass field that is also a flag.

    An overriding field has the base's choices, limits, group and `common`, unless it has its own.

    Args:
        default: value if the flag is not given; without a default, the flag is required.
        help: text for `--help`.
        choices: the valid values; () if they cannot be listed.
        flag: name of the flag, if it cannot be that of the field (`from` is a Python keyword).
        aliases: other names of the flag.
        group: heading in `--help`; by default that of the field before it in the same class.
        common: whether `--help` lists the flag, as it does required ones; `--helpfull` lists all.
        path: "file" for a path of a file to write, "weights" for one that may also be the name of
            published weights, "any" for others that the end of their name does not tell.
        needs: name of another option without which this one changes nothing, and the values of that
            for which it does, if not for all.
        **limits: of valid numbers: `minimum`, `maximum`, and exclusively `above`, `below`.
    """
    if group and group not in GROUPS:
        raise ValueError(f"{group=}: must be one of {', '.join(GROUPS)}")
    metadata: dict[str, Any] = {"help": help, "flag": flag, "aliases": aliases}
    metadata |= {"choices": tuple(choices), "limits": limits, "group": group, "common": common}
    metadata |= {"path": path, "needs": needs}
    return dataclasses.field(default=default, metadata=metadata)


class WithPaths:
    """Options whose paths are normalized, from the command line as from Python.

    Raises:
        InputError: If a path is empty or not UTF-8, or a file to write has the name of a folder.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # a dataclass
            kind = declared(type(self), field.name, "path") or field.name.endswith(_PATHS)
            value = getattr(self, field.name)
            if not kind or isinstance(value, bool):
                continue
            if value == "" != field.default:
                raise InputError(f"`{field.name}`=: must not be empty; omit it, or name a path")
            if isinstance(value, tuple):
                value = tuple(self._path(field.name, kind, path) for path in value)
            elif value:
                value = self._path(field.name, kind, value)
            object.__setattr__(self, field.name, value)

    def _path(self, name: str, kind: Any, path: Any) -> str:
        try:
            given, path = os.fspath(path), normalized(path)
        except InputError as error:
            raise InputError(f"`{name}`={error}") from None
        if kind == "file" and given.endswith("/"):
            raise InputError(f"`{name}`={given}: is the name of a folder; add that of the file")
        # `./a/b` stays a path, as `a/b` may be published weights.
        return f"./{path}" if kind == "weights" and given.startswith("./") else path


def seed_option(default: int, help: str, group: str = "", common: bool = False) -> Any:
    """Declare an `option` for a seed: numbers that every generator of random numbers accepts."""
    return option(default, help, group=group, common=common, minimum=0, maximum=2**31 - 1)


def check_limits(options: Any, given: Iterable[str] = ()) -> None:
    """Check the values of a dataclass against what its fields declare; None is valid.

    Fields in `given` were given, if only as their defaults.

    Raises:
        InputError: If a value is invalid, or changes nothing without another option.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value is None:
            continue
        if value != field.default or field.name in given:
            _check_needs(options, field, value)
        if isinstance(value, tuple) and "" in value:
            raise InputError(f"`{field.name}`={','.join(value)}: one of the values is empty")
        if isinstance(value, int) and value > sys.maxsize:
            raise InputError(f"`{field.name}`={value}: must be at most {sys.maxsize}")
        choices = declared(type(options), field.name, "choices")
        if choices and value not in choices:
            raise InputError(f"`{field.name}`={value}: must be one of {', '.join(choices)}")
        limits = declared(type(options), field.name, "limits")
        if not all(_LIMITS[name][0](value, limit) for name, limit in limits.items()):
            valid = " and ".join(f"{_LIMITS[name][1]} {limit}" for name, limit in limits.items())
            if set(limits) == {"minimum", "maximum"}:
                valid = f"{limits['minimum']} to {limits['maximum']}"
            raise InputError(f"`{field.name}`={value}: must be {valid}")


def _check_needs(options: Any, field: dataclasses.Field, value: Any) -> None:
    name, *values = declared(type(options), field.name, "needs") or ("",)
    if values:
        # Of several, such as those of `source`, one is enough.
        chosen = getattr(options, f"{name}s", (getattr(options, name),))
        if chosen and not set(chosen).intersection(values):
            raise InputError(f"`{field.name}`={value}: needs `{name}`={' or '.join(values)}")
    elif name and not getattr(options, name):
        raise InputError(f"`{field.name}`={value}: needs `{name}`")


def define_flags(options_class: type, flag_values: flags.FlagValues) -> None:
    """Define one absl flag per field of `options_class`."""
    types_of = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        default: Any = None if is_required(field) else field.default
        if isinstance(default, tuple):
            default = list(default)
        name, help = flag_name(field), field.metadata["help"]
        if choices := declared(options_class, field.name, "choices"):
            flags.DEFINE_enum(name, default, list(choices), help, flag_values, sys.argv[0])
        else:
            define = _DEFINE[_plain_type(types_of[field.name])]
            define(name, default, help, flag_values=flag_values, module_name=sys.argv[0])
        for alias in field.metadata["aliases"]:
            flags.DEFINE_alias(alias, name, flag_values, sys.argv[0])


def _plain_type(annotation: Any) -> type:
    """Simplify a type: `str | None` -> str, `tuple[str, ...]` -> tuple."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (annotation,) = (a for a in typing.get_args(annotation) if a is not type(None))
    return typing.get_origin(annotation) or annotation


def from_flags(options_class: type[Options], flag_values: flags.FlagValues) -> Options:
    """Create the dataclass from the parsed flags.

    Raises:
        InputError: If a value is missing, an empty path, or beyond its field's choices or limits.
    """
    values, missing, given = {}, [], []
    for field in dataclasses.fields(options_class):  # type: ignore[arg-type]  # a dataclass
        flag = flag_values[flag_name(field)]
        value = flag.value
        if value is None and is_required(field):
            missing.append(f"`{field.name}`")
        values[field.name] = tuple(value) if isinstance(value, list) else value
        if value and flag.present:
            given.append(field.name)
    if missing:
        raise InputError(f"{', '.join(missing)}: required; --help describes the flags")
    options = options_class(**values)
    check_limits(options, given)
    return options


def command(
    options_class: type[Options],
    run: Callable[[Options], None],
    positional: str | None = None,
    original: Mapping[str, OriginalFlag] | None = None,
    keeps_memory: bool = False,
    failed: Callable[[Exception], None] = lambda error: None,
) -> Callable[[], None]:
    """Return the entry point of a command, which parses the flags and call `run(options)`.

    Messages of module loggers (`logging.getLogger(__name__)`) appear on the console: INFO as plain
    lines on standard output, warnings on standard error.

    Invalid flags, an `InputError` and an `OSError` are printed as one line, and the exit code is 1.
    It is 141, without a message, if nothing reads the output any more, 130 after Ctrl-C, 143 or 129
    after a SIGTERM or SIGHUP that ended the work in good order, and 75 after the loss of another
    process that took part, or of a server of files.

    Args:
        options_class: dataclass of the flags.
        run: the work to do.
        positional: field of type tuple that receives the arguments without a flag.
        original: flags of the original's program that are accepted or refused without being
            options, a table of `albert_tf.original_flags`.
        keeps_memory: whether it computes with a model; see
            `albert_tf.environment.restart_with_kept_memory`.
        failed: called with an error, after it is printed.
    """
    fields = dataclasses.fields(options_class)  # type: ignore[arg-type]  # a dataclass
    flag_of = {field.name: f"--{flag_name(field)}" for field in fields}
    packages = {"albert_tf", "__main__", options_class.__module__.partition(".")[0]}
    rename = functools.partial(renamed, name_of=flag_of.get)

    def main(arguments: list[str]) -> int:
        program = program_name()
        logging.set_verbosity(logging.WARNING)
        try:
            raise_when_interrupted()
            options = from_flags(options_class, flags.FLAGS)
            if positional:
                words = (*getattr(options, positional), *arguments[1:])
                options = dataclasses.replace(options, **{positional: words})  # type: ignore[type-var]
            elif len(arguments) > 1:
                raise InputError(
                    f"unexpected argument {arguments[1]!r}; flags are written --name=value"
                )
            if keeps_memory:
                restart_with_kept_memory()
            with logs_on_console(*sorted(packages), rename=rename):
                configs.with_recipe_paths(sys.argv, warns=True)
                run(options)
        except (InputError, OSError, MemoryError) as error:
            if isinstance(error, BrokenPipeError) and is_unread(sys.stdout):
                raise
            _print_error(f"{program}: error: {_one_line(rename(_reason(error)))}")
            failed(error)
            return 1
        except Stopped as stopped:
            _print_error(f"{program}: {stopped}")
            return 128 + stopped.signal
        except Unavailable as error:
            _print_error(f"{program}: {_one_line(str(error))}")
            failed(error)
            sys.stdout.flush()
            sys.stderr.flush()
            # Threads of TensorFlow may wait for the lost process, and a normal exit for them.
            os._exit(error.exit_code)
        except KeyboardInterrupt:
            _print_error(f"{program}: interrupted")
            return 130
        except Exception as error:
            failed(error)
            raise
        return 0

    def parse(arguments: list[str]) -> list[str]:
        define_help(options_class, original or {}, flags.FLAGS)
        return parse_flags(arguments, flags.FLAGS)

    @ending_quietly()
    def cli() -> None:
        restart_in_utf8()
        define_flags(options_class, flags.FLAGS)
        define_original_flags(original or {}, flags.FLAGS)
        try:
            app.run(main, argv=configs.with_recipe_paths(sys.argv), flags_parser=parse)
        except (InputError, ReplacedFlag) as error:
            _print_error(f"{program_name()}: error: {_one_line(str(error))}")
            failed(error)
            sys.exit(1)

    return cli


def _one_line(text: str) -> str:
    return printable(text.replace("\n", "\\n"))


def _print_error(text: str) -> None:
    show(wrapped(text, sys.stderr), sys.stderr)


def _reason(error: Exception) -> str:
    """Return what to print: of an OSError, the file and the reason without its number."""
    if isinstance(error, OSError) and error.strerror:
        place = "" if error.filename is None else f"{error.filename}: "
        return f"{place}{error.strerror}"
    return "out of memory" if isinstance(error, MemoryError) else str(error)
