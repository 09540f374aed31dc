"""The text of Wikipedia templates inside a sentence: `{{convert|12|km}}` -> "12 km".

Most templates are boxes, citations and notices, and are removed. Those in the table below stand for
words that the sentence needs. Their output is documented on their own pages (Template:Convert and
so on); it is reproduced here as far as running text needs it.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from mwparserfromhell.nodes import Template
from mwparserfromhell.wikicode import Wikicode

_SUPERSCRIPTS = str.maketrans("0123456789+-−()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁽⁾ⁿ")
_SUBSCRIPTS = str.maketrans("0123456789+-−()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₍₎")
_NUMBER = re.compile(r"[-+−]?[\d.,]+(?:[/⁄]\d+)?")

# Replaces text that only the wiki can compute, such as a price in today's money.
UNKNOWN = "\x03"
# Replaces a template without text.
GAP = "\x06"


class Arguments:
    """The arguments of a template as plain text; missing ones are "".

    Args:
        template: the template.
        plain: converts wiki text to plain text.
    """

    def __init__(self, template: Template, plain: Callable[[Wikicode], str]):
        self._values = {str(p.name).strip(): p.value for p in template.params}
        self._plain = plain

    def __getitem__(self, name: int | str) -> str:
        value = self._values.get(str(name))
        return "" if value is None else self._plain(value).strip()

    @property
    def unnamed(self) -> list[str]:
        """The positional arguments 1, 2, ..."""
        found: list[str] = []
        while str(len(found) + 1) in self._values:
            found.append(self[len(found) + 1])
        return found


def superscript(text: str) -> str:
    """`10<sup>6</sup>` -> "10⁶", if Unicode has the characters."""
    return text.translate(_SUPERSCRIPTS) if re.fullmatch(r"[\d+−()n-]+", text) else text


def subscript(text: str) -> str:
    """`H<sub>2</sub>O` -> "H₂O", if Unicode has the characters."""
    return text.translate(_SUBSCRIPTS) if re.fullmatch(r"[\d+−()-]+", text) else text


def _last(arguments: Arguments) -> str:
    return (arguments.unnamed or [""])[-1]


def _block(arguments: Arguments) -> str:
    """A quotation, as a paragraph of its own."""
    return f"\n{arguments['text'] or arguments['quote'] or arguments[1]}\n"


# Names of units whose code differs from them; compounds take the singular.
_UNITS = {
    "acre": "acres", "bbl": "barrels", "C": "°C", "F": "°F", "ft": "feet", "ft2": "square feet",
    "ft3": "cubic feet", "ha": "hectares", "in": "inches", "impgal": "imperial gallons",
    "km2": "km²", "kn": "knots", "kph": "km/h", "lb": "pounds", "L": "litres", "LT": "long tons",
    "m2": "m²", "m3": "m³", "m/s2": "m/s²", "mi": "miles", "mi2": "square miles",
    "nmi": "nautical miles", "oz": "ounces", "sqft": "square feet", "sqkm": "km²",
    "sqm": "m²", "sqmi": "square miles", "ST": "short tons", "st": "stone", "t": "tonnes",
    "USgal": "US gallons", "yd": "yards", "°C": "°C", "°F": "°F",
}  # fmt: skip
_SINGULAR = {"feet": "foot", "inches": "inch", "square feet": "square foot", "stone": "stone"}
_RANGES = {
    "-": "–", "–": "–", "to": " to ", "and": " and ", "or": " or ", "x": " × ", "by": " by ",
    "×": " × ", "to(-)": " to ", "+/-": " ± ", "±": " ± ", "and(-)": " and ",
}  # fmt: skip


def _convert(arguments: Arguments) -> str:
    """{{convert|5|to|10|km|mi}} -> "5 to 10 km", {{convert|5|ft|3|in}} -> "5 feet 3 inches"."""
    words = arguments.unnamed
    text = words[0] if words else ""
    words = words[1:]
    while len(words) > 1 and words[0] in _RANGES:
        text += _RANGES[words[0]] + words[1]
        words = words[2:]
    if not words:
        return text
    text += _with_unit(text, words[0], arguments)
    if len(words) > 2 and _NUMBER.fullmatch(words[1]):
        text += f" {words[1]}" + _with_unit(words[1], words[2], arguments)
    return text


def _with_unit(number: str, code: str, arguments: Arguments) -> str:
    unit = code if arguments["abbr"] in ("on", "in") else _UNITS.get(code, code)
    if unit.startswith("°"):
        return f" {unit}"
    singular = _SINGULAR.get(unit, unit.removesuffix("s") if len(unit) > 3 else unit)
    if arguments["adj"] in ("on", "mid") or arguments["adj"].startswith("pre"):
        return f"-{singular.replace(' ', '-')}" if singular.isascii() else f" {unit}"
    return f" {singular if number == '1' else unit}"


_MONTHS = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September",
    "October", "November", "December",
)  # fmt: skip


def _as_of(arguments: Arguments) -> str:
    """{{as of|2015|3|lc=y}} -> "as of March 2015"."""
    year, month, day = arguments[1], arguments[2], arguments[3]
    if month.isdecimal() and 1 <= int(month) <= 12:
        month = _MONTHS[int(month) - 1]
    date = " ".join(part for part in (day, month, year) if part)
    word = "Since" if arguments["since"] else "As of"
    text = arguments["alt"] or f"{word} {date}"
    return text[0].lower() + text[1:] if arguments["lc"] and not arguments["alt"] else text


def _date(arguments: Arguments) -> str:
    """{{birth date|1809|2|12}} -> "February 12, 1809", or "12 February 1809" with df=y."""
    year, month, day = arguments[1], arguments[2], arguments[3]
    if not (month.isdecimal() and 1 <= int(month) <= 12):
        return year
    name = _MONTHS[int(month) - 1]
    if not day:
        return f"{name} {year}"
    return f"{day} {name} {year}" if arguments["df"] else f"{name} {day}, {year}"


def _fraction(arguments: Arguments) -> str:
    words = arguments.unnamed
    forms = {1: "1/{0}", 2: "{0}/{1}", 3: "{0} {1}/{2}"}
    return forms[len(words)].format(*words) if len(words) in forms else ""


def _value(arguments: Arguments) -> str:
    """{{val|1.2|0.1|e=3|u=km}} -> "1.2 ± 0.1 × 10³ km"."""
    text = " ± ".join(arguments.unnamed[:2])
    if arguments["e"]:
        text += f" × 10{superscript(arguments['e'])}"
    unit = arguments["u"] or arguments["ul"] or arguments["up"]
    return f"{text} {unit}" if unit else text


def _dated(mark: str) -> Callable[[Arguments], str]:
    """{{circa|1900|1910}} -> "c. 1900 – c. 1910"."""
    return lambda arguments: " – ".join(f"{mark} {year}" for year in arguments.unnamed) or mark


def _ship(arguments: Arguments, prefix: str = "") -> str:
    """{{USS|Hornet|CV-12}} -> "USS Hornet (CV-12)"; a third argument omits parts."""
    name, number, form = arguments[1], arguments[2], arguments[3]
    text = name if form == "2" else f"{prefix} {name}".strip()
    return f"{text} ({number})" if number and not form else text


def _money(sign: str) -> Callable[[Arguments], str]:
    return lambda arguments: sign + arguments[1]


def _fixed(text: str) -> Callable[[Arguments], str]:
    return lambda arguments: text


def _nth(number: int) -> Callable[[Arguments], str]:
    return lambda arguments: arguments[number]


def _joined(by: str) -> Callable[[Arguments], str]:
    return lambda arguments: by.join(word for word in arguments.unnamed if word)


_ROWS: list[tuple[str, Callable[[Arguments], str]]] = [
    ("nowrap|nobr|nowr|nobold|noitalic|noitalics|small|smaller|big|bigger|larger", _nth(1)),
    ("em|strong|underline|overline|var|mvar|math|mono|code|kbd|samp|unicode|nastaliq", _nth(1)),
    ("smallcaps|sc|sc1|sc2|allcaps|abbr|tooltip|hover title|sic|not a typo|linktext", _nth(1)),
    ("vanchor|visible anchor|ill|interlanguage link|illm|interlanguage link multi|lien", _nth(1)),
    ("flag|flagcountry|flagu|nts|number|nombre|nb|nihongo2|citation|tq|gloss|esd|wikt", _nth(1)),
    ("railgauge|track gauge|chem2|ce|proper name", _nth(1)),
    ("lang|langx|rtl-lang|script|wikt-lang|color|font color|resize|colored link|pspan", _nth(2)),
    ("transl|transliteration|sort|hs", _last),
    ("nihongo|nihongo krt", lambda a: a[1] or a[3] or a[2]),
    ("nihongo3|nihongo foot", lambda a: a[1] or a[3]),
    ("angbr|angle bracket", lambda a: f"⟨{a[1]}⟩"),
    ("quote|blockquote|bquote|quotation|cquote|poemquote|zitat|cita|citat", _block),
    ("convert|cvt", _convert),
    ("as of", _as_of),
    ("birth date|death date|birth date and age|death date and age|start date|end date", _date),
    ("oldstyledate", lambda a: f"{a[1]} [O.S. {a[3]}] {a[2]}" if a[3] else f"{a[1]} {a[2]}"),
    ("frac|fraction|sfrac|bruch", _fraction),
    ("val", _value),
    ("circa|c.|ca.", _dated("c.")),
    ("floruit|fl.", _dated("fl.")),
    ("reign|r.", lambda a: "r. " + "–".join(a.unnamed)),
    ("chem|chem/link", lambda a: "".join(map(subscript, a.unnamed))),
    ("gaps|ditto", _joined("")),
    ("sortname|date|date-|keypress|unité|unidad|unit", _joined(" ")),
    ("sup|exp", lambda a: superscript(a[1])),
    ("sub|ind", lambda a: subscript(a[1])),
    ("e", lambda a: f" × 10{superscript(a[1])}"),
    ("pow", lambda a: a[1] + superscript(a[2])),
    ("10^", lambda a: f"10{superscript(a[1])}"),
    ("music", lambda a: {"flat": "♭", "sharp": "♯", "natural": "♮"}.get(a[1], "")),
    ("ship", lambda a: " ".join(filter(None, (a[1], a[2])))),
    ("us$|usd", _money("US$")),
    ("£|gbp", _money("£")),
    ("€|eur|euro", _money("€")),
    ("¥|jpy|cny", _money("¥")),
    ("₹|inr|indian rupee", _money("₹")),
    ("a$|aud", _money("A$")),
    ("c$|cad", _money("C$")),
    ("s|s-|siècle", lambda a: f"{a[1]}{a[2] or 'e'} siècle"),
    ("siglo", lambda a: f"siglo {a[1]}"),
    ("ndash|en dash", _fixed("–")),
    ("mdash|em dash", _fixed("—")),
    ("snd|spnd|spaced ndash|spaced en dash|dash", _fixed(" – ")),
    ("mdashb|spaced mdash|spaced em dash", _fixed(" — ")),
    ("nbsp|spaces|space|thinsp|thin space|hair space|hairsp", _fixed(" ")),
    ("·|dot|middot", _fixed(" · ")),
    ("•|bullet", _fixed(" • ")),
    ("'|apostrophe", _fixed("'")),
    ("'s", _fixed("'s")),
    ('" \'', _fixed("\"'")),
    ("' \"", _fixed("'\"")),
    ("=", _fixed("=")),
    ("inflation|age|currentyear|currentmonthname|currentday|format price", _fixed(UNKNOWN)),
    ("eqm", _fixed(" ⇌ ")),
    ("pi", _fixed("π")),
    ("times", _fixed("×")),
    ("minus", _fixed("−")),
    ("okina|hamza", _fixed("ʻ")),
    ("n°", _fixed("n° ")),
    ("1er", _fixed("1er")),
]  # fmt: skip

_HANDLERS = {name: handler for names, handler in _ROWS for name in names.split("|")}
_SHIPS = {"hmas", "hmcs", "hms", "mv", "rms", "sms", "ss", "uscgc", "uss"}


def has_no_text(name: str) -> bool:
    """Whether templates of a name are boxes, citations or notices, whatever their arguments."""
    name = _normalized(name)
    return not (name in _HANDLERS or name in _SHIPS or name.startswith(("lang-", "formatnum:")))


def _normalized(name: str) -> str:
    return name.strip().replace("_", " ").lower()


def template_text(template: Template, plain: Callable[[Wikicode], str]) -> str:
    """The text of a template in a sentence; `GAP` if it has none or is unknown.

    Args:
        template: the template.
        plain: converts the wiki text of an argument to plain text.
    """
    name = _normalized(str(template.name))
    arguments = Arguments(template, plain)
    if handler := _HANDLERS.get(name):
        return handler(arguments)
    if name in _SHIPS:
        return _ship(arguments, name.upper())
    if name.startswith("lang-"):
        return arguments[1]
    if name.startswith("formatnum:"):
        number = plain(template.name).partition(":")[2].strip()
        return number if _NUMBER.fullmatch(number) else UNKNOWN
    return GAP
