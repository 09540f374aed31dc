"""Every command leaves the same files however its paths are spelled."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT
from tests.support.bucket import Bucket
from tests.support.path_spellings import REMOTE_SPELLINGS, SPELLINGS

ENGINES = [("tensorflow", ""), ("jax", ""), ("jax", "gs://bucket")]


@pytest.mark.slow
def test_an_odd_spelling_in_a_bucket_leaves_the_same_tree(tmp_path):
    _compare(tmp_path, "jax", "gs://bucket", ["relative", "odd"])


# The odd spelling needs the rules of all; this tries them apart, for minutes.
@pytest.mark.manual
@pytest.mark.parametrize(("engine", "remote"), ENGINES)
def test_all_spellings_leave_the_same_tree(tmp_path, engine, remote):
    _compare(tmp_path, engine, remote, list(REMOTE_SPELLINGS if remote else SPELLINGS))


def _compare(folder, engine, remote, names):
    with Bucket() as bucket:
        variables = {**os.environ, "KERAS_BACKEND": engine, "JAX_PLATFORMS": "cpu"}
        variables |= {"STORAGE_EMULATOR_HOST": bucket.address} if remote else {}
        module = [sys.executable, "-m", "tests.support.path_spellings"]
        done = subprocess.run(
            [*module, engine, folder, remote, ",".join(names)],
            cwd=ROOT, env=variables, capture_output=True, text=True,
        )  # fmt: skip
    assert done.returncode == 0, done.stderr
    plain, *others = (json.loads(line) for line in done.stdout.splitlines())
    assert [other["spelling"] for other in others] == names[1:]
    for other in others:
        assert other["tree"] == plain["tree"], other["spelling"]
        is_elsewhere = remote or other["spelling"] in ("link", "odd")  # in "real", or the bucket
        assert len(other["here"]) == (2 if is_elsewhere else 3)
    for below in ("pre", "fine"):  # one best checkpoint, which is there
        found = [name for name in plain["tree"] if name.startswith(f"{below}/best/model.ckpt-")]
        assert len(found) > 1
