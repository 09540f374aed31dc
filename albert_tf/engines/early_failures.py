"""Errors of a process before it meets the others of its run, which would wait for it in vain.

A command, for a child of the process: `python -m albert_tf.engines.early_failures OPTIONS KIND
ERROR`. JAX aborts a process in which it waits in vain.
"""

import contextlib
import dataclasses
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from typing import Any

from absl import flags

from albert_tf import configs
from albert_tf.engines.device_options import (
    PROCESS_FLAGS,
    DeviceOptions,
    MeetingOptions,
    started_by_srun,
)
from albert_tf.engines.workers import reason_of
from albert_tf.errors import InputError, StorageUnavailable
from albert_tf.files import parse_json, to_json
from albert_tf.hardware import tpu_chips
from albert_tf.options import define_flags

# Seconds in which the others must come to learn of an error.
PATIENCE = 120

# Set when this process meets the others: from then on, they learn of its errors by themselves.
has_met = threading.Event()


def tell_others(error: Exception, options: MeetingOptions | None = None) -> None:
    """Have a child meet the processes that wait for this one, if any, only to report an error.

    Without options, those on the command line count, the rest of which may be invalid.
    """
    with contextlib.suppress(Exception):  # it does not say who the others are, or they do not come
        options = options or _on_command_line()
        if has_met.is_set() or not _may_have_others(options):
            return
        kind = "unavailable" if isinstance(error, StorageUnavailable) else ""
        given = to_json(dataclasses.asdict(options), default=str)
        path = {"PYTHONPATH": os.pathsep.join(sys.path)}
        subprocess.run(
            [sys.executable, "-m", __name__, given, kind, reason_of(error)],
            env={**os.environ, **path, "KERAS_BACKEND": options.engine},
            capture_output=True,
            timeout=PATIENCE,
        )


@contextlib.contextmanager
def told_to_others(options: MeetingOptions) -> Iterator[None]:
    """Call `tell_others` for an error of the block."""
    try:
        yield
    except Exception as error:
        tell_others(error, options)
        raise


def _may_have_others(options: MeetingOptions) -> bool:
    return options.strategy in ("auto", "multi_worker", "tpu") and (
        any(getattr(options, name) is not None for name in PROCESS_FLAGS)
        or "TF_CONFIG" in os.environ
        or started_by_srun()
        or (options.engine == "jax" and bool(tpu_chips()))
    )


def _on_command_line() -> MeetingOptions:
    values = flags.FlagValues()
    define_flags(MeetingOptions, values)
    values(configs.with_recipe_paths(sys.argv), known_only=True)
    names = [field.name for field in dataclasses.fields(MeetingOptions)]
    given: dict[str, Any] = {name: values[name].value for name in names}
    return MeetingOptions(**given)


if __name__ == "__main__":
    from albert_tf.engines.base import create_engine

    given, kind, reason = sys.argv[1:]
    failure = StorageUnavailable(reason) if kind else InputError(reason)
    options = parse_json(given, "", MeetingOptions)
    create_engine(options.engine, DeviceOptions(**dataclasses.asdict(options)), failure)
