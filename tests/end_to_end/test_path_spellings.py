"""Every command leaves the same files however its paths are spelled."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.support.bucket import Bucket
from tests.support.path_spellings import REMOTE, SPELLINGS

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("engine", "remote"), [("tensorflow", ""), ("jax", ""), ("jax", "gs://bucket")]
)
def test_all_spellings_leave_the_same_tree(tmp_path, engine, remote):
    with Bucket() as bucket:
        variables = {**os.environ, "KERAS_BACKEND": engine, "JAX_PLATFORMS": "cpu"}
        variables |= {"STORAGE_EMULATOR_HOST": bucket.address} if remote else {}
        done = subprocess.run(
            [sys.executable, "-m", "tests.support.path_spellings", engine, tmp_path, remote],
            cwd=ROOT, env=variables, capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["spelling"] for row in rows] == list(REMOTE if remote else SPELLINGS)
    for row in rows:
        assert row["tree"] == rows[0]["tree"], row["spelling"]
        assert len(row["here"]) == (2 if remote or row["spelling"] == "link" else 3)
    names = rows[0]["tree"]
    for folder in ("pre", "fine"):  # one best checkpoint, which is there
        assert len([name for name in names if name.startswith(f"{folder}/best/model.ckpt-")]) > 1
