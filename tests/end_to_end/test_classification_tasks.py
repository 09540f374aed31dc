"""run_classifier.py's tasks and tables with a tiny model, from flags to files."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
from absl import flags

from albert_tf.errors import InputError
from albert_tf.finetuning.command import run_kind
from albert_tf.options import define_flags, from_flags
from albert_tf.tasks.classification import KIND
from albert_tf.tasks.classification.options import ClassificationOptions
from tests.end_to_end.conftest import results_of
from tests.support.glue_files import write_task
from tests.support.workbooks import FILMS, MERGED, write_xls, write_xlsx

pytestmark = pytest.mark.integration

SIZES = {
    "embedding_size": 16,
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 64,
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "max_position_embeddings": 64,
    "initializer_range": 0.1,  # so small a model learns nothing for long from smaller weights
}
WORDS = ["cat", "dog", "bird", "horse", "saw", "drill", "file", "lathe", "red", "green", "tall"]


def model_flags(folder, vocabulary, vocab_size):
    config = folder / "albert_config.json"
    config.write_text(json.dumps({**SIZES, "vocab_size": vocab_size}))
    return [f"--albert_config_file={config}", f"--spm_model_file={vocabulary}"]


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Return flags of a model whose vocabulary is a WordPiece one of a few words."""
    folder = tmp_path_factory.mktemp("model")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in vocabulary))
    return model_flags(folder, folder / "vocab.txt", len(vocabulary))


@pytest.fixture
def classify(tmp_path):
    """Run the program with flags; return what eval_results.txt holds."""

    def run(*arguments):
        values = flags.FlagValues()
        define_flags(ClassificationOptions, values)
        common = ["--max_seq_length=32", "--train_batch_size=16", f"--output_dir={tmp_path}/out"]
        rest = values(["run_classifier.py", *common, *map(str, arguments)])
        assert len(rest) == 1
        run_kind(KIND, from_flags(ClassificationOptions, values))
        return results_of(tmp_path / "out") if "--do_eval" in arguments else None

    return run


EVERYTHING = ("--do_train", "--do_eval", "--do_predict", "--submission", "--train_step=2")


def lines_of(path):
    return path.read_text("utf-8").removesuffix("\n").split("\n")


def copy_rows(source, target, count):
    """Write the first rows of GLUE's files."""
    target.mkdir(parents=True)
    for path in source.glob("*.tsv"):
        lines = path.read_text("utf-8").split("\n")[: count + 1]
        (target / path.name).write_text("".join(f"{line}\n" for line in lines), "utf-8")


@pytest.mark.slow
def test_real_rows_of_glue(classify, shared, tmp_path):
    copy_rows(shared("data/glue/CoLA"), tmp_path / "glue/CoLA", 60)
    vocabulary = shared("data/albert_en_vocab/30k-clean.model")
    model = model_flags(tmp_path, vocabulary, 30000)
    results = classify("--task_name=cola", f"--data_dir={tmp_path}/glue", *EVERYTHING, *model)
    assert set(results) == {"matthew_corr", "eval_accuracy", "eval_loss", "global_step"}
    out = tmp_path / "out"
    (submitted,) = (out / "submission").iterdir()
    assert submitted.name == "CoLA.tsv"
    header, *rows = [line.split("\t") for line in lines_of(submitted)]
    assert header == ["index", "prediction"]
    assert [index for index, _ in rows] == [str(row) for row in range(60)]
    assert {label for _, label in rows} <= {"0", "1"}
    probabilities = np.loadtxt(out / "test_results.tsv")
    guesses = [json.loads((out / "labels.json").read_text())[i] for i in probabilities.argmax(1)]
    assert [label for _, label in rows] == guesses
    predicted = [line.split("\t") for line in lines_of(out / "predictions.tsv")]
    assert predicted == [["id", "label"], *rows]
    assert lines_of(out / "submit_results.tsv") == lines_of(submitted)


@pytest.mark.slow
def test_mnli_has_two_results_and_its_model_predicts_the_diagnostics(classify, words, tmp_path):
    for task in ("MNLI", "AX", "RTE"):
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
        assert lines_of(out / f"predictions{suffix}.tsv")[1].startswith("100\t")
    with pytest.raises(InputError, match="contains a classifier of other labels"):
        classify("--task_name=RTE", *common, "--do_predict")
    with pytest.raises(InputError, match="predict .* `task_name`=MNLI"):
        classify("--task_name=AX", *common, "--do_eval")


