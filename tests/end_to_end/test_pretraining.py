"""run_pretraining.py: what it leaves, going on after a kill, and what it says of bad input."""

import dataclasses
import json
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.checkpoints import OrbaxFolder, TensorFlowFolder
from albert_tf.errors import InputError
from albert_tf.interop.loading import open_weights
from albert_tf.training.pretraining import pretrain
from albert_tf.training.run import prepare
from tests.conftest import slow
from tests.end_to_end.conftest import (
    LENGTH,
    PREDICTIONS,
    RECORD_FLAGS,
    TRAIN_FLAGS,
    call,
    json_lines,
    results_of,
    run,
)
from tests.support.html import read_page
from tests.support.tiny import LENGTH as SHORT
from tests.support.tiny import PREDICTIONS as FEW
from tests.support.tiny import batch, write_records

pytestmark = pytest.mark.integration

RESULTS = {
    "masked_lm_accuracy",
    "masked_lm_loss",
    "sentence_order_accuracy",
    "sentence_order_loss",
    "global_step",
}

# As many predictions as both examples of a row have alone.
ROW_FLAGS = (f"--max_seq_length={LENGTH}", f"--max_predictions_per_seq={2 * PREDICTIONS}")
MOMENTS = ("adam_m", "adam_v")


def variables(folder) -> dict[str, np.ndarray]:
    """Return all variables of the latest checkpoint, the optimizer's included."""
    if (folder / OrbaxFolder.list_file).exists():
        weights = open_weights(str(folder))
        tensors = weights.tensors | weights.optimizer
        return {name: tensor.read() for name, tensor in tensors.items()}
    reader = tf.train.load_checkpoint(TensorFlowFolder(str(folder)).find())
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}


def test_a_run_leaves_checkpoints_logs_and_results(project, pretrained):
    names = {path.name for path in pretrained.iterdir()}
    assert {"albert_config.json", "checkpoint", "metrics.jsonl", "eval_results.txt"} <= names
    assert list((pretrained / "train").glob("events.out.tfevents.*"))
    rows = json_lines(pretrained / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(3, 25, 3))
    assert rows[-1]["masked_lm_loss"] < rows[0]["masked_lm_loss"]
    assert rows[0]["learning_rate"] == pytest.approx(0.01 * 2 / 4)
    results = results_of(pretrained)
    assert set(results) >= RESULTS
    assert results["global_step"] == 24
    assert 0 <= results["masked_lm_accuracy"] <= 1
    page = read_page((pretrained / "report.html").read_text())
    assert f"{results['masked_lm_accuracy']:.1%} 95% interval" in page.text
    assert "Filled masks" in page.text
    assert "masked after step 24" in page.text


def test_evaluation_alone_gives_the_same_results(project, pretrained, tmp_path):
    folder = shutil.copytree(pretrained, tmp_path / "copy")
    before = results_of(folder)
    assert (folder / "vocabulary.model").read_bytes() == project.model.read_bytes()
    (evaluated,) = json.loads((folder / "evaluation_data.json").read_text())
    manifest = json.loads((project.folder / "eval.manifest.json").read_text())
    assert evaluated == {"name": "", "data": "eval.tfrecord", "examples": manifest["examples"]}
    # The folder and the data are enough.
    words = (f"--output_dir={folder}", f"--eval_input_file={project.eval}")
    call("run_pretraining.py", "--do_eval", *words)
    assert results_of(folder) == before


@pytest.fixture
def options(short_run):
    return dataclasses.replace(short_run, do_train=True)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": ()}, "`input_file`"),
        (
            {"max_predictions_per_seq": 7},
            "`max_predictions_per_seq`=7: the examples were created with 5 .*manifest.json",
        ),
        ({"max_seq_length": 16}, "`max_seq_length`=16: .* created with 32 .*train.manifest.json"),
        ({"max_seq_length": 64}, "`max_seq_length`=64.*max_position_embeddings 32"),
        ({"do_train": False}, "`do_train`, `do_eval`"),
        ({"micro_batch_size": 3}, "`micro_batch_size`=3"),
        ({"strategy": "magic"}, "`strategy`=magic: must be one of"),
        ({"init_checkpoint": "nowhere"}, "`init_checkpoint`=nowhere: no such file or folder"),
        ({"teacher": "nowhere"}, "`teacher`=nowhere: no such file or folder"),
        ({"output_dir": "/proc/here"}, "`output_dir`: cannot create the folder '/proc/here'"),
        ({"output_dir": "/proc/stat"}, "`output_dir`: '/proc/stat' is a file; name a folder"),
        ({"output_dir": "/proc/stat/a"}, "`output_dir`: '/proc/stat' is a file; name a folder"),
    ],
)
def test_bad_input_is_named(options, changes, message, tmp_path):
    with pytest.raises(InputError, match=message) as error:
        pretrain(dataclasses.replace(options, **changes))
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists(), "nothing is left of what never began"


