"""Text to TFRecords: the tokenizer next to SentencePiece, and the commands on one and two cores.

The commands are measured with their start-up and the memory of their largest process, also as the
corpus grows.
"""

import itertools
import os
import pathlib
import sys
import tempfile

from benchmarks import corpus, tasks
from benchmarks.comparison import Suite
from benchmarks.interleaving import in_rounds
from benchmarks.measurements import Measurement, Result, comparison_table

SAMPLE_MEGABYTES = 16.0
TWO = "2 processes"
# How many times the text is in the corpus that shows how the command grows.
COPIES = 4
_MEASURE = """
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - start
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def run(suite: Suite) -> Result:
    """Return megabytes of text per second, and those of SentencePiece alone, for comparison."""
    with tempfile.TemporaryDirectory() as folder:
        suite.progress.update("text_to_records: makes a corpus and a vocabulary")
        data = corpus.chosen(folder, suite)
        tokenized = _tokenized(suite, data, folder)
        commands = _commands(suite, data, folder)
    tables = [
        comparison_table(f"Tokenizing in one thread; {data.name}", tokenized, "tokenize"),
        comparison_table("Commands, start-up included; the largest process", commands, TWO),
    ]
    return Result("From text to TFRecords", [*tokenized, *commands], tables)


def _tokenized(suite: Suite, data: corpus.Corpus, folder: str) -> list[Measurement]:
    content = pathlib.Path(data.text).read_bytes()
    sample = pathlib.Path(folder, "sample.txt")
    limit = 0.2 if suite.quick else SAMPLE_MEGABYTES
    sample.write_bytes(content[: int(limit * 1e6)].rpartition(b"\n")[0])
    suite.progress.update("text_to_records: tokenizing in one thread")
    arguments = {"text": str(sample), "spm_model_file": data.spm_model_file}
    runs = [tasks.start("tokenize", **arguments) for _ in range(suite.repeats)]
    megabytes = sample.stat().st_size / 1e6
    return [
        Measurement("one thread", name, [seconds[name] for seconds in runs], megabytes, "MB")
        for name in ("tokenize", "SentencePiece alone")
    ]


def _commands(suite: Suite, data: corpus.Corpus, folder: str) -> list[Measurement]:
    """Return seconds and peak memory of the commands, start-up included."""
    text, output = f"{folder}/made.txt", f"{folder}/made.tfrecord"
    large = pathlib.Path(folder, "large.txt")
    large.write_bytes((pathlib.Path(data.text).read_bytes() + b"\n") * COPIES)
    create = (
        "data_prep.create_pretraining_data",
        f"--output_file={output}",
        f"--spm_model_file={data.spm_model_file}",
        f"--max_seq_length={128 if suite.quick else 512}",
        "--dupe_factor=1",
    )
    extract = ("data_prep.extract_corpus", f"--source={data.source}")
    runs = {
        "extract_corpus": (1, (*extract, f"--output_file={text}")),
        "create_pretraining_data": (1, (*create, f"--input_file={data.text}")),
        f"create_pretraining_data, {COPIES} times the text": (
            COPIES,
            (*create, f"--input_file={large}"),
        ),
    }
    if suite.quick:
        runs.popitem()
    times: dict[tuple[str, int], list[float]] = {}
    memory: dict[tuple[str, int], int] = {}
    for _, (name, processes) in in_rounds(itertools.product(runs, (1, 2)), suite.repeats):
        suite.progress.update(f"text_to_records: {name} on {processes} process(es)")
        for path in pathlib.Path(folder).glob("made*"):
            path.unlink()  # or there would be nothing left to do
        seconds, peak = run_command(*runs[name][1], f"--num_processes={processes}")
        times.setdefault((name, processes), []).append(seconds)
        memory[name, processes] = max(peak, memory.get((name, processes), 0))
    megabytes = os.path.getsize(data.text) / 1e6
    return [
        Measurement(
            name,
            TWO if processes == 2 else "1 process",
            of_rounds,
            megabytes * runs[name][0],
            "MB",
            peak_memory=memory[name, processes],
        )
        for (name, processes), of_rounds in times.items()
    ]


def run_command(*words: str) -> tuple[float, int]:
    """Run `python -m data_prep...`; return seconds, and bytes of its largest process."""
    # A process starts out with the memory of the one that starts it, hence a small one between.
    measured = tasks.run_python("-c", _MEASURE, sys.executable, "-m", *words)
    seconds, kilobytes = measured.split()[-2:]
    return float(seconds), int(kilobytes) * 1024
