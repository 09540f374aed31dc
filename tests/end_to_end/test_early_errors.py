"""What is wrong with a command is reported before a framework is loaded."""

import os

import pytest

from tests.conftest import ROOT, run_commands
from tests.support.finetuning import write_files

pytestmark = pytest.mark.integration

PRETRAIN = ("run_pretraining.py", "--do_train", "--input_file={0}/train.tsv")
CLASSIFY = ("run_classifier.py", "--do_train", "--train_file={0}/train.tsv")
CONFIG = "--albert_config_file={0}/config.json"


CASES = [
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
        ("run_classifier.py", "--do_eval", "--do_train=False", "--eval_file={0}/eval.tsv"),
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
]


def test_no_framework_is_needed(tmp_path):
    write_files(tmp_path)
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "loaded = lambda: {'tensorflow', 'jax', 'keras'} & set(sys.modules)\n"
        "atexit.register(lambda: print(*loaded(), end=''))\n"
    )
    commands = [
        [*(word.format(tmp_path) for word in words), f"--output_dir={tmp_path}/out"]
        for words, _ in CASES
    ]
    path = os.pathsep.join((str(tmp_path), str(ROOT)))
    modules = "albert_tf.finetuning.command", "albert_tf.cli.pretrain"
    done = run_commands(commands, tmp_path, *modules, PYTHONPATH=path)
    assert done.stdout.split() == ["1"] * len(CASES), done.stderr
    for number, (_, message) in enumerate(CASES):
        (line,) = (tmp_path / f"{number}.err").read_text().splitlines()
        assert message in line, line
        assert (tmp_path / f"{number}.out").read_text() == ""
    assert not (tmp_path / "out").exists()
