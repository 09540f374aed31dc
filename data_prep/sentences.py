"""Splits paragraphs into sentences with `sentencex`, Wikimedia's splitter for 240 languages.

Faults of its rules are corrected afterwards: they miss some ends (Khmer, Tibetan, the Greek
question mark, those inside of brackets), take some commas as ends (Burmese, Javanese), split
quotations from "she said", and outside of English they lack many abbreviations and take ordinary
words for some. sentence_words.txt has the words by language.
"""

import collections
import configparser
import functools
import os
import re
from collections.abc import Sequence

import regex
import sentencex

from data_prep.languages import resolve_language

# Ends that `sentencex` does not know: the Greek question mark, two Ethiopic word spaces or colons,
# the Khmer full stops except before "etc.", and the Tibetan ones except after "and", "or" and the
# like. Closing quotes and brackets belong to the end.
_MARKS = (
    "『",
    "）",
    "\u037e",
    "\u1361\u1361",
    "::",
    "\u17d4",
    "\u17d5",
    "\u0f0d",
    "\u0f0e",
    "\u0f11",
)
_TIBETAN_AND = "(?:དང|སྟེ|ཏེ|ནི|[ཅཞཤ]ིང|འམ|[་༌][གངདནབམརལསཏ]མ)[་༌]?"
_ENDS = regex.compile(
    r"(?:[\u037e\u17d5\u0f0e\u0f11]|\u1361\u1361|(?<=\p{Ethiopic})::|\u17d4(?!\u179b\u17d4)"
    rf"|(?<!{_TIBETAN_AND})\u0f0d(?:\s*[\u0f0d\u0f0e])*)+"
    r"[\p{Pe}\p{Pf}\p{Pi}\"']*[\s\u200b]*"
)
# What `sentencex` takes for ends: the commas of Burmese, Javanese, Balinese and Philippine scripts,
# the Burmese genitive, and the Armenian exclamation mark, which stands inside of a word.
_NO_ENDS = frozenset("\u104a\ua9c8\u1b5e\u1735\u104f\u055c")

# A sentence that is nothing but the number of a list, or a short word, which is an abbreviation
# more often than not.
_NUMBER = regex.compile(r"\W*(?:\p{Nd}{1,3}|[IVXLC]{1,5}|[ivxlc]{1,5}|\p{L})(?:\.\p{Nd}+)*\W*")
_SHORT = regex.compile(r"\W*(?:(?:[\p{L}\p{Nd}]\p{M}*+){1,4}\.)+")
_LONGEST_SHORT = 24
_LONGEST_WORD = 6
_PLAIN_ENDS = frozenset('!?"”’»)')
# What is an abbreviation before a number, in any language: "p", "vol", "M.Ö".
_BEFORE_NUMBER = regex.compile(r"(?:.*['’])?(?:(?:\p{L}\p{M}*+){1,3}\.?)+")
# An abbreviation with periods inside, before a script without capitals.
_DOTTED = regex.compile(r"(?:\p{L}\p{M}*+){1,3}(?:\.(?:\p{L}\p{M}*+){1,3})+")
# Words that precede an ordinal rather than a number, in German, which has capitals after ordinals.
_BEFORE_ORDINAL = frozenset(["am", "im", "vom", "zum", "der", "die", "das", "dem", "den", "des"])
_ROMAN = regex.compile(r"[IVXLCDM]+")
_AND = frozenset("иіi")  # as in "and others", which is abbreviated like a title
_WORD = regex.compile(r"[\p{L}\p{M}\p{N}]+")
# Where `sentencex` misses ends: at abbreviations and inside of brackets.
_HIDDEN_WORD = regex.compile(r"\.\s+(?=[^\w\s]*\p{Lu})")
_HIDDEN = regex.compile(
    rf"{_HIDDEN_WORD.pattern}|[.!?…。！？।۔][”’\"'»]?(?:([)\]])\s+|([）］]))(?=\S)"
)
_CLOSED = re.compile(r"[.!?…。！？।۔][”’\"'»]?[)\]）］]")
# A sentence in brackets inside of another one; other periods there are those of abbreviations.
_IN_BRACKET = regex.compile(r"\p{Lu}.* .* .*\p{Ll}{4}\.")
_BRACKETS = {")": "(", "]": "[", "）": "（", "］": "［"}
_QUOTES = ("“”„", "«»", '"', "「」", "『』")
# What belongs to the quotation before it, as in: "I will," she said.
_QUOTATION = regex.compile(r"\s*[“「『][^“”「」『』]*[”」』]\s*")
# In text with a full stop of its own script, a period is that of an abbreviation.
_FULL_STOPS = ("।", "۔", "።")

_LONG = 20_000

_CLOSING = frozenset('.]"”»“’」』')
_OPENING = " ([{«“„\"'‘‚‹—–-"
_ASCII_SPACES = "\n\t\r\v\f\x1c\x1d\x1e\x1f"
_SPACES = " \u200b"  # a zero-width space separates words in some scripts


