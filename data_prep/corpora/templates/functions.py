"""What rows of template tables compute: `TRANSFORMS` of an argument, and `FUNCTIONS` of all."""

import re
from collections.abc import Mapping

from data_prep.corpora.templates.expansion import (
    GAP,
    UNKNOWN,
    Arguments,
    Function,
    Locale,
    Transform,
)

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


# Units that follow the number without a space.
_CLOSE_UNITS = {"%": "%", "°": "°", "deg": "°"}
_EXPONENT = re.compile(r"(.*\d)[eE]([+−-]?\d+)")


def value(arguments: Arguments, word: str) -> str:
    """{{val|1.2|0.1|e=3|u=m|up=s}} -> "(1.2 ± 0.1) × 10³ m/s", {{val|5|to|10}} -> "5 to 10"."""
    number, *words = arguments.unnamed or [""]
    scientific = _EXPONENT.fullmatch(number)
    number, exponent = scientific.groups() if scientific else (number, arguments["e"])
    words = [word for word in words if word]
    text = _value_number(number, arguments)
    needs_brackets = False
    if words and words[0] in _RANGES:
        text += "".join(_RANGES.get(word) or _value_number(word, arguments) for word in words)
        needs_brackets = True
    elif words and words[0].startswith("("):  # uncertainty of the last digits
        text += words[0]
    elif words:
        errors = [_value_number(word.lstrip("+-−"), arguments) for word in words[:2]]
        needs_brackets = len(errors) == 1
        text += f" ± {errors[0]}" if needs_brackets else f" +{errors[0]} −{errors[1]}"
    if exponent:
        text = f"({text})" if needs_brackets else text
        text = f"{text} × 10".removeprefix(" × ") + superscript(exponent)
    unit, per = arguments["u"] or arguments["ul"], arguments["up"] or arguments["upl"]
    space = "" if unit in _CLOSE_UNITS or not (text and unit) else " "
    unit = _CLOSE_UNITS.get(unit, unit) + (f"/{per}" if per else "")
    return f"{arguments['p']}{text}{space}{unit}{arguments['s']}"


def _value_number(text: str, arguments: Arguments) -> str:
    if arguments["fmt"] == "commas":
        return number_text(text.replace(",", ""), arguments.locale)
    return re.sub("^-", "−", text)


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


_MUSIC = {"flat": "♭", "sharp": "♯", "natural": "♮"}
_ARROWS = re.compile(r"<-+>|<=+>|<->|-+>")


def chemical_formula(text: str) -> str:
    r"""Return a formula of `<chem>` or {{chem2}} as text: "2 H2 + O2 -> 2 H2O" with "→"."""
    text = _ARROWS.sub(lambda found: "→" if found[0][0] == "-" else "⇌", text)
    text = re.sub(r"\^\{?([\d+-]+)\}?", lambda found: superscript(found[1]), text)
    return " ".join(re.sub(r"[_{}$]|\\\w+", "", text).split())


def _month(text: str, locale: Locale) -> str:
    is_number = text.isdecimal() and 1 <= int(text) <= 12 and locale.months
    return locale.months[int(text) - 1] if is_number else text


TRANSFORMS: Mapping[str, Transform] = {
    "sup": lambda text, locale: superscript(text),
    "sub": lambda text, locale: subscript(text),
    "chem": lambda text, locale: chemical_formula(text),
    "lower": lambda text, locale: text.lower(),
    "upper": lambda text, locale: text.upper(),
    "lower_first": lambda text, locale: text[0].lower() + text[1:],
    "upper_first": lambda text, locale: text[0].upper() + text[1:],
    "number": number_text,
    "month": _month,
}


def _as_of(arguments: Arguments, word: str) -> str:
    """{{as of|2015|3|lc=y}} -> "as of March 2015"."""
    year, month, day = arguments[1], _month(arguments[2], arguments.locale), arguments[3]
    date = " ".join(part for part in (day, month, year) if part)
    word = "Since" if arguments["since"] else "As of"
    text = arguments["alt"] or f"{word} {date}"
    return text[0].lower() + text[1:] if arguments["lc"] and not arguments["alt"] else text


def _date(arguments: Arguments, order: str) -> str:
    """{{birth date|1809|2|12}}, in an order such as "ymd" -> "February 12, 1809".

    A date in words may be argument 1.
    """
    first = arguments[1]
    if len(first) > 4:
        has_digits = any(map(str.isdecimal, first))
        return first if has_digits else " ".join(arguments.unnamed[:4])  # a day of the week
    locale = arguments.locale
    parts = {part: arguments[position] for position, part in enumerate(order, 1)}
    day, month = parts["d"].removeprefix("0"), parts["m"].removeprefix("0")
    if not month:
        return parts["y"] or first
    values = {
        "day": locale.first_day if day == "1" else day,
        "month": _month(month, locale),
        "year": parts["y"],
    }
    if arguments["df"]:
        return " ".join(filter(None, values.values()))
    return locale.date(Arguments("", values, str, locale, "")).translate(locale.digits).strip()


def _ship(arguments: Arguments, word: str) -> str:
    """{{USS|Hornet|CV-12}} -> "USS Hornet (CV-12)"; a third argument omits parts."""
    name, number, form = arguments[1], arguments[2], arguments[3]
    text = name if form == "2" else f"{arguments[0].upper()} {name}"
    return f"{text} ({number})" if number and not form else text


