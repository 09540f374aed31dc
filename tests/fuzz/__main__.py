"""Damages many files of every kind and prints a table of what came of them.

    python -m tests.fuzz --cases=2000

Every kind has a process of its own, whose data may take 6 GB. A case is unclean if it ends in
anything but a result, or one line that names the file; if it takes over a minute; or if it ends the
process, after which the remaining cases of the kind are left out.

Columns: kind, cases, read as they are, one line, unclean, most memory that one case took (MB, of
the process and of its children), longest case (seconds).
"""

from __future__ import annotations

import argparse
import collections
import json
import pathlib
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT = 6 << 30
SECONDS = 60


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--kind", help="the process of one kind; its result is a line of JSON")
    parser.add_argument("--only", help="kinds to try, separated by semicolons")
    flags = parser.parse_args()
    if flags.kind:
        _try(flags.kind, flags.cases)
        return 0
    from tests.fuzz.kinds import KINDS

    print("| kind | cases | read | one line | unclean | MB | s |\n|---|---|---|---|---|---|---|")
    unclean = 0
    for kind in flags.only.split(";") if flags.only else KINDS:
        words = ["-m", "tests.fuzz", f"--kind={kind}", f"--cases={flags.cases}"]
        process = subprocess.run([sys.executable, *words], capture_output=True, text=True)
        lines = [json.loads(line) for line in process.stdout.splitlines() if line[:1] == "{"]
        counts = [line for line in lines if "cases" in line]
        found = counts[-1] if counts else dict.fromkeys(("cases", "read", "one line"), 0)
        if process.returncode:
            lines.append({"problem": f"the process ended with {process.returncode}"})
            problem = process.stderr.strip().splitlines()[-8:]
            print(*problem, sep="\n", file=sys.stderr)
        problems = [line["problem"] for line in lines if "problem" in line]
        unclean += len(problems)
        print(
            f"| {kind} | {found['cases']} | {found['read']} | {found['one line']} "
            f"| {len(problems)} | {found.get('memory', 0):.0f} | {found.get('seconds', 0):.1f} |",
            flush=True,
        )
        for problem, count in collections.Counter(problems).most_common(5):
            print(f"  {count} x {problem}", file=sys.stderr, flush=True)
    return 1 if unclean else 0


def _status(name: str) -> float:
    """Return a number of megabytes in Linux's description of this process."""
    for line in pathlib.Path("/proc/self/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise KeyError(name)


def _children() -> float:
    """Return most megabytes that a child took so far."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def _try(name: str, cases: int) -> None:
    """Damage files of one kind: bytes, and for JSON its form in half of the cases."""
    from hypothesis import HealthCheck, given, settings
    from hypothesis import strategies as st

    from albert_tf.errors import InputError
    from tests.fuzz.damage import changed_json, damages, json_changes
    from tests.fuzz.kinds import KINDS

    kind = KINDS[name]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="fuzz-"))
    good, place = folder / "good", folder / "damaged"
    good.mkdir()
    kind.make(good)
    kind.read(good)
    content = (good / kind.file).read_bytes()
    is_json = kind.file.endswith((".json", ".jsonl")) or name == "race"
    is_lines = kind.file.endswith(".jsonl")
    resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, LIMIT))
    signal.signal(signal.SIGALRM, _time_is_up)
    found = {"cases": 0, "read": 0, "one line": 0, "memory": 0.0, "seconds": 0.0}
    earlier = _children()  # what imports started

    def attempt(damaged: bytes | None) -> None:
        shutil.rmtree(place, ignore_errors=True)
        shutil.copytree(good, place)
        (place / kind.file).unlink()
        if damaged is not None:
            (place / kind.file).write_bytes(damaged)
        pathlib.Path("/proc/self/clear_refs").write_text("5")  # VmHWM is VmRSS again
        before, began = _status("VmRSS"), time.monotonic()
        found["cases"] += 1
        signal.alarm(SECONDS)
        try:
            kind.read(place)
        except (InputError, OSError) as error:
            if "\n" in str(error) or str(place) not in str(error):
                _report(f"{type(error).__name__}: not one line of the file: {str(error)[:200]}")
            else:
                found["one line"] += 1
        except BaseException as error:
            _report(f"{type(error).__name__}: {str(error).splitlines()[:1]}")
        else:
            found["read"] += 1
        signal.alarm(0)
        children = _children() if _children() > earlier else 0.0
        found["memory"] = max(found["memory"], _status("VmHWM") - before, children)
        found["seconds"] = max(found["seconds"], time.monotonic() - began)
        print(json.dumps(found), flush=True)

    chosen = settings(
        max_examples=cases // 2 if is_json else cases,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )

    @chosen
    @given(st.lists(damages, min_size=1, max_size=3))
    def damage_bytes(changes):
        damaged: bytes | None = content
        for change in changes:
            damaged = None if damaged is None else change(damaged)
        attempt(damaged)

    damage_bytes()
    if is_json:
        value = (
            [json.loads(line) for line in content.splitlines()] if is_lines else json.loads(content)
        )

        @chosen
        @given(st.lists(json_changes, min_size=1, max_size=2))
        def change_form(changes):
            attempt(changed_json(value, changes, keep_lines=is_lines))

        change_form()
    shutil.rmtree(folder)


def _report(problem: str) -> None:
    print(json.dumps({"problem": problem}), flush=True)


class _TooLong(BaseException):
    """Nothing that a reader would catch."""


def _time_is_up(*_) -> None:
    raise _TooLong(f"over {SECONDS} s")


if __name__ == "__main__":
    sys.exit(main())
