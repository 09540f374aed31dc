"""Text to TFRecords: every stage in one thread, and the commands with one and two processes.

Prints the rate of each stage and its share of the total, and that of SentencePiece alone, for
comparison; and the rate and peak memory of the commands, also as the corpus grows.
"""

from __future__ import annotations

import concurrent.futures
import functools
import multiprocessing
import os
import pathlib
import subprocess
import sys
import tempfile
from collections import Counter

import numpy as np
import sentencepiece

from albert_tf.children import run_child
from albert_tf.input.masking import derive_seeds, draw_masks
from benchmarks import corpus
from benchmarks.comparison import Suite
from benchmarks.fresh import Clock
from benchmarks.interleaving import interleave
from benchmarks.measurements import Measurement, reference_of
from benchmarks.pictures import Bar, Panel
from benchmarks.reporting import Result, Table, decimals
from data_prep.example_maker import ExampleMaker, join_documents
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.runs import make_run, merge, read_buckets, write_run
from data_prep.segments import assemble, make_pairs
from data_prep.text_units import TextUnit, read_unit
from data_prep.tfrecords import write_records

SAMPLE_MEGABYTES = 16.0
ALL = "all stages"
TWO = "2 processes"
SENTENCEPIECE = "SentencePiece alone"
# How many times the text is in the corpus that shows how the command grows.
COPIES = 4
_BUCKETS = 16
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
        length = 128 if suite.quick else 512
        stages = _stages(suite, data, length, folder)
        commands = _commands(suite, data, length, folder)
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
            bars=[Bar(each.work, each.implementation, each.rate) for each in commands],
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


def _stages(suite: Suite, data: corpus.Corpus, length: int, folder: str) -> list[Measurement]:
    """Return seconds of every stage, in a process of its own that has already compiled."""
    content = pathlib.Path(data.text).read_bytes()
    megabytes = 0.2 if suite.quick else SAMPLE_MEGABYTES
    sample, warm_up = pathlib.Path(folder, "sample.txt"), pathlib.Path(folder, "warm_up.txt")
    sample.write_bytes(content[: int(megabytes * 1e6)].rpartition(b"\n")[0])
    warm_up.write_bytes(content[:100_000].rpartition(b"\n")[0])
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(1, spawn) as executor:

        def once(path: pathlib.Path) -> dict[str, float]:
            suite.progress.update("text_to_records: stages in one thread")
            return executor.submit(time_stages, path, data, length, folder).result()

        once(warm_up)
        runs = [once(sample) for _ in range(suite.repeats)]
    megabytes = sample.stat().st_size / 1e6
    for seconds in runs:
        seconds[ALL] = sum(value for name, value in seconds.items() if name != SENTENCEPIECE)
    return [
        Measurement(name, "one thread", [seconds[name] for seconds in runs], megabytes, "MB")
        for name in runs[0]
    ]


def _commands(suite: Suite, data: corpus.Corpus, length: int, folder: str) -> list[Measurement]:
    """Return seconds and peak memory of the commands, start-up included."""
    text, output = f"{folder}/extracted.txt", f"{folder}/train.tfrecord"
    extract(data, text, 1)
    large = pathlib.Path(folder, "large.txt")
    large.write_bytes((pathlib.Path(data.text).read_bytes() + b"\n") * COPIES)
    grown = f"create_pretraining_data, {COPIES} times the text"
    runs = {
        "extract_corpus": (1, functools.partial(extract, data, text)),
        "create_pretraining_data": (1, functools.partial(create, data, data.text, length, output)),
        grown: (COPIES, functools.partial(create, data, str(large), length, output)),
    }
    memory: dict[tuple[str, int], float] = {}

    def measure(name: str, processes: int) -> float:
        suite.progress.update(f"text_to_records: {name} on {processes} process(es)")
        seconds, peak = runs[name][1](processes)
        memory[name, processes] = max(peak, memory.get((name, processes), 0.0))
        return seconds

    keys = [(name, n) for name in runs for n in (1, 2) if not (suite.quick and name == grown)]
    ways = {key: functools.partial(measure, *key) for key in keys}
    megabytes = os.path.getsize(text) / 1e6
    return [
        Measurement(
            name,
            TWO if processes == 2 else "1 process",
            seconds,
            megabytes * runs[name][0],
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
                f"{each.work}, {each.implementation}",
                format(each.rate, decimals(each.rate.median)),
                format(each.times_as_long(other), ".2f") if other else "",
                f"{each.peak_memory / 2**20:.0f}",
            )
        )
    heads = ("command", "MB of text/s", "speed of two / its speed", "peak memory, MiB")
    return Table("Commands, start-up included; memory of the largest process", heads, rows)


