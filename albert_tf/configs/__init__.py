"""The model configs and training recipes that are shipped with the package, by name.

`--albert_config_file=base_v2` and `--flagfile=base_v2` work in any folder. A file of that name in
the current folder takes precedence.
"""

from __future__ import annotations

import pathlib

_FOLDER = pathlib.Path(__file__).parent


def model_configs() -> dict[str, str]:
    """Return paths of the model configs (`albert_config.json` files) by name, such as "base_v2"."""
    return _files("model/*.json")


def recipes() -> dict[str, str]:
    """Return name -> path of the recipes (flag files), such as "base_v2" or "mrpc"."""
    return _files("pretraining/*.cfg") | _files("finetuning/*.cfg")


def _files(pattern: str) -> dict[str, str]:
    return {path.stem: str(path) for path in sorted(_FOLDER.glob(pattern))}
