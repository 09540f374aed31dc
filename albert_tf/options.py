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
import functools
import importlib.metadata
import inspect
import operator
import os
import sys
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from absl import app, flags, logging

from albert_tf import configs
from albert_tf.environment import restart_with_kept_memory
from albert_tf.errors import InputError, Stopped, Unavailable, renamed
from albert_tf.files import normalized
from albert_tf.flag_parsing import parse_flags
from albert_tf.logs import logs_on_console, printable
from albert_tf.original_flags import OriginalFlag, ReplacedFlag, define_original_flags
from albert_tf.terminal import columns, ending_quietly, is_unread, show, two_columns, wrapped

Options = TypeVar("Options")

_DEFINE: dict[type, Callable[..., Any]] = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    tuple: flags.DEFINE_list,
}


# Headings of --help, in their order.
_GROUPS = (
    *("Required", "Data", "Text", "Examples", "Masking", "Vocabulary", "Model", "Training"),
    *("Evaluation", "Prediction", "Output", "Devices", "Machines", "Optional", "Advanced"),
    "Of the original",
)

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
    **limits: float,
) -> Any:
    """Declare a dataclass field that is also a flag.

    A field that overrides one of a base class has its choices, limits and group, and is as common,
    unless it states its own.

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
        **limits: of valid numbers: `minimum`, `maximum`, and exclusively `above`, `below`.
    """
    if group and group not in _GROUPS:
        raise ValueError(f"{group=}: must be one of {', '.join(_GROUPS)}")
    metadata: dict[str, Any] = {"help": help, "flag": flag, "aliases": aliases}
    metadata |= {"choices": tuple(choices), "limits": limits, "group": group, "common": common}
    metadata["path"] = path
    return dataclasses.field(default=default, metadata=metadata)


class WithPaths:
    """Options whose paths are normalized, from the command line as from Python.

    Raises:
        InputError: If a file to write has the name of a folder.
    """

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # a dataclass
            kind = _metadata(type(self), field.name, "path") or field.name.endswith(_PATHS)
            value = getattr(self, field.name)
            if not kind or not value or isinstance(value, bool):
                continue
            is_list = isinstance(value, tuple)
            paths = [
                self._path(field.name, kind, path) for path in (value if is_list else (value,))
            ]
            object.__setattr__(self, field.name, tuple(paths) if is_list else paths[0])

    def _path(self, name: str, kind: Any, path: Any) -> str:
        given, path = os.fspath(path), normalized(path)
        if kind == "file" and given.endswith("/"):
            raise InputError(f"`{name}`={given}: is the name of a folder; add that of the file")
        # `./a/b` stays a path, as `a/b` may be published weights.
        return f"./{path}" if kind == "weights" and given.startswith("./") else path


def flag_name(field: dataclasses.Field) -> str:
    """Return the name of the flag of a field."""
    return field.metadata["flag"] or field.name


def seed_option(default: int, help: str, group: str = "", common: bool = False) -> Any:
    """Declare an `option` for a seed: numbers that every generator of random numbers accepts."""
    return option(default, help, group=group, common=common, minimum=0, maximum=2**31 - 1)


def check_limits(options: Any) -> None:
    """Check the values of a dataclass against the choices and limits of its fields; None is valid.

    Raises:
        InputError: If a value is invalid.
    """
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if value is None:
            continue
        if isinstance(value, int) and value > sys.maxsize:
            raise InputError(f"`{field.name}`={value}: must be at most {sys.maxsize}")
        choices = _metadata(type(options), field.name, "choices")
        if choices and value not in choices:
            raise InputError(f"`{field.name}`={value}: must be one of {', '.join(choices)}")
        limits = _metadata(type(options), field.name, "limits")
        if not all(_LIMITS[name][0](value, limit) for name, limit in limits.items()):
            valid = " and ".join(f"{_LIMITS[name][1]} {limit}" for name, limit in limits.items())
            if set(limits) == {"minimum", "maximum"}:
                valid = f"{limits['minimum']} to {limits['maximum']}"
            raise InputError(f"`{field.name}`={value}: must be {valid}")


def _metadata(options_class: type, name: str, key: str) -> Any:
    """Return what a field states of a key, or what the field that it overrides does."""
    for base in options_class.__mro__:
        field = getattr(base, "__dataclass_fields__", {}).get(name)
        if field and field.metadata[key]:
            return field.metadata[key]
    return {}


