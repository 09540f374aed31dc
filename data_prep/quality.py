"""Rules for the quality of web pages: those of Gopher, C4 and FineWeb, by language.

A line is a paragraph of the corpus. Words are those of `word_sequences`, so that the rules hold for
scripts without spaces, too.

Sources: Gopher, arXiv 2112.11446, table A1; C4, arXiv 1910.10683; FineWeb, arXiv 2406.17557.
"""

import math
import os
import re
import tomllib
from typing import Any, NamedTuple

import langcodes
import numpy as np
import regex

from albert_tf import files
from albert_tf.errors import InputError
from data_prep.word_sequences import Words, find_words

PACKAGED = "default"  # the name of the packaged rules
OFF = "off"
_FILE = os.path.join(os.path.dirname(__file__), "quality_rules.toml")
_SHORT_LINE_WORDS = 5
_NO_SHARES = ("words", "word_length")
_WORD_PARTS = 4

_ELLIPSIS = r"(?:…|\.\.\.)"
_SYMBOL = re.compile(rf"#|{_ELLIPSIS}")
_BULLET = regex.compile(r"[•‣▪▫◦●○■□▶►⁃∙·*+\-–—]\s")
_ELLIPSIS_END = re.compile(rf"{_ELLIPSIS}\W*$")
_WITH_LETTER = regex.compile(r"\S*?\p{L}\S*")
# Also the marks of Thai, Khmer, Tibetan, Greek and Chinese; brackets and quotation marks follow.
_END = regex.compile(r"[\p{Sentence_Terminal}…:;·;؛：；ฯ๏๚๛។៕៖་།༎༏༐༑][\p{P}\s]*$")


def read_quality(path: str, language: str) -> "Quality":
    """Read the limits for a language: those of a file where it has some, else the packaged ones.

    Args:
        path: a TOML file; or `PACKAGED`.
        language: a code from `languages.resolve_language`.

    Raises:
        InputError: If the file is missing or invalid, or turns all rules off.
    """
    limits: dict[str, Any] = {}
    for file in (_FILE, path)[: 1 + (path != PACKAGED)]:
        limits |= _limits(file, language, known=limits)
    kept = {rule: limit for rule, limit in limits.items() if limit != OFF}
    if not kept:
        raise InputError(f"`quality`={path}: turns all rules off")
    for rule, limit in kept.items():
        most = kept.get(rule.replace("min_", "max_"), limit)
        if limit > most:
            raise InputError(f"`quality`={path}: {rule}={limit}: is above the maximum, {most}")
    return Quality(kept)


def _limits(file: str, language: str, known: dict[str, Any]) -> dict[str, Any]:
    """Return what a file says about a language: of its sections, the most specific one."""
    if files.is_folder(file):
        raise InputError(f"`quality`={file}: is a folder; name a TOML file, or {PACKAGED}")
    try:
        tables = tomllib.loads(files.read_text(file))
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"`quality`={file}: not TOML ({error})") from None
    except InputError as error:
        raise InputError(f"`quality`={error}; name a TOML file, or {PACKAGED}") from None
    default = tables.pop("default", {})
    known = known or default
    languages, scripts = tables.pop("language", {}), tables.pop("script", {})
    others = tables.pop("other", {})
    if tables:
        raise InputError(
            f"`quality`={file}: [{next(iter(tables))}] is unknown; the sections are default, "
            "language, script and other"
        )
    for section in (default, others, *languages.values(), *scripts.values()):
        for rule, limit in section.items() if isinstance(section, dict) else [(section, 0)]:
            if rule not in known:
                raise InputError(
                    f"`quality`={file}: {rule!r} is no rule; the rules are {', '.join(known)}"
                )
            is_share = rule[4:] not in _NO_SHARES
            most = 1.0 if is_share else math.inf
            if limit != OFF and not (type(limit) in (int, float) and 0 <= limit <= most):
                raise InputError(
                    f"`quality`={file}: {rule}={limit!r}: must be "
                    f"a number{' of at most 1' * is_share}, or {OFF!r}"
                )
    for tag in (*languages, *(f"und-{script}" for script in scripts)):
        if not langcodes.tag_is_valid(tag):
            raise InputError(
                f"`quality`={file}: {tag.removeprefix('und-')} is no language or script"
            )
    code = re.split("[-_]", language)[0]
    script = str(langcodes.Language.get(language).maximize().script)
    return default | languages.get(code, scripts.get(script, others))


