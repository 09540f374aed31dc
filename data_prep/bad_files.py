"""Input files that cannot be read: found before the work begins, so that nothing is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable

from albert_tf.errors import InputError

SKIP_BAD_FILES_HELP = (
    "Leave out, and count, input files that are damaged, not UTF-8 or of the wrong kind, instead "
    "of refusing them before the work begins."
)

logger = logging.getLogger(__name__)


def readable(
    paths: Iterable[str],
    check: Callable[[str], object],
    skip_bad_files: bool,
    bad_files: list[str],
) -> list[str]:
    """Return the files that can be read; add the others to `bad_files`, with a warning.

    Raises:
        InputError: If there are others, unless they are to be skipped.
    """
    good = []
    for path in paths:
        try:
            check(path)
            good.append(path)
        except InputError as bad:
            if not skip_bad_files:
                raise
            bad_files.append(path)
            logger.warning("left out: %s", bad)
    return good
