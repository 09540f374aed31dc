"""Commands that pages and recipes give are accepted, and recipes hold the published values."""

import importlib
import math
import re
import shlex

import pytest

from albert_tf.config import AlbertConfig
from albert_tf.configs import with_recipe_paths
from albert_tf.tasks import classification, multiple_choice, question_answering, tagging
from albert_tf.tasks.classification.benchmarks import CLUE, GLUE
from albert_tf.training.options import PretrainingOptions
from tests.conftest import ROOT, parsed

PAGES = [ROOT / f"docs/{name}.md" for name in ("clue", "results", "zh/index")]
PRETRAINING = sorted((ROOT / "configs/pretraining").glob("*.cfg"))
DATA = sorted((ROOT / "configs/data").glob("*.cfg"))
PAPER = [path for path in PRETRAINING if path.stem.endswith(("_v1", "_v2", "_layers"))]
FINETUNING = sorted((ROOT / "configs/finetuning").glob("*.cfg"))

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


KINDS = {
    "run_classifier.py": classification.KIND,
    "run_squad.py": question_answering.KIND,
    "run_race.py": multiple_choice.KIND,
    "run_tagger.py": tagging.KIND,
}
OPTIONS = {
    "run_pretraining.py": "albert_tf.training.options.PretrainingOptions",
    "data_prep.extract_corpus": "data_prep.extraction_options.ExtractionOptions",
    "data_prep.train_vocabulary": "data_prep.train_vocabulary.VocabularyOptions",
    "data_prep.create_pretraining_data": (
        "data_prep.pretraining_data_options.PretrainingDataOptions"
    ),
    "data_prep.inspect": "data_prep.inspect.__main__.InspectOptions",
}


# Installed commands of pages, and what their scripts are called here.
INSTALLED = {
    "albert-classify": "run_classifier.py",
    "albert-squad": "run_squad.py",
    "albert-race": "run_race.py",
    "albert-tag": "run_tagger.py",
    "albert-pretrain": "run_pretraining.py",
    "albert-extract-corpus": "data_prep.extract_corpus",
    "albert-train-vocabulary": "data_prep.train_vocabulary",
    "albert-create-pretraining-data": "data_prep.create_pretraining_data",
}


def commands(text: str) -> list[list[str]]:
    """Return the words of the commands in a text, which begin with the script or module."""
    lines = re.sub(r" *\\\n *", " ", text).splitlines()
    whole = [line.strip() for line in lines if not line.endswith("...")]
    words = [shlex.split(line) for line in whole if line.startswith(("python ", "albert-"))]
    return [
        [INSTALLED[line[0]], *line[1:]] if line[0] in INSTALLED
        else line[2:] if line[1] == "-m"
        else line[1:]
        for line in words
    ]  # fmt: skip


def commands_of_recipe(path) -> list[list[str]]:
    """Return the words of the commands in a recipe's comment."""
    lines = [line.removeprefix("#") for line in path.read_text().splitlines() if line[:1] == "#"]
    joined = re.sub(r" *\\\n *", " ", "\n".join(lines))
    return commands("\n".join(line for line in joined.splitlines() if line.startswith("   ")))


def options_of(words: list[str]):
    """Return what the flags of a command come to."""
    if words[0] in KINDS:
        options_class = KINDS[words[0]].load("options")
    else:
        module, _, name = OPTIONS[words[0]].rpartition(".")
        options_class = getattr(importlib.import_module(module), name)
    return parsed(options_class, *with_recipe_paths(words))


def training(path) -> list[PretrainingOptions]:
    """Return what the training commands of a recipe come to."""
    return [options_of(w) for w in commands_of_recipe(path) if w[0] == "run_pretraining.py"]


@pytest.fixture(autouse=True)
def _in_another_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_of_a_page_are_accepted(page):
    blocks = re.findall(r"^```\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    found = commands("".join(blocks))
    assert found
    for words in found:
        options = options_of(words)
        if hasattr(options, "check"):
            options.check()


def test_every_size_and_version_of_the_paper_has_a_recipe():
    names = {path.stem for path in PRETRAINING}
    for size in ("base", "large", "xlarge", "xxlarge"):
        for version in (1, 2):
            assert f"{size}_v{version}" in names
            options = options_of(
                ["run_pretraining.py", f"--flagfile={size}_v{version}", "--output_dir=o"]
            )
            config = AlbertConfig.from_json_file(options.albert_config_file)
            assert config == AlbertConfig.preset(size, version)


@pytest.mark.parametrize("path", PRETRAINING, ids=lambda path: path.stem)
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


@pytest.mark.parametrize("path", DATA, ids=lambda path: path.stem)
def test_training_takes_the_data_that_a_recipe_makes(path):
    (words,) = commands_of_recipe(path)
    data = options_of(words)
    data.check()
    assert f"--flagfile={path.stem}" in words
    name = words[1].removeprefix("--flagfile=").removesuffix("_data")
    (options, *_) = training(ROOT / f"configs/pretraining/{name}.cfg")
    for flag in ("max_seq_length", "max_predictions_per_seq"):
        assert getattr(data, flag) == getattr(options, flag)
    assert data.masking == ("static" if path.stem == "eval_data" else "dynamic")
    assert data.masked_lm_prob * data.max_seq_length <= data.max_predictions_per_seq + 1


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
    "path", [path for path in PRETRAINING if path.stem != "small_cpu"], ids=lambda path: path.stem
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


def test_every_row_of_the_table_has_a_recipe():
    assert {path.stem for path in FINETUNING} > set(TABLE)


@pytest.mark.parametrize("path", FINETUNING, ids=lambda path: path.stem)
def test_the_commands_run_with_the_published_values(path):
    first, *others = commands_of_recipe(path)
    assert f"--flagfile={path.stem}" in first
    options = options_of(first)
    options.check()
    assert options.optimizer == "adamw"
    assert options.do_train
    assert options.do_eval
    if path.stem in TABLE:
        assert (
            options.learning_rate,
            options.train_batch_size,
            options.albert_dropout,
            options.classifier_dropout,
            options.train_step,
            options.warmup_step,
            options.max_seq_length,
        ) == TABLE[path.stem]
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
