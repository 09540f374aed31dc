"""Fixtures that every test may use."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def shared() -> Callable[[str], pathlib.Path]:
    """Finds reference data beside the repository; the test is skipped where there is none."""

    def find(relative: str) -> pathlib.Path:
        path = ROOT.parent / "shared" / relative
        if not path.exists():
            pytest.skip(f"reference data ../shared/{relative} is not there")
        return path

    return find
