"""The whole way, command by command, on a corpus of Python's own help texts and a tiny model."""

import contextlib
import dataclasses
import functools
import importlib
import io
import json
import os
import pathlib
import pydoc_data.topics
import subprocess
import sys
import time
import typing
from collections.abc import Callable
from typing import Any

import pytest

from albert_tf.finetuning.command import run_kind
from albert_tf.options import flag_name
from albert_tf.tasks import classification, multiple_choice, question_answering, sentences, tagging
from albert_tf.training.options import PretrainingOptions
from tests.conftest import JAX_ENVIRONMENT, ROOT, once, parsed

VOCAB_SIZE, LENGTH, PREDICTIONS = 600, 32, 5

RECORD_FLAGS = (f"--max_seq_length={LENGTH}", f"--max_predictions_per_seq={PREDICTIONS}")
TRAIN_FLAGS = (
    "--train_batch_size=8",
    "--num_train_steps=24",
    "--num_warmup_steps=4",
    "--learning_rate=0.01",
    "--save_checkpoints_steps=6",
    "--iterations_per_loop=3",
    "--shuffle_buffer_size=64",
    "--random_seed=2147483647",  # the largest
)


def start(*words: str, **variables: str) -> subprocess.Popen:
    """Start a command of the project as a user would, from the repository's root."""
    return subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(*words: str, code: int = 0, **variables: str) -> tuple[str, str]:
    """Run a command, check its exit code, and return what it printed (output, errors)."""
    process = start(*words, **variables)
    output, errors = process.communicate()
    assert process.returncode == code, f"{words}\n{output}\n{errors}"
    return output, errors


def wait_for(process: subprocess.Popen, seen: Callable[[], bool]) -> None:
    """Return as soon as `seen()`, while the process lives."""
    while not seen():
        assert process.poll() is None, process.communicate()
        time.sleep(0.0005)


class Two:
    """Two processes of one run, each of which a function of its number starts."""

    def __init__(self, begin: Callable[[int], subprocess.Popen]):
        self.processes = [begin(number) for number in range(2)]

    def send(self, index: int, number: int, seen: Callable[[], bool]) -> None:
        """Send a signal to one of them as soon as `seen()`, while both are at work."""
        while not seen():
            if any(process.poll() is not None for process in self.processes):
                pytest.fail(str([process.communicate() for process in self.processes]))
            time.sleep(0.001)
        self.processes[index].send_signal(number)

    def end(self, seconds: float = 600) -> list[tuple[int, str, str]]:
        """Return exit code, output and errors of each, once both have ended."""
        try:
            printed = [process.communicate(timeout=seconds) for process in self.processes]
        finally:
            for process in self.processes:
                process.kill()
        codes = [process.returncode for process in self.processes]
        return [(code, *text) for code, text in zip(codes, printed, strict=True)]


_TASK_KINDS = {
    "run_classifier.py": classification.KIND,
    "run_race.py": multiple_choice.KIND,
    "run_sentences.py": sentences.KIND,
    "run_squad.py": question_answering.KIND,
    "run_tagger.py": tagging.KIND,
}
_MODULES = {
    "convert_checkpoint.py": "albert_tf.cli.convert",
    "export_saved_model.py": "albert_tf.cli.export",
    "run_pretraining.py": "albert_tf.cli.pretrain",
}


def call(program: str, *words: str) -> str:
    """Do in this process what a command does with its flags, and return its output.

    For tests of the work: a process of its own loads TensorFlow again, which takes longer than most
    of the work. Tests of the process (what it prints besides, its exit code, signals) use `run`.
    """
    if kind := _TASK_KINDS.get(program):
        options_class, work = kind.load("options"), functools.partial(run_kind, kind)
    else:
        work = importlib.import_module(_MODULES.get(program, program)).run
        options_class = typing.get_type_hints(work)["options"]
    options = parsed(options_class, program, *words)
    with contextlib.redirect_stdout(io.StringIO()) as output:
        work(options)
    return output.getvalue()


def flags_of(options: Any) -> list[str]:
    """Return the flags that give a command these options."""
    values = {field: getattr(options, field.name) for field in dataclasses.fields(options)}
    return [
        f"--{flag_name(field)}={value}" for field, value in values.items() if value != field.default
    ]


