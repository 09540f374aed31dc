"""What is wrong with a command is reported before a framework is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.support.finetuning import write_files

pytestmark = pytest.mark.integration

PRETRAIN = ("run_pretraining.py", "--do_train", "--input_file={0}/train.tsv")
CLASSIFY = ("run_classifier.py", "--do_train", "--train_file={0}/train.tsv")
CONFIG = "--albert_config_file={0}/config.json"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files")
    write_files(folder)
    (folder / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "loaded = lambda: {'tensorflow', 'jax', 'keras'} & set(sys.modules)\n"
        "atexit.register(lambda: print(*loaded(), end=''))\n"
    )
    return folder


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*PRETRAIN, "--albert_config_file=x.json"), "x.json: no such file"),
        (PRETRAIN, "--albert_config_file: the model's albert_config.json is required"),
        ((PRETRAIN[0], CONFIG, "--do_train", "--input_file=x-*"), "--input_file"),
        ((PRETRAIN[0], CONFIG, "--do_eval", "--input_file=x"), "contains no trained model"),
        ((*CLASSIFY, "--albert_config_file=x.json"), "x.json: no such file"),
        ((*CLASSIFY, CONFIG, "--vocab_file=x.txt"), "--vocab_file=x.txt: no such file"),
        ((*CLASSIFY, CONFIG, "--init_checkpoint=x"), "--init_checkpoint=x: no such file"),
        (
            ("run_classifier.py", CONFIG, "--do_train", "--task_name=rte", "--data_dir=x"),
            "--data_dir=x: contains no x/RTE/train.tsv",
        ),
        (
            (
                "run_classifier.py",
                "--do_eval",
                "--do_train=False",
                "--eval_file={0}/eval.tsv",
            ),
            "contains no trained model; without --do_train, name the folder of one",
        ),
        (("run_race.py", CONFIG, "--data_dir=data/x"), "--data_dir=data/x: no such file or folder"),
        (
            ("run_tagger.py", CONFIG, "--do_train", "--train_file=data/x.json"),
            "--train_file=data/x.json: no such file",
        ),
        (
            ("run_squad.py", CONFIG, "--do_train", "--train_file=data/x.json"),
            "--train_file=data/x.json: no such file",
        ),
    ],
)
def test_no_framework_is_needed(files, words, message, tmp_path):
    words = [word.format(files) for word in words]
    process = subprocess.run(
        [sys.executable, *words, f"--output_dir={tmp_path}/out"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(files)},
        capture_output=True,
        text=True,
    )
    assert (process.returncode, process.stdout) == (1, "")
    (line,) = process.stderr.splitlines()
    assert message in line, line
    assert not (tmp_path / "out").exists()
