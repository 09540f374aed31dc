"""The script that trains on spot TPUs, against a stand-in for gcloud that answers from a list."""

import json
import os
import subprocess
import sys

import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.integration

# Writes down what it is called with; what it prints and returns is the next answer of its kind.
GCLOUD = """#!{python}
import json, pathlib, sys
folder = pathlib.Path({folder!r})
words = sys.argv[1:]
command = next((w for w in words if w.startswith("--command=")), "")
kind = next(
    (k for k in ("systemd-run", "is-active", "journalctl", "pip install") if k in command),
    "scp" if "scp" in words else words[3],
)
with open(folder / "log", "a") as log:
    print(json.dumps([kind, *words]), file=log)
answers = folder / kind
if answers.exists():
    first, *rest = answers.read_text().split("\\n")
    answers.write_text("\\n".join(rest))
    print(first.replace("FAILS", "").replace(" ", "\\n"))
    sys.exit("FAILS" in first)
"""


@pytest.fixture
def cloud(tmp_path):
    """Run the script; return its result and the kinds of calls, in order, with their words."""
    for name, text in {
        "gcloud": GCLOUD.format(python=sys.executable, folder=str(tmp_path)),
        "git": "#!/bin/sh\n",
    }.items():
        (tmp_path / "bin").mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text(text)
        (tmp_path / "bin" / name).chmod(0o755)

    def run(*flags, **answers):
        for kind, lines in answers.items():
            (tmp_path / kind.replace("_", "-")).write_text("\n".join(lines))
        environment = {
            **os.environ,
            "PATH": f"{tmp_path}/bin:{os.environ['PATH']}",
            "POLL_SECONDS": "0",
            "TPU": "my-tpu",
            "ZONE": "z",
            "ACCELERATOR": "v5litepod-8",
            "RUNTIME": "r",
            "SERVICE_ACCOUNT": "s",
        }
        done = subprocess.run(
            ["bash", str(ROOT / "examples/tpu/train_on_spot.sh"), *flags],
            env=environment,
            capture_output=True,
            text=True,
            timeout=60,
        )
        calls = [json.loads(line) for line in (tmp_path / "log").read_text().splitlines()]
        return done, calls

    return run


INSTALL_AND_START = ["scp", "pip install", "systemd-run"]


def kinds(calls):
    return [call[0] for call in calls if call[0] not in ("list", "is-active")]


def test_a_tpu_that_is_taken_away_gives_way_to_another(cloud):
    done, calls = cloud(
        "--input_file=gs://b/data/train*",
        "--output_dir=gs://b/a name",
        list=["", "WAITING_FOR_RESOURCES", "ACTIVE", "ACTIVE", "ACTIVE", "SUSPENDED", "DELETING",
              "", "ACTIVE", "ACTIVE", "ACTIVE"],
        # Started, at work, no answer; on the second TPU started, being started again, done.
        is_active=["inactive", "active", "FAILS", "inactive", "activating", "inactive"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert kinds(calls) == [
        "create", *INSTALL_AND_START, "delete", "create", *INSTALL_AND_START
    ]  # fmt: skip
    creating = next(call for call in calls if call[0] == "create")
    assert {"--spot", "--node-id=my-tpu", "--accelerator-type=v5litepod-8", "--zone=z"} <= {
        *creating
    }
    # The shell of the TPU is to see the flags as they were given here.
    starting = next(call for call in calls if call[0] == "systemd-run")[-1]
    words = starting.split("run_pretraining.py ", 1)[1]
    given = subprocess.run(
        ["bash", "-c", f"printf '%s\\n' {words}"], capture_output=True, text=True
    )
    assert given.stdout.splitlines() == [
        "--input_file=gs://b/data/train*",
        "--output_dir=gs://b/a name",
    ]


def test_tensorflow_trains_on_the_only_host(cloud):
    done, calls = cloud("--x", list=["ACTIVE"] * 9, is_active=["inactive", "inactive"])
    assert done.returncode == 0, done.stderr
    assert all("--worker=0" in call for call in calls if call[0] not in ("list", "create"))
    _, install, start = (call[-1] for call in calls if call[0] in INSTALL_AND_START)
    assert "./albert[tpu]" in install
    assert "TF_PLUGGABLE_DEVICE_LIBRARY_PATH=$(venv/bin/python" in start


def test_jax_trains_on_all_hosts_until_all_are_done(cloud):
    done, calls = cloud(
        "--engine=jax", "--output_dir=gs://b/out",
        list=["ACTIVE"] * 9,
        # The first attempt reaches one of two hosts. Later, one is done before the other.
        systemd_run=["FAILS", ""],
        is_active=["inactive inactive", "active inactive", "active activating", "active inactive",
                   "inactive inactive"],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert kinds(calls) == [*INSTALL_AND_START, *INSTALL_AND_START]
    assert sum(call[0] == "is-active" for call in calls) == 5
    assert all("--worker=all" in call for call in calls if call[0] not in ("list", "create"))
    _, install, start = [call[-1] for call in calls if call[0] in INSTALL_AND_START][:3]
    assert "./albert[jax-tpu]" in install
    assert "TF_PLUGGABLE" not in start


def test_an_error_on_one_host_ends_it(cloud):
    done, calls = cloud(
        "--engine=jax", list=["ACTIVE"] * 9, is_active=["active active", "active failed"]
    )
    assert done.returncode == 1
    assert "training ended with an error" in done.stdout
    assert kinds(calls) == ["journalctl"]


def test_what_fails_again_and_again_ends_it(cloud):
    done, calls = cloud("--x", list=[""] * 9, create=["FAILS"] * 9)
    assert done.returncode == 1
    assert kinds(calls) == ["create"] * 5
    done, _ = cloud(
        "--x", list=["FAILS", *["ACTIVE"] * 9], is_active=["inactive"] * 9, scp=["FAILS"] * 9
    )
    assert done.returncode == 1
    assert "failed five times in a row: start" in done.stdout
