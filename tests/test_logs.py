"""Log messages on the console of a command."""

import contextlib
import io
import logging

import numpy as np
import pytest

from albert_tf.logs import counted, logs_on_console
from tests.conftest import run_python
from tests.test_progress import Terminal

_COMMAND = """
import dataclasses, logging
from albert_tf.errors import InputError
from albert_tf.options import command, option

logger = logging.getLogger(__name__)
library_logger = logging.getLogger("albert_tf.training.loop")

@dataclasses.dataclass(frozen=True)
class Options:
    batch_size: int = option(8, "Examples in a batch.")

def run(options):
    logger.info("100 %% of the %s", "work")
    library_logger.info("step %d", 10)
    library_logger.debug("hidden")
    library_logger.warning("`batch_size`=%d is high; `elsewhere` is not", options.batch_size)
    logging.getLogger("elsewhere").info("hidden")
    logger.info("a label that clears the screen: %s", "\\x1b[2J")
    raise InputError("two\\nlines \\x1b[2J")

command(Options, run)()
"""


def test_a_command_prints_information_plainly_and_warnings_on_standard_error():
    done = run_python("-c", _COMMAND)
    shown = "100 % of the work\nstep 10\na label that clears the screen: \\x1b[2J\n"
    assert (done.returncode, done.stdout) == (1, shown), done.stderr
    assert (
        done.stderr
        == "warning: --batch_size=8 is high; `elsewhere` is not\n-c: error: two\\nlines \\x1b[2J\n"
    )


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
    assert stream.getvalue().split("\n") == [
        "\r\x1b[Kwarning:",
        "--learning_rate=0.01",
        "is much too high",
        "",
    ]


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
