"""Regular expressions that choose variables by their paths."""

from __future__ import annotations

import re
from collections.abc import Sequence

from albert_tf.errors import InputError


def checked_patterns(argument: str, patterns: str | Sequence[str]) -> tuple[str, ...]:
    """Return one or several regular expressions as a tuple.

    Raises:
        InputError: If one is invalid; it names `argument`.
    """
    patterns = (patterns,) if isinstance(patterns, str) else tuple(patterns)
    for pattern in patterns:
        try:
            re.compile(pattern)
        except (re.error, TypeError) as error:
            raise InputError(
                f"`{argument}`={pattern}: must be regular expressions ({error})"
            ) from None
    return patterns


def matches(patterns: Sequence[str], path: str) -> bool:
    """Return whether any regular expression is found in `path`."""
    return any(re.search(pattern, path) for pattern in patterns)
