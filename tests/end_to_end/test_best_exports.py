"""Exports and conversions of a run whose best checkpoint is not its last answer as it predicted."""

import json
import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import TensorFlowFolder
from albert_tf.config import AlbertConfig
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.loading import open_weights
from tests.support.finetuning import write_files
from tests.support.models import random_model

pytestmark = pytest.mark.integration

NEWEST, BEST = 30, 10


def write_run(folder, files) -> None:
    """Write what a run leaves: the latest checkpoint, `best/`, and its results."""
    config = AlbertConfig.from_json_file(str(files / "config.json"))
    for place, step in ((folder, NEWEST), (folder / "best", BEST)):
        place.mkdir(parents=True)
        model = random_model("classifier", config, seed=step, labels=2)
        values = {weight.path: weight.numpy() for weight in model.weights}
        TensorFlowFolder(str(place)).write(step, values)
        shutil.copy(files / "vocab.txt", place)
        shutil.copy(files / "config.json", place / "albert_config.json")
        target = {"kind": "classification", "task_name": "table", "pairs": False}
        (place / "target.json").write_text(json.dumps({**target, "max_seq_length": 16}))
        (place / "labels.json").write_text('["animal", "tool"]')
    best = {"metric": "eval_macro_f1", "value": 0.5, "step": BEST}
    (folder / "best" / f"model.ckpt-{BEST}.json").write_text(json.dumps(best))
    (folder / "eval_results.txt").write_text(f"eval_macro_f1 = 0.5\nglobal_step = {BEST}\n")


def test_conversion_takes_the_best_unless_training_is_to_resume(tmp_path):
    write_files(tmp_path)
    folder = tmp_path / "run"
    write_run(folder, tmp_path)
    for to, step in (("google", BEST), ("albert_tf", NEWEST)):
        output = tmp_path / to
        convert(ConvertOptions(input=str(folder), output=str(output), to_format=to))
        assert (output / f"model.ckpt-{step}.index").exists()
        assert (output / "eval_results.txt").exists() == (step == BEST)
    best = open_weights(str(folder / "best"))
    converted = open_weights(str(tmp_path / "google"))
    for name in best.tensors:
        np.testing.assert_array_equal(best.read(name), converted.read(name), err_msg=name)
