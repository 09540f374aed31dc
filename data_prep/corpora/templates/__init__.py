"""The text of Wikipedia templates inside a sentence: `{{convert|12|km}}` -> "12 km".

Most templates are boxes, citations and notices, and are removed. Others stand for words that the
sentence needs. Which ones, and what a reader of the page sees in their place, is data: one table
for each language next to this file, and `shared.txt` for what all wikis have in common. The rows
follow the documentation that templates have on their own pages (Template:Convert and so on), as far
as running text needs it; they were not compared with rendered pages. A table has a row for each
template, or for several with the same text:

    # a comment
    numbers = 1.234,5
    nombre|unité -> @unit
    s-|siècle -> {1}{2|"e"} siècle
    méta palette|coord ->

Names are compared without case; a * stands for any characters. A name that ends with a colon is a
parser function. A row without text is of a template that has none: it is not reported as unknown.
Expansions are described in `expansion`. Settings are the fields of `expansion.Locale`.
"""

import functools
import io
import pathlib
import re
from collections.abc import Callable, Iterator, Mapping

from mwparserfromhell.nodes import Template
from mwparserfromhell.wikicode import Wikicode

from albert_tf.errors import InputError
from data_prep.corpora.templates.expansion import GAP, Arguments, Expansion, Locale, parse_expansion
from data_prep.corpora.templates.functions import DATE_ORDERS, FUNCTIONS, TRANSFORMS

_FOLDER = pathlib.Path(__file__).parent
_SHARED = "shared"
# Wikis that use the templates of another one.
_SAME_AS = {"simple": "en"}
_SETTINGS = {"numbers", "months", "date", "first day", "unit names"}

_DATE_ROWS = [[order] for order in DATE_ORDERS]


class TemplateTable:
    """The templates of a wiki.

    Args:
        rows: expansions by name, None for templates without text; later ones take precedence.
        settings: values of the settings by name.
        namespace: name of the namespace of templates in lower case, such as "modèle".
    """

    def __init__(
        self, rows: Mapping[str, Expansion | None], settings: Mapping[str, str], namespace: str = ""
    ):
        self._exact = {name: row for name, row in rows.items() if "*" not in name}
        patterns = [(name, row) for name, row in rows.items() if "*" in name]
        self._patterns = [
            (re.compile(re.escape(name).replace(r"\*", ".*")), row)
            for name, row in reversed(patterns)
        ]
        self._locale = _locale(settings)
        self._prefixes = tuple({"template:", f"{namespace}:"} - {":"})
        self._row = functools.lru_cache(maxsize=10_000)(self._find)

    def _find(self, name: str) -> tuple[Expansion | None, str] | None:
        """Return the expansion of a template and a parser function's prefix; None if unknown."""
        name = _normalized(name)
        for prefix in self._prefixes:
            name = name.removeprefix(prefix).strip()
        if name in self._exact:
            return self._exact[name], ":" if name.endswith(":") else ""
        function, colon, _ = name.partition(":")
        if colon and f"{function.strip()}:" in self._exact:
            return self._exact[f"{function.strip()}:"], ":"
        for pattern, row in self._patterns:
            if pattern.fullmatch(name):
                return row, ""
        return None

    def is_known(self, name: str) -> bool:
        """Return whether there is a row for templates of a name."""
        return self._row(name) is not None

    def has_no_text(self, name: str) -> bool:
        """Return whether templates of a name are boxes, citations or notices, or unknown."""
        row = self._row(name)
        return row is None or row[0] is None

    def text(self, template: Template, plain: Callable[[Wikicode], str], title: str = "") -> str:
        """Return the text of a template in a sentence; `GAP` if it has none."""
        name = str(template.name)
        expansion, colon = self._row(name) or (None, "")
        if expansion is None:
            return GAP
        values: dict[str, Wikicode | str]
        if colon:
            values = {"1": plain(template.name).partition(":")[2]}
            for position, parameter in enumerate(template.params, 2):
                key = f"{plain(parameter.name)}=" if parameter.showkey else ""
                values[str(position)] = key + plain(parameter.value)
        else:
            values = {str(p.name).strip(): p.value for p in template.params}
        arguments = Arguments(name.replace("_", " "), values, plain, self._locale, title)
        return expansion(arguments) or GAP


