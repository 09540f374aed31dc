"""The command line of options: flags as their fields declare them, `--help`, and its errors."""

import dataclasses
import difflib
import functools
import importlib.metadata
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from absl import flags

from albert_tf import configs
from albert_tf.environment import version
from albert_tf.errors import InputError
from albert_tf.terminal import columns, program_name, two_columns

# Headings of --help, in their order.
GROUPS = (
    *("Required", "Data", "Text", "Examples", "Masking", "Vocabulary", "Model", "Training"),
    *("Evaluation", "Prediction", "Output", "Devices", "Machines", "Optional", "Advanced"),
    "Of the original",
)


def flag_name(field: dataclasses.Field) -> str:
    """Return the name of the flag of a field."""
    return field.metadata["flag"] or field.name


def declared(options_class: type, name: str, key: str) -> Any:
    """Return what a field states of a key, or what the field that it overrides does."""
    for base in options_class.__mro__:
        field = getattr(base, "__dataclass_fields__", {}).get(name)
        if field and field.metadata[key]:
            return field.metadata[key]
    return {}


def is_required(field: dataclasses.Field) -> bool:
    return field.default is dataclasses.MISSING


class _HelpFlag(flags.BooleanFlag):
    def __init__(self, name: str, text: Callable[[], str]):
        super().__init__(name, False, "", allow_override=True)
        self._text = text

    def parse(self, argument: Any) -> None:
        super().parse(argument)
        if self.value:
            print(self._text())
            sys.exit(0)


def define_help(options_class: type, original: Iterable[str], flag_values: Any) -> None:
    """Replace absl's `--help`, which is alphabetical and exits with code 1."""
    for name in ("help", "helpshort", "helpfull", "h", "?"):
        full = name == "helpfull"
        text = functools.partial(_help_text, options_class, original, flag_values, full)
        flags.DEFINE_flag(_HelpFlag(name, text), flag_values, module_name=__name__)
    flags.DEFINE_flag(_HelpFlag("version", version_line), flag_values, module_name=__name__)


def _help_text(options_class: type, original: Iterable[str], flag_values: Any, full: bool) -> str:
    fields, groups = dataclasses.fields(options_class), _groups(options_class)
    common = [f for f in fields if is_required(f) or declared(options_class, f.name, "common")]
    shows_all = full or all(map(is_required, common))
    sections: dict[str, list[tuple[str, str]]] = {group: [] for group in GROUPS}
    for field in fields if shows_all else common:
        group = "Required" if is_required(field) else groups[field.name]
        sections[group].append(_help_row(options_class, field, flag_values[flag_name(field)]))
    for name in original if full else ():
        sections["Of the original"].append((f"--{name}", flag_values[name].help))
    program, width = program_name(), min(columns(sys.stdout), 100)
    parts = [_introduction(program) or f"{program} --flag=value ..."]
    parts += [f"{group}:\n{two_columns(rows, width)}" for group, rows in sections.items() if rows]
    end = "" if shows_all else f"{program} --helpfull lists all {len(fields)} flags. "
    end += "--flagfile=NAME reads flags from a file or a recipe."
    return "\n\n".join([*(part.strip() for part in parts), textwrap.fill(end, width)])


def version_line() -> str:
    """Return what `--version` prints."""
    return f"{program_name()} {version()}"


def _introduction(program: str) -> str | None:
    """Return what the module of a command says of it; a console script is generated."""
    scripts = importlib.metadata.entry_points(group="console_scripts", name=program)
    modules = [script.module for script in scripts if script.module in sys.modules]
    return sys.modules[[*modules, "__main__"][0]].__doc__


def _help_row(options_class: type, field: dataclasses.Field, flag: flags.Flag) -> tuple[str, str]:
    """Return a flag with its default, and its description."""
    text, default = field.metadata["help"], field.default
    choices = declared(options_class, field.name, "choices")
    if not all(choice in text for choice in choices):
        text += f" One of {', '.join(choices)}."
    text += "".join(f" Also --{alias}." for alias in field.metadata["aliases"])
    if is_required(field):
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


def parse_flags(arguments: Sequence[str], flag_values: flags.FlagValues) -> list[str]:
    """Parse a command line, and return what is no flag.

    Raises:
        InputError: If a flag is unknown, or has no value or one of another type.
    """
    try:
        return flag_values(arguments)
    except flags.Error as error:
        raise InputError(_parsing_error(error, flag_values)) from None
    except ValueError as error:  # a value for --noNAME
        raise InputError(str(error).replace(" does not", ": does not")) from None


def _parsing_error(error: flags.Error, flag_values: flags.FlagValues) -> str:
    text = str(error)
    if isinstance(error, flags.UnrecognizedFlagError):
        meant = re.search("Did you mean: (.*) [?]", text)
        hint = f". Did you mean --{meant[1].replace(', ', ' or --')}?" if meant else ""
        return f"--{error.flagname}: no such flag{hint or '; --helpfull lists all'}"
    if isinstance(error, flags.CantOpenFlagFileError):
        path = getattr(error.__context__, "filename", "")
        recipes = configs.recipes()
        close = " or ".join(difflib.get_close_matches(path, recipes, n=2))
        hint = f". Did you mean {close}?" if close else f" or one of {', '.join(recipes)}"
        return f"--flagfile={path}: must be a file of flags{hint}"
    if isinstance(error, flags.IllegalFlagValueError) and error.__context__:
        reason = str(error.__context__)
        given = text.removeprefix("flag ").removesuffix(f": {reason}")
        name = given.removeprefix("--").partition("=")[0]
        valid = _valid_values(flag_values[name])
        return f"{given}: must be {valid}" if valid else f"{given}: {reason}"
    flag = next((word for word in text.split() if word.startswith("-")), text)
    return f"{flag}: needs a value, as in {flag}=VALUE"


def _valid_values(flag: flags.Flag) -> str | None:
    """Describe the values of a flag; None if all are valid."""
    if isinstance(flag.parser, flags.EnumParser):
        return f"one of {', '.join(flag.parser.enum_values)}"
    return {"int": "a whole number", "float": "a number", "bool": "true or false"}.get(
        flag.flag_type()
    )
