"""Numbers, units and scripts, as templates and wikis write them."""

from __future__ import annotations

import re

from data_prep.corpora.templates.expansion import Arguments, Locale

_SUPERSCRIPTS = str.maketrans("0123456789+-−()n", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁻⁽⁾ⁿ")
_SUBSCRIPTS = str.maketrans("0123456789+-−()", "₀₁₂₃₄₅₆₇₈₉₊₋₋₍₎")
NUMBER = re.compile(r"[-+−]?[\d.,]+(?:[/⁄]\d+)?")
_PLAIN_NUMBER = re.compile(r"([-−]?)([0-9]{1,40})(?:\.([0-9]+))?")


def superscript(text: str) -> str:
    """`10<sup>6</sup>` -> "10⁶", if Unicode has the characters."""
    return text.translate(_SUPERSCRIPTS) if re.fullmatch(r"[\d+−()n-]+", text) else text


def subscript(text: str) -> str:
    """`H<sub>2</sub>O` -> "H₂O", if Unicode has the characters."""
    return text.translate(_SUBSCRIPTS) if re.fullmatch(r"[\d+−()-]+", text) else text


def number_text(text: str, locale: Locale) -> str:
    """12345.6 as the wiki writes it: "12,345.6"; other text is not changed."""
    found = _PLAIN_NUMBER.fullmatch(text)
    if not found:
        return text
    sign, whole, decimals = found.groups()
    if not whole.startswith("0"):
        groups = rf"\B(?=(?:\d{{{locale.group_digits}}})*\d{{3}}$)"
        whole = re.sub(groups, locale.group, whole)
    written = whole + (f"{locale.decimal}{decimals}" if decimals else "")
    return sign.replace("-", "−") + written.translate(locale.digits)


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
# What other wikis write for a code; the others are the symbols themselves.
_SYMBOLS = {code: name for code, name in _UNITS.items() if not name.isascii()} | {
    "kph": "km/h", "ft2": "ft²", "ft3": "ft³", "mi2": "mi²", "sqft": "ft²", "sqmi": "mi²",
}  # fmt: skip


def convert(arguments: Arguments, word: str) -> str:
    """{{convert|5|to|10|km|mi}} -> "5 to 10 km", {{convert|5|ft|3|in}} -> "5 feet 3 inches"."""
    text, *words = arguments.unnamed or [""]
    while len(words) > 1 and words[0] in _RANGES:
        text += _RANGES[words[0]] + words[1]
        words = words[2:]
    if not words:
        return text
    text += _with_unit(text, words[0], arguments)
    if len(words) > 2 and NUMBER.fullmatch(words[1]):
        text += f" {words[1]}" + _with_unit(words[1], words[2], arguments)
    return text


def _with_unit(number: str, code: str, arguments: Arguments) -> str:
    if not arguments.locale.unit_names:
        return f" {_SYMBOLS.get(code, code)}"
    unit = code if arguments["abbr"] in ("on", "in") else _UNITS.get(code, code)
    if unit.startswith("°"):
        return f" {unit}"
    singular = _SINGULAR.get(unit, unit.removesuffix("s") if len(unit) > 3 else unit)
    if arguments["adj"] in ("on", "mid") or arguments["adj"].startswith("pre"):
        return f"-{singular.replace(' ', '-')}" if singular.isascii() else f" {unit}"
    return f" {singular if number == '1' else unit}"


def fraction(arguments: Arguments, word: str) -> str:
    words = arguments.unnamed
    forms = {1: "1/{0}", 2: "{0}/{1}", 3: "{0} {1}/{2}"}
    return forms[len(words)].format(*words) if len(words) in forms else ""


def value(arguments: Arguments, word: str) -> str:
    """{{val|1.2|0.1|e=3|u=km}} -> "1.2 ± 0.1 × 10³ km"."""
    text = " ± ".join(arguments.unnamed[:2])
    if arguments["e"]:
        text += f" × 10{superscript(arguments['e'])}"
    unit = arguments["u"] or arguments["ul"] or arguments["up"]
    return f"{text} {unit}" if unit else text


def unit(arguments: Arguments, word: str) -> str:
    """{{unité|35|km|2}} -> "35 km²", {{unité|5|km||h|-1}} -> "5 km⋅h⁻¹"."""
    number, *words = arguments.unnamed or [""]
    text = number_text(number, arguments.locale)
    if arguments["e"]:
        text += f" × 10{superscript(arguments['e'])}"
    units: list[str] = []
    for word in filter(None, words):
        power = superscript(word)
        if units and power != word:
            units[-1] += power
        else:
            units.append(word)
    return f"{text} {'⋅'.join(units)}".strip()
