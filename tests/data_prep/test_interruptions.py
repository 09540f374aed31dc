"""Kills and full disks: no partial file under a final name, and no finished work lost."""

from __future__ import annotations

import pathlib
import resource
import signal
import subprocess
import sys
import time

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.integration


def command(corpus, model_file, folder: pathlib.Path) -> list[str]:
    return [
        sys.executable, "-m", "data_prep.create_pretraining_data", f"--input_file={corpus}",
        f"--output_file={folder}/train.tfrecord", f"--spm_model_file={model_file}",
        "--max_seq_length=64", "--max_predictions_per_seq=10", "--dupe_factor=60",
        "--num_shards=4", "--num_processes=2",
    ]  # fmt: skip


def run(*arguments, **options) -> subprocess.CompletedProcess:
    return subprocess.run(
        command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=120, **options
    )


def shards(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.glob("train.tfrecord-*")}


@pytest.fixture(scope="module")
def expected(corpus, model_file, tmp_path_factory) -> dict[str, bytes]:
    """Return the output of an uninterrupted run."""
    folder = tmp_path_factory.mktemp("uninterrupted")
    done = run(corpus, model_file, folder)
    assert done.returncode == 0, done.stderr
    return shards(folder)


@pytest.mark.slow
@pytest.mark.parametrize("records", [1, 4, 12])
def test_a_killed_run_resumes(corpus, model_file, tmp_path, expected, records):
    work = tmp_path / ".train.tfrecord-00000-of-00004.work"
    process = subprocess.Popen(command(corpus, model_file, tmp_path), cwd=ROOT)
    while len(list(work.glob("*.json"))) < records:
        assert process.poll() is None
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert not shards(tmp_path)
    assert not list(tmp_path.glob("*.manifest.json"))
    done = run(corpus, model_file, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "resuming the unfinished run" in done.stdout
    assert shards(tmp_path) == expected
    others = {"train.manifest.json", "train.index.json"}
    assert {path.name for path in tmp_path.iterdir()} == {*expected, *others}


@pytest.mark.slow
def test_a_full_disk(corpus, model_file, tmp_path, expected):
    def limit():
        # A file that grows beyond this cannot be written, as on a disk that is full.
        resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, 800_000))

    done = run(corpus, model_file, tmp_path, preexec_fn=limit)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1, done.stderr
    assert "create_pretraining_data.py: error: " in done.stderr
    assert not shards(tmp_path)
    assert not list(tmp_path.glob("*.manifest.json"))
    assert run(corpus, model_file, tmp_path).returncode == 0
    assert shards(tmp_path) == expected
