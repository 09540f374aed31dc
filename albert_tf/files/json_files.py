"""JSON from files and from outside, checked against the type that the reader names."""

import json
import math
import re
from typing import Annotated, Any, TypeVar

import msgspec

from albert_tf.errors import InputError
from albert_tf.files.reading import read_text

Value = TypeVar("Value")
Positive = Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1)]
Natural = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]


def to_json(value: Any, **options: Any) -> str:
    """Return `json.dumps(value, **options)`, but null for NaN and infinity, which JSON lacks."""
    try:
        return json.dumps(value, allow_nan=False, **options)
    except ValueError:
        return json.dumps(_finite(value), allow_nan=False, **options)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _finite(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def parse_json(text: str, source: str, kind: type[Value], allows_halves: bool = False) -> Value:
    """Parse JSON, in which numbers may also be `NaN` and `Infinity`.

    Args:
        source: The file, or the line as "file:line", for errors.
        kind: The type of the value, such as `dict[str, float]` or a dataclass, which need not
            declare all fields of an object.
        allows_halves: whether texts may contain half of a surrogate pair.

    Raises:
        InputError: If `text` is not JSON, is nested too deeply, contains half of a surrogate pair,
            or is not of type `kind`; the message names the field and its value.
    """
    try:
        value = json.loads(text)
        # Only escapes can express half of a surrogate pair.
        may_have_halves = "\\u" in text and not allows_halves
        escaped = json.dumps(value, ensure_ascii=False) if may_have_halves else ""
    except ValueError as error:
        raise InputError(f"{source}: not JSON ({error})") from None
    except RecursionError:
        raise InputError(f"{source}: not usable JSON (nested too deeply)") from None
    check_unicode(escaped, source)
    return converted(value, source, kind)


def check_unicode(text: str, source: str) -> None:
    """Raise InputError if a text, which `source` names, contains half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(error.object[error.start]):04x}"
        raise InputError(f"{source}: contains {half}, half of a surrogate pair") from None


def converted(value: Any, source: str, kind: type[Value]) -> Value:
    """Check what JSON contained against a type; arguments and errors as of `parse_json`."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        raise InputError(f"{source}: {_reason(str(error), value)}") from None
    except UnicodeEncodeError as error:  # msgspec names a text in place of another value
        text = ascii(error.object)[:100]
        raise InputError(f"{source}: contains the text {text} in place of another value") from None


def read_json(path: str, kind: type[Value]) -> Value:
    """Read a JSON file; type and errors as of `read_text` and `parse_json`."""
    return parse_json(read_text(path).removeprefix("\ufeff"), path, kind)


def _reason(message: str, value: Any) -> str:
    """Turn "Expected `int`, got `str` - at `$.step`" into "step="x": must be int, not str"."""
    message, _, location = message.partition(" - at ")
    location = location.strip("`").removeprefix("$").removeprefix(".")
    if missing := re.fullmatch("Object missing required field `(.*)`", message):
        lacks = f"lacks {missing[1]!r}"
        return f"{location}: {lacks}" if location else lacks
    message = message.replace("Expected", "must be").replace(", got", ", not").replace("`", "")
    message = message[0].lower() + message[1:]
    if not location:
        return message
    try:
        for name, number in re.findall(r"([^.\[\]]+)|\[(\d+|\.\.\.)\]", location):
            value = value[name or int(number)]
    except (ValueError, TypeError, LookupError):  # "[...]" stands for any key
        return f"{location}: {message}"
    return f"{location}={shown(value)}: {message}"


def shown(value: Any, characters: int = 60) -> str:
    """Return the beginning of a value as JSON, for errors."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= characters else f"{text[: characters - 3]}..."
