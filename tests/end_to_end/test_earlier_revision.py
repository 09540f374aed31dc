"""What an earlier revision wrote is resumed, evaluated, converted and used by this one."""

import json
import os
import pathlib
import subprocess
import sys
import tarfile

import numpy as np
import pytest

from albert_tf.interop.loading import open_weights
from albert_tf.tasks import classification, multiple_choice, question_answering, sentences, tagging
from tests.conftest import GOLDEN, JAX_ENVIRONMENT, ROOT, once
from tests.end_to_end.conftest import call, json_lines
from tests.support.kinds_of_tasks import check_close

pytestmark = pytest.mark.integration

KINDS = {
    "classification": classification.KIND,
    "question_answering_2": question_answering.KIND,
    "multiple_choice": multiple_choice.KIND,
    "tagging": tagging.KIND,
    "sentences": sentences.KIND,
}
RECORDS = ("--max_seq_length=32", "--max_predictions_per_seq=5")
TRAINING = (
    "--train_batch_size=8", "--num_train_steps=12", "--num_warmup_steps=2", "--learning_rate=0.01",
    "--save_checkpoints_steps=4", "--iterations_per_loop=1", "--eval_every_steps=2",
    "--keep_checkpoint_max=1", "--max_eval_steps=2", "--eval_batch_size=8", "--do_train",
)  # fmt: skip


@pytest.fixture(scope="session")
def earlier(shared_folder) -> pathlib.Path:
    def unpack() -> None:
        with tarfile.open(GOLDEN / "revision_2026_11_27.tar.xz") as archive:
            archive.extractall(folder, filter="data")

    folder = shared_folder / "earlier_revision"
    return once(folder, unpack)


@pytest.fixture
def expected(earlier) -> dict:
    return json.loads((earlier / "expected.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_an_interrupted_run_ends_with_the_losses_of_an_uninterrupted_one(engine, earlier, expected):
    data = {"tensorflow": "static", "jax": "dynamic"}[engine]
    words = (
        sys.executable, str(ROOT / "run_pretraining.py"), f"--engine={engine}",
        f"--output_dir={engine}", "--albert_config_file=config.json",
        f"--input_file={data}.tfrecord", "--eval_input_file=static.tfrecord", *RECORDS, *TRAINING,
    )  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **JAX_ENVIRONMENT}
    resumed = subprocess.run(words, cwd=earlier, env=environment, capture_output=True, text=True)
    assert f"resuming from {engine}/model.ckpt-3\n" in resumed.stdout, resumed.stderr
    assert "warning" not in resumed.stderr.replace("warning: --learning_rate=0.01 is high", "")
    rows = json_lines(earlier / engine / "evaluations.jsonl")
    assert [row["step"] for row in rows] == [2, 4, 6, 8, 10, 12]
    # The processor that wrote it rounds in its own way; accuracies count single tokens.
    losses = {name: value for name, value in expected["losses"][engine].items() if "loss" in name}
    assert {name: rows[-1][name] for name in losses} == pytest.approx(losses, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_a_fine_tuned_folder_predicts_as_it_did(kind, earlier, expected):
    model = KINDS[kind].load("text_model").from_preset(str(earlier / kind))
    rows = model._predict_rows(expected[kind]["inputs"], 32)
    found = json.loads(json.dumps(rows, default=lambda array: array.tolist()))
    check_close(found, expected[kind]["predictions"], tolerance=1e-4)


@pytest.mark.parametrize("name", ["tensorflow/best", "jax/best", "huggingface", "tagging"])
def test_weights_are_converted_without_a_change(name, earlier, tmp_path):
    source, google = earlier / name, tmp_path / "google"
    call("convert_checkpoint.py", "--to=google", f"--input={source}", f"--output={google}")
    before, after = (open_weights(str(each)).tensors for each in (source, google))
    assert before.keys() == after.keys()
    for path, tensor in before.items():
        np.testing.assert_array_equal(after[path].read(), tensor.read(), err_msg=path)


def test_a_vocabulary_makes_the_same_records(earlier, tmp_path):
    call(
        "data_prep.create_pretraining_data", f"--input_file={earlier}/corpus.txt",
        f"--vocab_file={earlier}/vocabulary.txt", f"--output_file={tmp_path}/static.tfrecord",
        "--dupe_factor=1", "--num_processes=1", *RECORDS,
    )  # fmt: skip
    made, known = ((folder / "static.tfrecord").read_bytes() for folder in (tmp_path, earlier))
    assert made == known
