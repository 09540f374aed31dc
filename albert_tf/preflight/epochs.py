"""How long an epoch takes, by the manifests of the files to train on."""

import contextlib
import math
from collections.abc import Iterator
from typing import Any

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import is_remote
from albert_tf.input.features import most_examples
from albert_tf.input.manifest import (
    check_manifests,
    find_manifests,
    number_of_records,
    number_of_tokens,
    record_files,
)
from albert_tf.logs import counted
from albert_tf.preflight.bounds import StepTime
from albert_tf.preflight.options import PreflightOptions
from albert_tf.terminal import duration


def manifests(options: PreflightOptions) -> dict[str, dict[str, Any]]:
    """Return the manifests of the files to train on, by path, of those on this machine."""
    local = [pattern for pattern in options.input_file if not is_remote(pattern)]
    with contextlib.suppress(InputError):
        return find_manifests(record_files(local, "input_file"))
    return {}


def has_rows(by_path: dict[str, dict[str, Any]]) -> bool:
    return any(manifest["settings"].get("pack_rows") for manifest in by_path.values())


def epoch(options: PreflightOptions, fastest: StepTime) -> Iterator[str]:
    """Yield how long an epoch takes, and one of rows, if the files to train on are known."""

    def times(records: int) -> str:
        steps = records / options.train_batch_size
        return f"{steps:,.1f} steps, {' to '.join(duration(steps * s) for s in fastest.likely)}"

    by_path, length = manifests(options), options.max_seq_length
    found = by_path.values()
    if not (count := sum(map(number_of_records, found))):
        return
    config = AlbertConfig.from_json_file(options.albert_config_file)
    try:
        check_manifests(by_path, length, options.max_predictions_per_seq, config.vocab_size)
    except InputError as error:
        yield f"note: {error}"
    examples = counted(sum(each.get("examples", 0) for each in found), "example")
    if has_rows(by_path):
        yield f"an epoch of {counted(count, 'row')} ({examples}): {times(count)}"
        return
    yield f"an epoch of {examples}: {times(count)}"
    tokens = sum(map(number_of_tokens, found))
    rows = math.ceil(max(tokens / length, count / most_examples(length)))
    if rows < count:
        padding = f"{1 - tokens / (count * length):.1%} of it is padding"
        yield f"{padding}; with --pack_rows, at least {counted(rows, 'row')}: {times(rows)}"
