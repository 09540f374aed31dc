"""How much memory the paper's batch of 4096 takes on a CPU, in micro-batches.

    python -m benchmarks.global_batch --books=DIR --spm_model_file=30k-clean.model

Runs the recipe base_v1 (LAMB, bfloat16, dropout) with run_pretraining.py, on examples from the
books: some steps of the whole batch with short examples, since 4096 of 512 tokens are 1,190 TFLOP a
step; two micro-batches with examples of 512 tokens; and the first minutes of a step of 4096 of 512
tokens. Prints the peak memory of each process, as the kernel counts it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import os
import re
import sys
import tempfile
import time

from albert_tf.children import child
from albert_tf.errors import InputError
from albert_tf.options import command, option
from benchmarks import corpus


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    books: str = option(help="Folder of .txt files.")
    spm_model_file: str = option(help="SentencePiece model of 30,000 pieces.")
    short_seq_length: int = option(64, "Tokens of the short examples.")
    short_micro_batch_size: int = option(64, "Short examples of a micro-batch.")
    micro_batch_size: int = option(8, "Examples of 512 tokens of a micro-batch.")
    steps: int = option(2, "Steps with short examples; 0 leaves them out.")
    minutes: float = option(4.0, "Of the step of 4096 examples of 512 tokens; 0 leaves it out.")


def train(folder: str, records: str, length: int, batch: int, micro: int, steps: int, minutes=None):
    """Run the recipe; return its peak memory in GiB and the metrics of its steps.

    Args:
        folder: for its output.
        records: to train on.
        length: tokens of an example.
        batch: examples of a step.
        micro: examples of a micro-batch.
        steps: steps to train.
        minutes: after which it is ended; None lets it end.
    """
    output = os.path.join(folder, f"run-{length}-{batch}-{micro}")
    words = [
        "run_pretraining.py",
        "--flagfile=configs/pretraining/base_v1.cfg",
        f"--input_file={records}",
        f"--output_dir={output}",
        f"--max_seq_length={length}",
        f"--train_batch_size={batch}",
        f"--micro_batch_size={micro}",
        f"--num_train_steps={steps}",
        "--num_warmup_steps=0",
        "--nodo_eval",
        "--iterations_per_loop=1",
    ]
    log = os.path.join(folder, "log")
    started, peak = time.monotonic(), 0.0
    with (
        open(log, "w", encoding="utf-8") as file,
        child([sys.executable, *words], stdout=file, stderr=file) as process,
    ):
        while process.poll() is None:
            peak = max(peak, _peak_gib(process.pid))
            if minutes is not None and time.monotonic() - started > 60 * minutes:
                process.kill()
                return peak, []
            time.sleep(0.2)
    if process.returncode:
        with open(log, encoding="utf-8") as file:
            raise InputError(f"run_pretraining.py: {_reason(file.read().splitlines())}")
    with open(os.path.join(output, "metrics.jsonl"), encoding="utf-8") as file:
        return peak, [json.loads(line) for line in file]


def _reason(lines: list[str]) -> str:
    """Return the line of a program's output with the reason why it ended."""
    named = [line for line in lines if re.search(r"^\S*error:", line, re.IGNORECASE)]
    return (named or lines or ["no error message"])[-1]


def _peak_gib(pid: int) -> float:
    """Return peak resident memory of a process so far; 0 where it has just ended."""
    with contextlib.suppress(OSError), open(f"/proc/{pid}/status", encoding="utf-8") as file:
        if found := re.search(r"VmHWM:\s*(\d+) kB", file.read()):
            return int(found[1]) / 2**20
    return 0.0


def report(what: str, peak: float, records: list[dict]) -> None:
    times = [record["seconds"] for record in records]
    seconds = [after - before for before, after in itertools.pairwise(times)]
    steps = f"; {seconds[-1]:.0f} s a step" if seconds else ""
    losses = f"; loss {' -> '.join(format(r['loss'], '.3f') for r in records)}" if records else ""
    print(f"{what}: {peak:.2f} GiB at the peak{steps}{losses}", flush=True)


def run(options: Options) -> None:
    short, micro = options.short_seq_length, options.micro_batch_size
    with tempfile.TemporaryDirectory() as folder:
        data = corpus.large(folder, options.books, options.spm_model_file)
        (long,) = corpus.records(data, folder, 512, 20)
        two = train(folder, long, 512, 2 * micro, micro, steps=2)
        report(f"{2 * micro} x 512 tokens, micro-batches of {micro}", *two)
        if options.minutes:
            first = train(folder, long, 512, 4096, micro, steps=1, minutes=options.minutes)
            what = f"4096 x 512 tokens, micro-batches of {micro}, first {options.minutes:g} minutes"
            report(what, *first)
        if options.steps:
            (records,) = corpus.records(data, folder, short, 20)
            size = options.short_micro_batch_size
            whole = train(folder, records, short, 4096, size, steps=options.steps)
            report(f"4096 x {short} tokens, micro-batches of {size}", *whole)


cli = command(Options, run)

if __name__ == "__main__":
    cli()