@pytest.mark.slow
def test_sts_b_is_a_number(classify, words, tmp_path):
    write_task(tmp_path, "STS-B")
    draw = random.Random(0)
    rows = []
    for row in range(160):
        shared_words = row % 6
        first = draw.choices(WORDS[:4], k=shared_words) + draw.choices(
            WORDS[4:8], k=5 - shared_words
        )
        rows.append((" ".join(first), shared_words))
    for name, part in (("train", rows), ("dev", rows[:60])):
        path = tmp_path / "STS-B" / f"{name}.tsv"
        header = lines_of(path)[0]
        lines = [f"{i}" + "\tx" * 6 + f"\t{text}\tcat\t{y}.000" for i, (text, y) in enumerate(part)]
        path.write_text("\n".join([header, *lines]) + "\n")
    results = classify(
        "--task_name=sts",
        f"--data_dir={tmp_path}",
        *words,
        *EVERYTHING[:4],
        "--train_step=150",
        "--learning_rate=0.003",
        "--weight_decay_rate=0",
    )
    assert set(results) == {"pearson", "spearman", "MSE", "eval_loss", "global_step"}
    assert results["pearson"] > 0.9
    assert results["MSE"] < 0.5
    out = tmp_path / "out"
    values = np.loadtxt(out / "test_results.tsv")
    answers = [line.split("\t")[1] for line in lines_of(out / "predictions.tsv")[1:]]
    np.testing.assert_allclose(values, [float(answer) for answer in answers], rtol=1e-6)
    submitted = [line.split("\t")[1] for line in lines_of(out / "submission/STS-B.tsv")[1:]]
    assert [float(s) for s in submitted] == pytest.approx(values.clip(0, 5), rel=1e-4)
    assert not (out / "labels.json").exists()
    (tmp_path / "new.tsv").write_text("text\nx\n")
    new = f"--predict_file={tmp_path}/new.tsv"
    with pytest.raises(InputError, match="contains a model for regression, not for multi_label"):
        classify("--do_predict", new, "--multi_label", *words)
    with pytest.raises(InputError, match="contains a model for pairs of texts, not for single"):
        classify("--do_predict", new, *words)


@pytest.mark.slow
def test_several_labels_from_json_lines(classify, words, tmp_path):
    draw = random.Random(1)
    rows = []
    for _ in range(400):
        chosen = draw.choices(WORDS[:6], k=2)
        labels = {"animal": WORDS[:2], "tool": WORDS[4:6]}
        there = [name for name, members in labels.items() if set(members) & set(chosen)]
        rows.append({"body": " ".join(chosen), "tags": there, "number": f"n{len(rows)}"})
    for name, part in (("train", rows), ("new", rows[:50])):
        text = "".join(json.dumps(row) + "\n" for row in part)
        (tmp_path / f"{name}.jsonl").write_text(text)
    results = classify(
        "--multi_label",
        "--text_column=body",
        "--label_column=tags",
        "--id_column=number",
        f"--train_file={tmp_path}/train.jsonl",
        f"--predict_file={tmp_path}/new.jsonl",
        "--test_size=0.2",
        "--train_step=500",
        "--learning_rate=0.004",
        *words,
        *EVERYTHING[:3],
    )
    # Always both labels would have about 0.71 and 0.22.
    assert results["eval_micro_f1"] > 0.8
    assert results["eval_exact_match"] > 0.5
    assert {"eval_macro_f1", "eval_exact_match", "eval_loss"} < set(results)
    out = tmp_path / "out"
    predicted = dict(line.split("\t") for line in lines_of(out / "predictions.tsv")[1:])
    truth = {row["number"]: ",".join(row["tags"]) for row in rows[:50]}
    assert np.mean([predicted[id] == labels for id, labels in truth.items()]) > 0.5
    probabilities = np.loadtxt(out / "test_results.tsv")
    assert probabilities.shape == (50, 2)
    assert [("animal" in labels.split(",")) for labels in predicted.values()] == list(
        probabilities[:, 0] >= 0.5
    )