class Quality(NamedTuple):
    """The rules of a language.

    Attributes:
        limits: by rule, such as `max_bullets`.
    """

    limits: dict[str, float]

    def broken(self, paragraphs: list[str]) -> dict[str, float]:
        """Return the rules that a document breaks, and its value of each."""
        values = measure(paragraphs)
        return {
            rule: values[rule[4:]]
            for rule, limit in self.limits.items()
            if (values[rule[4:]] < limit if rule.startswith("min_") else values[rule[4:]] > limit)
        }


def measure(paragraphs: list[str]) -> dict[str, float]:
    """Return what rules limit, by the name of the rule without `min_` and `max_`.

    What a document has nothing of, such as the length of words in Chinese, is NaN, which no rule
    forbids.
    """
    words = find_words(paragraphs)
    lengths = words.spans[:, 1] - words.spans[:, 0]
    spaced = lengths[words.parts == _WORD_PARTS]
    in_lines = np.bincount(words.paragraphs, words.parts, len(paragraphs)) / _WORD_PARTS
    lines = [text.strip() for text in paragraphs if text.strip()]
    count, characters = len(lines) or 1, sum(map(len, lines)) or 1
    repeated = _repeated(lines)
    tokens = sum(len(line.split()) for line in lines) or 1
    total = float(words.parts.sum()) / _WORD_PARTS
    found = {
        "words": total,
        "word_length": float(spaced.mean()) if 2 * len(spaced) > total else np.nan,
        "symbols": sum(len(_SYMBOL.findall(line)) for line in lines) / max(total, 1),
        "bullets": sum(_BULLET.match(line) is not None for line in lines) / count,
        "ellipses": sum(_ELLIPSIS_END.search(line[-99:]) is not None for line in lines) / count,
        "letters": sum(len(_WITH_LETTER.findall(line)) for line in lines) / tokens,
        "punctuation": sum(_END.search(line[-99:]) is not None for line in lines) / count,
        "short_lines": float((in_lines < _SHORT_LINE_WORDS).mean()) if len(in_lines) else 0.0,
        "repeated_lines": len(repeated) / count,
        "repeated_line_characters": sum(map(len, repeated)) / characters,
    }
    share = 1.0
    for length in range(2, 11):
        kind = "top" if length < 5 else "repeated"
        if share:  # otherwise, no longer sequence is repeated
            share = _share(words, lengths, length, kind == "top")
        found[f"{kind}_{length}_words"] = share
    return found


def _repeated(lines: list[str]) -> list[str]:
    """Return the lines that are equal to an earlier one."""
    seen: set[str] = set()
    return [line for line in lines if line in seen or seen.add(line)]  # type: ignore[func-returns-value]


def _share(words: Words, lengths: np.ndarray, length: int, is_top: bool) -> float:
    """Return the share of the characters of all words in the most frequent sequence of some.

    Args:
        length: of the sequences, in words.
        is_top: otherwise, the share in those sequences that occurred before.
    """
    hashes, ends = words.sequences(length)
    if not len(hashes):
        return 0.0
    before = np.concatenate([[0], np.cumsum(lengths)])
    _, first, counts = np.unique(hashes, return_index=True, return_counts=True)
    if is_top:
        top = counts.max()
        most = first[counts == top]
        sizes = before[ends[most]] - before[most]
        return float(top * sizes.max() / before[-1]) if top > 1 else 0.0
    is_repeated = np.ones(len(hashes), np.bool_)
    is_repeated[first] = False
    edges = np.zeros(len(lengths) + 1, np.int64)
    np.add.at(edges, np.flatnonzero(is_repeated), 1)
    np.add.at(edges, ends[is_repeated], -1)
    return float(lengths[np.cumsum(edges)[:-1] > 0].sum() / before[-1])
