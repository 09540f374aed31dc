"""Disturbs commands at random until a time is up, and compares what they leave with a quiet run.

    python -m tests.soak --minutes=60

Each round takes a command and a fault: `kill` (SIGKILL, six times in a row; a third of those of
training while it saves), `full disk`, `slow disk` (every sync, rename and removal takes 30 ms more,
with a kill), `read-only` (after a kill), `descriptors` (as few as 25), `clock` (a month back after
a kill), `stopped` (SIGSTOP of a child, or of the process, for two seconds) and `worker` (SIGKILL of
a child). Then the command runs without a fault, and must leave the same bits as a run that was not
disturbed, no file that is not a result, and no process. Every failure must be one line. Two workers
of a training run, and two JAX processes, are stopped for two seconds and killed in turn.

Needs Linux, root (for disks of a few megabytes), strace and faketime. Training on JAX runs on the
CPU, in processes that cannot import TensorFlow.
"""

import argparse
import collections
import hashlib
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeAlias

import pyarrow
import tensorflow as tf
from pyarrow import parquet

from albert_tf.checkpoints import OrbaxFolder
from albert_tf.errors import InputError
from tests.conftest import JAX_ENVIRONMENT, ROOT
from tests.end_to_end.conftest import RECORD_FLAGS, Project, Two, _make
from tests.end_to_end.test_jax_engine import Processes
from tests.end_to_end.test_multi_worker import FLAGS as WORKER_FLAGS
from tests.end_to_end.test_multi_worker import Workers
from tests.support.hub import serving

OUT = pathlib.Path("@out@")
MARK = f"SOAK={uuid.uuid4()}"
# In this order, since most accidents are kills.
ROUNDS = (
    *("kill", "full disk", "slow disk", "kill", "read-only", "descriptors"),
    *("kill", "clock", "stopped", "worker"),
)
FAULTS = tuple(dict.fromkeys(ROUNDS))
SLOW = ("fsync", "fdatasync", "rename", "renameat", "unlink", "mkdir")
# What holds times, and differs between two runs that are not disturbed either.
VOLATILE = (
    *("events.", "metrics.jsonl", "fingerprint.pb", "saved_model.pb", ".manifest.json"),
    *(".corpus.json", "export/README.md", "report.html"),
)
# What a checkpoint is written under: those of TensorFlow, and those of orbax.
UNFINISHED = ("out/*_temp", "out/.model.ckpt-*[0-9].unfinished*")
JAX = "--engine=jax"
# What JAX prints when it aborts a process whose peer has died, unless that ends by itself first.
JAX_ABORTS = "Terminating process because the JAX distributed service detected fatal errors"
# Read when Python starts.
WITHOUT_TENSORFLOW = f"""
import sys
if "{JAX}" in sys.orig_argv:
    sys.modules["tensorflow"] = None
"""


class Job(NamedTuple):
    """A command.

    Attributes:
        name: how it is called in the table.
        words: its words after `python`, with OUT for the folder of results.
        has_workers: whether its children do the work.
    """

    name: str
    words: tuple[str, ...]
    has_workers: bool = False

    def at(self, folder: pathlib.Path) -> tuple[str, ...]:
        return tuple(word.replace(str(OUT), str(folder)) for word in self.words)


