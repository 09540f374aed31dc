"""How fast text becomes TFRecords, stage by stage, and on how many cores.

    python benchmarks/create_pretraining_data.py --books=DIR --spm_model_file=30k-clean.model

Prints, for books in DIR and static masks: the rate of each stage in one thread and its share of the
total, and the rate of SentencePiece alone, for comparison; the commands with one and two processes
in interleaved rounds, as medians with their ratio; and rate and peak memory as the corpus grows.
"""

from __future__ import annotations

import contextlib
import dataclasses
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator

import numpy as np
import sentencepiece

from albert_tf.input.masking import derive_seeds, draw_masks
from albert_tf.options import command, option
from data_prep.example_maker import ExampleMaker, join_documents
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.runs import make_run, merge, read_buckets, write_run
from data_prep.segments import assemble, make_pairs
from data_prep.text_units import TextUnit, read_unit
from data_prep.tfrecords import write_records

_BUCKETS = 16
SENTENCEPIECE = "SentencePiece alone"
_MEASURE = """
import resource, subprocess, sys, time
start = time.perf_counter()
subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL)
seconds = time.perf_counter() - start
print(seconds, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


@dataclasses.dataclass(frozen=True)
class Options:
    books: str = option(help="Folder of .txt files.")
    spm_model_file: str = option(help="SentencePiece model.")
    max_seq_length: int = option(512, "Length of the examples.")
    repeats: int = option(3, "Runs of each command.")
    sample_megabytes: float = option(16.0, "Text on which the stages are timed one by one.")


class Stages:
    """Seconds of named stages."""

    def __init__(self):
        self.seconds: dict[str, float] = {}

    @contextlib.contextmanager
    def timed(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - start


def time_stages(text: pathlib.Path, options: Options, folder: str) -> dict[str, float]:
    """Seconds of each stage for a text file, in one thread."""
    maker = ExampleMaker(
        PretrainingDataOptions(
            input_file=(str(text),),
            output_file=(f"{folder}/x",),
            spm_model_file=options.spm_model_file,
            max_seq_length=options.max_seq_length,
            dupe_factor=1,
        ),
        _BUCKETS,
    )
    tokenizer = maker.tokenizer
    stages = Stages()
    with stages.timed("read"):
        documents = list(read_unit(TextUnit(str(text), 0, 0, text.stat().st_size), Counter()))
    sentences = [sentence for document in documents for sentence in document.sentences]
    with stages.timed("tokenize"):
        encoded = tokenizer.encode_flat(sentences)
    prepared = [tokenizer.preprocess(sentence) for sentence in sentences]
    processor = sentencepiece.SentencePieceProcessor(model_file=options.spm_model_file)
    with stages.timed(SENTENCEPIECE):
        processor.encode(prepared, num_threads=1)
    joined = join_documents(documents, [encoded], maker.token_dtype)
    seeds = derive_seeds(1, 0, np.array([document.offset for document in documents]))
    with stages.timed("pair"):
        pairs = make_pairs(joined, tokenizer.word_starts, maker.pairing, seeds)
    with stages.timed("shuffle"):
        write_run(f"{folder}/run", make_run(joined.ids, [pairs], seeds, 1, _BUCKETS))
    with open(f"{folder}/out", "wb") as file:
        for bucket in range(_BUCKETS):
            with stages.timed("shuffle"):
                parts = read_buckets([f"{folder}/run"], bucket, _BUCKETS, maker.token_dtype)
                merged, order = merge(list(parts), 1)
            sizes = merged.examples["first"].astype(np.int64) + merged.examples["second"]
            ends = np.cumsum(sizes)
            middles = (ends - merged.examples["second"])[order]
            spans = np.stack([(ends - sizes)[order], middles, middles, ends[order]], 1)
            with stages.timed("assemble"):
                examples = assemble(
                    merged.tokens, spans, tokenizer, maker.word_starts, options.max_seq_length
                )
            with stages.timed("mask"):
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
            mask = np.arange(options.max_seq_length) < examples.lengths[:, None]
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
            with stages.timed("serialize"):
                write_records(file, features)
    return stages.seconds


def run_command(*words: str) -> tuple[float, float]:
    """Runs `python -m data_prep...`; returns seconds, and MB of its largest process."""
    # A process starts out with the memory of the one that starts it, hence a small one between.
    measure = [sys.executable, "-c", _MEASURE, sys.executable, "-m", *words]
    done = subprocess.run(measure, stdout=subprocess.PIPE, check=True, text=True)
    seconds, kilobytes = done.stdout.split()[-2:]
    return float(seconds), float(kilobytes) / 1024


def extract(options: Options, output: str, processes: int) -> tuple[float, float]:
    return run_command(
        "data_prep.extract_corpus",
        "--format=books",
        f"--input_file={options.books}",
        f"--output_file={output}",
        f"--num_processes={processes}",
    )


def create(options: Options, text: str, output: str, processes: int) -> tuple[float, float]:
    for path in pathlib.Path(output).parent.glob(pathlib.Path(output).stem + "*"):
        path.unlink()
    return run_command(
        "data_prep.create_pretraining_data",
        f"--input_file={text}",
        f"--output_file={output}",
        f"--spm_model_file={options.spm_model_file}",
        f"--max_seq_length={options.max_seq_length}",
        "--dupe_factor=1",
        f"--num_processes={processes}",
    )


def print_stages(runs: list[dict[str, float]], megabytes: float) -> None:
    seconds = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    total = sum(value for name, value in seconds.items() if name != SENTENCEPIECE)
    print(f"stages, one thread, {megabytes:.1f} MB of text:")
    print(f"{'stage':<24}{'ms/MB':>9}{'MB/s':>9}{'share':>8}")
    for name, value in seconds.items():
        share = "" if name == SENTENCEPIECE else f"{value / total:>8.1%}"
        print(f"{name:<24}{1e3 * value / megabytes:>9.1f}{megabytes / value:>9.1f}{share}")
    print(f"{'all':<24}{1e3 * total / megabytes:>9.1f}{megabytes / total:>9.1f}")


def print_commands(
    measured: dict[tuple[str, int], list[tuple[float, float]]], megabytes: float, alone_rate: float
) -> None:
    """Prints the commands; `alone_rate` is SentencePiece's own rate in MB/s."""
    print(f"\ncommands, {megabytes:.1f} MB of text, start-up included:")
    print(f"{'command':<26}{'processes':>10}{'seconds':>9}{'MB/s':>8}{'MB of memory':>14}")
    alone = 0.0
    for (name, processes), runs in sorted(measured.items()):
        seconds = statistics.median(seconds for seconds, _ in runs)
        memory = max(memory for _, memory in runs)
        alone += seconds if processes == 1 else 0.0
        rate = megabytes / seconds
        print(f"{name:<26}{processes:>10}{seconds:>9.1f}{rate:>8.1f}{memory:>14.0f}")
        if name == "create_pretraining_data":
            print(
                f"{'':<26}{rate / alone_rate:>10.2f} times the rate of SentencePiece in one thread"
            )
    for name in sorted({name for name, _ in measured}):
        ratios = sorted(
            one / two
            for (one, _), (two, _) in zip(measured[name, 1], measured[name, 2], strict=True)
        )
        print(
            f"{name}: two processes are {statistics.median(ratios):.2f} times as fast as one "
            f"({ratios[0]:.2f} to {ratios[-1]:.2f})"
        )
    print(f"books to TFRecords, one process: {megabytes / alone:.1f} MB/s")


