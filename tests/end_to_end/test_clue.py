"""A task of CLUE of each kind, from files as published to the file for the server."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.end_to_end.conftest import call, results_of
from tests.support.clue_files import (
    write_c3,
    write_classification,
    write_json,
)

pytestmark = pytest.mark.integration

CONFIG = {
    "embedding_size": 8,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 64,
}


@pytest.fixture(scope="module")
def clue(tmp_path_factory):
    """Return the data, and a model of which every Chinese character in it is a token."""
    folder = tmp_path_factory.mktemp("clue")
    write_classification(folder, "tnews")
    write_c3(folder)
    texts = "".join(path.read_text("utf-8") for path in folder.rglob("*.json"))
    characters = sorted({each for each in texts if "\u4e00" <= each <= "\u9fff"})
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"0123456789", *characters]
    (folder / "vocab.txt").write_text("".join(f"{piece}\n" for piece in pieces), "utf-8")
    write_json(folder / "albert_config.json", {**CONFIG, "vocab_size": len(pieces)})
    return folder


@pytest.fixture
def fine_tune(clue, tmp_path):
    """Run a program for a step; return the folder that it wrote to, and what it printed."""

    def run(program, *words):
        printed = call(
            program, "--do_train", "--do_eval", "--do_predict", "--train_step=1", "--warmup_step=0",
            "--max_seq_length=48", "--train_batch_size=2", f"--output_dir={tmp_path}/out",
            f"--albert_config_file={clue}/albert_config.json", f"--vocab_file={clue}/vocab.txt",
            *words,
        )  # fmt: skip
        return tmp_path / "out", printed

    return run


def lines_of(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.mark.slow
def test_texts(clue, fine_tune):
    words = ("--task_name=tnews", f"--data_dir={clue}", "--submission")
    out, printed = fine_tune("run_classifier.py", *words)
    file = out / "submission/tnews10_predict.json"
    assert f"to submit: {file}" in printed
    assert set(results_of(out)) == {"eval_accuracy", "eval_loss", "global_step"}
    probabilities = np.loadtxt(out / "test_results.tsv", ndmin=2)
    assert probabilities.shape[1] == 15
    names = json.loads((out / "labels.json").read_text())
    assert lines_of(file) == [
        {"id": row, "label": names[number], "label_desc": ""}
        for row, number in enumerate(probabilities.argmax(1))
    ]


@pytest.mark.slow
def test_multiple_choice(clue, fine_tune):
    words = ("--task_name=c3", f"--data_dir={clue}", "--submission", "--max_qa_length=16")
    out, _ = fine_tune("run_race.py", *words)
    assert {"eval_accuracy_dialogue", "eval_accuracy_mixed"} < set(results_of(out))
    probabilities = np.loadtxt(out / "test_results.tsv")
    assert probabilities.shape == (2, 4)
    assert (probabilities[1, 2:] == 0).all(), "the second question has two choices"
    np.testing.assert_allclose(probabilities.sum(1), 1, rtol=1e-6)
    assert lines_of(out / "submission/c311_predict.json") == [
        {"id": row, "label": int(choice)} for row, choice in enumerate(probabilities.argmax(1))
    ]
