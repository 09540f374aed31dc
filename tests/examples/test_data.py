"""Data that examples make: minimal pairs, and pages of manuals in other languages."""

import collections
import json
import pathlib
import re
import shutil
import subprocess

import pytest

from albert_tf.input.minimal_pairs import read_pairs
from examples.languages import read_manual, write_pages
from examples.minimal_pairs import write_pairs


def test_frequencies_of_words_decide_nothing(tmp_path):
    path = str(tmp_path / "pairs.tsv")
    write_pairs(path)
    pairs = read_pairs([path], "eval_pairs")
    assert 300 < len(pairs) == len({(pair.good, pair.bad) for pair in pairs})
    found = collections.Counter(pair.phenomenon for pair in pairs)
    assert min(found.values()) >= 40
    assert len(found) == 6
    for name in found:
        good, bad = (
            collections.Counter(re.findall(r"\w+", " ".join(texts)))
            for texts in zip(*((p.good, p.bad) for p in pairs if p.phenomenon == name), strict=True)
        )
        assert good == bad, name


PAGE = """<html><body><p>Menu</p><div id="DisplayArea"><h1 id="a">{title}</h1>
<ol><li><p class="listitem">{text} <span class="menuitem">A\n - B</span>.</p></li></ol> no paragraph
<p><img></p>{end}<p>Unread</p>"""


@pytest.mark.skipif(
    shutil.which("dpkg-deb") is None, reason="dpkg-deb, which is Debian's, is missing"
)
def test_pages_of_a_package_become_tables_without_what_is_english(tmp_path):
    def package(title: str, text: str) -> dict[str, list[str]]:
        root = tmp_path / title
        texts = root / "usr/share/libreoffice/help/xx/text"
        for page, end in (
            *(("swriter/01/a", '<div class="relatedtopics">'), ("shared/b", "<footer>")),
            ("scalc/c", "<footer>"),
        ):
            path = texts / f"{page}.html"
            path.parent.mkdir(parents=True)
            path.write_text(
                PAGE.format(title=title if "c" not in page else "c", text=text, end=end)
            )
        (root / "DEBIAN").mkdir()
        control = "Package: x\nVersion: 1\nArchitecture: all\nMaintainer: a\nDescription: b\n"
        (root / "DEBIAN/control").write_text(control)
        subprocess.run(["dpkg-deb", "--build", root], check=True, capture_output=True)
        return read_manual(f"{root}.deb")

    english, other = package("Title", "Press"), package("Titel", "Press")
    assert english["scalc/c.html"] == ["c", "Press A - B."]
    write_pages(other, english, f"{tmp_path}/pages")
    tables = {path.name: path for path in pathlib.Path(tmp_path, "pages").iterdir()}
    assert tables.keys() == {"writer.jsonl", "general.jsonl"}, "nothing of Calc is translated"
    assert json.loads(tables["writer.jsonl"].read_text()) == {"text": "Titel"}