@pytest.mark.slow
def test_a_file_for_each_label(classify, words, tmp_path, capsys):
    write_xls(tmp_path / "film.xls", FILMS)
    write_xlsx(tmp_path / "animal.xlsx", *[[[" ".join(WORDS[:row])] for row in range(1, 8)]])
    files = f"--class_files={tmp_path}/film.xls,{tmp_path}/animal.xlsx"
    results = classify(files, "--test_size=0.3", *words, *EVERYTHING[:2], "--train_step=2")
    assert results["global_step"] == 2
    printed = capsys.readouterr().out
    assert "train: 7 examples" in printed
    assert "eval: 3 examples" in printed
    assert json.loads((tmp_path / "out/labels.json").read_text()) == ["animal", "film"]
    # The same rows are held out when only evaluation is asked for.
    again = classify(files, "--test_size=0.3", *words, "--do_eval")
    assert again == results


def test_bad_input_is_named_before_anything_is_written(classify, words, tmp_path):
    def message(*arguments):
        with pytest.raises(InputError) as error:
            classify("--do_train", *words, *arguments)
        assert "\n" not in str(error.value)
        return str(error.value)

    def table(name, content, *more):
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        return message(f"--train_file={tmp_path / name}", *more)

    two = "text\tlabel\nx\ta\ny\tb\n"
    assert "a.tsv:3: 1 fields, but the header has 2" in table("a.tsv", "text\tlabel\nx\ta\ny\n")
    assert "a.csv:2: the quotation mark" in table("a.csv", 'text,label\n"x,a\ny,b\n')
    assert "b.tsv: empty" in table("b.tsv", "")
    assert "b.tsv: no row after the header" in table("b.tsv", "text\tlabel\n")
    assert "b.csv: line 2 is not UTF-8" in table("b.csv", "text,label\nschön,a\n".encode("cp1252"))
    assert "b.tsv:2: column 'text' is empty" in table("b.tsv", "text\tlabel\n \ta\n")
    assert "c.jsonl:2: no column 'label'" in table(
        "c.jsonl", '{"text": "x", "label": 1}\n{"text": "x"}\n'
    )
    assert "c.jsonl:1: column 'label' contains a list" in table(
        "c.jsonl", '{"text": "x", "label": ["a"]}\n'
    )
    write_xlsx(tmp_path / "m.xlsx", [["text", "label"], ["x", "a"], ["", "b"]], merged="A2:A3")
    assert "the cells A2:A3" in message(f"--train_file={tmp_path}/m.xlsx")
    write_xls(tmp_path / "m.xls", MERGED)
    assert "the cells A2:A3" in message(f"--train_file={tmp_path}/m.xls")
    (tmp_path / "dev.tsv").write_text("text\tlabel\nx\ta\ny\tc\n")
    assert "dev.tsv:3: label 'c' is not one of the training labels (a, b)" in table(
        "d.tsv", two, "--do_eval", f"--eval_file={tmp_path}/dev.tsv"
    )
    good = f"--train_file={tmp_path}/d.tsv"
    assert "d.tsv:2: label 'a' is not a number" in message(good, "--regression")
    assert "exclude each other" in message(good, "--regression", "--multi_label")
    assert "or `test_size`" in message(good, "--do_eval")
    assert "`test_size`=1.5: must be at least 0 and below 1" in message(good, "--test_size=1.5")
    assert "label 'a' has only one row" in message(good, "--test_size=0.5")
    assert "no column 'body'" in message(good, "--text_column=body")
    assert "`text_column`=body: must be a number" in message(
        good, "--noheader", "--text_column=body"
    )
    assert "`submission`: needs a task of GLUE or CLUE" in message(good, "--submission")
    assert "at least two files" in message(f"--class_files={tmp_path}/d.tsv")
    assert "stand for 'd'" in message(f"--class_files={tmp_path}/d.tsv,{tmp_path}/d.csv")
    assert f"contains no {tmp_path}/CoLA/train.tsv" in message(
        "--task_name=cola", f"--data_dir={tmp_path}"
    )
    assert "`train_file`: needs `task_name`=table" in message("--task_name=cola", good)
    assert not (tmp_path / "out").exists()
