"""What used to be accepted without a word, or refused under a wrong name."""

import errno
import json
import os
import pathlib
import types

import pytest

from albert_tf.errors import InputError
from albert_tf.files import expand_globs, replacing, temporary_name, write_text
from albert_tf.finetuning.command import fine_tune
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.run import _warn_of_steps
from tests.conftest import run_python
from tests.support.finetuning import options_of, write_files


@pytest.mark.parametrize(
    ("step", "warmup", "warning"),
    [
        (5, 0, "out is already at step 5, beyond step 4, at which training ends"),
        (0, 100, "the warm-up lasts until step 101, but training ends at step 4"),
        (4, 3, ""),
    ],
)
def test_numbers_of_steps(caplog, step, warmup, warning):
    options = types.SimpleNamespace(
        num_train_steps=4, start_warmup_step=1, num_warmup_steps=warmup, output_dir="out"
    )
    _warn_of_steps(step, options)
    assert caplog.text.count("\n") == bool(warning)
    assert warning in caplog.text


def test_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match=f"^`input_file`={path}: is a pipe or a device"):
        expand_globs([str(path)], "input_file")


def test_a_full_disk_names_the_file(tmp_path):
    path = str(tmp_path / "results.txt")

    def write():
        with replacing(path) as partial:
            pathlib.Path(partial).write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left") as raised:
        write()
    assert raised.value.filename == path
    assert os.listdir(tmp_path) == []


def test_leftovers_of_the_dead_are_removed(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    folder.mkdir()
    mine = pathlib.Path(temporary_name(str(folder / "export")))
    number = str(os.getpid())
    dead = folder / mine.name.replace(number, "4194305")  # above the largest that Linux gives
    other = folder / dead.name.replace("-4194305", "-x-4194305")  # of another machine
    for path in (mine, dead, other):
        path.mkdir()
    write_text(str(folder / "a.txt"), "")
    assert set(os.listdir(folder)) == {mine.name, other.name, "a.txt"}


def test_results_do_not_replace_what_is_read(tmp_path):
    write_files(tmp_path)
    (tmp_path / "out").mkdir()
    place = tmp_path / "out" / "test_results.tsv"
    place.write_text("label\ttext\n")
    options = options_of(tmp_path, tmp_path / "out", do_predict=True, predict_file=str(place))
    with pytest.raises(InputError, match=r"^`predict_file`=.*: is in `output_dir`, under a name"):
        fine_tune(options, ClassificationTask)


@pytest.mark.parametrize(
    ("recorded", "message"),
    [
        ({"pairs": True}, "contains a model for pairs of texts, not for single te"),
        ({"kind": "regression"}, "contains a model for regression, not for classification"),
        ({"pairs": False}, ""),
        ({"pairs": None}, ""),
    ],
)
def test_a_model_of_other_texts_or_another_target(tmp_path, recorded, message):
    write_files(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "target.json").write_text(json.dumps(recorded))
    (tmp_path / "out" / "labels.json").write_text('["animal", "tool"]')
    changes = {"do_train": False, "do_eval": False, "do_predict": True}
    options = options_of(tmp_path, tmp_path / "out", **changes)
    task = ClassificationTask(options, Tokenizer.load(options.vocab_file))
    if not message:
        assert task.target.labels == ("animal", "tool")
        return
    with pytest.raises(InputError, match=message):
        _ = task.target


@pytest.mark.integration
def test_errors_of_files_are_one_line(tmp_path):
    words = ("-m", "data_prep.extract_corpus", "--format=text")
    process = run_python(*words, "--input_file=README.md", "--output_file=/dev/full/a.txt")
    assert process.returncode == 1
    assert process.stderr.count("\n") == 1
    assert "Errno" not in process.stderr