def jobs(project: Project, pretrained: pathlib.Path) -> list[Job]:
    text, model = project.folder / "train.txt", f"--spm_model_file={project.model}"
    train = (
        *(f"--input_file={project.folder}/rows.tfrecord", "--batch_size_warmup=4:200"),
        *("--do_train", "--save_checkpoints_steps=3", "--eval_every_steps=60"),
        *("--best_checkpoint_metric=loss", "--keep_checkpoint_max=3"),
    )
    records = (
        *("-m", "data_prep.create_pretraining_data", f"--input_file={text}", model, *RECORD_FLAGS),
        *("--dupe_factor=20", "--num_shards=4", "--num_processes=2", "--pack_rows"),
        f"--output_file={OUT}/train.tfrecord",
    )
    extract = (
        *("-m", "data_prep.extract_corpus", "--num_processes=2", "--eval_fraction=0.2"),
        *(f"--output_file={OUT}/train.txt", f"--eval_output_file={OUT}/eval.txt"),
    )
    from_disk = ("--format=text", f"--input_file={project.folder}/long.txt")
    from_server = ("--format=table", "--input_file=hf://datasets/org/name/*.parquet")
    convert = (
        *("convert_checkpoint.py", "--to=huggingface", f"--output={OUT}/model"),
        *(f"--input={pretrained}", model),
    )
    export = (
        *("export_saved_model.py", f"--export_path={OUT}/export", model),
        *(f"--init_checkpoint={pretrained}", f"--albert_config_file={project.config}"),
    )
    return [
        Job("training", project.pretrain_words(OUT, *train, "--num_train_steps=1200")),
        Job("training on JAX", project.pretrain_words(OUT, *train, "--num_train_steps=450", JAX)),
        Job("records", records, has_workers=True),
        Job("extraction", (*extract, *from_disk), has_workers=True),
        Job("extraction from a server", (*extract, *from_server), has_workers=True),
        Job("conversion", convert),
        Job("export", export),
    ]


def make_inputs(folder: pathlib.Path) -> Project:
    project = Project(folder)
    folder.mkdir()
    _make(project)
    rows = (
        *("-m", "data_prep.create_pretraining_data", f"--input_file={folder}/train.txt"),
        *(f"--output_file={folder}/rows.tfrecord", f"--spm_model_file={project.model}"),
        *("--pack_rows", "--masking=dynamic", *RECORD_FLAGS),
    )
    assert start(rows).wait() == 0
    text = (folder / "train.txt").read_text("utf-8")
    (folder / "long.txt").write_text(
        "\n\n".join(f"Part {number}.\n{text}" for number in range(60)), "utf-8"
    )
    (folder / "sitecustomize.py").write_text(WITHOUT_TENSORFLOW)
    served = folder / "served"
    served.mkdir()
    for part in range(3):
        texts = [{"text": each.replace("the", f"the {part}")} for each in text.split("\n\n")]
        parquet.write_table(pyarrow.Table.from_pylist(texts * 20), served / f"{part}.parquet")
    return project


def start(
    words: tuple[str, ...], *before: str, limit: int = 0, **variables: str
) -> subprocess.Popen:
    """Start a command in a process group of its own, with more variables of the environment."""

    def few() -> None:
        if limit:
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))

    return subprocess.Popen(
        [*before, sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, **dict([MARK.split("=")]), **variables},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=few,
    )


def kill(process: subprocess.Popen) -> None:
    process.kill()
    process.communicate()


def left() -> list[int]:
    """Return processes that a command has left, ten seconds after its end."""
    for _ in range(100):
        found = [pid for pid in _processes() if pid != os.getpid()]
        if not found:
            return []
        time.sleep(0.1)
    return found


def _has_any(folder: pathlib.Path, patterns: tuple[str, ...]) -> bool:
    return any(next(folder.glob(pattern), None) for pattern in patterns)


def _processes() -> Iterator[int]:
    for path in pathlib.Path("/proc").glob("[0-9]*/environ"):
        try:
            if MARK.encode() in path.read_bytes():
                yield int(path.parent.name)
        except OSError:
            continue


def children(pid: int) -> list[int]:
    try:
        lists = [path.read_text() for path in pathlib.Path(f"/proc/{pid}/task").glob("*/children")]
    except OSError:
        return []
    return [int(child) for text in lists for child in text.split()]