def _flags_by_name(options_class: type) -> dict[str, str]:
    return {field.name: f"--{flag_name(field)}" for field in dataclasses.fields(options_class)}


def _is_required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING


def define_flags(options_class: type, flag_values: flags.FlagValues) -> None:
    """Define one absl flag per field of `options_class`."""
    types_of = typing.get_type_hints(options_class)
    for field in dataclasses.fields(options_class):
        default: Any = None if _is_required(field) else field.default
        if isinstance(default, tuple):
            default = list(default)
        common: dict[str, Any] = {
            "flag_values": flag_values,
            "module_name": sys.argv[0],
        }
        help = field.metadata["help"]
        choices = _metadata(options_class, field.name, "choices")
        if choices:
            flags.DEFINE_enum(flag_name(field), default, list(choices), help, **common)
        else:
            define = _DEFINE[_plain_type(types_of[field.name])]
            define(flag_name(field), default, help, **common)
        for alias in field.metadata["aliases"]:
            flags.DEFINE_alias(alias, flag_name(field), flag_values, module_name=sys.argv[0])


def _plain_type(annotation: Any) -> type:
    """Simplify a type: `str | None` -> str, `tuple[str, ...]` -> tuple."""
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        (annotation,) = (a for a in typing.get_args(annotation) if a is not type(None))
    return typing.get_origin(annotation) or annotation


def from_flags(options_class: type[Options], flag_values: flags.FlagValues) -> Options:
    """Create the dataclass from the parsed flags.

    Raises:
        InputError: If a value is missing, or beyond the choices or limits of its field.
    """
    values = {}
    missing = []
    for field in dataclasses.fields(options_class):  # type: ignore[arg-type]  # a dataclass
        value = flag_values[flag_name(field)].value
        if value is None and _is_required(field):
            missing.append(f"`{field.name}`")
        values[field.name] = tuple(value) if isinstance(value, list) else value
    if missing:
        raise InputError(f"{', '.join(missing)}: required; --help describes the flags")
    options = options_class(**values)
    check_limits(options)
    return options


class _HelpFlag(flags.BooleanFlag):
    def __init__(self, name: str, text: Callable[[], str]):
        super().__init__(name, False, "", allow_override=True)
        self._text = text

    def parse(self, argument: Any) -> None:
        super().parse(argument)
        if self.value:
            print(self._text())
            sys.exit(0)


def _define_help(options_class: type, original: Iterable[str], flag_values: Any) -> None:
    """Replace absl's `--help`, which is alphabetical and exits with code 1."""
    for name in ("help", "helpshort", "helpfull", "h", "?"):
        full = name == "helpfull"
        text = functools.partial(_help_text, options_class, original, flag_values, full)
        flags.DEFINE_flag(_HelpFlag(name, text), flag_values, module_name=__name__)


def _help_text(options_class: type, original: Iterable[str], flag_values: Any, full: bool) -> str:
    fields, groups = dataclasses.fields(options_class), _groups(options_class)
    common = [f for f in fields if _is_required(f) or _metadata(options_class, f.name, "common")]
    shows_all = full or all(map(_is_required, common))
    sections: dict[str, list[tuple[str, str]]] = {group: [] for group in _GROUPS}
    for field in fields if shows_all else common:
        group = "Required" if _is_required(field) else groups[field.name]
        sections[group].append(_help_row(options_class, field, flag_values[flag_name(field)]))
    for name in original if full else ():
        sections["Of the original"].append((f"--{name}", flag_values[name].help))
    program, width = _program(sys.argv), min(columns(sys.stdout), 100)
    parts = [_introduction(program) or f"{program} --flag=value ..."]
    parts += [f"{group}:\n{two_columns(rows, width)}" for group, rows in sections.items() if rows]
    end = "" if shows_all else f"{program} --helpfull lists all {len(fields)} flags. "
    end += "--flagfile=NAME reads flags from a file or a recipe."
    return "\n\n".join([*(part.strip() for part in parts), textwrap.fill(end, width)])


def _introduction(program: str) -> str | None:
    """Return what the module of a command says of it; that of a console script is generated."""
    modules = [sys.modules["__main__"]]
    for script in importlib.metadata.entry_points(group="console_scripts", name=program):
        modules += [sys.modules[script.module]] if script.module in sys.modules else []
    return next((module.__doc__ for module in modules if module.__doc__), None)


