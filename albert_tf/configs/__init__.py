"""The model configs and training recipes that are shipped with the package, by name.

`--albert_config_file=base_v2` and `--flagfile=base_v2` work in any folder. A file of that name in
the current folder takes precedence.
"""

import os
import pathlib
from collections.abc import Sequence

_FOLDER = pathlib.Path(__file__).parent
_FLAGFILE = ("-flagfile", "--flagfile")


def model_configs() -> dict[str, str]:
    """Return paths of the model configs (`albert_config.json` files) by name, such as "base_v2"."""
    return _files("model/*.json")


def recipes() -> dict[str, str]:
    """Return name -> path of the recipes (flag files), such as "base_v2" or "mrpc"."""
    return _files("pretraining/*.cfg") | _files("finetuning/*.cfg")


def _files(pattern: str) -> dict[str, str]:
    return {path.stem: str(path) for path in sorted(_FOLDER.glob(pattern))}


def with_recipe_paths(arguments: Sequence[str]) -> list[str]:
    """Replace the names of recipes (`--flagfile=base_v2`) by the paths of their files.

    A file of that name in the current folder takes precedence.

    Args:
        arguments: the command line, starting with the program.
    """
    found = recipes()

    def path_of(name: str) -> str:
        return found[name] if name in found and not os.path.exists(name) else name

    resolved = []
    for previous, argument in zip(["", *arguments], arguments, strict=False):
        flag, equals, name = argument.partition("=")
        if previous in _FLAGFILE:
            argument = path_of(argument)
        elif flag in _FLAGFILE and equals:
            argument = f"{flag}={path_of(name)}"
        resolved.append(argument)
    return resolved