def result(folder: pathlib.Path) -> dict[str, str]:
    """Return digests of what a command has left; those of the values, for checkpoints."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        in_checkpoint = any(OrbaxFolder.is_checkpoint(str(each)) for each in path.parents)
        if in_checkpoint or any(part in name for part in VOLATILE):
            continue
        if path.is_dir():
            if OrbaxFolder.is_checkpoint(str(path)):
                content = _values_of(path)
            elif path.name.startswith("."):
                content = b""
            else:
                continue
        elif path.suffix == ".index" and path.name.startswith("model.ckpt"):
            reader = tf.train.load_checkpoint(str(path.with_suffix("")))
            names = sorted(reader.get_variable_to_shape_map())
            names = [each for each in names if not each.startswith(("save_counter", "_CHECK"))]
            content = b"".join(bytes(reader.get_tensor(each)) for each in names)
        elif ".data-" in name and path.name.startswith("model.ckpt"):
            continue
        elif path.name == "checkpoint":
            content = path.read_bytes().split(b"\n")[0]  # the rest are times
        elif path.name == OrbaxFolder.list_file and (
            listed := OrbaxFolder(str(path.parent)).read_list()
        ):
            content = str([listed.latest, *listed.saved]).encode()  # the rest are times
        else:
            content = path.read_bytes()
        found[name] = hashlib.sha256(content).hexdigest()
    return found


def _values_of(checkpoint: pathlib.Path) -> bytes:
    """Return the values in a checkpoint of JAX; why they cannot be read, if so."""
    try:
        weights = OrbaxFolder("").read(str(checkpoint))
    except InputError as error:
        return str(error).encode()
    tensors = sorted({**weights.tensors, **weights.optimizer}.items())
    return b"".join(name.encode() + tensor.read().tobytes() for name, tensor in tensors)


def _difference(found: dict[str, str], expected: dict[str, str]) -> str:
    names = {*found} ^ {*expected} or {n for n in found if found[n] != expected[n]}
    return f"another result: {sorted(names)[:5]}"


def _start_on_jax(*words: str, **variables: str) -> subprocess.Popen:
    return start((*words, JAX), **variables)


Begin: TypeAlias = Callable[[tuple[str, ...]], Two]
PAIRS: dict[str, Begin] = {
    "two workers": Workers,
    "two JAX processes": lambda words: Processes(_start_on_jax, words),
}


class Soak:
    """Rounds of faults.

    Attributes:
        rounds: how often each command met each fault.
        kills: SIGKILLs, of which `saving` while a checkpoint was written.
        problems: what was wrong, a line each.
    """

    def __init__(self, folder: pathlib.Path, seed: int):
        self.folder = folder
        self.draw = random.Random(seed)
        self.rounds: collections.Counter[tuple[str, str]] = collections.Counter()
        self.kills: collections.Counter[str] = collections.Counter()
        self.lines: collections.Counter[str] = collections.Counter()
        self.problems: list[str] = []
        self.quiet: dict[str, tuple[dict[str, str], float, int]] = {}

    def run_quietly(self, job: Job) -> None:
        folder = self.folder / "disk"
        folder.mkdir()
        began = time.monotonic()
        process = start(job.at(folder / "out"))
        _, errors = process.communicate()
        assert process.returncode == 0, errors
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        self.quiet[job.name] = result(folder), time.monotonic() - began, size
        shutil.rmtree(folder)

    def disturb(self, job: Job, fault: str) -> None:
        """One round: a fault, the command without it, and a comparison."""
        expected, seconds, size = self.quiet[job.name]
        folder = self.folder / "disk"
        folder.mkdir()
        disk = size * self.draw.uniform(0.1, 0.9) if fault == "full disk" else 2 << 30
        subprocess.run(["mount", "-t", "tmpfs", f"-osize={int(disk)}", "soak", folder], check=True)
        words = job.at(folder / "out")
        try:
            getattr(self, "_" + fault.replace(" ", "_").replace("-", "_"))(words, folder, seconds)
            self._look_for_processes(job, fault)
            process = start(words)
            _, errors = process.communicate()
            found = result(folder)
            if fault == "clock" and JAX not in words:
                # TensorFlow then keeps the checkpoints before, to be safe.
                found = {name: digest for name, digest in found.items() if name in expected}
            if process.returncode and "already exists; remove it" not in errors:
                self._problem(job.name, fault, f"cannot be repeated: {errors[-300:]!r}")
            elif found != expected:
                self._problem(job.name, fault, _difference(found, expected))
            self._look_for_processes(job, fault)
        finally:
            subprocess.run(["umount", folder], check=True)
            folder.rmdir()
        self.rounds[job.name, fault] += 1
        print(f"{job.name}, {fault}: {len(self.problems)} problems so far", file=sys.stderr)

    def _problem(self, name: str, fault: str, problem: str) -> None:
        self.problems.append(f"{name}, {fault}: {problem}")
        print(self.problems[-1], flush=True)

    def _look_for_processes(self, job: Job, fault: str) -> None:
        for pid in left():
            self._problem(job.name, fault, f"process {pid} is left")
            os.kill(pid, signal.SIGKILL)

    def _end(self, process: subprocess.Popen, name: str) -> None:
        """Wait; a failure must be one line."""
        _, errors = process.communicate(timeout=900)
        if process.returncode:
            lines = [line for line in errors.splitlines() if line.strip()]
            self.lines[lines[-1].replace(str(self.folder), "")[:160] if lines else "nothing"] += 1
            if "Traceback" in errors or process.returncode < 0 or ": " not in lines[-1]:
                problem = f"ended with {process.returncode}: {errors[-600:]!r}"
                self._problem(name, "the command", problem)

    def _kill_once(self, process: subprocess.Popen, folder, seconds: float, saving: bool) -> None:
        end = time.monotonic() + self.draw.uniform(0.1, 0.5) * seconds
        while time.monotonic() < end and process.poll() is None:
            time.sleep(0.005)
        if saving:
            while process.poll() is None and not _has_any(folder, UNFINISHED):
                pass
        is_alive = process.poll() is None
        kill(process)
        if is_alive:
            self.kills["saving" if saving else "other moments"] += 1

    def _kill(self, words, folder, seconds: float) -> None:
        is_training = words[0] == "run_pretraining.py"
        for number in range(6):
            saving = is_training and number % 3 == 1
            self._kill_once(start(words), folder, seconds, saving)

    def _full_disk(self, words, folder, seconds: float) -> None:
        self._end(start(words), words[0])
        subprocess.run(["mount", "-o", "remount,size=2g", folder], check=True)

    def _slow_disk(self, words, folder, seconds: float) -> None:
        calls = ",".join(SLOW)
        slow = f"inject={calls}:delay_enter=30000"
        strace = ("strace", "-f", "-qq", "-o", "/dev/null", f"-etrace={calls}", f"-e{slow}")
        process = start(words, *strace)
        # A kill of strace would leave the command alone: it is its child that is killed.
        time.sleep(self.draw.uniform(0.3, 1) * seconds)
        for pid in children(process.pid):
            os.kill(pid, signal.SIGKILL)
            self.kills["other moments"] += 1
        process.communicate()

    def _read_only(self, words, folder, seconds: float) -> None:
        self._kill_once(start(words), folder, seconds, False)
        left()
        subprocess.run(["mount", "-o", "remount,ro", folder], check=True)
        self._end(start(words), words[0])
        subprocess.run(["mount", "-o", "remount,rw", folder], check=True)

    def _descriptors(self, words, folder, seconds: float) -> None:
        self._end(start(words, limit=self.draw.randint(25, 80)), words[0])

    def _clock(self, words, folder, seconds: float) -> None:
        self._kill_once(start(words), folder, seconds, False)
        self._end(start(words, "faketime", "-f", "-30d"), words[0])

    def _stopped(self, words, folder, seconds: float) -> None:
        process = start(words)
        time.sleep(self.draw.uniform(0.3, 0.9) * seconds)
        chosen = self.draw.choice([*children(process.pid), process.pid])
        for number in (signal.SIGSTOP, signal.SIGCONT):
            if os.path.exists(f"/proc/{chosen}"):
                os.kill(chosen, number)
            time.sleep(2)
        self._end(process, words[0])

    def _worker(self, words, folder, seconds: float) -> None:
        process = start(words)
        time.sleep(self.draw.uniform(0.3, 0.9) * seconds)
        found = children(process.pid)
        if found:
            os.kill(self.draw.choice(found), signal.SIGKILL)
            self.kills["workers"] += 1
        self._end(process, words[0])

    def disturb_two(self, name: str, begin: Begin, project: Project) -> None:
        """Stop one of two training workers, kill one, and start both again."""
        quiet, folder = self.folder / name, self.folder / "2"
        words = [project.pretrain_words(each, *WORKER_FLAGS) for each in (quiet, folder)]
        if not quiet.exists():
            self._end_all(begin(words[0]), name)
        chosen = self.draw.randrange(2)

        def trained(step: int) -> bool:
            return _has_any(folder, (f"model.ckpt-{step}", f"model.ckpt-{step}.index"))

        workers = begin(words[1])
        workers.send(chosen, signal.SIGSTOP, lambda: trained(16))
        time.sleep(2)
        workers.processes[chosen].send_signal(signal.SIGCONT)
        step = self.draw.choice(range(24, 112, 8))
        workers.send(chosen, signal.SIGKILL, lambda: trained(step))
        self.kills["workers"] += 1
        self._end_all(workers, name, killed=chosen)
        self._end_all(begin(words[1]), name)
        if (found := result(folder)) != (expected := result(quiet)):
            self._problem(name, "stopped and killed", _difference(found, expected))
        shutil.rmtree(folder)
        self.rounds[name, "worker"] += 1
        self.rounds[name, "stopped"] += 1
        print(f"{name}: {len(self.problems)} problems so far", file=sys.stderr)

    def _end_all(self, workers: Two, name: str, killed: int | None = None) -> None:
        """Wait; must end with 0 or, if another one was killed, with a line about it or by JAX."""
        for number, process in enumerate(workers.processes):
            _, errors = process.communicate(timeout=600)
            code = process.returncode
            if number == killed:
                continue
            if killed is not None and JAX_ABORTS in errors and code in (75, -signal.SIGABRT):
                self.lines[f"{name}: aborted by JAX, exit code {code}"] += 1
                continue
            lines = errors.splitlines()
            if code != (0 if killed is None else 75) or "Traceback" in errors or len(lines) > 5:
                self._problem(name, f"process {number}", f"ended with {code}: {errors[-2000:]!r}")
            elif code:
                self.lines[f"{name}: {lines[-1]}"] += 1


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="commands to try, separated by semicolons")
    parser.add_argument(
        "--faults", help="faults, separated by semicolons", default=";".join(ROUNDS)
    )
    flags = parser.parse_args()
    folder = pathlib.Path(tempfile.mkdtemp(prefix="soak-"))
    project = make_inputs(folder / "inputs")
    path = f"{project.folder}{os.pathsep}{ROOT}"
    # TensorFlow sets another level than commands do when it is imported above.
    os.environ.update(JAX_ENVIRONMENT, PYTHONPATH=path, TF_CPP_MIN_LOG_LEVEL="3")
    pretrained = folder / "pretrained"
    words = project.pretrain_words(pretrained, "--do_train")
    assert start(words).wait() == 0
    soak, end = Soak(folder, flags.seed), time.monotonic() + 60 * flags.minutes
    with serving(project.folder / "served") as hub:
        os.environ["HF_ENDPOINT"] = hub.endpoint
        every = jobs(project, pretrained)
        names = flags.only.split(";") if flags.only else [*PAIRS, *(job.name for job in every)]
        chosen = [job for job in every if job.name in names]
        pairs = [name for name in PAIRS if name in names]
        for job in chosen:
            soak.run_quietly(job)
        rounds, faults = 0, flags.faults.split(";")
        while time.monotonic() < end:
            for job in chosen:
                fault = faults[rounds % len(faults)]
                if fault != "worker" or job.has_workers:
                    soak.disturb(job, fault)
                if time.monotonic() > end:
                    break
            else:
                for name in pairs if rounds % 3 == 0 else ():
                    soak.disturb_two(name, PAIRS[name], project)
            rounds += 1
    print("| command | " + " | ".join(FAULTS) + " |\n|---" + "|---" * len(FAULTS) + "|")
    for name in dict.fromkeys(name for name, _ in soak.rounds):
        counts = (str(soak.rounds[name, fault] or "") for fault in FAULTS)
        print(f"| {name} | " + " | ".join(counts) + " |")
    print("SIGKILLs:", dict(soak.kills), "problems:", len(soak.problems))
    print(*(f"{count} x {line}" for line, count in soak.lines.most_common()), sep="\n")
    shutil.rmtree(folder)
    return 1 if soak.problems else 0


if __name__ == "__main__":
    sys.exit(main())
