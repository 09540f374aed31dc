"""The progress line: quiet in a log, in place on a terminal."""

from __future__ import annotations

import io

import pytest

from data_prep import progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """A clock that goes ten seconds further at every look."""
    seconds = iter(range(0, 10_000, 10))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(seconds))


def test_a_log_gets_one_line_a_minute(clock):
    log = io.StringIO()
    with progress.Progress("read", "MB", total=40, stream=log) as shown:
        for done in range(1, 13):
            shown.update(done)
    assert log.getvalue() == (
        "read 6.0 of 40.0 MB, 0.1 MB/s, 5:40 left\nread 12.0 of 40.0 MB, 0.1 MB/s, 4:40 left\n"
    )


def test_a_terminal_gets_one_line_that_goes_away(clock):
    terminal = Terminal()
    with progress.Progress("read", "MB", stream=terminal) as shown:
        shown.update(1)
        shown.update(2)
    first, second, *blank = terminal.getvalue().split("\r")[1:]
    assert (first, second) == ("read 1.0 MB, 0.1 MB/s", "read 2.0 MB, 0.1 MB/s")
    assert [part.strip() for part in blank] == ["", ""]
    assert "\n" not in terminal.getvalue()
