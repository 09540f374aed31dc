"""A task of CLUE of each kind, from files as published to the file for the server."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.end_to_end.conftest import call, results_of
from tests.support.clue_files import (
    CMRC_CONTEXT,
    cmrc,
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
    for task in ("afqmc", "tnews"):
        write_classification(folder, task)
    write_c3(folder)
    start = CMRC_CONTEXT.index("1937")
    write_json(folder / "cmrc2018_train.json", cmrc(("1937年", start), ("米", 19), ("没有", -1)))
    write_json(folder / "cmrc2018_dev.json", cmrc(("钢铁桥梁", CMRC_CONTEXT.index("钢铁"))))
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
@pytest.mark.parametrize(
    ("task", "file", "labels", "more"),
    [
        ("tnews", "tnews10_predict.json", 15, {"label_desc": ""}),
        ("afqmc", "afqmc_predict.json", 2, {}),
    ],
)
def test_texts_and_pairs(task, file, labels, more, clue, fine_tune):
    words = (f"--task_name={task}", f"--data_dir={clue}", "--submission")
    out, printed = fine_tune("run_classifier.py", *words)
    assert f"to submit: {out}/submission/{file}" in printed
    assert set(results_of(out)) == {"eval_accuracy", "eval_loss", "global_step"}
    probabilities = np.loadtxt(out / "test_results.tsv", ndmin=2)
    assert probabilities.shape[1] == labels
    names = json.loads((out / "labels.json").read_text())
    predicted = [names[number] for number in probabilities.argmax(1)]
    assert lines_of(out / "submission" / file) == [
        {"id": row, "label": label, **more} for row, label in enumerate(predicted)
    ]


@pytest.mark.slow
def test_reading_comprehension(clue, fine_tune):
    files = (f"--train_file={clue}/cmrc2018_train.json", f"--predict_file={clue}/cmrc2018_dev.json")
    out, printed = fine_tune("run_squad.py", *files, "--max_query_length=16", "--doc_stride=16")
    assert "train.json: found in the context, but not at answer_start: 1 answer" in printed
    assert "skipped 1 of 3 questions, because the context does not contain" in printed
    assert set(results_of(out)) == {"cmrc_exact_match", "cmrc_f1", "total", "global_step"}
    answers = json.loads((out / "predictions.json").read_text("utf-8"))
    assert list(answers) == ["TRAIN_0_QUERY_0"]
    assert answers["TRAIN_0_QUERY_0"] in CMRC_CONTEXT


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
