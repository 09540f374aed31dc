r"""The language of expansions: what a row of a template table puts in the place of a template.

{1}          argument 1, in a parser function what follows the colon; {0} is the name of the
             template as the page writes it
{text|1}     the first of several arguments that is not empty; {2|"e"} ends with a fixed text
{2*, }       the unnamed arguments from 2 on, separated by ", "; {*} all of them
{-1}         the last unnamed argument
{1:sup}      argument 1, changed by a function of the table `TRANSFORMS`
[ ({2})]     left out if an argument in the brackets is empty
\n \s \[     a line break, a space (at the ends of a row), the character itself
@convert     the result of a function of the table `FUNCTIONS`, which may take a word: @date dmy
?            a value that only the wiki can compute, such as a price in the money of today
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from mwparserfromhell.wikicode import Wikicode

# Replaces text that only the wiki can compute, such as a price in today's money.
UNKNOWN = "\x03"
# Replaces a template without text. The number of an unknown one follows, in digits that text cannot
# contain and that are not white space.
GAP = "\x06"
_GAP_DIGITS = {ord(digit): 0x0E + int(digit) for digit in "0123456789"}
_DIGITS = {number: digit for digit, number in _GAP_DIGITS.items()}
GAP_CHARACTERS = GAP + "".join(map(chr, _GAP_DIGITS.values()))
ANY_GAP = "\x06[\x0e-\x17]*"
_NUMBERED_GAP = re.compile("\x06([\x0e-\x17]+)")


def numbered_gap(number: int) -> str:
    """Replace an unknown template."""
    return GAP + str(number).translate(_GAP_DIGITS)


def gap_numbers(line: str) -> list[int]:
    """Return the numbers of the unknown templates of a line."""
    return [int(digits.translate(_DIGITS)) for digits in _NUMBERED_GAP.findall(line)]


Expansion = Callable[["Arguments"], str]


class Locale(NamedTuple):
    """How a wiki writes numbers and dates.

    Attributes:
        group: separates groups of three digits; "" where digits are not grouped or a space would
            make several words of a number.
        group_digits: digits of the groups above the last, 2 as in India or 3.
        digits: the digits, as a table of `str.translate`.
        months: the names of the months, in the form that dates have; () if unknown.
        date: writes a date, of the arguments `day`, `month` and `year`.
        unit_names: whether templates of units write the English names of units.
    """

    group: str
    group_digits: int
    decimal: str
    digits: Mapping[int, int]
    months: tuple[str, ...]
    date: Expansion
    first_day: str
    unit_names: bool


class Arguments:
    """The arguments of a template as plain text; missing ones are "".

    Args:
        name: name of the template, as the page writes it.
        values: the arguments, positional ones as "1", "2", ...
        plain: converts wiki text to plain text.
    """

    def __init__(
        self,
        name: str,
        values: Mapping[str, Wikicode | str],
        plain: Callable[[Wikicode], str],
        locale: Locale,
        title: str,
    ):
        self._values = {**values, "0": name}
        self._plain = plain
        self.locale, self.title = locale, title

    def __getitem__(self, name: int | str) -> str:
        value = self._values.get(str(name), "")
        return (value if isinstance(value, str) else self._plain(value)).strip()

    @property
    def unnamed(self) -> list[str]:
        """The positional arguments 1, 2, ..."""
        found: list[str] = []
        while str(len(found) + 1) in self._values:
            found.append(self[len(found) + 1])
        return found


Transform = Callable[[str, Locale], str]
Function = Callable[[Arguments, str], str]


class _Field(NamedTuple):
    """A field in braces; names are of arguments, literals in quotes, or lists such as "2*, "."""

    names: tuple[str, ...]
    transform: Transform | None

    def value(self, arguments: Arguments) -> str:
        return next(filter(None, (self._one(name, arguments) for name in self.names)), "")

    def _one(self, name: str, arguments: Arguments) -> str:
        if name.startswith('"'):
            return name[1:-1]
        first, star, separator = name.partition("*")
        if star:
            words = arguments.unnamed[int(first or 1) - 1 :]
            return separator.join(self._changed(word, arguments) for word in words if word)
        text = (arguments.unnamed or [""])[-1] if name == "-1" else arguments[name]
        return self._changed(text, arguments)

    def _changed(self, text: str, arguments: Arguments) -> str:
        return self.transform(text, arguments.locale) if self.transform and text else text


class _Format(list["str | _Field | _Format"]):
    """Text, fields and optional parts."""

    def __call__(self, arguments: Arguments) -> str:
        return self.written(arguments)[0]

    def written(self, arguments: Arguments) -> tuple[str, bool]:
        """Return the text, and whether no field of it is empty."""
        text, is_complete = "", True
        for part in self:
            if isinstance(part, str):
                text += part
            elif isinstance(part, _Field):
                value = part.value(arguments)
                is_complete &= bool(value)
                text += value
            else:
                inner, is_shown = part.written(arguments)
                text += inner if is_shown else ""
        return text, is_complete


_TOKEN = re.compile(r"\\(.)|\{([^{}]*)\}|([\[\]{}\\])|([^\\{}\[\]]+)", re.DOTALL)
_ESCAPES = {"n": "\n", "s": " "}
_NAME = re.compile(r'"[^"]*"|-1|\d*\*.*|[^"*]+')


def parse_expansion(
    text: str, functions: Mapping[str, Function], transforms: Mapping[str, Transform]
) -> Expansion | None:
    """Return the function that a row stands for; None for a template without text.

    Raises:
        ValueError: With what is wrong.
    """
    if not text:
        return None
    if text == "?":
        return lambda arguments: UNKNOWN
    if text.startswith("@"):
        name, _, word = text[1:].partition(" ")
        if name not in functions:
            raise ValueError(f"@{name}: must be one of @{', @'.join(sorted(functions))}")
        function = functions[name]
        return lambda arguments: function(arguments, word)
    open_formats = [_Format()]
    for found in _TOKEN.finditer(text):
        escaped, field, mark, plain = found.groups()
        if escaped is not None:
            open_formats[-1].append(_ESCAPES.get(escaped, escaped))
        elif field is not None:
            open_formats[-1].append(_field(field, transforms))
        elif mark == "[":
            open_formats.append(_Format())
        elif mark == "]" and len(open_formats) > 1:
            optional = open_formats.pop()
            open_formats[-1].append(optional)
        elif mark:
            raise ValueError(f"{mark} has no counterpart; write \\{mark} for the character")
        else:
            open_formats[-1].append(plain)
    if len(open_formats) > 1:
        raise ValueError("[ has no counterpart; write \\[ for the character")
    return open_formats[0]


def _field(text: str, transforms: Mapping[str, Transform]) -> _Field:
    names, colon, transform = text.rpartition(":")
    if not colon:
        names, transform = text, ""
    elif transform not in transforms:
        raise ValueError(f"{{{text}}}: after the colon must be one of {', '.join(transforms)}")
    found = tuple(names.split("|"))
    for name in found:
        if not _NAME.fullmatch(name):
            raise ValueError(f"{{{text}}}: {name!r} is not an argument, a list or a text in quotes")
    return _Field(found, transforms[transform] if transform else None)
