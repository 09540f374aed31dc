"""`run_classifier.py --task_name=all`: every task of GLUE with its recipe, in a process of its own.

A process per task releases all memory, and a task that fails does not end the others.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple

from absl import flags

from albert_tf import configs
from albert_tf.children import child, stoppable
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, Stopped
from albert_tf.files import exists, file_identity, is_folder, read_json, write_text
from albert_tf.flag_parsing import parse_flags
from albert_tf.hub.huggingface import PREFIX
from albert_tf.interop.adjacent_files import find_adjacent_files
from albert_tf.interop.layout import folder_of
from albert_tf.locks import folder_of_one
from albert_tf.options import define_flags, from_flags
from albert_tf.report.sections import text_table
from albert_tf.tasks.classification.glue.results import (
    PAGE_FILE,
    PAPER_TEXT,
    TABLE_FILE,
    TaskResult,
    result_table,
    write_results,
)
from albert_tf.tasks.classification.glue.tasks import GLUE, REPOSITORY
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.training.stopping import SIGNALS

logger = logging.getLogger(__name__)

# Task -> `_Job.key` of the command that has finished.
FINISHED_FILE = "glue.json"

# Evaluated with the model of MNLI; the original's own names for parts of others.
_OF_MNLI = ("AX", "MisMNLI")
_STOPPED = {128 + number: number for number in SIGNALS}


class _Job(NamedTuple):
    """A command for a task.

    Attributes:
        name: of the task.
        folder: for its results.
        words: its flags.
        options: what they come to.
        files: the files that it reads, each with what changes when it is replaced.
    """

    name: str
    folder: str
    words: list[str]
    options: ClassificationOptions
    files: dict[str, list[int]]

    @property
    def key(self) -> str:
        """A hash of what its results depend on."""
        content = json.dumps([dataclasses.asdict(self.options), self.files])
        return hashlib.sha256(content.encode()).hexdigest()


def run_all(options: ClassificationOptions, words: Sequence[str]) -> None:
    """Train, evaluate and predict every task whose files are in `data_dir`.

    Each has a folder of its own in `output_dir`. Tasks that are finished are skipped. At the end,
    the results are printed and written to `glue.tsv` and `report.html`.

    Args:
        options: of the command.
        words: its flags as typed, which override those of the recipes.

    Raises:
        InputError: If no task has its files, a flag is invalid, or a task failed.
        Stopped: By SIGTERM, SIGHUP or Ctrl-C, after the current task has saved.
    """
    if options.ensemble:
        raise InputError("`task_name`=all: make the `ensemble` of one task at a time")
    jobs, left_out = _jobs(options, words)
    with folder_of_one(options.output_dir, "output_dir"):
        failed = _run(options.output_dir, jobs)
        results = [
            TaskResult(job.name, {}, "failed") if job.name in failed else _result(job)
            for job in jobs
            if job.name not in _OF_MNLI
        ]
        table = result_table([*results, *left_out], _pretrained_config(options))
        write_results(options.output_dir, table)
    logger.info("%s\n%s.", text_table(table.columns, table.rows), PAPER_TEXT)
    logger.info("written to %s/{%s,%s}", options.output_dir, TABLE_FILE, PAGE_FILE)
    if failed:
        raise InputError(
            f"{len(failed)} of {len(jobs)} tasks failed: {', '.join(failed)}; rerun the same "
            "command to resume with them"
        )


def _jobs(
    options: ClassificationOptions, words: Sequence[str]
) -> tuple[list[_Job], list[TaskResult]]:
    """Return the commands to run, checked; and the tasks without files."""
    jobs, left_out = [], []
    for name in GLUE:
        if name in _OF_MNLI:
            continue
        try:
            jobs.append(_job(name, name, options, words, ()))
        except _NoFilesError as error:
            logger.info("left out: %s", error)
            left_out.append(TaskResult(name, {}, "no files"))
            continue
        if name == "MNLI" and jobs[-1].options.do_predict:
            with contextlib.suppress(_NoFilesError):
                jobs.append(_job("AX", "MNLI", options, words, ("--nodo_train", "--nodo_eval")))
    if not jobs:
        place = options.data_dir or REPOSITORY
        raise InputError(f"`data_dir`={place}: contains the files of no task of GLUE")
    return jobs, left_out


class _NoFilesError(InputError):
    """A task has no files."""


def _job(
    name: str,
    trained: str,
    options: ClassificationOptions,
    words: Sequence[str],
    more: Sequence[str],
) -> _Job:
    """Return the command of a task; `trained` is the task whose model and recipe it uses."""
    data_dir = options.data_dir or REPOSITORY
    if not data_dir.startswith(PREFIX):
        folders = [os.path.join(data_dir, each) for each in GLUE[name].folders]
        found = next(filter(is_folder, folders), None)
        if found is None:
            raise _NoFilesError(f"{name}: there is no folder {' or '.join(folders)}")
        data_dir = found
    folder = f"{options.output_dir}/{trained}"
    recipe = configs.recipes()[trained.lower()]
    words = [
        *(f"--flagfile={recipe}", *words, *more),
        *(f"--task_name={name}", f"--data_dir={data_dir}", f"--output_dir={folder}"),
    ]
    predicts = _parsed(words).do_predict
    if predicts and name not in _OF_MNLI:
        try:
            GLUE[name].located(data_dir, ("predict",))
        except InputError as error:
            logger.info("%s: not predicted: %s", name, error)
            predicts = False
    if not predicts:
        words += ["--nodo_predict", "--nosubmission"]
    job_options = _parsed(words)
    job_options.check()
    try:
        dataset = GLUE[name].located(data_dir, job_options.splits())
    except InputError as error:
        raise _NoFilesError(str(error)) from None
    paths = [file.path for sets in dataset.sets.values() for rows in sets for file in rows.files]
    return _Job(name, folder, words, job_options, {path: file_identity(path) for path in paths})


def _parsed(words: Sequence[str]) -> ClassificationOptions:
    values = flags.FlagValues()
    define_flags(ClassificationOptions, values)
    parse_flags(configs.with_recipe_paths([sys.argv[0], *words]), values)
    return from_flags(ClassificationOptions, values)


def _run(folder: str, jobs: Sequence[_Job]) -> list[str]:
    """Run what is not finished; return the tasks that failed."""
    path = f"{folder}/{FINISHED_FILE}"
    finished = read_json(path, dict[str, str]) if exists(path) else {}
    failed = []
    for number, job in enumerate(jobs, start=1):
        logger.info("task %d of %d: %s, in %s", number, len(jobs), job.name, job.folder)
        if finished.get(job.name) == job.key:
            logger.info("already finished")
            continue
        sys.stdout.flush()
        message = f"stopped at {job.name}; rerun the same command to resume"
        with stoppable(message):
            code = _exit_code([sys.executable, sys.argv[0], *job.words])
        if code in _STOPPED:
            raise Stopped(_STOPPED[code], message)
        if code:
            logger.warning("%s failed with exit code %d", job.name, code)
            failed.append(job.name)
            continue
        finished[job.name] = job.key
        write_text(path, json.dumps(finished, indent=1) + "\n")
    return failed


def _exit_code(command: list[str]) -> int:
    """Run a command, which ends with this process, and return its exit code."""
    with child(command) as process:
        return process.wait()


def _pretrained_config(options: ClassificationOptions) -> AlbertConfig | None:
    """Return the config of the weights to start from, without the tasks' dropout rates."""
    path = options.albert_config_file
    if path is None and options.init_checkpoint:
        adjacent = os.path.join(folder_of(options.init_checkpoint), CONFIG_FILE)
        path = adjacent if exists(adjacent) else None
    return AlbertConfig.from_json_file(path) if path else None


def _result(job: _Job) -> TaskResult:
    found = find_adjacent_files(job.folder).results
    return TaskResult(job.name, {name: float(value) for name, value in found.items()})
