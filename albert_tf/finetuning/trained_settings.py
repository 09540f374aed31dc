"""What a folder with a trained model records about how it reads examples; loads no framework."""

import dataclasses
import logging
import os
import typing
from typing import Any, ClassVar, TypeVar

from albert_tf.files import converted, exists, read_json
from albert_tf.finetuning.finetuning_options import FineTuningOptions, Options
from albert_tf.interop.file_names import folder_of

logger = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """How a fine-tuned model reads examples, as its export needs it; a subclass for each kind.

    Attributes:
        default_length: `max_seq_length` if it is neither given nor recorded.
        part: attribute whose default is lowered to what fits into a shorter `max_seq_length`.
        max_seq_length: maximum length of a sequence in tokens; None if unknown.
    """

    default_length: ClassVar[int] = 512
    part: ClassVar[str] = ""

    max_seq_length: int | None = None

    @property
    def min_length(self) -> int:
        """Return the smallest `max_seq_length` with room for a token."""
        return 3


Settings = TypeVar("Settings", bound=TaskSettings)


def read_settings(
    kind: type[Settings], path: str, file_name: str, changes: dict[str, Any]
) -> Settings:
    """Read settings from a file next to some weights, with defaults for missing values.

    Args:
        path: of the weights, a file or a folder.
        file_name: the file may contain other values too, or not exist.
        changes: attribute -> value that overrides the file; None to keep that of the file.

    Raises:
        InputError: If the file is damaged.
    """
    file = os.path.join(folder_of(path), file_name)
    values: dict[str, Any] = read_json(file, dict[str, Any]) if exists(file) else {}
    values |= {name: value for name, value in changes.items() if value is not None}
    return converted(values, file, kind)


def with_trained_settings(options: Options) -> Options:
    """As `inherit`; logs a warning if a given length differs from the recorded one."""
    recorded = _recorded(options)
    for name in options.lengths:
        given, before = getattr(options, name), recorded.get(name)
        if None not in (given, before) and given != before:
            trained = f"the model in {options.output_dir} was trained with {before}"
            logger.warning("%s=%s: %s", name, given, trained)
    return inherit(options)


def inherit(options: Options) -> Options:
    """Return the options, with those not given as recorded in `output_dir`.

    Raises:
        InputError: If the record is damaged.
    """
    missing = {n: value for n, value in _recorded(options).items() if getattr(options, n) is None}
    return dataclasses.replace(options, **missing)


def _recorded(options: FineTuningOptions) -> dict[str, Any]:
    path = f"{options.output_dir}/{options.settings_file}"
    if not options.output_dir or not exists(path):
        return {}
    hints = typing.get_type_hints(type(options))
    kinds = {name: hints[name] | None for name in options.inherited}
    record: Any = typing.cast(Any, typing.TypedDict)("Record", kinds, total=False)
    values = converted(options.recorded(read_json(path, dict[str, Any])), path, record)
    return {name: value for name, value in values.items() if value is not None}
