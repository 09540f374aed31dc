"""--do_eval and --eval_every_steps: of which checkpoints, on which examples, by which names."""

from __future__ import annotations

import dataclasses
import json
import logging
import shutil

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from albert_tf.errors import InputError
from albert_tf.interop.checkpoint_folders import TENSORFLOW
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining import pretrain
from data_prep.pretrain import run
from data_prep.pretraining_data import create_pretraining_data
from data_prep.pretraining_data_options import PretrainingDataOptions
from tests.end_to_end.conftest import LENGTH, PREDICTIONS, results_of

pytestmark = pytest.mark.integration

PARTS = ("masked_lm", "next_sentence")


@pytest.fixture
def options(short_run) -> PretrainingOptions:
    """Return options of an evaluation, and of a short run before it."""
    return dataclasses.replace(short_run, do_eval=True)


def rows_of(path) -> list[dict[str, float]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.slow
def test_all_checkpoints_by_their_steps(project, pretrained, options, tmp_path, caplog):
    folder = shutil.copytree(pretrained, tmp_path / "out")
    options = dataclasses.replace(options, eval_input_file=(str(project.eval),))
    alone = {}
    for step in (12, 6, 24):  # each as the newest there is
        TENSORFLOW.list_only(str(folder / f"model.ckpt-{step}"))
        pretrain(options)
        alone[step] = results_of(folder)
    data = folder / "model.ckpt-18.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:-100])
    before = {path: path.stat().st_mtime_ns for path in folder.iterdir()}
    caplog.clear()

    pretrain(dataclasses.replace(options, eval_checkpoints="all"))
    warnings = [
        record.message
        for record in caplog.records
        if record.levelno == logging.WARNING and record.name.startswith("albert_tf.")
    ]
    (warning,) = warnings
    assert f"{folder}/model.ckpt-18 is damaged and skipped" in warning
    rows = rows_of(folder / "checkpoint_evaluations.jsonl")
    assert [row["step"] for row in rows] == [6, 12, 24]
    for row in rows:
        expected = alone[row.pop("step")]
        assert row == pytest.approx({name: expected[name] for name in row}, rel=1e-6)
    assert len({row["masked_lm_loss"] for row in rows}) == 3
    assert results_of(folder) == alone[24]
    new = ("eval_results.txt", "evaluation_data.json", "filled_masks.jsonl", "report.html")
    for name in new:
        del before[folder / name]
    assert {path: path.stat().st_mtime_ns for path in before} == before

    # An evaluation of others replaces what was there.
    TENSORFLOW.list_only(str(folder / "model.ckpt-12"))
    pretrain(dataclasses.replace(options, eval_checkpoints="all", max_eval_steps=1))
    assert [row["step"] for row in rows_of(folder / "checkpoint_evaluations.jsonl")] == [6, 12]
    assert results_of(folder)["global_step"] == 12


def test_all_checkpoints_of_a_folder_without_a_good_one(project, pretrained, options, tmp_path):
    options = dataclasses.replace(
        options, eval_input_file=(str(project.eval),), eval_checkpoints="all"
    )
    with pytest.raises(InputError, match=r"`output_dir`=.*: contains no trained model"):
        pretrain(options)
    assert not (tmp_path / "out").exists()
    folder = shutil.copytree(pretrained, tmp_path / "out")
    (folder / "eval_results.txt").unlink()
    for data in folder.glob("*.data-*"):
        data.write_bytes(data.read_bytes()[:-100])
    with pytest.raises(InputError, match="no checkpoint in it can be read"):
        pretrain(options)
    assert not (folder / "checkpoint_evaluations.jsonl").exists()
    assert not (folder / "eval_results.txt").exists()


@pytest.fixture
def squad(project, tmp_path) -> str:
    """Return the held-out text as a SQuAD file."""
    texts = (project.folder / "eval.txt").read_text().split("\n\n")
    contexts = [{"context": text.replace("\n", " ")} for text in texts]
    path = tmp_path / "squad.json"
    path.write_text(json.dumps({"data": [{"title": "Topics", "paragraphs": contexts}]}))
    return str(path)


@pytest.mark.slow
def test_text_to_evaluate_on_in_training_and_after(project, options, squad, tmp_path, capsys):
    folder = tmp_path / "out"
    options = dataclasses.replace(options, eval_reading_set=(squad,))
    training = dataclasses.replace(options, do_train=True, eval_every_steps=3)
    run(training)
    (made,) = folder.glob("reading_set-*")
    rows = rows_of(folder / "evaluations.jsonl")
    results = results_of(folder)
    assert [row.pop("step") for row in rows] == [3, 6]
    assert rows[-1] == pytest.approx({name: results[name] for name in rows[-1]}, rel=1e-6)
    # As from files that were named: they are examples like any other.
    by_hand = dataclasses.replace(
        options, eval_reading_set=(), eval_input_file=(str(made / "examples.tfrecord"),)
    )
    pretrain(by_hand)
    assert results_of(folder) == pytest.approx(results, rel=1e-6)
    # Evaluation alone knows from the folder how the training data was made.
    (folder / "eval_results.txt").unlink()
    written = (made / "examples.tfrecord").stat().st_mtime_ns
    run(dataclasses.replace(options, input_file=()))
    assert results_of(folder) == pytest.approx(results, rel=1e-6)
    assert (made / "examples.tfrecord").stat().st_mtime_ns == written
    assert list(folder.glob("reading_set-*")) == [made]
    with pytest.raises(InputError, match=r"`ngram`=2: the training data was created with 3"):
        run(dataclasses.replace(options, ngram=2))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"eval_input_file": ("a.tfrecord",)},
            "`eval_reading_set`: cannot be combined with `eval_input_file`",
        ),
        ({"eval_reading_set": (), "ngram": 3}, "`ngram`=3: is for `eval_reading_set`"),
        ({"eval_reading_set": (), "do_lower_case": False}, "`do_lower_case`=False: is for"),
        ({}, "contains no trained model"),
        ({"eval_reading_set": ("nowhere",), "do_train": True}, "`eval_reading_set`: no file match"),
        (
            {"do_train": True, "spm_model_file": "x"},
            "`spm_model_file`=x: the file of the vocabulary does not exist",
        ),
    ],
)
def test_bad_input_is_named_and_leaves_nothing(options, squad, changes, message, tmp_path):
    options = dataclasses.replace(options, **{"eval_reading_set": (squad,), **changes})
    with pytest.raises(InputError, match=message) as error:
        run(options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def next_sentences(project, tmp_path_factory) -> tuple[str, str]:
    """Return TFRecords of pairs whose second segment may be of another document: train, eval."""
    folder = tmp_path_factory.mktemp("nsp")
    for split in ("train", "eval"):
        create_pretraining_data(
            PretrainingDataOptions(
                input_file=(f"{project.folder}/{split}.txt",),
                output_file=(f"{folder}/{split}.tfrecord",),
                spm_model_file=str(project.model),
                max_seq_length=LENGTH,
                max_predictions_per_seq=PREDICTIONS,
                dupe_factor=1,
                pair_objective="nsp",
            )
        )
    return f"{folder}/train.tfrecord", f"{folder}/eval.tfrecord"


@pytest.mark.slow
def test_next_sentences_are_called_so(project, options, next_sentences, tmp_path, capsys):
    train, held_out = next_sentences
    folder = tmp_path / "out"
    training = dataclasses.replace(
        options,
        input_file=(train,),
        eval_input_file=(held_out,),
        do_train=True,
        num_train_steps=7,  # the last progress line is not followed by an evaluation
        eval_every_steps=3,
        best_checkpoint_metric="next_sentence_accuracy",
    )
    wrong = dataclasses.replace(training, best_checkpoint_metric="sentence_order_accuracy")
    with pytest.raises(InputError) as error:
        pretrain(wrong)
    assert str(error.value) == (
        "`best_checkpoint_metric`=sentence_order_accuracy: the examples to evaluate on were made "
        "with --pair_objective=nsp; must be one of loss, masked_lm_loss, masked_lm_accuracy, "
        "next_sentence_loss, next_sentence_accuracy, none"
    )
    assert not folder.exists()
    capsys.readouterr()
    pretrain(training)
    captured = capsys.readouterr()
    assert "NSP 0." in captured.err
    assert "SOP" not in captured.err
    evaluations = rows_of(folder / "evaluations.jsonl")
    for names in (results_of(folder), *evaluations, *rows_of(folder / "metrics.jsonl")):
        assert {"next_sentence_accuracy", "next_sentence_loss"} <= names.keys()
        assert not [name for name in names if name.startswith("sentence_order")]
    assert "next_sentence_accuracy 0." in captured.out
    events = {name: EventAccumulator(str(folder / name)).Reload() for name in ("train", "eval")}
    tags = {name: set(each.Tags()["tensors"]) for name, each in events.items()}
    measures = {f"{part}_{measure}" for part in PARTS for measure in ("loss", "accuracy")}
    described = {"command", "_hparams_/session_start_info"}
    assert tags["eval"] == described | {f"quality/{name}" for name in measures | {"loss"}}
    assert tags["eval"] < tags["train"]
    assert [event.step for event in events["eval"].Tensors("quality/loss")] == [3, 6]
    (kept,) = (folder / "best").glob("model.ckpt-*.json")
    kept = json.loads(kept.read_text())
    assert kept["metric"] == "next_sentence_accuracy"
    assert kept["value"] == max(row["next_sentence_accuracy"] for row in evaluations)

    # The same model on the order of sentences, as in table 5 of the paper: by that name.
    for do_train in (False, True):
        pretrain(
            dataclasses.replace(
                training,
                eval_input_file=(str(project.eval),),
                do_train=do_train,
                eval_every_steps=0,
            )
        )
        order = results_of(folder)
        assert "sentence_order_accuracy" in order
        assert "next_sentence_accuracy" not in order


@pytest.mark.slow
def test_examples_of_text_have_the_pairs_of_the_training_data(
    options, next_sentences, squad, tmp_path
):
    train, _ = next_sentences
    options = dataclasses.replace(
        options, input_file=(train,), eval_reading_set=(squad,), do_train=True, num_train_steps=1
    )
    run(options)
    assert "next_sentence_accuracy" in results_of(tmp_path / "out")
    (made,) = (tmp_path / "out").glob("reading_set-*/examples.manifest.json")
    assert json.loads(made.read_text())["settings"]["pair_objective"] == "nsp"