def test_a_folder_of_another_model_is_refused(project, pretrained, options, tmp_path):
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**json.loads(project.config.read_text()), "hidden_size": 64}))
    changed = dataclasses.replace(options, albert_config_file=str(other))
    with pytest.raises(InputError, match="contains a model with hidden_size=32, but .* has 64"):
        pretrain(dataclasses.replace(changed, output_dir=str(pretrained)))
    left = tmp_path / "left"  # by a run that was killed before its first checkpoint
    left.mkdir()
    (left / "albert_config.json").write_bytes(project.config.read_bytes())
    config, _ = prepare(dataclasses.replace(changed, output_dir=str(left)))
    assert config.hidden_size == 64
    with pytest.raises(InputError, match=r"has shape .*another config"):
        pretrain(dataclasses.replace(changed, init_checkpoint=str(pretrained)))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"input_file": "both"}, "the files were made with different vocabularies: .*other.manif"),
        ({"eval_input_file": "other", "do_eval": True}, "different vocabularies: .*other.manifest"),
        (
            {"input_file": "other", "init_checkpoint": "pretrained"},
            "`init_checkpoint`=.*: has another vocabulary than the examples .*other.manifest.json",
        ),
        ({"input_file": "other", "teacher": "teacher"}, "`teacher`=.*: has another vocabulary"),
        ({"input_file": "other", "output_dir": "pretrained"}, "`output_dir`=.*another vocabulary"),
        (
            {"eval_input_file": "other", "output_dir": "pretrained", "do_train": False}
            | {"do_eval": True},
            "`output_dir`=.*: has another vocabulary than the examples",
        ),
    ],
)
def test_another_vocabulary_is_refused(project, pretrained, options, tmp_path, changes, message):
    manifest = json.loads((project.folder / "eval.manifest.json").read_text())
    manifest["vocabulary"]["sha256"] = "0" * 64
    manifest["files"] = {"other.tfrecord": manifest["files"].popitem()[1]}
    other = shutil.copy(project.eval, tmp_path / "other.tfrecord")
    (tmp_path / "other.manifest.json").write_text(json.dumps(manifest))
    paths = {"other": (str(other),), "both": (str(project.train), str(other))}
    paths["pretrained"] = paths["teacher"] = str(pretrained)
    changes = {name: paths.get(value, value) for name, value in changes.items()}
    with pytest.raises(InputError, match=message):
        pretrain(dataclasses.replace(options, **changes))


@pytest.mark.slow
def test_a_run_with_a_teacher_resumes_with_the_same_bits(project, pretrained, options, tmp_path):
    """The student is narrower than its teacher, of which its checkpoints have nothing."""
    narrow = tmp_path / "narrow.json"
    narrow.write_text(json.dumps({**json.loads(project.config.read_text()), "hidden_size": 16}))
    changes = {"albert_config_file": str(narrow), "teacher": str(pretrained)}
    taught = dataclasses.replace(options, iterations_per_loop=3, **changes)
    pretrain(taught)
    first = pathlib.Path(taught.output_dir)
    rows = json_lines(first / "metrics.jsonl")
    parts = [f"teacher_{part}_loss" for part in ("relation", "hidden", "masked_lm")]
    parts += ["masked_lm_loss", "sentence_order_loss"]
    assert rows[0]["loss"] == pytest.approx(sum(rows[0][part] for part in parts))
    folder = TensorFlowFolder(str(shutil.copytree(first, tmp_path / "copy")))
    folder.remove(f"{folder.path}/model.ckpt-6")
    folder.list_only(f"{folder.path}/model.ckpt-3")
    resumed = dataclasses.replace(taught, output_dir=folder.path)
    pretrain(resumed)
    np.testing.assert_equal(variables(tmp_path / "copy"), variables(first))
    extra = [name for name in open_weights(str(first)).tensors if "teacher" in name]
    assert sorted(extra) == ["teacher_projection/bias", "teacher_projection/kernel"]
    with pytest.raises(InputError, match="in pretraining `teacher`"):
        pretrain(dataclasses.replace(resumed, teacher=None))
    call("convert_checkpoint.py", "--to=huggingface", f"--input={first}", f"--output={tmp_path}/hf")


