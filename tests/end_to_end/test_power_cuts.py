"""No command loses finished work when the power is cut: its system calls, checked for their order.

A disk keeps what was synced and forgets any part of the rest. So a file is synced before it gets
its final name, the names in its folder before anything that it replaces is removed, and all of it
before the command ends.
"""

import collections
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import RECORD_FLAGS

pytestmark = [
    pytest.mark.integration,
    pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed"),
]

_CALLS = (
    "openat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,sendfile,copy_file_range,fsync,"
    "fdatasync,rename,renameat,renameat2,link,linkat,unlink,unlinkat"
)
_LINE = re.compile(r"(\d+) +(?:<\.\.\. )?(\w+)(?: resumed>|\()(.*)")
_FILE = re.compile(r"^\d+<([^>]*)>")
_NAME = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^>]*)>, )?"([^"]*)"')
# Written line by line, and of value without the lines that are missing.
_APPENDED = re.compile(r"metrics\.jsonl|events\.out\.tfevents\.")
# Besides, checkpoints, which count from when they are listed.
_UNLISTED = re.compile(rf"{_APPENDED.pattern}|model\.ckpt-\d+\.(data-|index)")


class Disk:
    """What of a folder would survive, call by call.

    Attributes:
        faults: what a power cut could have destroyed.
    """

    def __init__(self, folder: pathlib.Path):
        self._folder = str(folder)
        self._contents: set[str] = set()  # files with content that is not synced
        self._names: dict[str, set[str]] = collections.defaultdict(set)  # by folder
        self.faults: list[str] = []

    def write(self, path: str) -> None:
        if self._is_final(path) and not _UNLISTED.match(os.path.basename(path)):
            self.faults.append(f"{path} is written to under its final name")
        self._contents.add(path)

    def sync(self, path: str) -> None:
        self._contents.discard(path)
        self._names.pop(path, None)

    def rename(self, source: str, target: str) -> None:
        folder, name = os.path.split(target)
        moved = {path for path in self._contents if f"{path}/".startswith(f"{source}/")}
        if name == "checkpoint" and self._is_final(target):
            # If the list itself is lost, the files of all checkpoints are looked for.
            moved_before = {path for path in self._contents - moved if "/model.ckpt-" in path}
            if moved_before or self._names[folder] - {target}:
                self.faults.append(f"{target} lists checkpoints that may be lost")
        elif moved and self._is_final(target) and not _UNLISTED.match(name):
            self.faults.append(f"{target} appears before its content is safe")
        self._contents -= moved
        self._contents |= {target + path[len(source) :] for path in moved}
        if self._is_final(target):
            self._names[folder].add(target)

    def remove(self, path: str) -> None:
        folder = os.path.dirname(path)
        if self._is_final(path) and (unsafe := self._names[folder] - {f"{folder}/checkpoint"}):
            self.faults.append(f"{path} is removed before {unsafe} is safe")
        self._contents.discard(path)

    def end(self) -> None:
        left = {path for path in self._contents if self._is_final(path)}
        left = {path for path in left if not _APPENDED.match(os.path.basename(path))}
        left |= {path for names in self._names.values() for path in names}
        self.faults += [f"{path} is not safe when the command ends" for path in left]

    def _is_final(self, path: str) -> bool:
        """Return whether a path is inside the folder and nothing in it is hidden or temporary."""
        if not path.startswith(f"{self._folder}/"):
            return False
        parts = path.removeprefix(self._folder).split("/")
        return not any(p.startswith(".") or p.endswith("_temp") or ".tmp" in p for p in parts)


