"""run_classifier.py's tasks and tables with a tiny model, from flags to files."""

import json

import numpy as np
import pytest

from albert_tf.errors import InputError
from tests.conftest import refusal
from tests.end_to_end.conftest import call, results_of
from tests.support.finetuning import write_model
from tests.support.glue_files import write_task
from tests.support.workbooks import FILMS, write_xls, write_xlsx

pytestmark = pytest.mark.integration

WORDS = ["cat", "dog", "bird", "horse", "saw", "drill", "file", "lathe", "red", "green", "tall"]


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Return flags of a model whose vocabulary is a WordPiece one of a few words."""
    folder = tmp_path_factory.mktemp("model")
    write_model(folder, WORDS, max_position_embeddings=64)
    names = {"albert_config_file": "config.json", "spm_model_file": "vocab.txt"}
    return [f"--{flag}={folder}/{name}" for flag, name in names.items()]


@pytest.fixture
def classify(tmp_path):
    """Run the program with flags; return what eval_results.txt holds."""

    def run(*arguments):
        common = ["--max_seq_length=32", "--train_batch_size=16", f"--output_dir={tmp_path}/out"]
        call("run_classifier.py", *common, *map(str, arguments))
        return results_of(tmp_path / "out") if "--do_eval" in arguments else None

    return run


EVERYTHING = ("--do_train", "--do_eval", "--do_predict", "--submission", "--train_step=2")


@pytest.mark.slow
def test_mnli_has_two_results_and_its_model_predicts_the_diagnostics(classify, words, tmp_path):
    for task in ("MNLI", "AX"):
        write_task(tmp_path, task, rows=5)
    common = (f"--data_dir={tmp_path}", *words)
    results = classify("--task_name=mnli", *common, *EVERYTHING)
    assert set(results) == {
        "eval_accuracy",
        "eval_loss",
        "eval_accuracy_mismatched",
        "eval_loss_mismatched",
        "global_step",
    }
    classify("--task_name=ax", *common, "--do_predict", "--submission")
    out = tmp_path / "out"
    assert {path.name for path in (out / "submission").iterdir()} == {
        "MNLI-m.tsv",
        "MNLI-mm.tsv",
        "AX.tsv",
    }
    for suffix in ("", "_mismatched", "_ax"):
        assert np.loadtxt(out / f"test_results{suffix}.tsv").shape == (5, 3)
        predictions = (out / f"predictions{suffix}.tsv").read_text("utf-8")
        assert predictions.split("\n")[1].startswith("100\t")
    with pytest.raises(InputError, match="predict .* `task_name`=MNLI"):
        classify("--task_name=AX", *common, "--do_eval")


@pytest.mark.slow
def test_a_file_for_each_label(classify, words, tmp_path, caplog):
    write_xls(tmp_path / "film.xls", FILMS)
    write_xlsx(tmp_path / "animal.xlsx", *[[[" ".join(WORDS[:row])] for row in range(1, 8)]])
    files = f"--class_files={tmp_path}/film.xls,{tmp_path}/animal.xlsx"
    results = classify(files, "--test_size=0.3", *words, *EVERYTHING[:2], "--train_step=2")
    assert results["global_step"] == 2
    assert {"train: 7 examples", "eval: 3 examples"} <= set(caplog.messages)
    assert json.loads((tmp_path / "out/labels.json").read_text()) == ["animal", "film"]
    # The same rows are held out when only evaluation is asked for.
    again = classify(files, "--test_size=0.3", *words, "--do_eval")
    assert again == results


def test_bad_input_is_named_before_anything_is_written(classify, words, tmp_path):
    def message(*arguments):
        return refusal(classify, "--do_train", *words, *arguments)

    def table(name, content):
        (tmp_path / name).write_text(content)
        return message(f"--train_file={tmp_path / name}")

    assert "b.tsv: no row after the header" in table("b.tsv", "text\tlabel\n")
    assert "c.jsonl:2: no column 'label'" in table(
        "c.jsonl", '{"text": "x", "label": 1}\n{"text": "x"}\n'
    )
    assert "c.jsonl:1: column 'label' contains a list" in table(
        "c.jsonl", '{"text": "x", "label": ["a"]}\n'
    )
    (tmp_path / "d.tsv").write_text("text\tlabel\nx\ta\ny\tb\n")
    good = f"--train_file={tmp_path}/d.tsv"
    (tmp_path / "dev.tsv").write_text("text\tlabel\nx\ta\ny\tc\n")
    unknown = message(good, "--do_eval", f"--eval_file={tmp_path}/dev.tsv")
    assert "dev.tsv:3: label 'c' is not one of the training labels (a, b)" in unknown
    assert "exclude each other" in message(good, "--regression", "--multi_label")
    assert "or `test_size`" in message(good, "--do_eval")
    assert "label 'a' has only one row" in message(good, "--test_size=0.5")
    assert "no column 'body'" in message(good, "--text_column=body")
    assert "`text_column`=body: must be a number" in message(
        good, "--noheader", "--text_column=body"
    )
    assert "`submission`: needs a task of GLUE or CLUE" in message(good, "--submission")
    assert "at least two files" in message(f"--class_files={tmp_path}/d.tsv")
    assert "stand for 'd'" in message(f"--class_files={tmp_path}/d.tsv,{tmp_path}/d.csv")
    assert "`train_file`: needs `task_name`=table" in message("--task_name=cola", good)
    assert not (tmp_path / "out").exists()