def _help_row(options_class: type, field: dataclasses.Field, flag: flags.Flag) -> tuple[str, str]:
    """Return a flag with its default, and its description."""
    text, default = field.metadata["help"], field.default
    choices = _metadata(options_class, field.name, "choices")
    if not all(choice in text for choice in choices):
        text += f" One of {', '.join(choices)}."
    text += "".join(f" Also --{alias}." for alias in field.metadata["aliases"])
    if _is_required(field):
        return f"--{flag.name}", f"{text} (required)"
    if flag.boolean:
        return f"--[no]{flag.name}", f"{text} (default: true)" if default else text
    if isinstance(default, tuple):
        default = ",".join(default)
    return f"--{flag.name}" + (f"={default}" if default not in (None, "") else ""), text


def _groups(options_class: type) -> dict[str, str]:
    """Return the heading of each field in `--help`."""
    groups: dict[str, str] = {}
    for base in reversed(options_class.__mro__):
        group = "Optional"
        for name in inspect.get_annotations(base):
            field = getattr(base, "__dataclass_fields__", {}).get(name)
            if field and field.metadata:  # no class variable
                group = groups[name] = field.metadata["group"] or groups.get(name, group)
    return groups


def _logging_packages(options_class: type) -> list[str]:
    """Return the loggers of a command: of this package, its own package and its module."""
    package = options_class.__module__.partition(".")[0]
    return sorted({"albert_tf", "__main__", package})


def command(
    options_class: type[Options],
    run: Callable[[Options], None],
    positional: str | None = None,
    original: Mapping[str, OriginalFlag] | None = None,
    keeps_memory: bool = False,
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
    """

    def rename(message: str) -> str:
        return renamed(message, _flags_by_name(options_class).get)

    def main(arguments: list[str]) -> int:
        program = _program(arguments)
        logging.set_verbosity(logging.WARNING)
        try:
            options = from_flags(options_class, flags.FLAGS)
            if positional:
                named = getattr(options, positional)
                words = (*named, *arguments[1:])
                options = dataclasses.replace(options, **{positional: words})  # type: ignore[type-var]
            elif len(arguments) > 1:
                raise InputError(
                    f"unexpected argument {arguments[1]!r}; flags are written --name=value"
                )
            if keeps_memory:
                restart_with_kept_memory()
            with logs_on_console(*_logging_packages(options_class), rename=rename):
                run(options)
        except InputError as error:
            _print_error(f"{program}: error: {_one_line(rename(str(error)))}")
            return 1
        except OSError as error:
            if isinstance(error, BrokenPipeError) and is_unread(sys.stdout):
                raise
            _print_error(f"{program}: error: {_one_line(_reason(error))}")
            return 1
        except MemoryError:
            _print_error(f"{program}: error: out of memory")
            return 1
        except Stopped as stopped:
            _print_error(f"{program}: {stopped}")
            return 128 + stopped.signal
        except Unavailable as error:
            _print_error(f"{program}: {_one_line(str(error))}")
            sys.stdout.flush()
            sys.stderr.flush()
            # Threads of TensorFlow may wait for the lost process, and a normal exit for them.
            os._exit(error.exit_code)
        except KeyboardInterrupt:
            _print_error(f"{program}: interrupted")
            return 130
        return 0

    def parse(arguments: list[str]) -> list[str]:
        _define_help(options_class, original or {}, flags.FLAGS)
        return parse_flags(arguments, flags.FLAGS)

    @ending_quietly()
    def cli() -> None:
        define_flags(options_class, flags.FLAGS)
        define_original_flags(original or {}, flags.FLAGS)
        try:
            app.run(
                main,
                argv=configs.with_recipe_paths(sys.argv),
                flags_parser=parse,
            )
        except (InputError, ReplacedFlag) as error:
            _print_error(f"{_program(sys.argv)}: error: {_one_line(str(error))}")
            sys.exit(1)

    return cli


def _program(arguments: Sequence[str]) -> str:
    return arguments[0].removesuffix("/__main__.py").rsplit("/", 1)[-1]


def _one_line(text: str) -> str:
    return printable(text.replace("\n", "\\n"))


def _print_error(text: str) -> None:
    show(wrapped(text, sys.stderr), sys.stderr)


def _reason(error: OSError) -> str:
    """Return the file and the reason, without the number of an error."""
    if error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return error.strerror or str(error)
