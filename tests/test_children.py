"""What a demo, a study or a benchmark has started ends with it, and resumes when it is rerun."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest

from albert_tf.children import child, run_child, stoppable
from albert_tf.errors import Stopped
from tests.conftest import ROOT, heed_ctrl_c, run_python

# Takes the place of training: works for a minute, in a process of its own as well, and saves when
# it is stopped; a second signal would end it before. Started again, it is done.
STUB = """
import os, pathlib, signal, subprocess, sys, time
folder = pathlib.Path(sys.argv[1])
if (folder / "saved").exists():
    sys.exit()
received = []
def save(number, frame):
    received.append(number)
    if len(received) > 1:
        os._exit(1)
    time.sleep(0.3)
    (folder / "saved").write_text("")
    sys.exit(128 + number)
signal.signal(signal.SIGTERM, save)
signal.signal(signal.SIGINT, save)
sleeping = subprocess.Popen(["sleep", "60"])
(folder / "pids.partial").write_text(f"{os.getpid()} {sleeping.pid}")
(folder / "pids.partial").rename(folder / "pids")
time.sleep(60)
"""

DEMO = """
import sys
from examples.demo import __main__ as demo
from examples.demo.stages import Stage
folder, stub = sys.argv.pop(1), sys.argv.pop(1)
demo.STAGES = [
    Stage("first", "First", "", ("-c print('first-runs')",), ()),
    Stage("train", "Train", "", (f"{stub} {folder}",), (), resumes=True),
]
sys.argv += [f"--output_dir={folder}/out"]
demo.cli()
"""

STUDY = """
import pathlib, sys
from experiments import __main__ as experiments
from experiments.workspace import Workspace
folder, stub = sys.argv.pop(1), sys.argv.pop(1)
def train(workspace):
    job = lambda: workspace.run(pathlib.Path(folder, "log"), stub, folder)
    experiments.in_parallel({"a": job}, 1, workspace)
Workspace.prepare = train
experiments._brief = str
experiments.Laboratory.run = lambda laboratory: None
sys.argv += ["sharing", "--input_file=text", "--format=text", f"--output_dir={folder}/out"]
experiments.cli()
"""

BENCH = """
import sys, types
from benchmarks import __main__ as benchmarks
from benchmarks.tasks import run_quietly
folder, stub = sys.argv.pop(1), sys.argv.pop(1)
def part(suite):
    run_quietly([sys.executable, stub, folder])
    print("all done", flush=True)
    sys.exit()
parts = types.SimpleNamespace(import_module=lambda name: types.SimpleNamespace(run=part))
benchmarks.importlib = parts
sys.argv += [f"--results={folder}/out", "--only=startup"]
benchmarks.cli()
"""


@pytest.fixture(autouse=True)
def _limited():
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("waited for too long"))
    signal.setitimer(signal.ITIMER_REAL, 120, 10)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def state_of(pid: int) -> str:
    """Return the letter of the state of a process: T for a paused one, Z for one that has ended."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except OSError:
        return "Z"


@pytest.mark.integration
@pytest.mark.parametrize(
    ("program", "number"),
    [
        pytest.param(DEMO, signal.SIGINT, id="demo"),
        pytest.param(STUDY, signal.SIGTERM, id="study", marks=pytest.mark.slow),
        pytest.param(BENCH, signal.SIGINT, id="bench", marks=pytest.mark.slow),
    ],
)
def test_what_a_stopped_program_has_started_saves_and_ends_first(program, number, tmp_path):
    (tmp_path / "stub.py").write_text(STUB)
    words = [sys.executable, "-c", program, str(tmp_path), f"{tmp_path}/stub.py"]
    log = tmp_path / "output"  # no pipe, which what is left running would keep open
    # A group of its own, to which the signal is sent as a terminal sends Ctrl-C.
    with open(log, "w") as file:
        options = {"cwd": ROOT, "stdout": file, "stderr": file, "preexec_fn": heed_ctrl_c}
        process = subprocess.Popen(words, process_group=0, **options)
    while not (tmp_path / "pids").exists():
        assert process.poll() is None, log.read_text()
        time.sleep(0.01)
    pids = [int(pid) for pid in (tmp_path / "pids").read_text().split()]
    os.killpg(process.pid, number)
    assert process.wait() == 128 + number, log.read_text()
    assert log.read_text().splitlines()[-1].startswith("-c: stopped")
    assert (tmp_path / "saved").exists(), "it was not waited for, or ended by a second signal"
    assert "".join(map(state_of, pids)) == "ZZ"
    again = run_python(*words[1:])
    assert again.returncode == 0, again.stderr
    if program == DEMO:
        assert "\nfirst-runs\n" in log.read_text()
        assert "\nfirst-runs\n" not in again.stdout


def test_a_signal_that_stops_this_process_ends_the_child_first():
    code = (
        "import os, signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "time.sleep(60)\n"
    )
    before = signal.getsignal(signal.SIGTERM)
    with (
        pytest.raises(Stopped, match="^stopped at RTE$") as stopped,
        stoppable("stopped at RTE"),
        child([sys.executable, "-c", code]) as process,
    ):
        process.wait()
    assert stopped.value.signal == signal.SIGTERM
    assert process.returncode == 143
    assert signal.getsignal(signal.SIGTERM) is before


PAIR = """
import subprocess
from albert_tf.children import child
with child(["sleep", "60"]) as works, child(["sleep", "60"]) as waits:
    waits.send_signal(19)
    print(works.pid, waits.pid, flush=True)
    works.wait()
"""


def test_ctrl_z_pauses_and_resumes_the_children_that_work():
    words = [sys.executable, "-c", PAIR]
    with child(words, cwd=ROOT, stdout=subprocess.PIPE) as process, process.stdout:
        works, waits = map(int, process.stdout.readline().split())
        for number, expected in ((0, "SST"), (signal.SIGTSTP, "TTT"), (signal.SIGCONT, "SST")):
            process.send_signal(number)
            while "".join(map(state_of, (process.pid, works, waits))) != expected:
                time.sleep(0.01)
        os.kill(works, signal.SIGKILL)


def test_a_paused_child_ends_too():
    with child(["sleep", "60"]) as process:
        process.send_signal(signal.SIGSTOP)
        while state_of(process.pid) != "T":
            time.sleep(0.01)
    assert process.returncode == -signal.SIGTERM


def test_a_second_signal_ends_a_child_that_does_not_end():
    code = (
        "import os, signal, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: os.kill(os.getppid(), signal.SIGTERM))\n"
        "os.kill(os.getppid(), signal.SIGTERM)\n"
        "while True:\n"
        "    time.sleep(60)\n"
    )
    with pytest.raises(Stopped), child([sys.executable, "-c", code]) as process:
        process.wait()
    assert process.returncode == -signal.SIGKILL


def test_a_child_that_ends_by_itself_returns_what_it_printed():
    done = run_child(["echo", "a"], stdout=subprocess.PIPE, text=True)
    assert (done.returncode, done.stdout) == (0, "a\n")
