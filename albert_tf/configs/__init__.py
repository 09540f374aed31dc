"""The model configs and training recipes that are shipped with the package, by name.

`--albert_config_file=base_v2` and `--flagfile=base_v2` work in any folder. A file of that name in
the current folder takes precedence; a folder, such as that of an earlier run, does not.
"""

import functools
import logging
import os
import pathlib
from collections.abc import Mapping, Sequence

_logger = logging.getLogger(__name__)

_FOLDER = pathlib.Path(__file__).parent
# Folders of recipes.
RECIPES = ("pretraining", "data", "finetuning")
_FLAGFILE = ("-flagfile", "--flagfile")


def model_configs() -> dict[str, str]:
    """Return paths of the model configs (`albert_config.json` files) by name, such as "base_v2"."""
    return _files("model/*.json")


def recipes() -> dict[str, str]:
    """Return name -> path of the recipes (flag files): "base_v2", "base_muon_data", "mrpc", ..."""
    return {name: path for folder in RECIPES for name, path in _files(f"{folder}/*.cfg").items()}


def _files(pattern: str) -> dict[str, str]:
    return {path.stem: str(path) for path in sorted(_FOLDER.glob(pattern))}


def path_of(name: str, shipped: Mapping[str, str], warns: bool = True) -> str:
    """Return the path of a shipped file that is given by its name; other paths as they are.

    A file of that name in the current folder takes precedence, which a warning says.
    """
    if name not in shipped:
        return name
    if os.path.exists(name) and not os.path.isdir(name):
        if warns:
            _say_file_is_used(name, os.path.abspath(name))
        return name
    return shipped[name]


@functools.cache  # once for each file, which several parts of a program read
def _say_file_is_used(name: str, path: str) -> None:
    _logger.warning("%s: the file %s, not what is shipped under this name", name, path)


def with_recipe_paths(arguments: Sequence[str], warns: bool = False) -> list[str]:
    """Replace the names of recipes (`--flagfile=base_v2`) by the paths of their files.

    Args:
        arguments: the command line, starting with the program.
        warns: whether to warn of files that take precedence; a process that may start itself again
            leaves it to the second.
    """
    found, resolved = recipes(), []
    for previous, argument in zip(["", *arguments], arguments, strict=False):
        flag, equals, name = argument.partition("=")
        if previous in _FLAGFILE:
            argument = path_of(argument, found, warns)
        elif flag in _FLAGFILE and equals:
            argument = f"{flag}={path_of(name, found, warns)}"
        resolved.append(argument)
    return resolved
