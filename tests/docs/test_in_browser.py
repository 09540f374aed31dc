"""Every page of the documentation site can be read on a phone, in light and dark."""

import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.support.browser import faults, phone

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("sphinx", reason="needs the extra `docs`")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "-q", "docs", str(folder)]
    subprocess.run(command, cwd=ROOT, check=True)
    return folder


def test_pages_fit_a_phone_in_readable_colors(site):
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 50
    with phone() as page:
        found = faults(page, *pages)
    assert not found, "\n".join(found)
