"""The engines by name. This is the only place that names an engine's module; loads no framework."""

import importlib.util
import os
import sys
from typing import NamedTuple

from albert_tf.errors import InputError


class EngineEntry(NamedTuple):
    """Where an engine is, imported when it is created: a process loads one framework only.

    Attributes:
        requires: packages that must be installed.
        extras: of this project, that install them.
        unused: packages that its framework imports where they are installed, without need.
    """

    module: str
    name: str
    requires: tuple[str, ...]
    extras: str
    unused: tuple[str, ...] = ()


# Each is called like the backend of Keras that it runs on.
ENGINES: dict[str, EngineEntry] = {
    "tensorflow": EngineEntry(
        "albert_tf.engines.tensorflow.engine",
        "TensorFlowEngine",
        ("tensorflow",),
        "cpu, gpu, tpu",
        unused=("jax",),  # to convert JAX models to TFLite
    ),
    "jax": EngineEntry(
        "albert_tf.engines.jax.engine",
        "JaxEngine",
        ("jax", "grain", "orbax.checkpoint"),
        "jax, jax-cuda, jax-tpu",
    ),
}


def select_engine(name: str) -> None:
    """Make Keras, which must not be loaded yet, use the framework of an engine.

    Raises:
        InputError: If there is no such engine, it is not installed, or Keras has another backend.
    """
    entry = find_engine(name)
    for package in entry.requires:
        if not _is_installed(package):
            raise InputError(
                f"`engine`={name}: {package} is not installed; install albert-tf with one of the "
                f"extras {entry.extras}"
            )
    if "keras" in sys.modules:
        import keras

        if keras.backend.backend() != name:
            raise InputError(
                f"`engine`={name}: Keras is already loaded with the backend "
                f"{keras.backend.backend()}; start another process"
            )
    os.environ["KERAS_BACKEND"] = name


def installed_engine() -> str:
    """Return the first engine that is installed; the first one of all if none is."""
    installed = [name for name, entry in ENGINES.items() if all(map(_is_installed, entry.requires))]
    return (*installed, *ENGINES)[0]


def find_engine(name: str) -> EngineEntry:
    """Return the row of an engine.

    Raises:
        InputError: If there is no such engine.
    """
    if name not in ENGINES:
        raise InputError(f"`engine`={name}: must be one of {', '.join(ENGINES)}")
    return ENGINES[name]


def _is_installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # of what contains it
        return False
