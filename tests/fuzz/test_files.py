"""Files that are damaged, or were made to harm: one line names the file, or they are read."""

import json
import pathlib
import shutil
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from tests.conftest import random_inputs
from tests.fuzz.damage import Damage, JsonChange, changed_json, damages, json_changes
from tests.fuzz.kinds import KINDS

pytestmark = [pytest.mark.integration, pytest.mark.hypothesis]


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Make the files of a kind once."""
    folders: dict[str, pathlib.Path] = {}

    def make(name: str) -> pathlib.Path:
        if name not in folders:
            folders[name] = tmp_path_factory.mktemp("kind")
            KINDS[name].make(folders[name])
            files = sorted(folders[name].rglob("*"))
            KINDS[name].read(folders[name])
            assert sorted(folders[name].rglob("*")) == files, "a reader leaves nothing behind"
        return folders[name]

    return make


def check(name: str, folder: pathlib.Path, content: bytes | None, place: pathlib.Path) -> None:
    """Read the files of a kind of which one has another content."""
    kind = KINDS[name]
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(folder, place)
    if content is None:
        (place / kind.file).unlink()
    else:
        (place / kind.file).write_bytes(content)
    try:
        kind.read(place)
    except (InputError, OSError) as error:
        problem = str(error)
    else:
        return
    assert "\n" not in problem
    assert str(place) in problem


@pytest.mark.parametrize("name", KINDS)
def test_damage(made, tmp_path, name):
    folder = made(name)
    original = (folder / KINDS[name].file).read_bytes()

    @random_inputs(4)
    @given(st.lists(damages, min_size=1, max_size=3))
    @example([Damage("bit", 0.9453125, 3), Damage("bit", 0.9453125, 5)])
    def run(changes):
        content: bytes | None = original
        for change in changes:
            content = None if content is None else change(content)
        check(name, folder, content, tmp_path / "damaged")

    run()


def _is_json(name: str) -> bool:
    return KINDS[name].file.endswith((".json", ".jsonl")) or name == "race"


@pytest.mark.parametrize("name", list(filter(_is_json, KINDS)))
def test_json_of_another_form(made, tmp_path, name):
    folder = made(name)
    text = (folder / KINDS[name].file).read_text()
    is_lines = KINDS[name].file.endswith(".jsonl")
    value: Any = [json.loads(line) for line in text.splitlines()] if is_lines else json.loads(text)

    @random_inputs(6)
    @given(st.lists(json_changes, min_size=1, max_size=2))
    @example([JsonChange(0.0, "\ud800")])
    @example([JsonChange(0.03125, {})])
    def run(changes):
        found = changed_json(value, changes, keep_lines=is_lines)
        check(name, folder, found, tmp_path / "damaged")

    run()
