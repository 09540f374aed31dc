"""Reads a command line; its errors are those of this project instead of absl's."""

from __future__ import annotations

import re
from collections.abc import Sequence

from absl import flags

from albert_tf import configs
from albert_tf.errors import InputError


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
        recipes = ", ".join(configs.recipes())
        return f"--flagfile={path}: must be a file of flags or one of {recipes}"
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