def run(options: Options) -> None:
    with tempfile.TemporaryDirectory() as folder:
        text = pathlib.Path(folder, "corpus.txt")
        extract(options, str(text), 1)
        content = text.read_bytes()
        megabytes = len(content) / 1e6
        sample, warm_up = pathlib.Path(folder, "sample.txt"), pathlib.Path(folder, "warm_up.txt")
        sample.write_bytes(content[: int(options.sample_megabytes * 1e6)].rpartition(b"\n")[0])
        warm_up.write_bytes(content[:100_000].rpartition(b"\n")[0])
        time_stages(warm_up, options, folder)  # compiles
        stages = [time_stages(sample, options, folder) for _ in range(options.repeats)]
        print_stages(stages, sample.stat().st_size / 1e6)

        measured: dict[tuple[str, int], list[tuple[float, float]]] = {}
        output = f"{folder}/train.tfrecord"
        for _ in range(options.repeats):
            for processes in (1, 2):
                runs = measured.setdefault(("extract_corpus", processes), [])
                runs.append(extract(options, str(text), processes))
                runs = measured.setdefault(("create_pretraining_data", processes), [])
                runs.append(create(options, str(text), output, processes))
        seconds = statistics.median(run[SENTENCEPIECE] for run in stages)
        print_commands(measured, megabytes, sample.stat().st_size / 1e6 / seconds)

        large = pathlib.Path(folder, "large.txt")
        large.write_bytes((content + b"\n") * 4)
        for processes in (1, 2):
            seconds, memory = create(options, str(large), output, processes)
            print(
                f"four times the corpus, {processes} process(es): {seconds:.1f} s, "
                f"{4 * megabytes / seconds:.1f} MB/s, {memory:.0f} MB of memory"
            )


cli = command(Options, run)

if __name__ == "__main__":
    cli()
