"""Pages as a headless Chromium shows them on a phone, in light and dark."""

from __future__ import annotations

import contextlib
import pathlib
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
PHONE = {"width": 390, "height": 844}
# Pictures, tables and code may be wider than the window in boxes of their own that scroll.
WIDER = """() => document.documentElement.scrollWidth <= innerWidth ? [] :
  [...document.body.querySelectorAll("*")]
    .filter(element => element.getBoundingClientRect().right > innerWidth + 1)
    .slice(0, 5).map(element => element.outerHTML.slice(0, 100))"""
# axe-core knows the color of text as `color` only, which SVG draws with `fill`.
COLOR_SVG = """() => document.querySelectorAll("svg text").forEach(
  text => text.style.color = getComputedStyle(text).fill)"""
CONTRAST = {"runOnly": ["color-contrast"], "resultTypes": ["violations"]}


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


def faults(page: Any, file: pathlib.Path) -> list[str]:
    """Return what a reader of a file cannot see: parts beyond the edge, and text of low contrast.

    Args:
        page: from `phone`.
        file: an HTML file.

    Returns:
        A line for each fault. Contrast is that of WCAG 2 AA, as axe-core measures it.
    """
    from axe_playwright_python.sync_playwright import Axe

    page.goto(file.as_uri())
    found = [f"{file.name}: too wide: {element}" for element in page.evaluate(WIDER)]
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        page.evaluate(COLOR_SVG)
        for rule in Axe().run(page, options=CONTRAST).response["violations"]:
            found += [
                f"{file.name}, {scheme}: {node['any'][0]['message']}: {node['html'][:100]}"
                for node in rule["nodes"]
            ]
    return found
