"""Measures the speed of this project, compared with other libraries and with lower bounds.

    make bench
    .venv/bin/python -m benchmarks --only=pretraining_step,startup

Prints a Markdown table for every part and writes benchmarks/results/PART.json, with all raw times,
the machine and the versions, and PART.svg. Implementations are measured in interleaved rounds
within one run. Libraries that are not installed are left out and reported. --quick takes seconds,
measures the smallest shapes and writes to build/benchmarks: it shows that everything works.
"""

import importlib
import json
import os
import shlex
import sys
import time

from albert_tf.children import stoppable
from albert_tf.errors import InputError
from albert_tf.files import make_folder, read_text, write_text
from albert_tf.options import check_limits, command
from albert_tf.terminal import duration
from benchmarks.comparison import Options, Suite
from benchmarks.measurements import Measurement, write
from benchmarks.parts import PARTS
from benchmarks.pictures import draw


@stoppable()
def run(options: Options) -> None:
    for name in options.only:
        if name not in PARTS:
            raise InputError(f"--only={name}: must be among {', '.join(PARTS)}")
    check_limits(options)
    if options.books and not os.path.isdir(options.books):
        raise InputError(f"--books={options.books}: no such folder of .txt files")
    partial = options.quick or options.works
    names = options.only or [name for name in PARTS if name != "pretraining_on_gpu"]
    folder = options.results or ("build/benchmarks" if partial else "benchmarks/results")
    make_folder(folder, "results")
    if options.redraw:
        for name in names:
            part = importlib.import_module(f"benchmarks.parts.{name}")
            if hasattr(part, "picture"):
                written = json.loads(read_text(f"{folder}/{name}.json"))["measurements"]
                again = [Measurement(**values) for values in written]
                write_text(f"{folder}/{name}.svg", draw(*part.picture(again)))
        return
    suite = Suite(options)
    # The folder of the results does not influence them.
    flags = [word for word in sys.argv[1:] if not word.startswith("--results=")]
    words = shlex.join(["python", "-m", "benchmarks", *flags])
    for number, name in enumerate(names, start=1):
        start = time.monotonic()
        result = importlib.import_module(f"benchmarks.parts.{name}").run(suite)
        suite.progress.clear()
        if options.works and not result.measurements:
            raise InputError(
                f"--works={options.works}: no work of {name} has a name that contains this"
            )
        paths = write(result, folder, name, words, options.quick)
        print(f"[{number}/{len(names)}] {name}, {duration(time.monotonic() - start)}\n")
        print(f"{result.markdown()}\n\n-> {', '.join(paths)}\n", flush=True)


cli = command(Options, run)

if __name__ == "__main__":
    cli()
