"""One contestant in a process of its own; run by `benchmarks.turns`.

    python -m benchmarks.contestants NAME JSON

NAME is one of `CONTESTANTS`, JSON the fields of a `Workload`. Says "ready", then for every line with
a number makes as many steps and answers {"seconds": ..., "peak_memory": ...}, the latter in bytes,
of the process since its start.
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
    "Hugging Face": ("hugging_face", {"compiled": False}),
    "Hugging Face, compiled": ("hugging_face", {"compiled": True}),
    "KerasHub": ("keras_hub_model", {}),
    "matrix products": ("matrix_products", {}),
}


def main(name: str, settings: str) -> None:
    # What libraries print is not to be taken for an answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    module, options = CONTESTANTS[name]
    prepare = importlib.import_module(f"benchmarks.contestants.{module}").prepare
    work = prepare(Workload(**json.loads(settings)), **options)
    print("ready", file=answers, flush=True)
    for line in sys.stdin:
        start = time.perf_counter()
        work(int(line))
        answer = {
            "seconds": time.perf_counter() - start,
            "peak_memory": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
