"""Runs every stage from raw text to a report; finished stages are skipped.

    python -m examples.demo [--corpus=DIR] [--language=en] [--output_dir=demo]

The stages are the project's own commands, with the flags in `configs/demo/*.cfg`.
"""

import dataclasses
import glob
import hashlib
import itertools
import json
import os
import shlex
import sys
import time
from typing import Any

from albert_tf.children import child, stoppable
from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_text, remove, sizes, write_text
from albert_tf.options import command, option
from examples.demo.stages import DOCS, STAGES
from examples.minimal_pairs import write_pairs


@dataclasses.dataclass(frozen=True)
class DemoOptions:
    corpus: str | None = option(
        None,
        "Folder of .txt files, or of .jsonl tables with a column `text`; without it, the "
        "documentation of installed Python packages.",
    )
    language: str = option("en", "Language of the text.")
    vocab_size: int | None = option(None, "Pieces of the vocabulary, if fewer than 8,000.")
    output_dir: str = option("demo", "Folder for all output.")


@stoppable("stopped; rerun the same command to resume")
def run(options: DemoOptions) -> None:
    if options.corpus and not os.path.isdir(options.corpus):
        raise InputError(f"`corpus`={options.corpus}: no such folder of .txt files")
    corpus = os.path.abspath(options.corpus) if options.corpus else "package_docs"
    stages = [stage for stage in STAGES if not (options.corpus and stage is DOCS)]
    state = opened(options.output_dir, corpus)
    if options.language == "en":
        write_pairs(f"{options.output_dir}/pairs.tsv")
    start = time.monotonic()
    key = ""
    for number, stage in enumerate(stages, start=1):
        print(f"\n[{number}/{len(stages)}] {stage.title}")
        print(f"      {stage.purpose}")
        commands = [_words(command, options) for command in stage.commands]
        key = _key(key, commands)
        made = [f"{options.output_dir}/{path}" for path in stage.made]
        done = state["done"].get(stage.name)
        if done and done["key"] == key and all(map(exists, made)):
            print(f"      done before, in {done['seconds']:.1f} s")
            continue
        if not (stage.resumes and state["started"].get(stage.name) == key):
            for path in made:
                remove(path)
        state["started"][stage.name] = key
        state["done"].pop(stage.name, None)
        save(options.output_dir, state)
        record = _run_commands(commands)
        state["done"][stage.name] = {**record, "key": key}
        save(options.output_dir, state)
        for path in made:
            print(f"      -> {path} ({_size(path)})")
        print(
            f"      {record['seconds']:.1f} s, at most {record['peak_megabytes']:,.0f} MB of memory"
        )
    minutes = (time.monotonic() - start) / 60
    print(f"\nAll done in {minutes:.1f} minutes. Open {options.output_dir}/report.html")


def opened(folder: str, corpus: str) -> dict[str, Any]:
    """Return the stages of a folder that were started and finished; "corpus" is their text.

    A stage is identified by a key of its commands, their settings and the preceding stages. When
    one of these changes, the stage runs again. A folder with a run on another corpus is moved
    aside.
    """
    if exists(f"{folder}/stages.json"):
        state = json.loads(read_text(f"{folder}/stages.json"))
        if state["corpus"] == corpus:
            return state
        aside = next(f"{folder}.{n}" for n in itertools.count(1) if not exists(f"{folder}.{n}"))
        os.rename(folder, aside)
        print(f"{folder} contained a run on {state['corpus']}; it is now {aside}")
    make_folder(folder, "output_dir")
    return {"corpus": corpus, "started": {}, "done": {}}


def save(folder: str, state: dict[str, Any]) -> None:
    write_text(f"{folder}/stages.json", json.dumps(state, indent=1) + "\n")


def _words(command: str, options: DemoOptions) -> list[str]:
    """Return the words of a command line, with folders filled in."""
    folder = options.output_dir
    corpus = options.corpus or f"{folder}/docs"
    tables = not options.corpus or glob.glob(f"{corpus}/*.jsonl")
    values = {
        "out": folder,
        "source": f"{'table' if tables else 'books'}:{corpus}",
        "language": options.language,
        "vocab_size": f"--vocab_size={options.vocab_size}" if options.vocab_size else "",
        "eval_pairs": f"--eval_pairs={folder}/pairs.tsv" if options.language == "en" else "",
    }
    return [*filter(None, (word.format(**values) for word in command.split()))]


def _key(before: str, commands: list[list[str]]) -> str:
    """Return a digest of commands, the settings in the files they name, and the previous key."""
    digest = hashlib.sha256(before.encode())
    for word in (word for words in commands for word in words):
        digest.update(word.encode() + b"\0")
        flag, _, value = word.partition("=")
        if flag in ("--flagfile", "--albert_config_file", "--package_list"):
            digest.update(read_text(value).encode())
    return digest.hexdigest()[:16]


def _run_commands(commands: list[list[str]]) -> dict:
    """Run commands one after the other and measure their time and peak memory."""
    start = time.monotonic()
    peak = 0
    for words in commands:
        print(f"      $ python {shlex.join(words)}", flush=True)
        with child([sys.executable, *words]) as process:
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            sys.exit(process.returncode if process.returncode > 0 else 1)
        peak = max(peak, usage.ru_maxrss)
    return {"seconds": time.monotonic() - start, "peak_megabytes": peak / 1024}


def _size(path: str) -> str:
    """Return the size of a file, or of all files in a folder, as text."""
    total = sum(sizes(path).values()) if os.path.isdir(path) else os.path.getsize(path)
    return f"{total / 1e6:.1f} MB" if total >= 1e5 else f"{total / 1e3:.1f} kB"


cli = command(DemoOptions, run)

if __name__ == "__main__":
    cli()
