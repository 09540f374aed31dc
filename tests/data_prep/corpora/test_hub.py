"""Tables of the Hugging Face Hub give the same corpus as the same tables on disk."""

import json
import os
import pathlib
import random
import subprocess
import sys

import pyarrow
import pytest
from pyarrow import parquet

from albert_tf import files
from tests.conftest import ROOT, run_python
from tests.support.hub import serving

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """Return two Parquet files of eight row groups in all."""
    folder = tmp_path_factory.mktemp("hub") / "de"
    folder.mkdir()
    draw = random.Random(1)
    for number in range(2):
        texts = [
            "\n".join(f"Sentence {draw.getrandbits(200)} of {row}." for _ in range(20))
            for row in range(800)
        ]
        table = pyarrow.table({"text": texts})
        parquet.write_table(table, folder / f"train-{number}.parquet", row_group_size=200)
    return folder


def words_of(pattern: str, output: pathlib.Path) -> list[str]:
    words = ["-m", "data_prep.extract_corpus", "--format=table", "--num_processes=1"]
    return [*words, f"--input_file={pattern}", f"--output_file={output}"]


def test_a_data_set_by_name(folder, tmp_path):
    expected, output = tmp_path / "local" / "corpus.txt", tmp_path / "hub" / "corpus.txt"
    name = "hf://datasets/org/name/de/*.parquet"
    with serving(folder.parent) as hub:
        assert run_python(*words_of(f"{folder}/*.parquet", expected)).returncode == 0
        # Killed on the way, then resumed.
        command = [sys.executable, *words_of(name, output)]
        first = subprocess.Popen(command, env=os.environ | {"HF_ENDPOINT": hub.endpoint}, cwd=ROOT)
        hub.on_request = lambda number: first.kill() if number == 8 else None
        assert first.wait() != 0
        assert not output.exists()
        hub.on_request = lambda number: None
        done = run_python(*words_of(name, output), HF_ENDPOINT=hub.endpoint)
    assert "resuming the unfinished run" in done.stdout
    assert output.read_bytes() == expected.read_bytes()
    summary = json.loads((output.parent / "corpus.corpus.json").read_text())
    assert summary["input_checksums"] == {
        f"hf://datasets/org/name/de/{path.name}": f"sha256:{files.sha256_of(str(path))}"
        for path in sorted(folder.iterdir())
    }
    assert sum(summary["inputs"].values()) == sum(path.stat().st_size for path in folder.iterdir())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("hf://datasets/org/name/fr/*.parquet", "404 Not Found"),
        ("hf://datasets/org/other/*.parquet", "repository not found"),
        ("hf://datasets/org/name/de/none.parquet", "no file matches"),
        ("nonsense://a/b.parquet", "Protocol not known"),
    ],
)
def test_what_does_not_exist_is_one_line(folder, tmp_path, name, message):
    with serving(folder.parent) as hub:
        done = run_python(*words_of(name, tmp_path / "corpus.txt"), HF_ENDPOINT=hub.endpoint)
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1
    assert name in done.stderr
    assert message in done.stderr