def _format_number(arguments: Arguments, word: str) -> str:
    """{{formatnum:1234}} -> "1,234", as the wiki writes numbers; {{formatnum:1,234|R}} -> 1234."""
    text, modifier, locale = arguments[1], arguments[2].upper(), arguments.locale
    if UNKNOWN in text or GAP in text:
        return UNKNOWN
    if modifier == "R":
        text = "".join(text.split()).replace(locale.group or " ", "").replace(locale.decimal, ".")
        return text.translate({digit: plain for plain, digit in locale.digits.items()})
    if modifier == "NOSEP":
        return text.translate(locale.digits)
    return re.sub(r"\S+", lambda word: number_text(word[0], locale), text)


def _french_centuries(arguments: Arguments, era: str) -> str:
    """{{s|V}} -> "Ve siècle", {{sp-|I|er|et|V|e|s}} -> "Ier et Ve siècles"."""
    words = arguments.unnamed or [""]
    text = ""
    while words:
        number, *words = words
        mark = words.pop(0) if words and words[0] in _FRENCH_MARKS else ""
        text += number + (mark or ("er" if number in ("I", "i") else "e"))
        if not words or words[0] in ("", "s"):
            break
        if len(words) > 1 and words[1] in _FRENCH_MARKS:  # {{s2|III|e|IX|e}}
            text, words = f"{text} et ", [*words, "s"]
        else:
            text += f" {words.pop(0)} "
    plural = "s" if words[:1] == ["s"] else ""
    return f"{text} siècle{plural}" + (f" {era}" if era else "")


_FRENCH_MARKS = ("", "e", "er", "è", "ème", "re", "ère")


def _old_style(arguments: Arguments, word: str) -> str:
    """{{OldStyleDate|8|июля|1831|26|июня}} -> "26 июня (8 июля) 1831", on the Russian Wikipedia."""
    values = (arguments[position] for position in range(1, 7))
    day, month, year, old_day, old_month, old_year = ("" if v == "nil" else v for v in values)
    if not old_day:
        parts = [day, month, year]
    elif not old_month:
        parts = [old_day, f"({day})", month, year]
    else:
        parts = [old_day, old_month, old_year, f"({f'{day} {month}'.strip()})", year]
    return " ".join(filter(None, parts))


def _century(arguments: Arguments, word: str) -> str:
    """{{siglo|V|a|s}} -> "siglo V a. C."; without the last argument only the number is written."""
    text, mark = arguments[1], arguments[3]
    if mark:
        text = f"{word if mark.islower() else word.capitalize()} {text}"
    return f"{text} {arguments[2]}. C." if arguments[2] else text


def _plural(arguments: Arguments, word: str) -> str:
    """{{PLURAL:2|page|pages}} -> "pages"."""
    words = arguments.unnamed[1:] or [""]
    return words[0] if arguments[1] == "1" else words[-1]


def _biography(arguments: Arguments, word: str) -> str:
    """Return the first sentence of Italian biographies, which {{Bio}} writes from its arguments."""
    parts = [arguments[name] for name in ("Titolo", "Nome", "Cognome")]
    text = " ".join(filter(None, parts)) + arguments["PostCognome"]
    dates = []
    for event in ("Nascita", "Morte"):
        day = f"{arguments[f'GiornoMese{event}']} {arguments[f'Anno{event}']}".strip()
        dates.append(", ".join(filter(None, (arguments[f"Luogo{event}"], day))))
    if any(dates):
        text += f" ({' – '.join(filter(None, dates))})"
    if arguments["FineIncipit"]:
        return f"{text} {arguments['FineIncipit']}"
    works = [arguments[name] for name in ("Attività", "Attività2", "Attività3")]
    works = [work for work in works if work]
    if not works:
        return text
    is_woman = arguments["Sesso"].upper() == "F"
    if re.match(r"(?i)[aeiouàèéìòù]", works[0]):
        article = "un'" if is_woman else "un "
    elif re.match(r"(?i)(?:s[^aeiouh]|z|ps|gn|x|y)", works[0]):
        article = "una " if is_woman else "uno "
    else:
        article = "una " if is_woman else "un "
    verb = "è" if not dates[1] else "è stata" if is_woman else "è stato"
    listed = " e ".join(filter(None, (", ".join(works[:-1]), works[-1])))
    origin = f" {arguments['Nazionalità']}" if arguments["Nazionalità"] else ""
    return f"{text} {verb} {article}{listed}{origin}{arguments['PostNazionalità']}."


DATE_ORDERS = ("dmy", "mdy", "ymd")

FUNCTIONS: Mapping[str, Function] = {
    "as_of": _as_of,
    "biography": _biography,
    "century": _century,
    "convert": convert,
    "date": _date,
    "format_number": _format_number,
    "fraction": fraction,
    "french_centuries": _french_centuries,
    "if": lambda arguments, word: arguments[2 if arguments[1] else 3],
    "music": lambda arguments, word: _MUSIC.get(arguments[1], ""),
    "old_style": _old_style,
    "page_name": lambda arguments, word: arguments.title,
    "plural": _plural,
    "ship": _ship,
    "unit": unit,
    "value": value,
}
