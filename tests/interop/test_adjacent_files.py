"""Which checkpoint of a folder is exported and converted, and what its card says."""

import json

import pytest

from albert_tf.interop.adjacent_files import (
    EvaluatedSet,
    described_checkpoint,
    evaluation_data,
    find_adjacent_files,
)

RESULTS = "eval_accuracy = 0.9\nglobal_step = {}\nnull_score_diff_threshold = 0.5\n"


def add_checkpoint(folder, engine: str, step: int) -> None:
    path = folder / f"model.ckpt-{step}"
    if engine == "jax":
        path.mkdir(parents=True)
    else:
        folder.mkdir(exist_ok=True)
        path.with_suffix(f".ckpt-{step}.index").touch()


@pytest.fixture(params=["tensorflow", "jax"])
def run(request, tmp_path):
    """Return a folder with checkpoints at steps 9 and 10, and the best at step 5."""
    for folder, step in ((tmp_path, 9), (tmp_path, 10), (tmp_path / "best", 5)):
        add_checkpoint(folder, request.param, step)
    return tmp_path


@pytest.mark.parametrize(
    ("evaluated", "described"), [(None, "best"), (5, "best"), (9, "best"), (10, "")]
)
def test_the_best_is_used_unless_results_are_about_the_newest(run, evaluated, described):
    if evaluated:
        (run / "eval_results.txt").write_text(RESULTS.format(evaluated))
    assert described_checkpoint(str(run)) == str(run / described).rstrip("/")
    assert described_checkpoint(f"{run}/model.ckpt-9") == f"{run}/model.ckpt-9"


def test_without_a_best_the_folder_is_used(tmp_path):
    add_checkpoint(tmp_path, "jax", 3)
    assert described_checkpoint(str(tmp_path)) == str(tmp_path)


def test_results_of_another_checkpoint_are_left_out(tmp_path):
    (tmp_path / "eval_results.txt").write_text(RESULTS.format(5))
    sets = (EvaluatedSet("matched", "MNLI, dev_matched.tsv", 9815),)
    (tmp_path / "evaluation_data.json").write_text(evaluation_data(sets))
    found = find_adjacent_files(str(tmp_path))
    assert found.evaluated == sets
    for step in (5, 0, None):
        assert found.about(step) == found
    other = found.about(10)
    assert other.results == {"null_score_diff_threshold": "0.5"}, "which answers depend on"
    assert other.evaluated == ()


def test_the_best_of_earlier_versions_has_its_results_in_the_folder_of_training(run):
    (run / "eval_results.txt").write_text(RESULTS.format(5))
    assert find_adjacent_files(str(run / "best")).about(5).results["eval_accuracy"] == "0.9"
    (run / "best" / "eval_results.txt").write_text("eval_accuracy = 0.8\nglobal_step = 5\n")
    assert find_adjacent_files(str(run / "best")).results["eval_accuracy"] == "0.8"
    (run / "best" / "evaluation_data.json").write_text(json.dumps([{"name": "", "examples": 3}]))
