"""Errors of a process before it meets the others of its run, which would wait for it in vain."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import sys
import threading
from collections.abc import Iterator
from typing import Any

from absl import flags

from albert_tf import configs
from albert_tf.engines.device_options import MeetingOptions
from albert_tf.engines.registry import find_engine, select_engine
from albert_tf.options import define_flags

# Seconds in which the others must come, to be told.
PATIENCE = 60

# Set when this process meets the others: from then on, they learn of its errors by themselves.
has_met = threading.Event()


def tell_others(error: Exception, options: MeetingOptions | None = None) -> None:
    """Meet the processes that wait for this one, if there are any, only to report an error.

    Args:
        error: of this process.
        options: of the program; None for those on the command line, the rest of which may be
            invalid.
    """
    if has_met.is_set():
        return
    with contextlib.suppress(Exception):  # it does not say who the others are, or they do not come
        options = options or _on_command_line()
        entry = find_engine(options.engine)
        select_engine(options.engine)
        importlib.import_module(entry.meeting).report(options, error)


@contextlib.contextmanager
def told_to_others(options: MeetingOptions) -> Iterator[None]:
    """Call `tell_others` for an error of the block."""
    try:
        yield
    except Exception as error:
        tell_others(error, options)
        raise


def _on_command_line() -> MeetingOptions:
    values = flags.FlagValues()
    define_flags(MeetingOptions, values)
    values(configs.with_recipe_paths(sys.argv), known_only=True)
    names = [field.name for field in dataclasses.fields(MeetingOptions)]
    given: dict[str, Any] = {name: values[name].value for name in names}
    return MeetingOptions(**given)
