"""Text to TFRecords: every stage in one thread, and the commands with one and two processes."""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import os
import pathlib
import tempfile

from benchmarks import corpus
from benchmarks.comparison import Suite
from benchmarks.create_pretraining_data import SENTENCEPIECE, Options, create, extract, time_stages
from benchmarks.interleaving import interleave
from benchmarks.measurements import Measurement, reference_of
from benchmarks.pictures import Bar, Panel
from benchmarks.reporting import Result, Table, decimals

SAMPLE_MEGABYTES = 8.0
ALL = "all stages"
TWO = "2 processes"


def run(suite: Suite) -> Result:
    """Megabytes of text per second, and those of SentencePiece alone, for comparison."""
    with tempfile.TemporaryDirectory() as folder:
        suite.progress.update("text_to_records: makes a corpus and a vocabulary")
        data = corpus.chosen(folder, suite.quick, suite.books)
        options = Options(
            books=data.books,
            spm_model_file=data.spm_model_file,
            max_seq_length=128 if suite.quick else 512,
            sample_megabytes=0.2 if suite.quick else SAMPLE_MEGABYTES,
        )
        stages = _stages(suite, options, pathlib.Path(data.text), folder)
        commands = _commands(suite, options, data, folder)
    tables = [_stage_table(stages, data), _command_table(commands)]
    panels = [
        Panel(
            "stages, one thread",
            "MB of text/s",
            bars=[Bar(each.work, "", each.rate) for each in stages],
        ),
        Panel(
            "commands",
            "MB of text/s",
            bars=[Bar(each.work, each.way, each.rate) for each in commands],
        ),
    ]
    return Result(
        "From text to TFRecords",
        [*stages, *commands],
        TWO,
        tables,
        panels,
        values={"corpus": data.name, "vocab_size": data.vocab_size},
    )


def _stages(suite: Suite, options: Options, text: pathlib.Path, folder: str) -> list[Measurement]:
    """Seconds of every stage, in a process of its own that has already compiled."""
    content = text.read_bytes()
    sample, warm_up = pathlib.Path(folder, "sample.txt"), pathlib.Path(folder, "warm_up.txt")
    sample.write_bytes(content[: int(options.sample_megabytes * 1e6)].rpartition(b"\n")[0])
    warm_up.write_bytes(content[:100_000].rpartition(b"\n")[0])
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as executor:

        def once(path: pathlib.Path) -> dict[str, float]:
            suite.progress.update("text_to_records: stages in one thread")
            return executor.submit(time_stages, path, options, folder).result()

        once(warm_up)
        runs = [once(sample) for _ in range(suite.repeats)]
    megabytes = sample.stat().st_size / 1e6
    for seconds in runs:
        seconds[ALL] = sum(value for name, value in seconds.items() if name != SENTENCEPIECE)
    return [
        Measurement(name, "one thread", [seconds[name] for seconds in runs], megabytes, "MB")
        for name in runs[0]
    ]


def _commands(
    suite: Suite, options: Options, data: corpus.Corpus, folder: str
) -> list[Measurement]:
    """Seconds and peak memory of the commands, start-up included."""
    text, output = f"{folder}/extracted.txt", f"{folder}/train.tfrecord"
    extract(options, text, 1)
    megabytes = os.path.getsize(text) / 1e6
    memory: dict[tuple[str, int], float] = {}

    def measure(name: str, processes: int) -> float:
        suite.progress.update(f"text_to_records: {name} on {processes} process(es)")
        if name == "extract_corpus":
            seconds, peak = extract(options, text, processes)
        else:
            seconds, peak = create(options, data.text, output, processes)
        memory[name, processes] = max(peak, memory.get((name, processes), 0.0))
        return seconds

    keys = [(name, n) for name in ("extract_corpus", "create_pretraining_data") for n in (1, 2)]
    ways = {key: functools.partial(measure, *key) for key in keys}
    return [
        Measurement(
            name,
            TWO if processes == 2 else "1 process",
            seconds,
            megabytes,
            "MB",
            peak_memory=int(memory[name, processes] * 2**20),
        )
        for (name, processes), seconds in interleave(ways, suite.repeats).items()
    ]


def _stage_table(stages: list[Measurement], data: corpus.Corpus) -> Table:
    seconds = {each.work: each.unit_seconds.median for each in stages}
    rows = [
        (
            each.work,
            format(each.rate, decimals(each.rate.median)),
            f"{1e3 * seconds[each.work]:.1f}",
            f"{seconds[each.work] / seconds[ALL]:.1%}" if each.work != SENTENCEPIECE else "",
            f"{seconds[SENTENCEPIECE] / seconds[each.work]:.2f}"
            if each.work in ("tokenize", ALL)
            else "",
        )
        for each in stages
    ]
    heads = ("stage", "MB of text/s", "ms/MB", "share", "times SentencePiece's rate")
    return Table(f"Text to TFRecords, stage by stage in one thread; {data.name}", heads, rows)


def _command_table(commands: list[Measurement]) -> Table:
    rows = []
    for each in commands:
        other = reference_of(each, commands, TWO)
        rows.append(
            (
                f"{each.work}, {each.way}",
                format(each.rate, decimals(each.rate.median)),
                format(each.times_as_long(other), ".2f") if other else "",
                f"{each.peak_memory / 2**20:.0f}",
            )
        )
    heads = ("command", "MB of text/s", "speed of two / its speed", "peak memory, MiB")
    return Table("Commands, start-up included; memory of the largest process", heads, rows)
