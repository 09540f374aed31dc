"""Whether a process is one of several, and how it reports an error to them; a command for that."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys

from albert_tf.engines import early_failures
from albert_tf.engines.device_options import PROCESS_FLAGS, MeetingOptions
from albert_tf.engines.failures import reason_of
from albert_tf.errors import InputError, StorageUnavailable
from albert_tf.files import parse_json, to_json
from albert_tf.hardware.peaks import tpu_chips


def runs_with_others(options: MeetingOptions) -> bool:
    """Return whether this process is one of several, by flags, SLURM or hosts of a slice."""
    if any(getattr(options, name) is not None for name in PROCESS_FLAGS):
        return True
    if int(os.environ.get("SLURM_NTASKS", "1")) > 1 and "SLURM_STEP_NODELIST" in os.environ:
        return True
    # JAX asks Cloud's metadata server, which exists on TPU VMs only, how many hosts there are.
    return bool(tpu_chips()) and os.environ.get("JAX_PLATFORMS", "tpu") != "cpu"


def report(options: MeetingOptions, error: Exception) -> None:
    """Join the others, if there are any, and let all of them end with an error of this process."""
    if options.strategy not in ("auto", "multi_worker", "tpu") or not runs_with_others(options):
        return
    given = to_json(dataclasses.asdict(options), default=str)
    kind = "unavailable" if isinstance(error, StorageUnavailable) else ""
    # JAX aborts a process in which it waits in vain.
    subprocess.run(
        [sys.executable, "-m", __name__, given, kind, reason_of(error)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        timeout=early_failures.PATIENCE,
    )


if __name__ == "__main__":
    from albert_tf.engines.jax.workers import join

    given, kind, reason = sys.argv[1:]
    failure = StorageUnavailable(reason) if kind else InputError(reason)
    join(parse_json(given, "", MeetingOptions), failure)
