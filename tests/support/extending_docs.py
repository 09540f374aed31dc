"""The code of docs/extending.md, as changes of files."""

import pathlib
import re
import textwrap
from typing import NamedTuple

from tests.conftest import ROOT

_PAGE = ROOT / "docs" / "extending.md"
# "In `path`...:" before a diff, "New file `path`...:" before a whole file.
_CHANGE = re.compile(
    r"(?P<kind>[Ii]n|New\s+file) `(?P<path>[\w./]+)`(?:(?!```).)*?:\n\n"
    r"(?P<code>[ ]*```(?:diff|python)\n.*?\n[ ]*```)(?=\n)",
    re.DOTALL,
)


class Change(NamedTuple):
    """What a section does to one file: its content, or a diff."""

    path: str
    code: str
    is_new: bool


def changes(section: str) -> list[Change]:
    """Return the changes of the section with this heading."""
    _, text = _PAGE.read_text().split(f"\n## {section}\n")
    text = text.split("\n## ")[0]
    found = []
    for match in _CHANGE.finditer(text):
        _, *lines, _ = textwrap.dedent(match["code"]).splitlines()
        is_new = match["kind"].startswith("New")
        found.append(Change(match["path"], "\n".join(lines) + "\n", is_new))
    assert len(found) == len(re.findall(r"```(?:diff|python)\n", text))
    return found


def apply(section: str, folder: pathlib.Path) -> set[str]:
    """Make the changes of a section in a copy of the project.

    Returns:
        The files that it touches.
    """
    touched = set()
    for change in changes(section):
        path = folder / change.path
        if change.is_new:
            assert not path.exists(), path
            path.parent.mkdir(exist_ok=True)
            path.write_text(change.code)
        else:
            text = path.read_text()
            for hunk in change.code.split("@@\n"):
                text = _patched(text, hunk, change.path)
            path.write_text(text)
        touched.add(change.path)
    return touched


def _patched(text: str, hunk: str, path: str) -> str:
    lines = hunk.splitlines(keepends=True)
    before = "".join(line[1:] for line in lines if line[0] != "+")
    after = "".join(line[1:] for line in lines if line[0] != "-")
    assert text.count(before) == 1, f"{path} contains {text.count(before)} times:\n{before}"
    return text.replace(before, after)
