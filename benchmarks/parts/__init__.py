"""The parts of the suite, by name; each is a module with `run(suite) -> Result`."""

from __future__ import annotations

import importlib
from collections.abc import Callable

from albert_tf.errors import InputError
from benchmarks.comparison import Suite
from benchmarks.reporting import Result

# Name of the module, and of the result -> what it measures.
PARTS = {
    "pretraining_step": "a step of pretraining, beside other libraries, at three sizes",
    "finetuning_and_inference": "a classifier's training and inference, beside other libraries",
    "sharing": "ALBERT beside BERT of the same shape",
    "scaling": "time and memory by batch, length, depth and width",
    "text_to_records": "text to TFRecords, beside SentencePiece alone",
    "records_to_batches": "TFRecords to batches, on one core and two",
    "startup": "waiting: imports, --help, the first step, compiling, exports",
}


def check(names: tuple[str, ...]) -> None:
    """Raises InputError for a name that is not in the table."""
    for name in names:
        if name not in PARTS:
            raise InputError(f"--only={name}: must be among {', '.join(PARTS)}")


def runner(name: str) -> Callable[[Suite], Result]:
    """The function that measures a part."""
    return importlib.import_module(f"benchmarks.parts.{name}").run
