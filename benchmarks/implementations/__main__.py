"""Runs one implementation in a process of its own; started by `benchmarks.interleaving`.

    python -m benchmarks.implementations NAME JSON

NAME is a key of `IMPLEMENTATIONS`, JSON the fields of a `Workload`. Prints "ready"; then, for each
input line with a number, runs this many steps and prints {"seconds": ..., "peak_memory": ...,
"device": ...}. Memory is the peak of the process in bytes. The device is the result of the module's
`device()`, if it has this function: "platform" ("gpu" or "cpu"), "name", and "peak_memory" there.
"""

import importlib
import json
import os
import resource
import sys
import time

from albert_tf.environment import restart_with_kept_memory
from benchmarks.implementations.workload import Workload

# Name -> module with `prepare(workload, **options)`, and the options.
IMPLEMENTATIONS = {
    "albert_tf": ("ours", {}),
    "albert_tf, --jit_compile": ("ours", {"jit_compile": True}),
    "Hugging Face": ("hugging_face", {"compiled": False}),
    "Hugging Face, compiled": ("hugging_face", {"compiled": True}),
    "KerasHub": ("keras_hub_model", {}),
    "matrix products": ("matrix_products", {}),
    "albert_tf on JAX": ("ours_jax", {"attention": "plain"}),
    "albert_tf on JAX, fused attention": ("ours_jax", {"attention": "fused"}),
    "matrix products on JAX": ("matrix_products_jax", {}),
}

_JAX = {
    "KERAS_BACKEND": "jax",
    # Leave memory for the other implementations, but allow more than the default 3/4 of it.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_CLIENT_MEM_FRACTION": "0.95",
    # Otherwise the last line of an error is about the filtering, not about the error.
    "JAX_TRACEBACK_FILTERING": "off",
}

# Module -> environment variables that must be set before it is imported.
ENVIRONMENT = {"ours_jax": _JAX, "matrix_products_jax": _JAX}


def main(name: str, settings: str) -> None:
    file, options = IMPLEMENTATIONS[name]
    if file.startswith("ours"):
        restart_with_kept_memory()  # as our commands do
    # Output of libraries must not be mistaken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    os.environ.update(ENVIRONMENT.get(file, {}))
    module = importlib.import_module(f"benchmarks.implementations.{file}")
    work = module.prepare(Workload(**json.loads(settings)), **options)
    device = getattr(module, "device", dict)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        work(int(line))
        answer = {
            "seconds": time.perf_counter() - start,
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "device": device(),
        }
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
