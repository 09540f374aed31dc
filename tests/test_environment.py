"""What a process sets before it loads a framework, and how to prevent it."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from albert_tf.environment import KEPT_MEMORY
from tests.conftest import ROOT

# Prints what one reads of the C library's settings, where it was started, and its arguments.
SCRIPT = """
import os, sys
from albert_tf.environment import restart_with_kept_memory
started = int(os.environ.get("STARTED", "0")) + 1
os.environ["STARTED"] = str(started)
restart_with_kept_memory()
print(started, os.getpid(), os.environ.get("GLIBC_TUNABLES"), sys.flags.utf8_mode, sys.argv[1:])
"""

pytestmark = pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="needs glibc")


def output_of(*words, **environment) -> list[str]:
    variables = {k: v for k, v in os.environ.items() if k != "GLIBC_TUNABLES"}
    process = subprocess.Popen(
        [sys.executable, *words],
        env={**variables, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE,
        text=True,
    )
    output, _ = process.communicate()
    started, pid, *rest = output.strip().split(" ", 4)
    assert int(pid) == process.pid, "a restart keeps the process id"
    return [started, *rest]


def test_a_command_starts_again_with_its_arguments(tmp_path, monkeypatch):
    script = tmp_path / "command.py"
    script.write_text(SCRIPT)
    monkeypatch.chdir(tmp_path)
    for name in (script, script.name):
        words = output_of("-X", "utf8", name, "--a=b", "c d")
        assert words == ["2", KEPT_MEMORY, "1", "['--a=b', 'c d']"]


@pytest.mark.parametrize("value", ["", "glibc.malloc.tcache_count=7"])
def test_the_users_own_settings_stay(tmp_path, value):
    script = tmp_path / "command.py"
    script.write_text(SCRIPT)
    assert output_of(script, GLIBC_TUNABLES=value)[:2] == ["1", value]


def test_other_programs_are_not_started_again():
    assert output_of("-c", SCRIPT)[:2] == ["1", "None"]


@pytest.mark.parametrize(("value", "expected"), [(None, "1"), ("0", "0")])
def test_onednn_is_on_unless_the_user_says_otherwise(value, expected):
    variables = {k: v for k, v in os.environ.items() if k != "TF_ENABLE_ONEDNN_OPTS"}
    code = "import albert_tf, os; print(os.environ.get('TF_ENABLE_ONEDNN_OPTS'))"
    output = subprocess.run(
        [sys.executable, "-c", code],
        env={**variables, **({"TF_ENABLE_ONEDNN_OPTS": value} if value else {})},
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert output.strip() == (expected if platform.machine() == "x86_64" else str(value))
