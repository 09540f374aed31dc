"""Every command leaves the same files however its paths are spelled."""

import json

import pytest

from tests.conftest import JAX_ENVIRONMENT, run_python
from tests.support.bucket import Bucket

ON_DISK = pytest.param("tensorflow", "", marks=pytest.mark.manual)


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "remote"), [("jax", "gs://bucket"), ON_DISK])
def test_an_odd_spelling_leaves_the_same_tree(tmp_path, engine, remote):
    with Bucket() as bucket:
        variables = {**JAX_ENVIRONMENT, "KERAS_BACKEND": engine}
        variables |= {"STORAGE_EMULATOR_HOST": bucket.address} if remote else {}
        words = ("-m", "tests.support.path_spellings", engine, tmp_path, remote)
        done = run_python(*words, **variables)
    assert done.returncode == 0, done.stderr
    plain, odd = (json.loads(line) for line in done.stdout.splitlines())
    assert odd["tree"] == plain["tree"]
    assert len(odd["here"]) == 2, "in the bucket, or where a link leads"
    for below in ("pre", "fine"):  # one best checkpoint, which is there
        found = [name for name in plain["tree"] if name.startswith(f"{below}/best/model.ckpt-")]
        assert len(found) > 1
