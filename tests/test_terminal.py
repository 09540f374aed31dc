"""Messages on the console of a command; the progress line, which a terminal rewrites in place."""

import contextlib
import io
import logging

import numpy as np
import pytest

from albert_tf import terminal
from albert_tf.logs import counted, logs_on_console
from albert_tf.terminal import ProgressLine, ThroughputLine, duration
from tests.conftest import run_python


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def clock(monkeypatch):
    """Return a clock that stands still until the test advances it."""
    now = [1000.0]
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now[0])

    def advance(seconds):
        now[0] += seconds

    return advance


def test_durations_are_read_at_a_glance():
    assert [duration(s) for s in (0, 5.4, 63, 4000)] == ["0:00", "0:05", "1:03", "1:06:40"]


def test_a_log_gets_one_line_a_minute_and_the_last(clock):
    log = io.StringIO()
    line = ProgressLine(log)
    for step in range(1, 14):
        clock(10)
        line.update(f"step {step}")
    line.close()
    assert log.getvalue() == "step 6\nstep 12\nstep 13\n"


def test_a_terminal_gets_one_line_rewritten(clock):
    terminal = Terminal()
    line = ProgressLine(terminal)
    for step in range(3):
        line.update(f"step {step}")
        clock(0.15)
    line.close()
    assert terminal.getvalue() == "\r\x1b[Kstep 0\r\x1b[Kstep 2\n"


@pytest.mark.parametrize(
    ("columns", "shown"),
    [
        (200, "step 1240/3200  3:11 left  loss 6.4361  MLM 0.1406  1656.7 seq/s  lr 7.35e-03"),
        (77, "step 1240/3200  3:11 left  loss 6.4361  MLM 0.1406  1656.7 seq/s"),
        (65, "step 1240/3200  3:11 left  loss 6.4361  MLM 0.1406  1656.7 seq/s"),
        (64, "step 1240/3200  3:11 left  loss 6.4361  MLM 0.1406"),
        (40, "step 1240/3200  3:11 left  loss 6.4361"),
        (10, "step 1240"),
    ],
)
def test_a_terminal_gets_the_most_important_fields_that_fit(monkeypatch, columns, shown):
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal, log = Terminal(), io.StringIO()
    fields = ["step 1240/3200", "3:11 left", "loss 6.4361", "MLM 0.1406"]
    fields += ["1656.7 seq/s", "lr 7.35e-03"]
    for stream in (terminal, log):
        ProgressLine(stream, log_seconds=0).update(*fields)
    assert terminal.getvalue() == f"\r\x1b[K{shown}"
    assert log.getvalue() == "  ".join(fields) + "\n"


def test_the_time_left_of_data_preparation_leaves_out_the_start(clock):
    log = io.StringIO()
    with ThroughputLine("read", "MB", total=40.0, stream=log) as shown:
        clock(100)  # workers start and compile
        shown.update(2.0)
        clock(100)
        shown.update(12.0)
    assert log.getvalue() == (
        "read 2.0 of 40.0 MB  0.0 MB/s\nread 12.0 of 40.0 MB  4:40 left  0.1 MB/s\n"
    )


def test_a_message_takes_the_place_of_the_line(monkeypatch):
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    ProgressLine().update("step 1")
    logging.getLogger("albert_tf.test").warning("low on disk")
    assert terminal.getvalue() == "\r\x1b[Kstep 1\r\x1b[Kwarning: low on disk\n"


def test_data_preparation_clears_its_line_on_a_terminal(clock):
    terminal = Terminal()
    with ThroughputLine("read", "MB", stream=terminal) as shown:
        clock(10)
        shown.update(1)
    assert terminal.getvalue() == "\r\x1b[Kread 1 MB  0.1 MB/s\r\x1b[K"


_COMMAND = """
import dataclasses, logging
from albert_tf.errors import InputError
from albert_tf.options import command, option

logger = logging.getLogger(__name__)
library_logger = logging.getLogger("albert_tf.training.loop")

@dataclasses.dataclass(frozen=True)
class Options:
    batch_size: int = option(8, "Examples in a batch.")
    source: str = option("here", "A place.", flag="from")

def run(options):
    logger.info("100 %% of the %s", "work")
    library_logger.info("step %d", 10)
    library_logger.debug("hidden")
    library_logger.warning("`batch_size`=%d is high; `elsewhere` is not", options.batch_size)
    logging.getLogger("elsewhere").info("hidden")
    logger.info("a label that clears the screen: %s", "\\x1b[2J")
    raise InputError("`batch_size`=8: `source` has two\\nlines \\x1b[2J; see `elsewhere`")

command(Options, run)()
"""


def test_a_command_prints_information_plainly_and_arguments_as_flags():
    done = run_python("-c", _COMMAND)
    shown = "100 % of the work\nstep 10\na label that clears the screen: \\x1b[2J\n"
    assert (done.returncode, done.stdout) == (1, shown), done.stderr
    assert done.stderr.splitlines() == [
        "warning: --batch_size=8 is high; `elsewhere` is not",
        "-c: error: --batch_size=8: --from has two\\nlines \\x1b[2J; see `elsewhere`",
    ]


def test_messages_follow_a_redirected_standard_output():
    logger = logging.getLogger("some_package.module")
    stream = io.StringIO()
    with logs_on_console("some_package"), contextlib.redirect_stdout(stream):
        logger.info("inside")
    assert stream.getvalue() == "inside\n"


def test_a_terminal_gets_warnings_with_breaks_between_words(monkeypatch):
    monkeypatch.setenv("COLUMNS", "20")
    logger, stream = logging.getLogger("some_package.module"), Terminal()
    with logs_on_console("some_package"), contextlib.redirect_stderr(stream):
        logger.warning("--learning_rate=0.01 is much too high")
    wrapped = "\r\x1b[Kwarning:\n--learning_rate=0.01\nis much too high\n"
    assert stream.getvalue() == wrapped


def test_errors_of_the_stream_reach_the_caller():
    class Full(io.StringIO):
        def write(self, text):
            raise OSError("no space left")

    logger = logging.getLogger("some_package")
    with (
        logs_on_console("some_package"),
        contextlib.redirect_stdout(Full()),
        pytest.raises(OSError, match="no space left"),
    ):
        logger.info("lost")


def test_loggers_are_as_before_afterwards():
    logger = logging.getLogger("some_package")
    before = (logger.level, logger.propagate, list(logger.handlers))
    with logs_on_console("some_package"):
        assert not logger.propagate
    assert (logger.level, logger.propagate, list(logger.handlers)) == before


def test_numbers_of_numpy_are_counted_as_others_are():
    assert [counted(np.int64(n), "layer") for n in (1, 1200)] == ["1 layer", "1,200 layers"]