class Project:
    """Files of the whole way, in one folder."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.config = folder / "albert_config.json"
        self.model = folder / "vocabulary.model"
        self.train = folder / "train.tfrecord"
        self.eval = folder / "eval.tfrecord"

    def pretrain_words(self, output_dir: pathlib.Path, *flags: str) -> tuple[str, ...]:
        return (
            "run_pretraining.py",
            f"--albert_config_file={self.config}",
            f"--input_file={self.train}",
            f"--eval_input_file={self.eval}",
            f"--output_dir={output_dir}",
            *RECORD_FLAGS,
            *TRAIN_FLAGS,
            *flags,
        )

    def make_records(self, folder: pathlib.Path, *flags: str) -> None:
        """Write `train.tfrecord` and `eval.tfrecord` of the project's texts to a folder."""
        for split in ("train", "eval"):
            call(
                "data_prep.create_pretraining_data", f"--input_file={self.folder}/{split}.txt",
                f"--output_file={folder}/{split}.tfrecord", f"--spm_model_file={self.model}",
                "--dupe_factor=1", *flags,
            )  # fmt: skip


@pytest.fixture(scope="session")
def project(shared_folder) -> Project:
    """Return corpus, vocabulary and TFRecords, as the commands make them."""
    project = Project(shared_folder / "project")
    once(project.folder, lambda: _make(project))
    return project


def _make(project: Project) -> None:
    folder = project.folder
    raw = folder / "raw.txt"
    topics = [text for _, text in sorted(pydoc_data.topics.topics.items())][:60]
    documents = ["\n".join(" ".join(p.split()) for p in text.split("\n\n")) for text in topics]
    raw.write_text("\n\n".join(documents) + "\n", "utf-8")
    call(
        "data_prep.extract_corpus", "--format=text", f"--input_file={raw}",
        f"--output_file={folder}/train.txt", f"--eval_output_file={folder}/eval.txt",
        "--eval_fraction=0.2",
    )  # fmt: skip
    call(
        "data_prep.train_vocabulary", f"--input_file={folder}/train.txt",
        f"--vocab_size={VOCAB_SIZE}", f"--output_prefix={folder}/vocabulary",
    )  # fmt: skip
    project.make_records(folder, *RECORD_FLAGS)
    config = {
        "vocab_size": VOCAB_SIZE,
        "embedding_size": 16,
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": LENGTH,
    }
    project.config.write_text(json.dumps(config))


@pytest.fixture(scope="session")
def pretrained(project, shared_folder) -> pathlib.Path:
    """Return the folder of an uninterrupted pretraining run, evaluated."""
    folder = shared_folder / "pretrained"
    words = project.pretrain_words(folder, "--do_train", "--do_eval")
    return once(folder, lambda: run(*words))


@pytest.fixture
def short_run(project, tmp_path) -> PretrainingOptions:
    """Return options of a few steps or of their evaluation; tests say which of the two."""
    return PretrainingOptions(
        albert_config_file=str(project.config),
        input_file=(str(project.train),),
        output_dir=str(tmp_path / "out"),
        max_seq_length=LENGTH,
        max_predictions_per_seq=PREDICTIONS,
        train_batch_size=8,
        num_train_steps=6,
        num_warmup_steps=2,
        learning_rate=0.01,
        save_checkpoints_steps=3,
        max_eval_steps=3,
    )


@pytest.fixture(scope="session")
def environment(tmp_path_factory) -> dict[str, str]:
    """In which JAX runs on the CPU, compiles quickly, and TensorFlow cannot be imported."""
    folder = tmp_path_factory.mktemp("without_tensorflow")
    (folder / "sitecustomize.py").write_text("import sys\nsys.modules['tensorflow'] = None\n")
    return {**os.environ, "PYTHONPATH": str(folder), **JAX_ENVIRONMENT}


@pytest.fixture(scope="session")
def without_dropout(project, environment, shared_folder) -> pathlib.Path:
    """Return a folder with a config, and in `out/` the run on JAX of one process with it.

    Every device draws its own dropout.
    """
    folder = shared_folder / "without_dropout"
    config = json.loads(project.config.read_text())
    config |= dict.fromkeys(("hidden_dropout_prob", "attention_probs_dropout_prob"), 0.0)

    def make() -> None:
        (folder / "albert_config.json").write_text(json.dumps(config))
        words = project.pretrain_words(folder / "out", "--do_train", "--engine=jax")
        words = (*words, f"--albert_config_file={folder}/albert_config.json")
        subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, check=True)

    return once(folder, make)


def json_lines(path: pathlib.Path) -> list[dict[str, Any]]:
    """Return the objects in a file with one of them per line."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def results_of(folder: pathlib.Path) -> dict[str, float]:
    """Return what `eval_results.txt` holds."""
    lines = (folder / "eval_results.txt").read_text().splitlines()
    return {name: float(value) for name, value in (line.split(" = ") for line in lines)}