def split_sentences(paragraph: str, language: str = "en") -> list[str]:
    """Split a paragraph into sentences.

    Args:
        language: its language, a code that `resolve_language` accepts.

    Returns:
        The sentences, each on one line with white space folded; no empty ones.
    """
    words = _words(language)
    is_ascii = paragraph.isascii()
    # Many times faster than a search for any of them.
    has_marks = not is_ascii and any(map(paragraph.__contains__, _MARKS))
    if is_ascii or (len(paragraph) <= _LONG and not has_marks):
        pieces = sentencex.segment(words.code, paragraph)
    else:
        pieces = _segment(words.code, paragraph)
    if has_marks:
        pieces = [part for piece in pieces for part in _cut(piece)]
    if (")" in paragraph or "]" in paragraph or has_marks) and _CLOSED.search(paragraph):
        pieces = [part for piece in pieces for part in _uncovered(piece, words)]
    elif words.hidden in paragraph:
        for piece in pieces:
            if piece.find(words.hidden, 0, -2) >= 0 and _HIDDEN_WORD.search(piece):
                pieces = [part for piece in pieces for part in _uncovered(piece, words)]
                break
    if len(pieces) > 1:
        pieces = _joined(pieces, paragraph, words)
    if is_ascii:
        has_spaces = False
        for space in _ASCII_SPACES:
            if space in paragraph:
                has_spaces = True
                break
    else:
        has_spaces = not paragraph.isprintable()
    if has_spaces or "  " in paragraph:
        pieces = [" ".join(piece.split()).strip(_SPACES) for piece in pieces]
        return [sentence for sentence in pieces if sentence]
    return [sentence for piece in pieces if (sentence := piece.strip())]


def _segment(code: str, paragraph: str) -> list[str]:
    """Segment a text in windows, since `sentencex` takes quadratic time outside of ASCII."""
    text = paragraph
    if "「" not in text:  # the quotes that `sentencex` knows
        text = text.replace("『", "「").replace("』", "」")
    pieces: list[str] = []
    begin, size = 0, _LONG
    while begin < len(text):
        found = sentencex.segment(code, text[begin : begin + size])
        if begin + size < len(text):
            # What may continue: the last one, and those after a quotation mark that is still open.
            ends = range(len(found) - 1, max(0, len(found) - 50), -1)
            end = next((end for end in ends if not _is_open("".join(found[:end]))), len(found) - 1)
            found = found[:end]
            size = _LONG if found else 2 * size
        for piece in found:
            pieces.append(paragraph[begin : begin + len(piece)])
            begin += len(piece)
    return pieces


def _is_open(text: str) -> bool:
    return any(sum(map(text.count, quotes)) % 2 for quotes in _QUOTES)


_Words = collections.namedtuple(
    "_Words", "code language hidden said before words ends starts units years dates listed"
)


@functools.cache
def _words(language: str) -> _Words:
    code = resolve_language(language)
    table = configparser.ConfigParser(interpolation=None)
    table.read(os.path.join(os.path.dirname(__file__), "sentence_words.txt"), "utf-8")
    name = next((name for name in table.sections() if code in name.split()), code)
    common = {} if code == "en" else table.defaults()
    own = table[name if name in table else "DEFAULT"]
    lists = [f"{common.get(key, '')} {own.get(key, '')}".split() for key in _Words._fields[4:]]
    said = regex.compile(own["said"].replace("\n", "")) if "said" in own else None
    hidden = "etc. " if code == "en" else "."  # what the ends that `sentencex` misses contain
    return _Words(code, name.split()[0], hidden, said, *map(frozenset, lists))


def _uncovered(piece: str, words: _Words) -> Sequence[str]:
    """Split a piece at the ends that `sentencex` misses."""
    parts, begin = [], 0
    for found in _HIDDEN.finditer(piece) if len(piece) <= _LONG else ():
        before, after = piece[begin : found.start() + 1], piece[found.end() :]
        if bracket := found[1] or found[2]:
            is_end = _ends_in_bracket(before, _BRACKETS[bracket], after, words)
        else:
            is_end = _ends(before, after, words) is True and not any(
                before.count(o) > before.count(c) for c, o in _BRACKETS.items()
            )
        if is_end and not _is_open(before):
            parts.append(piece[begin : found.end()])
            begin = found.end()
    return [*parts, piece[begin:]] if begin < len(piece) else parts


def _ends_in_bracket(before: str, opening: str, after: str, words: _Words) -> bool:
    """Return whether a sentence ends with the bracket that its last period stands in."""
    outside, _, inside = before.rpartition(opening)
    if after[:1].islower() or (outside.strip(_OPENING) and not _IN_BRACKET.fullmatch(inside)):
        return False
    # Whether it would end there without the bracket.
    following = f"{inside} {after.split(maxsplit=1)[0]}"
    return len(split_sentences(inside, words.code)) < len(split_sentences(following, words.code))


