"""The flags and the data of a run's last start, and what has changed when it resumes."""

from __future__ import annotations

import dataclasses
import logging
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import converted, exists, parse_json, read_json, to_json
from albert_tf.interop.adjacent_files import START_FILE
from albert_tf.optimization import create_schedule
from albert_tf.training.options import TrainingOptions

_logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class _Start:
    flags: dict[str, Any]
    training_data: str


def start_file(options: TrainingOptions, data: str) -> dict[str, str]:
    """Return file name -> content of the record of a start.

    Args:
        options: of the program.
        data: identifies what is trained on; "" if unknown.
    """
    start = _Start(_flags(options), data)
    return {START_FILE: to_json(dataclasses.asdict(start), indent=1, ensure_ascii=False) + "\n"}


def warn_of_changes(options: TrainingOptions, data: str, step: int) -> None:
    """Log a line of what has changed since the last start; arguments as of `start_file`.

    Raises:
        InputError: If the record in `output_dir` is damaged.
    """
    path = f"{options.output_dir}/{START_FILE}"
    if not exists(path):
        return
    before = read_json(path, _Start)
    changes = [
        f"`{name}` was {before.flags[name]} and is {value}"
        for name, value in _flags(options).items()
        if before.flags.get(name, value) != value
    ]
    if changes:
        known = {name: value for name, value in before.flags.items() if value is not None}
        known["output_dir"] = options.output_dir
        earlier = converted(known, path, type(options))
        try:
            was, now = _rate(earlier, step), _rate(options, step)
        except (ArithmeticError, LookupError, ValueError) as error:
            raise InputError(f"{path}: has no usable schedule ({error})") from None
        if was != now:
            changes.append(f"the learning rate at step {step} is {now:.3g} instead of {was:.3g}")
    if "" not in (before.training_data, data) and before.training_data != data:
        changes.append("the training data is another")
    if changes:
        _logger.warning("%s: since the last start, %s", options.output_dir, "; ".join(changes))


def _flags(options: TrainingOptions) -> dict[str, Any]:
    """Return all options but the folder, in which they are recorded, as JSON has them."""
    flags = dataclasses.asdict(options)
    del flags["output_dir"]
    return parse_json(to_json(flags, default=str), "", dict[str, Any])


def _rate(options: TrainingOptions, step: int) -> float:
    return float(create_schedule(options.schedule, **options.schedule_arguments())(step))
