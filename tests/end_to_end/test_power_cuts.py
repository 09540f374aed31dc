"""No command loses finished work when the power is cut."""

import importlib.util
import os

import pytest

from tests.conftest import ROOT
from tests.end_to_end.conftest import RECORD_FLAGS
from tests.support.power_cuts import faults_of, needs_strace

pytestmark = [pytest.mark.integration, needs_strace]

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


def test_files_and_folders_are_safe_when_they_appear(tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
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
def test_what_is_forgotten_is_found(tmp_path, change, fault):
    folder = tmp_path / "out"
    folder.mkdir()
    code = WRITING.replace("folder = sys", f"{change}\nfolder = sys")
    assert any(fault in found for found in faults_of(folder, "-c", code, str(folder)))


@pytest.mark.slow
def test_records_survive(project, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    words = (
        "-m", "data_prep.create_pretraining_data", f"--input_file={project.folder}/train.txt",
        f"--output_file={folder}/train.tfrecord", f"--spm_model_file={project.model}",
        "--num_shards=3", "--dupe_factor=2", *RECORD_FLAGS,
    )  # fmt: skip
    assert faults_of(folder, *words) == []
    assert len(os.listdir(folder)) == 5


@pytest.mark.slow
def test_corpora_survive(project, tmp_path):
    folder = tmp_path / "out"
    folder.mkdir()
    words = (
        "-m", "data_prep.extract_corpus", "--format=text",
        f"--input_file={project.folder}/raw.txt", f"--output_file={folder}/train.txt",
        f"--eval_output_file={folder}/eval.txt", "--eval_fraction=0.2",
    )  # fmt: skip
    assert faults_of(folder, *words) == []
    assert {"train.txt", "eval.txt"} < set(os.listdir(folder))


@pytest.mark.slow
def test_checkpoints_survive(project, tmp_path):
    folder = tmp_path / "out"
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
def test_conversions_survive(project, pretrained, tmp_path):
    folder = tmp_path / "out"
    words = ("-c", CONVERTING, str(pretrained), str(project.model), str(folder))
    assert faults_of(folder, *words) == []
    assert len([*folder.glob("*/m*")]) == 3


@pytest.mark.slow
@pytest.mark.skipif(importlib.util.find_spec("orbax") is None, reason="orbax is not installed")
def test_checkpoints_of_jax_survive(tmp_path, monkeypatch):
    monkeypatch.setenv("KERAS_BACKEND", "jax")
    monkeypatch.setenv("JAX_PLATFORMS", "cpu")
    worker = str(ROOT / "tests" / "checkpoints" / "orbax_worker.py")
    folder = tmp_path / "out"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    assert faults_of(folder, worker, f"folder={folder}", "steps=1,2,3", "keep=1") == []
    assert sorted(os.listdir(folder)) == ["checkpoints.json", "model.ckpt-3"]
