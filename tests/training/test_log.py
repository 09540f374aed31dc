"""Logs in a bucket, which are uploaded now and then."""

from __future__ import annotations

import pytest

from albert_tf import files
from albert_tf.training import log as training_log
from albert_tf.training.log import AppendedFile
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