def printed_by(engine: str, environment, *words: str) -> tuple[str, str]:
    """Return output and errors of a command on an engine, of TensorFlow's without the errors."""
    if engine == "tensorflow":
        return call(*words), ""
    return run(*words, "--engine=jax", **environment)


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["tensorflow", "jax"])
def test_short_sequences_first(project, environment, tmp_path, engine):
    """Two lengths in one folder are one run: its step, its moments and its learning rate."""
    short, folder = tmp_path / "short.tfrecord", tmp_path / "out"
    write_records(short, batch(40))
    manifest = json.loads((project.folder / "train.manifest.json").read_text())
    manifest["settings"] |= {"max_seq_length": SHORT, "max_predictions_per_seq": FEW}
    (tmp_path / "short.manifest.json").write_text(
        json.dumps({**manifest, "files": {short.name: 40}})
    )

    def train(steps: int, *flags: str) -> tuple[str, dict[str, np.ndarray]]:
        words = project.pretrain_words(
            folder, "--do_train", f"--num_train_steps={steps}", *flags, "--num_warmup_steps=2"
        )
        printed, _ = printed_by(engine, environment, *words, "--iterations_per_loop=1")
        found = open_weights(str(folder)).optimizer
        names = {kind: f"lamb/bert_embeddings_position_embeddings_{kind}" for kind in MOMENTS}
        return printed, {kind: found[name].read() for kind, name in names.items()}

    lengths = f"--max_seq_length={SHORT}", f"--max_predictions_per_seq={FEW}"
    printed, before = train(
        6, f"--input_file={short}", *lengths, "--final_learning_rate_ratio=0.25"
    )
    assert "positions" not in printed
    assert all(each[:SHORT].all() and not each[SHORT:].any() for each in before.values())
    printed, after = train(8)
    assert f"resuming from {folder}/model.ckpt-6\n" in printed
    assert f"embeddings of positions {SHORT + 1} to {LENGTH} begin as initialized\n" in printed
    assert all(each.all() for each in after.values())
    assert (after["adam_v"] > 0.999**3 * before["adam_v"]).all()
    rows = json_lines(folder / "metrics.jsonl")
    rates = {row["step"]: row["learning_rate"] for row in rows}
    assert rates == pytest.approx({1: 0, 2: 0.005} | {n: 0.01 * (9 - n) / 8 for n in range(3, 9)})
    assert "positions" not in train(8)[0]


def test_commands_print_one_line_and_end_with_an_exit_code(project, tmp_path):
    words = project.pretrain_words(
        tmp_path / "out", "--do_train", "--num_replicas=3", "--eval_batch_size=6"
    )
    _, errors = run(*words, code=1)
    assert errors == (
        "run_pretraining.py: error: --train_batch_size=8: must be a multiple of the 3 replicas, "
        "such as 9\n"
    )


@pytest.mark.slow
def test_a_run_keeps_its_precision_on_another_machine(project, tmp_path, monkeypatch):
    def train(name: str, *flags: str) -> str:
        return call(*project.pretrain_words(tmp_path / name, "--do_train"), *flags)

    def processor(dtype: str) -> None:
        chosen = (dtype, "a test says so")
        monkeypatch.setattr("albert_tf.hardware.cpu_precision", lambda: chosen)

    processor("bfloat16")
    printed = train("out", "--dtype=auto", "--num_train_steps=6")
    assert "`dtype`=auto: bfloat16, since a test says so\n" in printed
    assert json.loads((tmp_path / "out" / "dtype.json").read_text()) == {"dtype": "bfloat16"}
    processor("float32")
    printed = train("out", "--dtype=auto", "--num_train_steps=12")
    assert f"`dtype`=auto: bfloat16, since the model in {tmp_path}/out is trained in it" in printed

    (tmp_path / "out" / "dtype.json").write_text('{"dtype": "float17"}')
    with pytest.raises(InputError, match="dtype='float17': must be one of float32, bfloat16"):
        train("out", "--dtype=auto")


