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
from tests.end_to_end.conftest import results_of
from tests.support import extending_docs, finetuning

KINDS = {word: kind for kind, words in finetuning.WORDS.items() for word in words}


def write_lines(path, count, seed):
    """Pairs that "mean the same" if the word at the given characters is an animal."""
    draw = random.Random(seed)
    lines, answers = [], []
    for _ in range(count):
        word, row = draw.choice(list(KINDS)), {}
        for number in "12":
            words = draw.choices(list(KINDS), k=draw.randint(0, 14))
            place = draw.randint(0, len(words))
            row[f"start{number}"] = len(" ".join([*words[:place], ""]))
            row[f"sentence{number}"] = " ".join([*words[:place], word, *words[place:]])
        answers.append(str(KINDS[word] == "animal"))
        lines.append(json.dumps({**row, "word": word, "label": KINDS[word] == "animal"}) + "\n")
    path.write_text("".join(lines))
    return answers


@pytest.fixture
def wic(tmp_path, monkeypatch):
    """The module of docs/extending.md."""
    extending_docs.apply("A kind of fine-tuning task", tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("wic")
    for name in ("wic", "wic_options"):
        del sys.modules[name]


@pytest.fixture
def options(tmp_path, wic):
    finetuning.write_files(tmp_path)
    write_lines(tmp_path / "train.txt", 64, seed=1)
    write_lines(tmp_path / "eval.txt", 20, seed=2)
    return wic.WicOptions(
        albert_config_file=str(tmp_path / "config.json"),
        vocab_file=str(tmp_path / "vocab.txt"),
        output_dir=str(tmp_path / "out"),
        train_file=str(tmp_path / "train.txt"),
        eval_file=str(tmp_path / "eval.txt"),
        max_seq_length=finetuning.LENGTH,
        train_batch_size=8,
        train_step=40,
        eval_every_steps=20,
        learning_rate=0.01,
        albert_dropout=0.0,
        do_train=True,
        do_eval=True,
    )


@pytest.mark.slow
def test_it_is_trained_evaluated_and_predicts(options, wic, tmp_path, monkeypatch):
    fine_tune(options, wic.Wic)
    folder = tmp_path / "out"
    assert results_of(folder)["eval_accuracy"] > 0.95
    assert "The same meaning: " in (folder / "report.html").read_text()
    steps = [
        json.loads(line)["step"] for line in (folder / "evaluations.jsonl").read_text().splitlines()
    ]
    assert steps == [20, 40]

    recorded = json.loads((folder / "fine_tuning.json").read_text())
    assert recorded == {"max_seq_length": finetuning.LENGTH}
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
    fine_tune(predicting, wic.Wic)
    assert (folder / "predictions.tsv").read_text().splitlines() == expected
    read, write = os.pipe()
    for word in ("cat", "drill"):
        row = {"sentence1": f"a {word}", "start1": 2, "sentence2": word, "start2": 0}
        os.write(write, f"{json.dumps(row)}\n".encode())
    os.close(write)
    streaming = dataclasses.replace(
        predicting, predict_file="-", predict_output=str(tmp_path / "answers.txt")
    )
    checked, check = [], wic.WicOptions.check
    with os.fdopen(read) as stdin, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        patch.setattr(wic.WicOptions, "check", lambda self: checked.append(self) or check(self))
        run_kind(TaskKind(wic.WicOptions, "wic:Wic"), streaming)
    assert (tmp_path / "answers.txt").read_text() == "True\nFalse\n"
    assert len(checked) == 1


def test_its_own_errors_name_its_own_arguments(options, wic):
    with pytest.raises(InputError, match="`eval_file`: a file is required"):
        fine_tune(dataclasses.replace(options, eval_file=None), wic.Wic)
