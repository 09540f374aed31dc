"""Whatever happens to the files of unfinished work: what resumes ends with the same bytes."""

import contextlib
import dataclasses
import pathlib
import random
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep import extraction, pretraining_data, runs
from data_prep.extraction import extract
from data_prep.pretraining_data import create_pretraining_data
from data_prep.work_folder import WorkFolder
from tests.conftest import random_inputs
from tests.data_prep.conftest import corpus, model_file, options, small_pieces
from tests.fuzz.damage import Damage, damages
from tests.support.texts import Killed, contents, corpus_options

pytestmark = [pytest.mark.integration, pytest.mark.hypothesis]
__all__ = ["corpus", "model_file", "options", "small_pieces"]  # fixtures

# Files to damage, by their rank from 0 to 1 in the folder.
several_damages = st.lists(st.tuples(st.floats(0, 1), damages), min_size=1, max_size=3)


def kill(*arguments):
    raise Killed


def apply(folder: pathlib.Path, changes: list[tuple[float, Damage]]) -> None:
    for rank, damage in changes:
        names = sorted(path for path in folder.iterdir() if path.name != "fingerprint")
        path = names[min(int(rank * len(names)), len(names) - 1)]
        content = damage(path.read_bytes())
        if content is None:
            path.unlink()
        else:
            path.write_bytes(content)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "killed_in", "pack_rows"),
    [
        (pretraining_data, "_make_part", False),
        (pretraining_data, "_make_shard", True),
        (pretraining_data, "write_manifest", False),
    ],
)
def test_examples(options, tmp_path, small_pieces, monkeypatch, module, killed_in, pack_rows):
    options = dataclasses.replace(
        options, num_processes=1, num_shards=2, dupe_factor=1, pack_rows=pack_rows
    )
    create_pretraining_data(options)
    out, saved = tmp_path / "out", tmp_path / "saved"
    expected = contents(out)
    shutil.rmtree(out)
    with monkeypatch.context() as patch:
        patch.setattr(module, killed_in, kill)
        with pytest.raises(Killed):
            create_pretraining_data(options)
    out.rename(saved)
    (work,) = (path.name for path in saved.iterdir() if path.is_dir())

    @random_inputs(4)
    @given(changes=several_damages)
    def resume(changes):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(saved, out)
        apply(out / work, changes)
        create_pretraining_data(options)
        assert contents(out) == expected

    resume()


def test_a_run_of_examples(tmp_path):
    """Every bit of it."""
    examples = np.zeros(5, runs.EXAMPLE)
    examples["first"], examples["second"] = 1, 2
    spans = np.array([[n, n + 1, n + 1, n + 3] for n in range(5)])
    path = str(tmp_path / "run")
    runs.write_run(
        path, runs.Run(np.arange(8, dtype=np.uint16), spans, examples, np.array([0, 2, 5]))
    )

    def read() -> list[bytes]:
        slices = [runs.read_bucket(path, number, np.uint16) for number in range(2)]
        return [array.tobytes() for part in slices for array in part]

    expected = read()
    content = pathlib.Path(path).read_bytes()
    for bit in range(8 * len(content)):
        byte, mask = bit // 8, 1 << bit % 8
        damaged = content[:byte] + bytes([content[byte] ^ mask]) + content[byte + 1 :]
        pathlib.Path(path).write_bytes(damaged)
        with contextlib.suppress(runs.DamagedRunError):
            assert read() == expected, bit  # a checksum of no examples, for example


@pytest.mark.parametrize(("killed_in", "near_duplicates"), [("finish", 0.9), ("publish", 0)])
def test_a_corpus(tmp_path, monkeypatch, killed_in, near_duplicates):
    draw = random.Random(0)
    text = tmp_path / "in.txt"
    words = ["The", "cat", "sat", "on", "a", "mat."]
    text.write_text(
        "\n\n".join(
            "\n".join(" ".join(draw.choices(words, k=9)) for _ in range(5)) for _ in range(99)
        )
    )
    monkeypatch.setattr("data_prep.corpora.text._UNIT_BYTES", 1500)
    out, saved = tmp_path / "out", tmp_path / "saved"
    options = corpus_options(
        tmp_path,
        "text",
        output_file=str(out / "train.txt"),
        eval_output_file=str(out / "eval.txt"),
        eval_fraction=0.3,
        near_duplicates=near_duplicates,
    )

    def result() -> dict[str, bytes]:
        return {
            path.name: path.read_bytes()
            for path in out.iterdir()
            if path.name != "train.corpus.json"
        }

    extract(options)
    expected = result()
    shutil.rmtree(out)
    finish, finished = WorkFolder.finish, []

    def finish_or_die(self, name, record):
        finished.append(name)
        finish(self, name, record) if len(finished) < 8 else kill()

    with monkeypatch.context() as patch:
        if killed_in == "finish":
            patch.setattr(WorkFolder, "finish", finish_or_die)
        else:
            patch.setattr(extraction, "publish_files", kill)
        with pytest.raises(Killed):
            extract(options)
    out.rename(saved)

    @random_inputs(12)
    @given(changes=several_damages)
    def resume(changes):
        shutil.rmtree(out, ignore_errors=True)
        shutil.copytree(saved, out)
        apply(out / ".train.txt.work", changes)
        extract(options)
        assert result() == expected

    resume()
