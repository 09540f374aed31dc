"""Measures how fast this project is, beside other libraries and beside what is possible.

    make bench
    .venv/bin/python -m benchmarks --only=pretraining_step,startup

Prints a Markdown table of every part and writes benchmarks/results/PART.json, with every raw time,
the machine and the versions, and PART.svg. What is compared takes turns in one run. Libraries that
are not installed are left out, with a line that says so. --quick measures next to nothing, in
seconds, and writes to build/benchmarks: it shows that everything works.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import signal
import sys
import time

from albert_tf.errors import InputError
from albert_tf.files import make_folder
from albert_tf.options import command, option
from albert_tf.progress import duration
from benchmarks.comparison import Suite
from benchmarks.parts import PARTS, check, runner
from benchmarks.reporting import write


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the suite."""

    only: tuple[str, ...] = option((), "Parts to run, separated by commas; without it, all.")
    list: bool = option(False, "Only print the names of the parts.")
    repeats: int = option(0, "Turns of everything; 0 for 5, or with --quick 2.")
    results: str | None = option(
        None, "Folder of the results; else benchmarks/results, of --quick build/benchmarks."
    )
    quick: bool = option(False, "The smallest shapes and shortest turns, to see that it works.")
    works: str = option(
        "", "Only work whose name holds this, such as 'base, 8 x 128'; goes to build/benchmarks."
    )
    books: str | None = option(
        None, "Folder of .txt files to read, instead of the documentation of installed packages."
    )


def run(options: Options) -> None:
    if options.list:
        for name, what in PARTS.items():
            print(f"{name:<28}{what}")
        return
    check(options.only)
    if options.repeats < 0:
        raise InputError(f"--repeats={options.repeats}: must be at least 1")
    if options.books and not os.path.isdir(options.books):
        raise InputError(f"--books={options.books}: no such folder of .txt files")
    partial = options.quick or options.works
    folder = options.results or ("build/benchmarks" if partial else "benchmarks/results")
    make_folder(folder, "results")
    # The processes that wait for their turn would outlive one that is ended without a word.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    suite = Suite(
        repeats=options.repeats or (2 if options.quick else 5),
        quick=options.quick,
        turn_seconds=0.02 if options.quick else 3.0,
        works=options.works,
        books=options.books,
    )
    # Where results go says nothing of how they came about.
    flags = [word for word in sys.argv[1:] if not word.startswith("--results=")]
    words = shlex.join(["python", "-m", "benchmarks", *flags])
    names = options.only or tuple(PARTS)
    for number, name in enumerate(names, start=1):
        start = time.monotonic()
        result = runner(name)(suite)
        suite.progress.clear()
        if options.works and not result.measurements:
            raise InputError(f"--works={options.works}: no work of {name} is called so")
        paths = write(result, folder, name, words, options.quick)
        print(f"[{number}/{len(names)}] {name}, {duration(time.monotonic() - start)}\n")
        print(f"{result.markdown()}\n\n-> {', '.join(paths)}\n", flush=True)


cli = command(Options, run)

if __name__ == "__main__":
    cli()
