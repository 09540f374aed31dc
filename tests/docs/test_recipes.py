"""The recipes of pretraining, by name: they parse, and hold the paper's values."""

import math
import re

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.training.options import PretrainingOptions
from tests.conftest import ROOT
from tests.docs.commands import commands_of_recipe, options_of

RECIPES = sorted((ROOT / "configs/pretraining").glob("*.cfg"))
PAPER = [path for path in RECIPES if path.stem.endswith(("_v1", "_v2", "_layers"))]


def training(path) -> list[PretrainingOptions]:
    """Return what the training commands of a recipe come to."""
    return [options_of(w) for w in commands_of_recipe(path) if w[0] == "run_pretraining.py"]


@pytest.fixture(autouse=True)
def _in_another_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_every_size_and_version_of_the_paper_has_a_recipe():
    names = {path.stem for path in RECIPES}
    for size in ("base", "large", "xlarge", "xxlarge"):
        for version in (1, 2):
            assert f"{size}_v{version}" in names
            options = options_of(
                ["run_pretraining.py", f"--flagfile={size}_v{version}", "--output_dir=o"]
            )
            config = AlbertConfig.from_json_file(options.albert_config_file)
            assert config == AlbertConfig.preset(size, version)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_opening_command_runs_the_recipe(path):
    found = training(path)
    assert found
    for words in commands_of_recipe(path):
        assert f"--flagfile={path.stem}" in words
    for options in found:
        options.check()
        assert options.do_train
        assert options.do_eval
        assert options.eval_input_file
        assert path.stem in options.output_dir
        config = AlbertConfig.from_json_file(options.albert_config_file)
        assert options.max_seq_length <= config.max_position_embeddings
        assert options.num_warmup_steps < options.num_train_steps
        assert options.num_train_steps % options.save_checkpoints_steps == 0
        if options.micro_batch_size:
            assert options.train_batch_size % options.micro_batch_size == 0


@pytest.mark.parametrize("path", PAPER, ids=lambda path: path.stem)
def test_the_paper_s_settings_and_batches_that_divide(path):
    (options,) = training(path)
    assert options.use_tpu
    assert options.optimizer == "lamb"
    assert options.learning_rate == 0.00176
    assert options.train_batch_size == 4096
    assert (options.max_seq_length, options.max_predictions_per_seq) == (512, 20)
    assert options.num_warmup_steps == 3125
    steps = {"base_v2": 10_000_000}.get(path.stem, 3_000_000 if "_v2" in path.stem else 125_000)
    assert options.num_train_steps == steps
    (cores,) = re.findall(r"\(v3-(\d+)\)", path.read_text())
    (rows, columns) = re.findall(r"--topology=v3:(\d+)x(\d+)", path.read_text())[0]
    assert int(cores) == 2 * int(rows) * int(columns)
    assert options.train_batch_size % int(cores) == 0
    assert options.eval_batch_size % int(cores) == 0


# The rule is of models of the paper's sizes; docs/results.md tells what the smallest one needs.
@pytest.mark.parametrize(
    "path", [path for path in RECIPES if path.stem != "small_cpu"], ids=lambda path: path.stem
)
def test_the_learning_rate_of_lamb_suits_the_batch(path):
    for options in training(path):
        if options.optimizer == "lamb":
            rule = 0.00176 * math.sqrt(options.train_batch_size / 4096)
            assert options.learning_rate == pytest.approx(rule, rel=1e-3)


def test_from_six_layers_starts_from_what_the_other_recipe_trains():
    (start,) = training(ROOT / "configs/pretraining/xxlarge_6_layers.cfg")
    (options,) = training(ROOT / "configs/pretraining/xxlarge_from_6_layers.cfg")
    assert options.init_checkpoint == start.output_dir
    assert options.init_from_group0
    shallow, deep = (
        AlbertConfig.from_json_file(each.albert_config_file) for each in (start, options)
    )
    assert (shallow.num_hidden_layers, deep.num_hidden_layers) == (6, 12)
    assert shallow.parameter_count() == deep.parameter_count()
