"""Checks Python values that stand for texts, labels and numbers; all errors name the argument."""

import math
import numbers
from collections.abc import Sequence
from typing import Any

from albert_tf.errors import InputError
from albert_tf.files import check_unicode, shown


def as_list(values: Any, argument: str) -> list[Any]:
    """Return the values of a list, tuple, array, pandas Series or anything with `tolist`.

    Raises:
        InputError: If it is something else, such as a dictionary or an iterator.
    """
    if hasattr(values, "tolist") and getattr(values, "ndim", 1) > 0:
        return values.tolist()
    if isinstance(values, list | tuple):
        return list(values)
    raise InputError(
        f"`{argument}`: must be a list, an array or a Series, not {type(values).__name__}"
    )


def as_texts(values: Any, argument: str) -> list[str]:
    """Return texts; a single one counts as a list of one.

    Raises:
        InputError: If one of them is not a text.
    """
    texts = [values] if isinstance(values, str) else as_list(values, argument)
    for number, text in enumerate(texts):
        check_text(text, f"`{argument}`[{number}]")
    return texts


def check_text(value: Any, place: str) -> None:
    """Raise InputError if a value at a place is not a text, or one that UTF-8 cannot express."""
    if not isinstance(value, str):
        raise InputError(f"{place}: must be a text, not {shown_value(value)}")
    check_unicode(value, place)


def check_same_length(first: Sequence, second: Sequence, argument: str, than: str) -> None:
    """Raise InputError if two arguments differ in length; `than` is the name of the first one."""
    if len(first) != len(second):
        raise InputError(
            f"`{argument}`: has {len(second):,} items, but `{than}` has {len(first):,}"
        )


def check_any(examples: Sequence) -> None:
    """Raise InputError if there is no example to evaluate on."""
    if not examples:
        raise InputError("there is no example to evaluate on")


def check_whole_number(name: str, value: Any, minimum: int | None = None) -> None:
    """Raise InputError if an argument is no whole number or is below the minimum."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputError(f"`{name}`={value!r}: must be a whole number")
    if minimum is not None and value < minimum:
        raise InputError(f"`{name}`={value}: must be at least {minimum}")


def check_number(name: str, value: Any) -> None:
    """Raise InputError if an argument is no finite number."""
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    if not (is_number and math.isfinite(value)):
        raise InputError(f"`{name}`={value!r}: must be a number")


def shown_value(value: Any) -> str:
    """Return a value and its type, short enough for an error of one line."""
    try:
        return f"{shown(value)} ({type(value).__name__})"
    except TypeError:  # not JSON
        return type(value).__name__


def as_texts_or_pairs(values: Any, argument: str) -> list[tuple[str, str | None]]:
    """Return texts, each with None, or pairs of texts, which are tuples or lists of two.

    Raises:
        InputError: If an item is neither, or of another kind than the first.
    """
    items: list[Any] = [values] if isinstance(values, str) else as_list(values, argument)
    if items and isinstance(items[0], str):
        return [(text, None) for text in as_texts(items, argument)]
    for number, item in enumerate(items):
        place = f"`{argument}`[{number}]"
        if not isinstance(item, tuple | list) or len(item) != 2:
            raise InputError(f"{place}: must be a text or a pair of texts, not {shown_value(item)}")
        for text in item:
            check_text(text, place)
    return [(first, second) for first, second in items]
