"""The commands of the Chinese pages and of docs/clue.md are commands that the programs accept.

And how pages are set: what a browser would show otherwise, in Chinese and in blocks of code.
"""

from __future__ import annotations

import importlib
import re
import shlex

import pytest
from absl import flags

from albert_tf.configs import with_recipe_paths
from albert_tf.options import define_flags, from_flags
from tests.conftest import ROOT
from tests.docs.test_finetuning_recipes import KINDS

PAGES = [ROOT / "docs/clue.md", *sorted((ROOT / "docs/zh").glob("*.md"))]
OPTIONS = {
    "run_pretraining.py": ("albert_tf.training.options", "PretrainingOptions"),
    "data_prep.extract_corpus": ("data_prep.extraction_options", "ExtractionOptions"),
    "data_prep.train_vocabulary": ("data_prep.vocabulary", "VocabularyOptions"),
    "data_prep.create_pretraining_data": (
        "data_prep.pretraining_data_options",
        "PretrainingDataOptions",
    ),
    "data_prep.inspect": ("data_prep.inspect.inspect_options", "InspectOptions"),
}


def options_class_of(program: str):
    """Return the class of a program's options."""
    if program in KINDS:
        return KINDS[program].load("options")
    module, name = OPTIONS[program]
    return getattr(importlib.import_module(module), name)


def commands(page) -> list[list[str]]:
    """Return the words of the commands in a page, without "python" and "-m"."""
    blocks = re.findall(r"^```\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    lines = re.sub(r" *\\\n *", " ", "".join(blocks)).splitlines()
    whole = [line.strip() for line in lines if not line.endswith("...")]
    words = [shlex.split(line) for line in whole if line.startswith("python ")]
    return [line[2:] if line[1] == "-m" else line[1:] for line in words]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_commands_are_accepted(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = commands(page)
    assert found
    for words in found:
        options_class = options_class_of(words[0])
        values = flags.FlagValues()
        define_flags(options_class, values)
        assert values(with_recipe_paths(words)) == words[:1]
        options = from_flags(options_class, values)
        if hasattr(options, "check"):
            options.check()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_to_pages(page):
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    links = re.findall(r"\]\(([^)#]+\.md)(?:#[^)]*)?\)", text)
    assert links
    assert not [link for link in links if not (page.parent / link).exists()]


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs/zh").glob("*.md")), ids=lambda page: page.stem
)
def test_sentences_have_no_line_breaks(page):
    """Browsers would show them as spaces."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    assert not re.findall(r".*[\u3000-\u9fff\uff00-\uffef]\n *(?![-*|#>]|\d+\. )\S.*", text)


def test_code_fits_its_box():
    """Except for what has to be in one line: aligned columns, rows of JSON, and long names."""
    wide = []
    for page in [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]:
        blocks = re.finditer(r"^( *)```.*?\n(.*?)^ *```", page.read_text("utf-8"), re.DOTALL | re.M)
        for indent, block in (match.groups() for match in blocks):
            lines = [line.removeprefix(indent) for line in block.splitlines()]
            wide += [
                f"{page.name}: {line}"
                for line in lines
                if len(line) > 88
                and not re.search(r"^\{|\t|(\S  +\S.*){3}", line)
                and max(map(len, line.split())) < 80
            ]
    assert not wide, "\n".join(wide)