def faults_of(folder: pathlib.Path, *words: str) -> list[str]:
    """Run a command, and return what a power cut during or after it could destroy in a folder."""
    log = folder.parent / "calls.txt"
    recording = ("strace", "-f", "--seccomp-bpf", "-y", "-s", "4096", "-e", f"trace={_CALLS}")
    process = subprocess.run(
        [*recording, "-e", "signal=none", "-o", str(log), sys.executable, *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert process.returncode == 0, process.stderr
    disk = Disk(folder)
    unfinished: dict[str, str] = {}
    with open(log, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            found = _LINE.match(line)
            if found is None:
                continue
            thread, call, rest = found.groups()
            rest = unfinished.pop(thread, "") + rest
            if rest.endswith("<unfinished ...>"):
                unfinished[thread] = rest.removesuffix("<unfinished ...>")
            elif not re.search(r"= -1 E\w+", rest):
                _replay(disk, call, rest)
    disk.end()
    return disk.faults


def _replay(disk: Disk, call: str, rest: str) -> None:
    if call in ("fsync", "fdatasync"):
        disk.sync(_FILE.match(rest)[1])
    elif call == "openat":
        if "O_TRUNC" in rest or "O_CREAT" in rest:
            disk.write(_names_in(rest)[0])
    elif call.startswith("rename"):
        disk.rename(*_names_in(rest))
    elif call.startswith("link"):
        source, target = _names_in(rest)
        if source in disk._contents:
            disk.write(target)
    elif call.startswith("unlink"):
        disk.remove(_names_in(rest)[0])
    elif call in ("sendfile", "copy_file_range"):
        pass  # the target was opened for writing
    elif found := _FILE.match(rest):
        disk.write(found[1])


def _names_in(arguments: str) -> list[str]:
    return [os.path.join(folder or ROOT, name) for folder, name in _NAME.findall(arguments)]


WRITING = """
import os, sys
from albert_tf import files
from albert_tf.files import writing

folder = sys.argv[1]
for number in range(2):
    files.write_text(f"{folder}/a.txt", "text")
files.copy_file(f"{folder}/a.txt", f"{folder}/b.txt")
with files.replacing(f"{folder}/export") as partial:
    files.make_folder(f"{partial}/deep/deeper")
    with open(f"{partial}/deep/deeper/c.txt", "w") as file:
        file.write("text")
os.remove(f"{folder}/a.txt")
"""


@pytest.fixture
def folder(tmp_path) -> pathlib.Path:
    (tmp_path / "out").mkdir()
    return tmp_path / "out"


def test_files_and_folders_are_safe_when_they_appear(folder):
    assert faults_of(folder, "-c", WRITING, str(folder)) == []
    assert sorted(os.listdir(folder)) == ["b.txt", "export"]


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ("writing.sync = lambda path: None", "appears before its content is safe"),
        ("writing.sync_names = lambda path: None", "is not safe when the command ends"),
        ("writing.temporary_name = lambda path: path + '~'", "is written to under its final name"),
    ],
)
def test_what_is_forgotten_is_found(folder, change, fault):
    code = WRITING.replace("folder = sys", f"{change}\nfolder = sys")
    assert any(fault in found for found in faults_of(folder, "-c", code, str(folder)))


@pytest.mark.slow
def test_records_survive(project, folder):
    words = (
        "-m", "data_prep.create_pretraining_data", f"--input_file={project.folder}/train.txt",
        f"--output_file={folder}/train.tfrecord", f"--spm_model_file={project.model}",
        "--num_shards=3", "--dupe_factor=2", *RECORD_FLAGS,
    )  # fmt: skip
    assert faults_of(folder, *words) == []
    assert len(os.listdir(folder)) == 5


@pytest.mark.slow
def test_corpora_survive(project, folder):
    words = (
        "-m", "data_prep.extract_corpus", "--format=text",
        f"--input_file={project.folder}/raw.txt", f"--output_file={folder}/train.txt",
        f"--eval_output_file={folder}/eval.txt", "--eval_fraction=0.2",
    )  # fmt: skip
    assert faults_of(folder, *words) == []
    assert {"train.txt", "eval.txt"} < set(os.listdir(folder))


@pytest.mark.slow
def test_checkpoints_survive(project, folder):
    words = project.pretrain_words(folder, "--do_train", "--do_eval", "--keep_checkpoint_max=2")
    assert faults_of(folder, *words, "--eval_every_steps=6") == []
    assert (folder / "best" / "checkpoint").exists()


CONVERTING = """
import sys
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_options import ConvertOptions

source, vocabulary, folder = sys.argv[1:]
for to, name in (("huggingface", "model"), ("google", "model"), ("albert_tf", "m.weights.h5")):
    convert(
        ConvertOptions(
            input=source, output=f"{folder}/{to}/{name}", to_format=to, spm_model_file=vocabulary
        )
    )
"""


@pytest.mark.slow
def test_conversions_survive(project, pretrained, folder):
    words = ("-c", CONVERTING, str(pretrained), str(project.model), str(folder))
    assert faults_of(folder, *words) == []
    assert len([*folder.glob("*/m*")]) == 3


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("orbax") is None, reason="orbax is not installed")
def test_checkpoints_of_jax_survive(folder, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    worker = str(ROOT / "tests" / "checkpoints" / "orbax_worker.py")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert faults_of(folder, worker, f"folder={folder}", "steps=1,2,3", "keep=1") == []
    assert sorted(os.listdir(folder)) == ["checkpoints.json", "model.ckpt-3"]
