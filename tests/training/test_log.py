"""Logs in a bucket, which are uploaded now and then."""

import contextlib
import json
import re
import sys
import time
import types

import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

from albert_tf import files
from albert_tf.training import log as training_log
from albert_tf.training.health import Workload
from albert_tf.training.log import AppendedFile, TrainingLog, tag_of
from albert_tf.training.rows import lines_up_to
from tests.conftest import ROOT
from tests.support.bucket import error

PATH = "gs://bucket/run/log"


def test_a_log_is_uploaded_now_and_then(bucket, monkeypatch):
    log = AppendedFile(PATH, b"0\n")
    for number in range(1, 100):
        log.write(f"{number}\n".encode())
        log.flush()
    assert not bucket.objects
    monkeypatch.setattr(training_log, "UPLOAD_SECONDS", 0.0)
    log.write(b"100\n")
    log.flush()
    log.wait()
    assert len(files.read_text(PATH).splitlines()) == 101
    monkeypatch.setattr(training_log, "UPLOAD_SECONDS", 60.0)
    log.write(b"101\n")
    log.flush()
    log.sync()
    log.wait()
    assert len(files.read_text(PATH).splitlines()) == 102
    log.write(b"102\n")
    log.close()
    assert files.read_text(PATH) == "".join(f"{number}\n" for number in range(103))
    assert sum(request.method == "POST" for request in bucket.requests) == 3


@pytest.mark.parametrize("status", [403, 503])
def test_a_log_that_cannot_be_uploaded_is_a_warning(bucket, status, caplog):
    log = AppendedFile(PATH, b"0\n")
    bucket.fault = lambda method, address: error(status, "Denied.")
    log.sync()
    log.wait()
    assert "the log is uploaded later" in caplog.text
    bucket.fault = lambda method, address: None
    log.write(b"1\n")
    log.close()
    assert files.read_text(PATH) == "0\n1\n"


def test_the_time_left_leaves_out_compiling_and_evaluation(tmp_path, monkeypatch, capsys):
    now = [0.0]
    monkeypatch.setattr(training_log.time, "monotonic", lambda: now[0])

    def write(step, seconds, steps=10):
        now[0] += seconds
        log.write(step, {"loss": 2.0}, np.full(steps, 8.0))

    with contextlib.closing(TrainingLog(str(tmp_path), 100, 0, Workload(8, float))) as log:
        write(10, seconds=1000)  # most of it compiles
        write(20, seconds=60)
        now[0] += 500
        log.note("evaluated", 500)
        write(30, seconds=80)
        write(100, seconds=400, steps=70)
    assert capsys.readouterr().err.splitlines() == [
        "step 10/100  loss 2.0000  0.1 seq/s",
        "step 20/100  8:00 left  loss 2.0000  1.3 seq/s",
        "step 30/100  8:10 left  loss 2.0000  1.0 seq/s",
        "step 100/100  0:00 left  loss 2.0000  1.4 seq/s",
    ]


def test_tensorboard_shows_no_step_twice_after_going_back(tmp_path):
    for first, last in ((0, 40), (20, 60), (20, 30)):
        with contextlib.closing(TrainingLog(str(tmp_path), 100, first, Workload(8, float))) as log:
            for step in range(first + 10, last + 1, 10):
                log.write(step, {"loss": 1 / step}, np.full(10, 8.0))
        # What the server reads with.
        events = EventAccumulator(str(tmp_path / "train")).Reload().Tensors("quality/loss")
        assert [event.step for event in events] == list(range(10, last + 1, 10))


@pytest.mark.parametrize(
    ("tag", "names"),
    {
        "quality/loss": ["loss", "eval_loss", "classification_loss"],
        "quality/accuracy": ["eval_accuracy", "multiple_choice_accuracy"],
        "quality/masked_lm_accuracy": ["masked_lm_accuracy"],
        "speed/sequences_per_second": ["examples_per_second"],
        "speed/seconds": ["seconds"],
        "optimizer/gradient_norm": ["gradient_norm"],
    }.items(),
)
def test_training_and_evaluation_have_curves_of_one_name(tag, names):
    assert {tag_of(name) for name in names} == {tag}


def test_the_documented_script_passes_metrics_on(tmp_path, monkeypatch):
    page = (ROOT / "docs/reference/pretraining-flags-and-files.md").read_text("utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    code = code.replace("125_000", "4")
    logged = []
    tracker = types.SimpleNamespace(
        start_run=lambda run_name: None, log_metrics=lambda row, step: logged.append((step, row))
    )
    monkeypatch.setitem(sys.modules, "mlflow", tracker)
    monkeypatch.chdir(tmp_path)
    lines = [json.dumps({"step": step, "loss": 1 / step}) + "\n" for step in (2, 3, 4)]
    file = tmp_path / "out" / "metrics.jsonl"
    file.parent.mkdir()
    file.write_text(lines[0] + lines[1][:-1])  # being written
    # Then the run is killed, resumes at step 2, and ends.
    monkeypatch.setattr(time, "sleep", lambda seconds: file.write_text("".join(lines)))
    exec(compile(code, "script", "exec"), {})
    assert logged == [(2, {"loss": 1 / 2}), (3, {"loss": 1 / 3}), (4, {"loss": 1 / 4})]


def test_what_a_power_cut_leaves_at_the_end_of_the_log(tmp_path):
    lines = [json.dumps({"step": step, "loss": 0.5}) for step in (1, 2)]
    content = "".join(f"{line}\n" for line in lines).encode()
    for damage in (b"\xff\x80\xfe\x00", b'{"step": 3\xff\n', bytes(4), b"\xc2\x85\n\n"):
        (tmp_path / "metrics.jsonl").write_bytes(content + damage)
        assert lines_up_to(str(tmp_path), 5) == lines
    with contextlib.closing(TrainingLog(str(tmp_path), 9, 1, Workload(8, float))):
        assert (tmp_path / "metrics.jsonl").read_text() == f"{lines[0]}\n"
