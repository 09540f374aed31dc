"""One contestant in a process of its own; run by `benchmarks.turns`.

    python -m benchmarks.contestants NAME JSON

NAME is one of `CONTESTANTS`, JSON the fields of a `Workload`. Says "ready"; then, for every line
with a number, makes as many steps and answers {"seconds": ..., "peak_memory": ..., "device": ...}.
Memory is in bytes, of the process since its start. The device is what `device()` of the module
says, if it has one: "platform" ("gpu" or "cpu"), "name", and "peak_memory" there.
"""

from __future__ import annotations

import importlib
import json
import os
import resource
import sys
import time

from benchmarks.contestants.workload import Workload

# Name -> module with `prepare(workload, **options)`, and the options.
CONTESTANTS = {
    "albert_tf": ("ours", {}),
    "albert_tf, --jit_compile": ("ours", {"jit_compile": True}),
    "Hugging Face": ("hugging_face", {"compiled": False}),
    "Hugging Face, compiled": ("hugging_face", {"compiled": True}),
    "KerasHub": ("keras_hub_model", {}),
    "matrix products": ("matrix_products", {}),
    "albert_tf on JAX": ("ours_jax", {"attention": "plain"}),
    "albert_tf on JAX, flash attention": ("ours_jax", {"attention": "flash"}),
    "matrix products on JAX": ("matrix_products_jax", {}),
}

_JAX = {
    "KERAS_BACKEND": "jax",
    # Others want memory of the same card; but what is free is to be had, and not only 3/4 of it.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
    "XLA_CLIENT_MEM_FRACTION": "0.95",
    # An error's last line then says what went wrong, not what was left out above.
    "JAX_TRACEBACK_FILTERING": "off",
}

# Module -> what must be in the environment before it is loaded.
ENVIRONMENT = {"ours_jax": _JAX, "matrix_products_jax": _JAX}


def main(name: str, settings: str) -> None:
    # What libraries print is not to be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    file, options = CONTESTANTS[name]
    os.environ.update(ENVIRONMENT.get(file, {}))
    module = importlib.import_module(f"benchmarks.contestants.{file}")
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
