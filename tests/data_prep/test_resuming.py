"""Unfinished work is resumed, verified, and never has a final name."""

import dataclasses
import json
import pathlib
import shutil

import pytest

from albert_tf.errors import InputError
from data_prep import pretraining_data
from tests.support.texts import create

pytestmark = pytest.mark.integration


def test_two_runs_on_the_same_files_exclude_each_other(options, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(pretraining_data, "_make_shard", lambda *arguments: create(options))
        with pytest.raises(InputError, match="`output_file`: another process is already writing"):
            create(options)


def test_shards_of_another_run_are_reported(options, tmp_path, capsys):
    create(dataclasses.replace(options, num_shards=2))
    assert not capsys.readouterr().err
    unfinished = (".train.tfrecord.work", ".train.tfrecord-00000-of-00004.work")
    for name in unfinished:
        (tmp_path / "out" / name).mkdir()
    create(dataclasses.replace(options, num_shards=3))
    said = capsys.readouterr().err
    assert all(name in said for name in ("train.tfrecord-00001-of-00002", *unfinished))


def test_other_options_or_input_start_from_scratch(options, tmp_path, monkeypatch, capsys):
    text = tmp_path / "in.txt"
    shutil.copy(options.input_file[0], text)
    options = dataclasses.replace(options, input_file=(str(text),))
    with monkeypatch.context() as patch:
        patch.setattr(pretraining_data, "_make_shard", lambda *arguments: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            create(options)
        with pytest.raises(ZeroDivisionError):
            create(dataclasses.replace(options, ngram=2))
        assert "starting from scratch" in capsys.readouterr().out
        text.write_text(text.read_text("utf-8") + "\nOne more sentence.\n", "utf-8")
        with pytest.raises(ZeroDivisionError):
            create(dataclasses.replace(options, ngram=2))
        assert "starting from scratch" in capsys.readouterr().out
    create(dataclasses.replace(options, ngram=2, num_processes=2))
    assert "resuming" in capsys.readouterr().out


def test_a_finished_run_is_verified_and_not_repeated(options, monkeypatch):
    manifest, _ = create(options)
    file = pathlib.Path(options.output_file[0])
    with monkeypatch.context() as patch:
        patch.setattr(pretraining_data, "_make_files", lambda *arguments: 1 / 0)
        assert create(options)[0] == json.loads(json.dumps(manifest))
        content = file.read_bytes()
        file.write_bytes(content[:-1] + b"?")
        with pytest.raises(ZeroDivisionError):
            create(options)
    create(options)
    assert file.read_bytes() == content


def test_a_full_disk_changes_nothing_under_a_final_name(options, tmp_path, monkeypatch):
    create(options)
    folder = tmp_path / "out"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"train.tfrecord", "train.index.json", "train.manifest.json"}

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    other = dataclasses.replace(options, ngram=2)
    with monkeypatch.context() as patch:
        patch.setattr(pretraining_data, "write_records", fail)
        with pytest.raises(OSError, match="No space"):
            create(other)
    left = {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert left == before
    create(other)
    assert {path.name for path in folder.iterdir()} == set(before)
