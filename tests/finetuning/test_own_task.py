"""The kind of task of docs/extending.md, outside of the package, works like the others."""

from __future__ import annotations

import dataclasses
import importlib
import json
import os
import random
import sys

import pytest

from albert_tf.cli.finetuning import TaskKind, run_kind
from albert_tf.errors import InputError
from albert_tf.finetuning.run import fine_tune
from tests import extending_docs
from tests.end_to_end.conftest import results_of
from tests.finetuning import small

TAGS = {word: tag for tag, words in small.WORDS.items() for word in words}


def write_lines(path, count, seed):
    draw = random.Random(seed)
    lines = [draw.choices(list(TAGS), k=draw.randint(1, 15)) for _ in range(count)]
    path.write_text("".join(" ".join(f"{w}/{TAGS[w]}" for w in line) + "\n" for line in lines))
    return [" ".join(TAGS[word] for word in line) for line in lines]


@pytest.fixture
def tagging(tmp_path, monkeypatch):
    """The module of docs/extending.md."""
    extending_docs.apply("A kind of fine-tuning task", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("tagging")
    for name in ("tagging", "tagging_options"):
        del sys.modules[name]


@pytest.fixture
def options(tmp_path, tagging):
    small.write_files(tmp_path)
    write_lines(tmp_path / "train.txt", 64, seed=1)
    write_lines(tmp_path / "eval.txt", 20, seed=2)
    return tagging.TaggingOptions(
        albert_config_file=str(tmp_path / "config.json"),
        vocab_file=str(tmp_path / "vocab.txt"),
        output_dir=str(tmp_path / "out"),
        train_file=str(tmp_path / "train.txt"),
        eval_file=str(tmp_path / "eval.txt"),
        tags=tuple(small.WORDS),
        max_seq_length=small.LENGTH,
        train_batch_size=8,
        train_step=40,
        eval_every_steps=20,
        learning_rate=0.01,
        albert_dropout=0.0,
        do_train=True,
        do_eval=True,
    )


@pytest.mark.integration
def test_it_is_trained_evaluated_and_predicts(options, tagging, tmp_path, monkeypatch):
    fine_tune(options, tagging.Tagging)
    folder = tmp_path / "out"
    assert results_of(folder)["eval_tag_accuracy"] > 0.95
    assert "Predicted tags: animal" in (folder / "report.html").read_text()
    steps = [
        json.loads(line)["step"] for line in (folder / "evaluations.jsonl").read_text().splitlines()
    ]
    assert steps == [20, 40]

    recorded = json.loads((folder / "fine_tuning.json").read_text())
    assert recorded == {"max_seq_length": small.LENGTH}
    # The folder alone predicts, from a file by default, and from standard input.
    expected = write_lines(tmp_path / "predict.txt", 9, seed=3)
    predicting = dataclasses.replace(
        options,
        albert_config_file=None,
        vocab_file=None,
        max_seq_length=None,
        do_train=False,
        do_eval=False,
        do_predict=True,
        predict_file=str(tmp_path / "predict.txt"),
    )
    fine_tune(predicting, tagging.Tagging)
    assert (folder / "predictions.tsv").read_text().splitlines() == expected
    read, write = os.pipe()
    os.write(write, b"cat saw\ndrill\n")
    os.close(write)
    streaming = dataclasses.replace(
        predicting, predict_file="-", predict_output=str(tmp_path / "tags.txt")
    )
    with os.fdopen(read) as stdin, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        run_kind(TaskKind(tagging.TaggingOptions, "tagging:Tagging"), streaming)
    assert (tmp_path / "tags.txt").read_text() == "animal tool\ntool\n"


def test_its_own_errors_name_its_own_arguments(options, tagging):
    with pytest.raises(InputError, match="`eval_file`: a file is required"):
        fine_tune(dataclasses.replace(options, eval_file=None), tagging.Tagging)