@pytest.mark.slow
def test_files_without_masks_or_pairs(project, tmp_path):
    """Masks are drawn in training, and nothing is asked of the sentence-order head."""
    data = ("--masking=dynamic", "--pair_objective=none", "--num_shards=2", *RECORD_FLAGS)
    project.make_records(tmp_path, *data)
    flags = (
        "run_pretraining.py", f"--albert_config_file={project.config}",
        f"--input_file={tmp_path}/train.tfrecord-*", f"--eval_input_file={tmp_path}/eval.tfrecord*",
        f"--output_dir={tmp_path}/out", *TRAIN_FLAGS, "--num_train_steps=6", "--do_train",
        "--do_eval", f"--max_seq_length={LENGTH}",
    )  # fmt: skip
    # The number of predictions is up to training.
    call(*flags, "--max_predictions_per_seq=7")
    results = results_of(tmp_path / "out")
    assert 0 < results["masked_lm_loss"] < 8
    assert not [name for name in results if name.startswith("sentence_order")]
    (tmp_path / "train.manifest.json").unlink()
    with pytest.raises(InputError, match="no values of masked_lm_positions") as error:
        call(*flags)
    assert "--masking=dynamic need their manifest next to them" in str(error.value)


def make_rows(project, folder: pathlib.Path, masking: str) -> list[str]:
    """Make rows of the same examples; return the flags that train and evaluate on them."""
    project.make_records(folder, "--pack_rows", f"--masking={masking}", *ROW_FLAGS)
    return [f"--input_file={folder}/train.tfrecord", f"--eval_input_file={folder}/eval.tfrecord"]


def test_rows_are_evaluated_as_their_examples(project, pretrained, tmp_path):
    folder = shutil.copytree(pretrained, tmp_path / "copy")
    before, data = results_of(folder), json.loads((folder / "evaluation_data.json").read_text())
    flags = f"--output_dir={folder}", *make_rows(project, tmp_path, "static"), *ROW_FLAGS
    call("run_pretraining.py", "--do_eval", *flags)
    assert results_of(folder) == pytest.approx(before, rel=1e-6)
    assert json.loads((folder / "evaluation_data.json").read_text()) == data
    both = project.pretrain_words(tmp_path / "out", "--do_train", *flags[1:])
    with pytest.raises(InputError, match="eval.tfrecord: has no manifest .*but .*train.m"):
        call(*both, f"--input_file={tmp_path}/train.tfrecord,{project.eval}")


# Stages that leave something of a batch; runs stop at a border, after the next step, and later.
GROWING, STOPS = ("--batch_size_warmup=2:5,4:8", "--micro_batch_size=2"), (5, 6, 9)


@pytest.mark.parametrize(
    ("engine", "masking", "growing", "stops"),
    [
        ("tensorflow", "dynamic", (), (6,)),
        *slow(("jax", "dynamic", (), (6,)), ("tensorflow", "static", (), (6,))),
        *slow(*((engine, "dynamic", GROWING, STOPS) for engine in ("tensorflow", "jax"))),
    ],
)
def test_a_run_on_rows_resumes_with_the_same_bits(
    project, environment, tmp_path, engine, masking, growing, stops
):
    files = make_rows(project, tmp_path, masking)

    def train(name: str, steps: int) -> pathlib.Path:
        words = project.pretrain_words(tmp_path / name, "--do_train", *files, *ROW_FLAGS, *growing)
        flags = f"--num_train_steps={steps}", "--schedule=wsd", "--peak_tflops=1"
        printed_by(engine, environment, *words, *flags)
        return tmp_path / name

    whole, parts = train("whole", 12), tmp_path / "parts"
    for steps in (*stops, 12):
        train("parts", steps)
    np.testing.assert_equal(variables(parts), variables(whole))
    manifest = json.loads((tmp_path / "train.manifest.json").read_text())
    rows = json_lines(whole / "metrics.jsonl")
    row, first = rows[-1], rows[0]
    if growing:
        steps, seconds = (
            np.diff([0, *(each[name] for each in rows)]) for name in ("step", "seconds")
        )
        sizes = [each["rows_per_second"] for each in rows] * seconds / steps
        np.testing.assert_allclose(sizes, [2, 2, 4, 4, 8, 8], rtol=0.1)
    share = manifest["examples"] / manifest["rows"], LENGTH * (1 - manifest["padding_share"])
    for name, of_row in zip(("examples", "real_tokens"), share, strict=True):
        assert row[f"{name}_per_second"] == pytest.approx(row["rows_per_second"] * of_row, rel=1e-6)
    assert row["masked_lm_loss"] < first["masked_lm_loss"]
    if masking == "static":  # its folder is like any other: on examples, and in other formats
        one = f"--output_dir={whole}", f"--eval_input_file={project.eval}", *RECORD_FLAGS
        call("run_pretraining.py", "--do_eval", *one)
        call(
            "convert_checkpoint.py",
            "--to=huggingface",
            f"--input={whole}",
            f"--output={tmp_path}/hf",
        )
