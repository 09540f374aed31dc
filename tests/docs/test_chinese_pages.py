"""The commands of the Chinese pages and of docs/clue.md are commands that the programs accept."""

import re

import pytest

from tests.conftest import ROOT
from tests.docs.commands import commands, options_of

PAGES = [ROOT / "docs/clue.md", *sorted((ROOT / "docs/zh").glob("*.md"))]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_accepted(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"^```\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    found = commands("".join(blocks))
    assert found
    for words in found:
        options = options_of(words)
        if hasattr(options, "check"):
            options.check()
