"""What a process sets before it loads a framework, and how to prevent it."""

import importlib.metadata
import os
import platform
import subprocess
import sys
import tomllib

import pytest

import albert_tf
from albert_tf.environment import KEPT_MEMORY
from tests.conftest import ROOT, heed_ctrl_c, run_python

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
def test_onednn_is_on_unless_the_user_says_otherwise(value, expected, monkeypatch):
    monkeypatch.delenv("TF_ENABLE_ONEDNN_OPTS", raising=False)
    code = "import albert_tf, os; print(os.environ.get('TF_ENABLE_ONEDNN_OPTS'))"
    done = run_python("-c", code, **({"TF_ENABLE_ONEDNN_OPTS": value} if value else {}))
    assert done.stdout.strip() == (expected if platform.machine() == "x86_64" else str(value))


@pytest.mark.integration
@pytest.mark.parametrize(("option", "variable"), [((), "0"), (("-X", "utf8=0"), "")])
def test_paths_are_utf8_whatever_the_locale_says(tmp_path, option, variable):
    folder = tmp_path / "caf\u00e9"
    folder.mkdir()
    (folder / "in.txt").write_text("One sentence.\nAnother.\n")
    locale = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": variable}
    words = (f"--input_file={folder}/in.txt", "--format=text", f"--output_file={folder}/out.txt")
    done = run_python(*option, "-m", "data_prep.extract_corpus", *words, **locale)
    assert done.returncode == 0, done.stderr
    assert f"{folder}/in.txt" in (folder / "out.corpus.json").read_text("utf-8")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("absl", ("-m", "data_prep.extract_corpus")),  # loaded with the command's own modules
        ("absl", ("run_pretraining.py",)),
        ("keras", ("-m", "albert_tf.export", "check", "x")),  # loaded when work begins
    ],
)
def test_ctrl_c_ends_a_command_that_is_loading(tmp_path, module, words):
    # As in an extension module, the exception is lost.
    stop = "import os, signal\ntry: os.kill(os.getpid(), signal.SIGINT)\nexcept: pass\n1 / 0\n"
    (tmp_path / f"{module}.py").write_text(stop)
    done = subprocess.run(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{ROOT}"},
        preexec_fn=heed_ctrl_c,
        capture_output=True,
        text=True,
    )
    name = words[1].split(".")[-1] if words[0] == "-m" else words[0]
    assert done.returncode == 130
    assert done.stderr.removesuffix(": interrupted\n") in (name, f"{name}.py")


def test_ctrl_c_stays_an_exception_in_other_programs():
    code = "import signal, albert_tf\ntry: signal.raise_signal(2)\nexcept BaseException: print(7)"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, preexec_fn=heed_ctrl_c)
    assert done.stdout == b"7\n"


@pytest.mark.integration
def test_the_version_is_that_of_the_project(monkeypatch):
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert albert_tf.__version__ == version
    monkeypatch.setattr(importlib.metadata, "version", importlib.metadata.Distribution.from_name)
    monkeypatch.setattr(importlib.metadata.Distribution, "discover", lambda **kwargs: iter(()))
    assert albert_tf.__version__ == version  # of a source tree that is not installed
    for words in (["-m", "data_prep.inspect"], ["-m", "albert_tf.analysis"], ["run_squad.py"]):
        output = run_python(*words, "--version")
        assert output.stdout == f"{words[-1].split('.', words[0] == '-m')[-1]} {version}\n"
