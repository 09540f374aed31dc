"""The site, reports and the page of attention can be read on a phone, in light and dark."""

import contextlib
import pathlib
import shutil
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from albert_tf.analysis import attention
from albert_tf.analysis.analysis_options import AttentionOptions
from tests.conftest import ROOT

pytestmark = pytest.mark.slow

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PHONE = {"width": 390, "height": 844}
# Pictures, tables and code may be wider than the window in boxes of their own that scroll.
WIDER = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.body.querySelectorAll("*")]
    .filter(element => element.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 5).map(element => element.outerHTML.slice(0, 100))"""
# Contrast of elements that look unlike all in `seen`: of those with the same tags, classes and
# styles up to the root, the first is enough. axe-core leaves the text of SVG out.
CONTRAST = """async (seen) => {
  const looks = new Map();
  for (const element of document.querySelectorAll("body *")) {
    if (![...element.childNodes].some(node => node.nodeType == 3 && node.data.trim())) continue;
    let look = "";
    for (let each = element; each; each = each.parentElement)
      look += [each.tagName, each.getAttribute("class"), each.getAttribute("style"), ""];
    if (!looks.has(look) && !seen.includes(look)) looks.set(look, element);
  }
  const options = {runOnly: ["color-contrast"], resultTypes: ["violations"]};
  if (!looks.size) return [[], []];
  const {violations} = await axe.run({include: [...looks.values()]}, options);
  return [[...looks.keys()], violations.flatMap(rule => rule.nodes.map(
    node => node.any[0].message + ": " + node.html.slice(0, 100)))];
}"""


@contextlib.contextmanager
def phone() -> Iterator[Any]:
    """Yield a page of a browser 390 pixels wide; skip the test where there is no browser."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="needs the extra `docs`")
    installed = next(filter(None, map(shutil.which, BROWSERS)), None)
    with sync_api.sync_playwright() as playwright:
        if installed is None and not pathlib.Path(playwright.chromium.executable_path).exists():
            pytest.skip("needs Chromium: install it, or run `playwright install chromium`")
        browser = playwright.chromium.launch(executable_path=installed, args=["--no-sandbox"])
        yield browser.new_page(viewport=PHONE)
        browser.close()


def faults(page: Any, *files: pathlib.Path) -> list[str]:
    """Return what readers of files cannot see: parts beyond the edge, and text of low contrast.

    Args:
        page: from `phone`.
        *files: HTML files of one style sheet.

    Returns:
        A line for each fault. Contrast is that of WCAG 2 AA, as axe-core measures it.
    """
    from axe_playwright_python.base import AXE_SCRIPT

    found, seen = [], {"light": [], "dark": []}
    for file in files:
        page.goto(file.as_uri())
        page.evaluate(AXE_SCRIPT)
        found += [f"{file.name}: too wide: {element}" for element in page.evaluate(WIDER)]
        for scheme, looks in seen.items():
            page.emulate_media(color_scheme=scheme)
            new, low = page.evaluate(CONTRAST, looks)
            looks += new
            found += [f"{file.name}, {scheme}: {fault}" for fault in low]
    return found


@pytest.fixture(scope="session")
def page():
    with phone() as page:  # skips where there is no browser, before anything is trained
        yield page


def test_the_report_of_pretraining_and_the_attention_page(page, pretrained, tmp_path):
    text = "The unbreakable cat sat on the mat."
    attention.run(AttentionOptions(model=str(pretrained), text=text, output_dir=str(tmp_path)))
    assert not faults(page, pretrained / "report.html", tmp_path / "attention.html")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="needs the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "docs", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


def test_pages_fit_a_phone_in_readable_colors(page, site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 35
    found = faults(page, *pages)
    assert not found, "\n".join(found)
