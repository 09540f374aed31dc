"""The engines by name. This is the only place that names an engine's module."""

from __future__ import annotations

import importlib

from albert_tf.engines.base import Engine
from albert_tf.engines.device_options import DeviceOptions
from albert_tf.errors import InputError

DEFAULT_ENGINE = "tensorflow"

# Name -> module and class. The module is imported when the engine is created, so that a process
# loads one framework only.
ENGINES: dict[str, tuple[str, str]] = {
    "tensorflow": ("albert_tf.engines.tensorflow.engine", "TensorFlowEngine"),
}


def create_engine(name: str, options: DeviceOptions) -> Engine:
    """The engine called `name`, on the devices that the options ask for.

    Raises:
        InputError: there is no such engine, the options contradict each other, or the devices do
            not exist.
    """
    if name not in ENGINES:
        raise InputError(f"`engine`={name}: must be one of {', '.join(ENGINES)}")
    module, engine_class = ENGINES[name]
    return getattr(importlib.import_module(module), engine_class).create(options)
