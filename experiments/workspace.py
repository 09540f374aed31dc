"""The folder of a scale: text, vocabulary, TFRecords and runs, each made once.

    OUTPUT_DIR/SCALE/
        text/               train.txt, eval.txt and the vocabulary
        records/DIGEST/     train.tfrecord or eval.tfrecord, named by what they are made with
        runs/DIGEST-SEED/   a training folder, and what was measured of it

Runs are named by everything that determines them, not by their study, so that studies share them.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

from albert_tf.children import child, end
from albert_tf.errors import InputError
from albert_tf.files import make_folder, replacing, sha256_of, write_text
from experiments.scales import Scale
from experiments.study import Flags


def words_of(flags: Flags) -> list[str]:
    """Return the words of a command line."""
    return [
        f"--{'' if value else 'no'}{name}" if isinstance(value, bool) else f"--{name}={value}"
        for name, value in flags.items()
    ]


def digest(content: Any) -> str:
    """Return a short name for a value that can be written as JSON."""
    text = json.dumps(content, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


class Workspace:
    """Makes and finds the files of a scale.

    Args:
        folder: for everything; locked by the caller.
        corpus: raw text, as flags of data_prep.extract_corpus.
        threads: number of threads of each command; 0 for all cores.
    """

    def __init__(self, folder: str, scale: Scale, corpus: Flags, threads: int = 0):
        self.folder = pathlib.Path(folder)
        self.text = self.folder / "text"
        self.vocabulary = self.text / "vocabulary.model"
        self.scale = scale
        self._corpus = corpus
        self._threads = threads
        self._making = threading.Lock()
        self._running: set[subprocess.Popen] = set()
        self._stopped = False

    def prepare(self) -> None:
        """Extract the text and train the vocabulary; both commands skip what is finished."""
        make_folder(str(self.text))
        self.run(
            self.text / "log.txt",
            "-m", "data_prep.extract_corpus", *words_of(self._corpus),
            f"--output_file={self.text}/train.txt", f"--eval_output_file={self.text}/eval.txt",
        )  # fmt: skip
        self.run(
            self.text / "log.txt",
            "-m", "data_prep.train_vocabulary", f"--input_file={self.text}/train.txt",
            f"--vocab_size={self.scale.config.vocab_size}",
            f"--output_prefix={self.vocabulary.with_suffix('')}",
        )  # fmt: skip

    def text_digest(self) -> str:
        """Identify text and vocabulary."""
        paths = (self.text / "train.txt", self.text / "eval.txt", self.vocabulary)
        return digest([sha256_of(str(path)) for path in paths])

    def training_records(self, flags: Flags, text_share: float) -> pathlib.Path:
        """Return the TFRecords to train on."""
        return self._records("train", {**self.scale.data, **flags}, text_share)

    def evaluation_records(self, flags: Flags) -> pathlib.Path:
        """Return TFRecords of the held-out text, with masks that never change."""
        fixed = {"masking": "static", "dupe_factor": 1}
        return self._records("eval", {**self.scale.data, **flags, **fixed}, 1.0)

    def _records(self, part: str, flags: Flags, text_share: float) -> pathlib.Path:
        folder = self.folder / "records" / digest([part, dict(flags), text_share])
        path = folder / f"{part}.tfrecord"
        with self._making:  # runs at the same time may need the same file
            make_folder(str(folder))
            text = self.text / f"{part}.txt"
            if text_share < 1:
                text = beginning(text, folder / "text.txt", text_share)
            self.run(
                folder / "log.txt",
                "-m", "data_prep.create_pretraining_data", f"--input_file={text}",
                f"--output_file={path}", f"--spm_model_file={self.vocabulary}", *words_of(flags),
            )  # fmt: skip
        return path

    def run(self, log: pathlib.Path, *words: str) -> None:
        """Run a command of the project, with its output appended to a log, or raise InputError."""
        threads = str(self._threads or len(os.sched_getaffinity(0)))
        limits = {"TF_NUM_INTRAOP_THREADS": threads, "TF_NUM_INTEROP_THREADS": threads}
        with open(log, "a", encoding="utf-8") as output:
            output.write(f"$ python {' '.join(words)}\n")
            output.flush()
            with child(
                [sys.executable, *words],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **limits},
            ) as process:
                self._running.add(process)
                if self._stopped:
                    end(process)
                code = process.wait()
                self._running.discard(process)
        if code:
            program = words[1] if words[0] == "-m" else words[0]
            raise InputError(f"{program} failed ({last_line(log)}); see {log}")

    def stop(self) -> None:
        """End the commands that are running; what they have saved stays."""
        self._stopped = True
        for process in list(self._running):
            end(process)


def beginning(source: pathlib.Path, target: pathlib.Path, share: float) -> pathlib.Path:
    """Write the first documents of a text, up to a share of its bytes."""
    if not target.exists():
        content = source.read_bytes()
        end = content.find(b"\n\n", int(share * len(content)))
        with replacing(str(target)) as partial:
            pathlib.Path(partial).write_bytes(content[: len(content) if end < 0 else end + 1])
    return target


def last_line(log: pathlib.Path) -> str:
    """Return the last line of a file that is not empty."""
    with open(log, "rb") as file:
        file.seek(max(log.stat().st_size - 2000, 0))
        lines = file.read().decode("utf-8", errors="replace").split("\n")
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def once(path: pathlib.Path, make: Callable[[], Any]) -> Any:
    """Return the content of a JSON file, which is made if it does not exist."""
    if not path.exists():
        write_text(str(path), json.dumps(make(), indent=1) + "\n")
    return json.loads(path.read_text("utf-8"))


def results_in(path: pathlib.Path) -> dict[str, float]:
    """Return the numbers in an `eval_results.txt`."""
    lines = path.read_text("utf-8").splitlines()
    pairs = (line.split(" = ") for line in lines if " = " in line)
    return {name: float(value) for name, value in pairs}