def template_name(name: str) -> str:
    """Return a name for reports: `{{ Cite_web\\n` -> "cite web", `{{#if: x` -> "#if:"."""
    name = _normalized("".join(filter(str.isprintable, name.replace("\n", " "))))
    function, colon, _ = name.partition(":")
    return f"{function}:" if colon and name.startswith("#") else name[:_MAX_NAME]


_MAX_NAME = 60


def _normalized(name: str) -> str:
    return " ".join(name.replace("_", " ").split()).lower()


@functools.lru_cache
def template_table(language: str, own_rows: str = "", namespace: str = "") -> TemplateTable:
    """Return the table of a wiki: the shared rows, those of its language, and the user's.

    Args:
        language: code of the language; a variant such as "pt-br" has the rows of "pt".
        own_rows: a table of the user.
        namespace: name of the namespace of templates in lower case.
    """
    rows: dict[str, Expansion | None] = {}
    settings: dict[str, str] = {}
    for _, line in _lines((_FOLDER / "numbers.txt").read_text("utf-8")):
        written, _, languages = line.partition(" = ")
        if language.partition("-")[0] in languages.split():
            settings["numbers"] = written
    language = _SAME_AS.get(language, language).replace("_", "-").lower()
    for name in dict.fromkeys((_SHARED, language.partition("-")[0], language)):
        path = _FOLDER / f"{name}.txt"
        if path.is_file():
            _add(path.read_text("utf-8"), str(path), rows, settings)
    _add(own_rows, "templates", rows, settings)
    return TemplateTable(rows, settings, namespace)


def check_rows(text: str, path: str) -> None:
    """Raise InputError for a table of the user with an invalid line, or without any."""
    rows: dict[str, Expansion | None] = {}
    _add(text, path, rows, {})
    if not rows:
        raise InputError(f"`templates`={path}: has no rows such as: nombre|unité -> {{1}} {{2}}")


def _add(text: str, path: str, rows: dict[str, Expansion | None], settings: dict[str, str]) -> None:
    for number, line in _lines(text):
        names, arrow, expansion = line.partition("->")
        setting, equals, value = line.partition("=")
        try:
            if arrow:
                row = parse_expansion(expansion.strip(), FUNCTIONS, TRANSFORMS)
                if expansion.split()[:1] == ["@date"] and expansion.split()[1:] not in _DATE_ROWS:
                    raise ValueError(f"must be @date and one of {', '.join(DATE_ORDERS)}")
                for name in map(_normalized, names.split("|")):
                    if not name:
                        raise ValueError("a name is empty")
                    # A pattern takes precedence over those of earlier tables by its position.
                    rows.pop(name, None)
                    rows[name] = row
            elif equals and setting.strip() in _SETTINGS:
                settings[setting.strip()] = value.strip()
                _locale(settings)
            else:
                raise ValueError(
                    "must be NAME|NAME -> TEXT, a setting "
                    f"({', '.join(sorted(_SETTINGS))}) = VALUE, or a comment (# ...)"
                )
        except ValueError as error:
            raise InputError(f"`templates`={path}: line {number}, {line}: {error}") from None


def _lines(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(io.StringIO(text.removeprefix("\ufeff"), newline=None), 1):
        # The names of some parser functions begin with a #.
        if line.strip() and not line.startswith(("# ", "#\n")) and line.strip() != "#":
            yield number, line.strip()


def _locale(settings: Mapping[str, str]) -> Locale:
    numbers = re.fullmatch(r"(\d)(\d\D\d\d)?(\D?)\d{3}(\D)\d", settings.get("numbers", "1234.5"))
    digits = [int(digit) for digit in numbers[0] if digit.isdecimal()] if numbers else []
    if not numbers or digits != list(range(1, len(digits) + 1)):
        raise ValueError(
            "must be the number 1234.5 as the wiki writes it, such as 1,234.5, or 12,34,567.8"
        )
    first_digit, indian, group, decimal = numbers.groups()
    shift = ord(first_digit) - ord("1")
    months = tuple(settings.get("months", "").split())
    if len(months) not in (0, 12):
        raise ValueError(f"must be the names of 12 months, separated by spaces, not {len(months)}")
    date = parse_expansion(settings.get("date", "{year}-{month}[-{day}]"), {}, {})
    if date is None:
        raise ValueError("must be a date such as [{day} ]{month} {year}")
    return Locale(
        group, 2 if indian else 3, decimal,
        {ord(digit): ord(digit) + shift for digit in "0123456789"} if shift else {},
        months, date,
        settings.get("first day", "1"),
        settings.get("unit names") == "English",
    )  # fmt: skip
