"""Apache Beam writes the same files as a single machine."""

from __future__ import annotations

import dataclasses
import sys

import pytest

from albert_tf.errors import InputError
from data_prep import create_pretraining_data as command
from data_prep.pretraining_data_options import PretrainingDataOptions
from tests.support.texts import contents_of_any_run


@pytest.fixture
def options(options, tmp_path) -> PretrainingDataOptions:
    output = (str(tmp_path / "local" / "train.tfrecord"),)
    return dataclasses.replace(options, output_file=output, num_shards=3, num_processes=1)


def on_beam(options: PretrainingDataOptions, tmp_path, **changes) -> PretrainingDataOptions:
    output = (str(tmp_path / "beam" / "train.tfrecord"),)
    return dataclasses.replace(options, output_file=output, runner="DirectRunner", **changes)


@pytest.mark.integration
@pytest.mark.parametrize("changes", [{}, {"masking": "dynamic", "pair_objective": "nsp"}])
def test_the_files_are_those_of_the_local_runner(options, tmp_path, small_pieces, changes):
    options = dataclasses.replace(options, **changes)
    command.run(options)
    command.run(on_beam(options, tmp_path))
    assert contents_of_any_run(tmp_path / "beam") == contents_of_any_run(tmp_path / "local")


@pytest.mark.integration
def test_bad_input_is_an_input_error_and_leaves_nothing(options, tmp_path):
    path = tmp_path / "in.txt"
    for content, message in ((b"\n\n", "no text"), (b"caf\xe9\n", r"in\.txt: line 1 is not UTF-8")):
        path.write_bytes(content)
        with pytest.raises(InputError, match=message):
            command.run(on_beam(options, tmp_path, input_file=(str(path),)))
        assert not list((tmp_path / "beam").iterdir())
    with pytest.raises(InputError, match=r"`runner`=None: .*Valid values are"):
        command.run(dataclasses.replace(on_beam(options, tmp_path), runner="None"))
    assert not list((tmp_path / "beam").iterdir())


def test_without_beam_the_error_says_what_to_install(options, tmp_path, monkeypatch):
    monkeypatch.delitem(sys.modules, "data_prep.beam_runner", raising=False)
    monkeypatch.setitem(sys.modules, "apache_beam", None)
    with pytest.raises(InputError, match=r"pip install 'albert-tf\[beam\]'"):
        command.run(on_beam(options, tmp_path))
