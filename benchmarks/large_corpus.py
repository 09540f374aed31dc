"""What becomes of a large corpus: time, memory and disk of every command, killed on the way.

    python -m benchmarks.large_corpus --books=DIR --folder=DIR --gigabytes=1,3,10

Makes raw text of each size from the novels in --books, in copies that differ: in one paragraph of
five, two letters are exchanged, others in each copy. Then runs `extract_corpus`, `train_vocabulary`
and `create_pretraining_data` with all cores, kills each of them --kills times on the way (the whole
group of processes, SIGKILL) and starts it again. Prints seconds, the peak memory of each process,
and the disk space of the work folder and of the result, with a line fitted through the sizes. For
the smallest size, the commands also run uninterrupted, and the files are compared.

Needs about 5 bytes of disk per byte of text in --folder, and Linux.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import pathlib
import random
import shutil
import signal
import string
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

from albert_tf.children import child
from albert_tf.options import command, option

# Seconds of work on a gigabyte after which a command is killed; each needs three times as long.
_SECONDS_BEFORE_KILL = {"extract_corpus": 10, "train_vocabulary": 10, "create_pretraining_data": 15}
_CHANGED_PARAGRAPHS = 5
_SECONDS_BETWEEN_SAMPLES = 0.2


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    books: str = option(help="Folder of .txt files.")
    folder: str = option(help="Folder for text and results; what is in it is replaced.")
    gigabytes: tuple[str, ...] = option(("1", "3", "10"), "Sizes of the raw text.")
    kills: int = option(2, "How often each command is killed.")
    input_sentence_size: int = option(500_000, "Sentences that the vocabulary is trained on.")


@dataclasses.dataclass
class Measured:
    """What a command took, over all its starts.

    Attributes:
        seconds: time.
        main, worker: peak memory of the first process and of the largest other one, in MB.
        work: largest size of the folders of unfinished work, in MB.
        result: size of the files it wrote, in MB.
    """

    seconds: float = 0.0
    main: float = 0.0
    worker: float = 0.0
    work: float = 0.0
    result: float = 0.0


def make_raw_text(books: str, folder: pathlib.Path, size: float) -> list[pathlib.Path]:
    """Write changed copies of the books until there are `size` bytes; return their folders."""
    texts = {path.name: path.read_bytes() for path in sorted(pathlib.Path(books).glob("*.txt"))}
    paragraphs = {name: text.replace(b"\r", b"").split(b"\n\n") for name, text in texts.items()}
    made, copies = 0, []
    while made < size:
        copy = folder / f"{len(copies):03d}"
        copy.mkdir(parents=True)
        one, other = random.Random(len(copies)).sample(string.ascii_lowercase, 2)
        exchanged = bytes.maketrans((one + other).encode(), (other + one).encode())
        first = len(copies) % _CHANGED_PARAGRAPHS
        for name, text in paragraphs.items():
            changed = list(text)
            for number in range(first, len(text), _CHANGED_PARAGRAPHS):
                changed[number] = text[number].translate(exchanged)
            content = b"\n\n".join(changed)
            (copy / name).write_bytes(content)
            made += len(content)
            if made >= size:
                break
        copies.append(copy)
    return copies


def run_command(words: list[str], folder: pathlib.Path, kill_after: list[float]) -> Measured:
    """Run `python -m data_prep...`, killing it after some seconds of each of its first starts."""
    measured = Measured()
    for limit in [*kill_after, float("inf")]:
        start = time.monotonic()
        with child([sys.executable, "-m", *words], stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and time.monotonic() - start < limit:
                for pid, memory in _memory_of_session(process.pid):
                    if pid == process.pid:
                        measured.main = max(measured.main, memory)
                    else:
                        measured.worker = max(measured.worker, memory)
                work = sum(_megabytes(hidden) for hidden in folder.glob(".*"))
                measured.work = max(measured.work, work)
                time.sleep(_SECONDS_BETWEEN_SAMPLES)
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
            elif process.returncode:
                raise SystemExit(f"{' '.join(words)} exited with {process.returncode}")
            elif limit != float("inf"):
                print(
                    f"{words[0]} ended before it was killed, after {time.monotonic() - start:.0f} s"
                )
        measured.seconds += time.monotonic() - start
    return measured


def _memory_of_session(session: int) -> Iterator[tuple[int, float]]:
    """Yield the peak memory so far, in MB, of each process of a session."""
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if os.getsid(int(entry.name)) == session:
                with open(f"/proc/{entry.name}/status") as file:
                    peak = next((line for line in file if line.startswith("VmHWM")), "VmHWM: 0 kB")
                yield int(entry.name), int(peak.split()[1]) * 1024 / 1e6
        except (FileNotFoundError, ProcessLookupError):
            pass  # it has ended


def _megabytes(path: pathlib.Path) -> float:
    """Return the size of a file or of the files in a folder, which may vanish meanwhile."""
    total = 0
    for each in path.rglob("*") if path.is_dir() else [path]:
        with contextlib.suppress(FileNotFoundError):
            total += each.stat().st_size
    return total / 1e6


def run_commands(
    options: Options, raw: list[pathlib.Path], folder: pathlib.Path, gigabytes: float, kills: int
) -> dict[str, Measured]:
    """From raw text to TFRecords in a new folder."""
    shutil.rmtree(folder, ignore_errors=True)
    text, vocabulary, data = folder / "text", folder / "vocabulary", folder / "data"
    arguments = {
        "extract_corpus": (
            text,
            "--format=books",
            f"--input_file={','.join(map(str, raw))}",
            f"--output_file={text}/corpus.txt",
        ),
        "train_vocabulary": (
            vocabulary,
            f"--input_file={text}/corpus.txt",
            f"--output_prefix={vocabulary}/30k",
            f"--input_sentence_size={options.input_sentence_size}",
        ),
        "create_pretraining_data": (
            data,
            f"--input_file={text}/corpus.txt",
            f"--output_file={data}/train.tfrecord",
            f"--spm_model_file={vocabulary}/30k.model",
            "--num_shards=16",
            "--max_seq_length=512",
            "--dupe_factor=1",
        ),
    }
    measured = {}
    for name, (output, *flags) in arguments.items():
        output.mkdir(parents=True)
        kill_after = [_SECONDS_BEFORE_KILL[name] * gigabytes] * kills
        measured[name] = run_command([f"data_prep.{name}", *flags], output, kill_after)
        measured[name].result = _megabytes(output)
        values = dataclasses.asdict(measured[name])
        print(
            f"{gigabytes:>5g} GB, {name + ',':<24} {kills} kills:",
            *(f"{field} {value:,.0f}" for field, value in values.items()),
            flush=True,
        )
    return measured


def checksums(folder: pathlib.Path) -> list[str]:
    manifest = json.loads((folder / "data" / "train.manifest.json").read_text())
    return list(manifest["sha256"].values())


def print_fits(sizes: list[float], measured: list[dict[str, Measured]]) -> None:
    """Print a line fitted through the sizes for everything measured, and its deviation."""
    print(f"\n{'':<24}{'':<10}{'at 0 GB':>10}{'per GB':>10}{'largest deviation':>20}")
    for name in measured[0]:
        for field in dataclasses.fields(Measured):
            values = np.array([getattr(each[name], field.name) for each in measured])
            slope, start = np.polyfit(sizes, values, 1)
            fitted = start + slope * np.array(sizes)
            deviation = np.abs(values / np.maximum(fitted, 1e-9) - 1).max()
            print(f"{name:<24}{field.name:<10}{start:>10,.0f}{slope:>10,.1f}{deviation:>20.1%}")


def run(options: Options) -> None:
    folder = pathlib.Path(options.folder)
    shutil.rmtree(folder, ignore_errors=True)
    sizes = sorted(map(float, options.gigabytes))
    raw = make_raw_text(options.books, folder / "raw", sizes[-1] * 1e9)
    per_copy = _megabytes(raw[0]) / 1e3
    measured = []
    for size in sizes:
        copies = raw[: max(1, round(size / per_copy))]
        results = folder / f"{size:g}"
        measured.append(run_commands(options, copies, results, size, options.kills))
        if size == sizes[0]:
            run_commands(options, copies, folder / "uninterrupted", size, 0)
            same = checksums(results) == checksums(folder / "uninterrupted")
            print("TFRecords are", "the same" if same else "NOT the same", "without kills")
            shutil.rmtree(folder / "uninterrupted")
        shutil.rmtree(results)
    print_fits(sizes, measured)


cli = command(Options, run)

if __name__ == "__main__":
    cli()
