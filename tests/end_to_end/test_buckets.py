"""The commands on a bucket, in processes that cannot import TensorFlow, except for exports."""

import json
import os
import random
import signal
import subprocess
from collections.abc import Callable

import numpy as np
import pytest

from tests.end_to_end import conftest
from tests.end_to_end.conftest import RECORD_FLAGS, TRAIN_FLAGS
from tests.end_to_end.test_jax_engine import Processes, values
from tests.support.bucket import Bucket, error

pytestmark = pytest.mark.integration

PLACE = "gs://bucket"
TRAIN = (
    "run_pretraining.py",
    "--engine=jax",
    f"--albert_config_file={PLACE}/config.json",
    f"--input_file={PLACE}/train.tfrecord*",
    f"--eval_input_file={PLACE}/eval.tfrecord*",
    "--do_train",
    *RECORD_FLAGS,
    *TRAIN_FLAGS,
)


@pytest.fixture
def bucket():
    with Bucket() as bucket:
        yield bucket


@pytest.fixture
def start(bucket, environment) -> Callable[..., subprocess.Popen]:
    variables = environment | {"STORAGE_EMULATOR_HOST": bucket.address}
    return lambda *words, **more: conftest.start(*words, **variables | more)


@pytest.fixture
def run(bucket, environment) -> Callable[..., str]:
    """Run a command, check its exit code, and return what it printed."""
    variables = environment | {"STORAGE_EMULATOR_HOST": bucket.address}
    return lambda *words, **more: "".join(conftest.run(*words, **variables | more))


def put_files(bucket: Bucket, project) -> None:
    """Copy the config and the records of `project`."""
    bucket.put("config.json", project.config.read_bytes())
    for path in project.folder.glob("*.tfrecord*"):
        bucket.put(path.name, path.read_bytes())


def contents(bucket: Bucket, folder: str) -> dict[str, bytes]:
    """Return the files of a folder, by relative path."""
    return {
        name.removeprefix(f"{folder}/"): found.content
        for name, found in bucket.objects.items()
        if name.startswith(f"{folder}/")
    }


def metrics(bucket: Bucket, folder: str) -> list[tuple[float, ...]]:
    return rows_of(contents(bucket, folder)["metrics.jsonl"])


def rows_of(metrics: bytes) -> list[tuple[float, ...]]:
    rows = map(json.loads, metrics.splitlines())
    return [(row["step"], row["loss"], row["gradient_norm"]) for row in rows]


@pytest.mark.slow
def test_a_killed_run_is_resumed_and_converted(bucket, run, start, project, without_dropout):
    put_files(bucket, project)
    bucket.put("config.json", (without_dropout / "albert_config.json").read_bytes())
    words = (*TRAIN, "--do_eval", f"--output_dir={PLACE}/killed")
    process = start(*words)
    conftest.wait_for(process, lambda: "killed/checkpoints.json" in bucket.objects)
    process.kill()
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    draw = random.Random(0)
    bucket.fault = lambda method, address: (
        error(503, "Service Unavailable") if draw.random() < 0.05 else None
    )
    # On JAX, not even an installed TensorFlow is used, which would look for Google's server.
    output = run(*words, PYTHONPATH=os.environ.get("PYTHONPATH", ""))
    assert f"resuming from {PLACE}/killed/model.ckpt-" in output
    whole = rows_of((without_dropout / "out" / "metrics.jsonl").read_bytes())
    assert metrics(bucket, "killed") == whole
    assert [step for step, *_ in whole] == list(range(3, 25, 3))
    found = contents(bucket, "killed")
    assert "global_step = 24" in found["eval_results.txt"].decode()
    assert any("tfevents" in name for name in found)
    bucket.fault = lambda method, address: None
    bucket.requests.clear()
    output = run(
        "convert_checkpoint.py", f"--input={PLACE}/killed", f"--output={PLACE}/hub",
        "--to=huggingface",
    )  # fmt: skip
    assert {"config.json", "model.safetensors"} <= contents(bucket, "hub").keys(), output
    index = [each for each in bucket.requests if each.name.endswith("manifest.ocdbt")]
    assert 0 < sum(each.status == 200 for each in index) < 5, "not for each of the values"
    assert not [name for name in bucket.objects if name.endswith(".partial")]


@pytest.mark.slow
def test_a_quota_that_is_full_ends_training_with_the_explanation(bucket, run, project):
    put_files(bucket, project)
    explanation = "The project exceeded its quota."
    is_full = [False]

    def fault(method: str, address: str):
        is_full[0] = is_full[0] or "model.ckpt-12" in address
        return error(403, explanation) if is_full[0] and method == "POST" else None

    bucket.fault = fault
    output = run(*TRAIN, f"--output_dir={PLACE}/out", code=1)
    (line,) = (line for line in output.splitlines() if "error:" in line)
    assert "gs://bucket/out/model.ckpt-12" in line
    assert explanation in line
    assert "Traceback" not in output
    complete = {name.split("/")[1] for name in bucket.objects if name.endswith("checksums.txt")}
    assert complete == {"model.ckpt-6"}


@pytest.mark.slow
def test_two_processes_one_of_which_is_killed_train_as_one_device(
    bucket, start, project, without_dropout, tmp_path
):
    put_files(bucket, project)
    bucket.put("config.json", (without_dropout / "albert_config.json").read_bytes())
    words = (*TRAIN, "--do_eval", f"--output_dir={PLACE}/two", "--save_checkpoints_steps=3")
    processes = Processes(start, words)
    processes.send(1, signal.SIGKILL, lambda: "two/checkpoints.json" in bucket.objects)
    (code, *printed), (other, *_) = processes.end()
    # As a worker that knows of the loss, or by JAX, if it waits for the other one in vain.
    assert code in (75, -signal.SIGABRT), printed
    assert other == -signal.SIGKILL
    for code, output, errors in Processes(start, words).end():
        assert code == 0, errors
        assert f"resuming from {PLACE}/two/model.ckpt-" in output
    assert [step for step, *_ in metrics(bucket, "two")] == list(range(3, 25, 3))
    for name, content in contents(bucket, "two").items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    found, expected = values(tmp_path), values(without_dropout / "out")
    assert len(expected) > 90
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, rtol=0, atol=1e-5, err_msg=name)
