"""The command that started a run, as reports and TensorBoard show it."""

import contextlib
import dataclasses
import importlib
import os
import platform
import shlex
import sys
from typing import Any

import keras

from albert_tf.environment import version
from albert_tf.errors import InputError
from albert_tf.hub.names import pinned_name
from albert_tf.options import flag_name
from albert_tf.training.folder import last_start
from albert_tf.training.options import TrainingOptions

_FRAMEWORKS = {"tensorflow": "TensorFlow", "jax": "JAX"}

Flag = bool | int | float | str


def given_flags(options: TrainingOptions) -> dict[str, Flag]:
    """Return flag -> value of the options that differ from their defaults, also completed ones.

    Published weights have their name and revision instead of a local path.
    """
    given: dict[str, Any] = {}
    completed = getattr(options, "inherited", {})
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name == "init_checkpoint" and value:
            handle = getattr(options, "albert_hub_module_handle", None)  # the same weights
            value = None if handle else pinned_name(value)
        if value not in (None, field.default, completed.get(field.name)):
            value = ",".join(map(str, value)) if isinstance(value, tuple) else value
            given[flag_name(field)] = value
    return given


def command_line(options: TrainingOptions) -> str:
    """Return the program and the flags that differ from their defaults, one per line."""
    words = [os.path.basename(sys.argv[0])]
    if words[0].endswith(".py"):
        words.insert(0, "python")
    lines = [shlex.join(words)]
    for name, value in given_flags(options).items():
        if isinstance(value, bool):
            lines.append(f"--{'' if value else 'no'}{name}")
        else:
            lines.append(shlex.quote(f"--{name}={value}"))
    return " \\\n    ".join(lines)


def commands(options: TrainingOptions) -> str:
    """Return the command that trained what is in `output_dir`, if it is another, and this one."""
    trained = None
    if not options.do_train:
        with contextlib.suppress(InputError):  # a damaged record
            trained = last_start(options)
    return "\n\n".join(command_line(each) for each in (trained, options) if each)


def versions() -> list[tuple[str, str]]:
    """Return versions of this project, its framework and Python."""
    backend = keras.backend.backend()
    return [
        ("albert_tf", version()),
        (_FRAMEWORKS.get(backend, backend), importlib.import_module(backend).__version__),
        ("Keras", f"{keras.__version__} on {backend}"),
        ("Python", platform.python_version()),
    ]
