"""What a folder with a trained model records about its options; loads no framework."""

from __future__ import annotations

import logging
import typing
from dataclasses import asdict, field, make_dataclass, replace
from typing import Any

from albert_tf.files import converted, exists, read_json
from albert_tf.finetuning.finetuning_options import FineTuningOptions, Options

logger = logging.getLogger(__name__)

# What changes the ids that a model reads.
_LENGTHS = ("max_seq_length", "max_query_length", "doc_stride", "max_qa_length")


def with_trained_settings(options: Options) -> Options:
    """As `inherit`; logs a warning if a given length differs from the recorded one."""
    recorded = _recorded(options)
    for name in _LENGTHS:
        given, before = getattr(options, name, None), recorded.get(name)
        if None not in (given, before) and given != before:
            trained = f"the model in {options.output_dir} was trained with {before}"
            logger.warning("%s=%s: %s", name, given, trained)
    return inherit(options)


def inherit(options: Options) -> Options:
    """The options, with those that were not given as recorded next to the model in `output_dir`.

    Raises:
        InputError: the record is damaged.
    """
    missing = {n: value for n, value in _recorded(options).items() if getattr(options, n) is None}
    return replace(options, **missing)


def _recorded(options: FineTuningOptions) -> dict[str, Any]:
    path = f"{options.output_dir}/{options.settings_file}"
    if not options.output_dir or not exists(path):
        return {}
    hints = typing.get_type_hints(type(options))
    fields = [(name, hints[name] | None, field(default=None)) for name in options.inherited]
    record: Any = converted(
        options.recorded(read_json(path, dict[str, Any])), path, make_dataclass("Record", fields)
    )
    return {name: value for name, value in asdict(record).items() if value is not None}
