"""The recipes of fine-tuning, by name: they parse, and hold the published values."""

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.tasks.classification.benchmarks import CLUE, GLUE
from tests.conftest import ROOT
from tests.docs.commands import commands_of_recipe, options_of

RECIPES = sorted((ROOT / "configs/finetuning").glob("*.cfg"))

# The paper's table 14: learning rate, batch, dropout of ALBERT and of the classifier, steps,
# warm-up and length. RACE's second version is of the original's README.
TABLE = {
    "cola": (1e-5, 16, 0, 0.1, 5336, 320, 512),
    "sts-b": (2e-5, 16, 0, 0.1, 3598, 214, 512),
    "sst-2": (1e-5, 32, 0, 0.1, 20935, 1256, 512),
    "mnli": (3e-5, 128, 0, 0.1, 10000, 1000, 512),
    "qnli": (1e-5, 32, 0, 0.1, 33112, 1986, 512),
    "qqp": (5e-5, 128, 0.1, 0.1, 14000, 1000, 512),
    "rte": (3e-5, 32, 0.1, 0.1, 800, 200, 512),
    "mrpc": (2e-5, 32, 0, 0.1, 800, 200, 512),
    "wnli": (2e-5, 16, 0.1, 0.1, 2000, 250, 512),
    "squad1": (5e-5, 48, 0, 0.1, 3649, 365, 384),
    "squad2": (3e-5, 48, 0, 0.1, 8144, 814, 512),
    "race_v1": (2e-5, 32, 0.1, 0.1, 12000, 1000, 512),
    "race_v2": (1e-5, 32, 0, 0.1, 12000, 1000, 512),
}


# The baselines of CLUE: the same values, but dropout is that of the model's config. Questions are
# counted in epochs. CLUEbenchmark/CLUE has one script or line of its README for each.
CLUE_TABLE = {
    "afqmc": (3e-5, 16, None, 0.1, 4291, 429, 128),
    "lcqmc": (2e-5, 64, None, 0.1, 11192, 1119, 128),
    "tnews": (3e-5, 16, None, 0.1, 6670, 667, 128),
    "iflytek": (3e-5, 16, None, 0.1, 1516, 151, 128),
    "cmnli": (3e-5, 16, None, 0.1, 48972, 4897, 128),
    "ocnli": (3e-5, 16, None, 0.1, 6250, 625, 128),
    "csl": (3e-5, 16, None, 0.1, 2500, 250, 128),
    "cmrc2018": (3e-5, 32, None, 0.1, 0, -1, 512),
    "drcd": (3e-5, 32, None, 0.1, 0, -1, 512),
    "c3": (2e-5, 24, None, 0.1, 3956, 395, 512),
}
# Tagging, counted in epochs. CLUENER's values are those of its baseline.
TAGGING_TABLE = {
    "conll2003": (3e-5, 32, None, 0.1, 1000, 0, 128),
    "cluener": (3e-5, 24, None, 0.1, 1000, 0, 128),
    "msra_ner": (3e-5, 32, None, 0.1, 1000, 0, 256),
}
ALL = TABLE | CLUE_TABLE | TAGGING_TABLE


@pytest.fixture(autouse=True)
def _in_another_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


def test_every_row_of_the_table_has_a_recipe():
    assert {path.stem for path in RECIPES} == set(ALL)


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_the_commands_run_with_the_published_values(path):
    first, *others = commands_of_recipe(path)
    assert f"--flagfile={path.stem}" in first
    options = options_of(first)
    options.check()
    assert (
        options.learning_rate,
        options.train_batch_size,
        options.albert_dropout,
        options.classifier_dropout,
        options.train_step,
        options.warmup_step,
        options.max_seq_length,
    ) == ALL[path.stem]
    assert options.optimizer == "adamw"
    assert options.do_train
    assert options.do_eval
    if path.stem in TABLE:
        config = AlbertConfig.from_json_file(options.albert_config_file)
        assert options.max_seq_length <= config.max_position_embeddings
    for words in others:
        options_of(words).check()


@pytest.mark.parametrize("name", sorted({*GLUE, *CLUE, "C3"} - {"AX", "MisMNLI"}))
def test_every_task_of_a_benchmark_writes_what_its_server_takes(name):
    (words, *_) = commands_of_recipe(ROOT / f"configs/finetuning/{name.lower()}.cfg")
    options = options_of(words)
    assert options.task_name in (name, "c3")
    assert options.submission
    assert options.do_predict
    assert 10 <= options.train_step / options.eval_every_steps < 11
    assert options.save_checkpoints_steps == options.eval_every_steps
    if name not in GLUE:
        assert options.warmup_step == options.train_step // 10
    assert options.output_dir == f"out/{name}"
