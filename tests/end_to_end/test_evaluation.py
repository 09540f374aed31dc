"""--do_eval and --eval_every_steps: of which checkpoints, on which examples, by which names."""

import dataclasses
import logging
import shutil

import pytest

from albert_tf.checkpoints import TensorFlowFolder
from albert_tf.errors import InputError
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining import pretrain
from tests.end_to_end.conftest import json_lines, results_of

pytestmark = pytest.mark.integration


@pytest.fixture
def options(short_run) -> PretrainingOptions:
    """Return options of an evaluation, and of a short run before it."""
    return dataclasses.replace(short_run, do_eval=True)


@pytest.mark.slow
def test_all_checkpoints_by_their_steps(project, pretrained, options, tmp_path, caplog):
    folder = shutil.copytree(pretrained, tmp_path / "out")
    options = dataclasses.replace(options, eval_input_file=(str(project.eval),))
    alone = {}
    for step in (12, 6, 24):  # each as the newest there is
        TensorFlowFolder(str(folder)).list_only(str(folder / f"model.ckpt-{step}"))
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
    rows = json_lines(folder / "checkpoint_evaluations.jsonl")
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
    TensorFlowFolder(str(folder)).list_only(str(folder / "model.ckpt-12"))
    pretrain(dataclasses.replace(options, eval_checkpoints="all", max_eval_steps=1))
    assert [row["step"] for row in json_lines(folder / "checkpoint_evaluations.jsonl")] == [6, 12]
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