def _ends(before: str, after: str, words: _Words) -> bool | None:
    """Return whether the period after `before` is an end; None if the words do not say."""
    before, _, word = before.rpartition(" ")
    word = word[:-1].lstrip(_OPENING).replace("’", "'").rpartition("'")[2]
    while before[-1:] == "." and before[-2:-1].isalpha() and before[-3:-2] in " ":  # "и т. д"
        before, _, earlier = before.rpartition(" ")
        word = earlier + word
    plain = word.lower()
    after = after.lstrip(_OPENING)
    if not after[:1].isupper():
        return False if plain in words.before else None
    start = after.partition(" ")[0].rstrip(",.;:!?")
    if not before and len(word) <= _LONGEST_SHORT and _NUMBER.fullmatch(word):
        return False
    is_start = start in words.starts
    previous = before.rpartition(" ")[2]
    if previous[-1:].isdecimal() or _ROMAN.fullmatch(previous):
        if plain in words.years:
            return is_start or not all(
                w.isdecimal() or w.lower() in words.dates or _ROMAN.fullmatch(w)
                for w in _WORD.findall(before)
            )
        if plain in words.units and (is_start or words.language != "de"):
            return True
    if word in words.words:
        return True
    if start.lower() == plain:
        return None
    if plain in words.ends and (plain not in words.before or previous in _AND):
        return True
    if plain in words.before:
        return False
    if is_start and len(word) + len(start) > 3:
        return True
    is_word = len(word) > 1 and "." not in word and words.language != "en"
    if is_word and word.isupper():  # no abbreviation but an acronym, unless all is in capitals
        return not _ROMAN.fullmatch(word) and not (len(start) > 1 and start.isupper()) or None
    return (is_word and words.language not in words.listed and not word.isdecimal()) or None


def _cut(piece: str) -> list[str]:
    """Cut a piece after the ends that `sentencex` does not know."""
    parts, begin = [], 0
    for end in _ENDS.finditer(piece):
        part = piece[begin : end.end()]
        if any(map(str.isalnum, part)):  # not an ornament before the text
            parts.append(part)
            begin = end.end()
    return [*parts, piece[begin:]]


def _joined(pieces: list[str], paragraph: str, words: _Words) -> list[str]:
    sentences, begin, last = [], 0, pieces[0]
    for i, piece in enumerate(pieces[1:], 1):
        # Most ends are plain: a long or ordinary word before a capital, or no period.
        if last[-2:] == ". ":
            is_plain = (
                piece[:1].isupper()
                and len(last) > _LONGEST_SHORT
                and (
                    " " not in last[-_LONGEST_WORD - 2 : -2]
                    or (
                        len(word := last[last.rfind(" ", 0, -2) + 1 : -2]) > 2
                        and word.isalpha()
                        and word.lower() not in words.before
                    )
                )
            )
        else:
            is_plain = last[-2:-1] in _PLAIN_ENDS and (piece.isascii() or piece[:1].isupper())
        if is_plain or not _continues(pieces[begin:i], piece, paragraph, words):
            sentences.append(last if i == begin + 1 else "".join(pieces[begin:i]))
            begin = i
        last = piece
    return [*sentences, "".join(pieces[begin:])]


def _continues(sentence: list[str], after: str, paragraph: str, words: _Words) -> bool:
    """Return whether a sentence, in pieces, continues in the piece after it."""
    last = sentence[-1].rstrip()
    if last[-1:] not in _CLOSING:
        return last[-1:] in _NO_ENDS
    first = after.lstrip(_OPENING)[:1]
    if first == "," or (
        first.islower()
        and not _NUMBER.fullmatch(after)
        # If the whole text is in lower case, as Georgian always is, this says nothing.
        and not next(filter(str.isalpha, sentence[0]), "").islower()
    ):
        return True
    if not last.endswith("."):
        return bool(
            words.said
            and words.said.match(after)
            and (words.language != "zh" or _QUOTATION.fullmatch("".join(sentence)))
        )
    before, _, word = last.rpartition(" ")
    word = word.lstrip(_OPENING)[:-1].lower()
    is_short = len(sentence) == 1 and len(last) <= _LONGEST_SHORT
    if is_short and _NUMBER.fullmatch(last):
        return True
    if words.language == "en":  # has many short answers, and `sentencex` knows its abbreviations
        return word in words.before
    ends = _ends(last if len(sentence) == 1 else "".join(sentence).rstrip(), after, words)
    if ends is not None:
        return not ends
    if len(word) == 1 and word.isalpha():
        return True
    is_caseless = first.isalpha() and first.lower() == first.upper()
    if is_caseless and (
        _DOTTED.fullmatch(word) or any(map(paragraph[:_LONG].__contains__, _FULL_STOPS))
    ):
        return True
    if first.isdecimal() and (_BEFORE_NUMBER.fullmatch(word) or last == sentence[-1]):
        return True
    if word.isdecimal() and words.language == "de":
        return before.rpartition(" ")[2].lower() in _BEFORE_ORDINAL
    return is_short and _SHORT.fullmatch(last) is not None
