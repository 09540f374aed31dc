"""What rows of template tables compute: `TRANSFORMS` of an argument, and `FUNCTIONS` of all."""

from __future__ import annotations

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
from data_prep.corpora.templates.numbers import (
    convert,
    fraction,
    number_text,
    subscript,
    superscript,
    unit,
    value,
)

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
    """{{birth date|1809|2|12}} -> "February 12, 1809", as the wiki writes dates.

    Args:
        arguments: arguments 1, 2, 3; a date in words may be argument 1.
        order: their order, such as "ymd".
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
    mark = arguments[3]
    text = arguments[1]
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