def time_stages(
    text: pathlib.Path, data: corpus.Corpus, length: int, folder: str
) -> dict[str, float]:
    """Return seconds of each stage for a text file, in one thread."""
    maker = ExampleMaker(
        PretrainingDataOptions(
            input_file=(str(text),),
            output_file=(f"{folder}/x",),
            spm_model_file=data.spm_model_file,
            max_seq_length=length,
            dupe_factor=1,
        ),
        _BUCKETS,
    )
    tokenizer = maker.tokenizer
    clock = Clock()
    with clock.part("read"):
        documents = list(read_unit(TextUnit(str(text), 0, 0, text.stat().st_size), Counter()))
    sentences = [sentence for document in documents for sentence in document.sentences]
    with clock.part("tokenize"):
        encoded = tokenizer.encode_flat(sentences)
    prepared = [tokenizer.preprocess(sentence) for sentence in sentences]
    processor = sentencepiece.SentencePieceProcessor(model_file=data.spm_model_file)
    with clock.part(SENTENCEPIECE):
        processor.encode(prepared, num_threads=1)
    joined = join_documents(documents, [encoded], maker.token_dtype)
    seeds = derive_seeds(1, 0, np.array([document.offset for document in documents]))
    with clock.part("pair"):
        pairs = make_pairs(joined, tokenizer.word_starts, maker.pairing, seeds)
    with clock.part("shuffle"):
        write_run(f"{folder}/run", make_run(joined.ids, [pairs], seeds, 1, _BUCKETS))
    with open(f"{folder}/out", "wb") as file:
        for bucket in range(_BUCKETS):
            with clock.part("shuffle"):
                parts = read_buckets([f"{folder}/run"], bucket, _BUCKETS, maker.token_dtype)
                merged, order = merge(list(parts), 1)
            sizes = merged.examples["first"].astype(np.int64) + merged.examples["second"]
            ends = np.cumsum(sizes)
            middles = (ends - merged.examples["second"])[order]
            spans = np.stack([(ends - sizes)[order], middles, middles, ends[order]], 1)
            with clock.part("assemble"):
                examples = assemble(merged.tokens, spans, tokenizer, maker.word_starts, length)
            with clock.part("mask"):
                masked = draw_masks(
                    examples.input_ids,
                    examples.lengths,
                    examples.token_boundary,
                    merged.examples["seed"][order],
                    maker.masking,
                    (tokenizer.cls_id, tokenizer.sep_id),
                    tokenizer.mask_id,
                    tokenizer.replacement_ids,
                )
            mask = np.arange(length) < examples.lengths[:, None]
            features = {
                "input_ids": masked.input_ids,
                "input_mask": mask.astype(np.int32),
                "segment_ids": examples.segment_ids,
                "token_boundary": examples.token_boundary,
                "next_sentence_labels": merged.examples["label"][order].astype(np.int32),
                "masked_lm_positions": masked.positions,
                "masked_lm_ids": masked.ids,
                "masked_lm_weights": masked.weights,
            }
            with clock.part("serialize"):
                write_records(file, features)
    return clock.seconds


def run_command(*words: str) -> tuple[float, float]:
    """Run `python -m data_prep...`; return seconds, and MB of its largest process."""
    # A process starts out with the memory of the one that starts it, hence a small one between.
    measure = [sys.executable, "-c", _MEASURE, sys.executable, "-m", *words]
    done = run_child(measure, stdout=subprocess.PIPE, text=True)
    done.check_returncode()
    seconds, kilobytes = done.stdout.split()[-2:]
    return float(seconds), float(kilobytes) / 1024


def extract(data: corpus.Corpus, output: str, processes: int) -> tuple[float, float]:
    return run_command(
        "data_prep.extract_corpus",
        "--format=books",
        f"--input_file={data.books}",
        f"--output_file={output}",
        f"--num_processes={processes}",
    )


def create(
    data: corpus.Corpus, text: str, length: int, output: str, processes: int
) -> tuple[float, float]:
    for path in pathlib.Path(output).parent.glob(pathlib.Path(output).stem + "*"):
        path.unlink()
    return run_command(
        "data_prep.create_pretraining_data",
        f"--input_file={text}",
        f"--output_file={output}",
        f"--spm_model_file={data.spm_model_file}",
        f"--max_seq_length={length}",
        "--dupe_factor=1",
        f"--num_processes={processes}",
    )
