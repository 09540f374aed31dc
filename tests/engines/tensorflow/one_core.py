"""Trains on a single core and prints two numbers: seconds of waiting for data, and of all."""

import os

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})

# TensorFlow makes as many threads as there are cores when it is loaded.
import time  # noqa: E402

from tests.training.test_health import build, data  # noqa: E402


def main() -> None:
    steps = 10
    step = build(micro_batches=4)  # much to do for little data
    iterator = iter(data([1] * 3 * steps).prefetch(3 * steps))
    step(iterator, steps)  # compiles
    start = time.monotonic()
    waited = step(iterator, steps).scalars["input_wait_seconds"]
    print(waited, time.monotonic() - start)


if __name__ == "__main__":
    main()
