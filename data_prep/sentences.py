"""Splits paragraphs into sentences with `sentencex`, Wikimedia's splitter for 240 languages.

Three faults of its rules are corrected afterwards: they miss some ends (Khmer, Tibetan, the Greek
question mark), take some commas as ends (Burmese, Javanese), and outside of English they know few
abbreviations and ordinals.
"""

from __future__ import annotations

from collections.abc import Iterator

import regex
import sentencex

from data_prep.languages import resolve_language

# Ends that `sentencex` does not know: the Greek question mark, two Ethiopic word spaces or colons,
# the Khmer full stops except before "etc.", and the Tibetan ones except after "and", "or" and the
# like. Closing quotes and brackets belong to the end.
_END_CHARACTERS = ("\u037e", "\u1361\u1361", "::", "\u17d4", "\u17d5", "\u0f0d", "\u0f0e", "\u0f11")
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
# Languages with capitals after ordinals, and words that precede an ordinal rather than a number.
_GERMAN = frozenset(["de", "gsw", "bar", "lb", "nds", "ksh", "pfl", "stq", "vmf"])
_BEFORE_ORDINAL = frozenset(["am", "im", "vom", "zum", "der", "die", "das", "dem", "den", "des"])
# Titles, and what stands before the names of streets and towns, as far as `sentencex` lacks them.
_ABBREVIATIONS = frozenset(
    """
    ms mme mlle mgr dl dna sig dott ths ts pgs tp jl drs doç yrd öğr bkz čl tzv např npr prof dr
    βλ πρβλ σελ κεφ άρθ τομ οδ λεωφ καθ проф акад доц инж др ул бул просп вул праф табл
    डॉ डा प्रो श्री श्रीमती सुश्री पं मो ড ডা মো মোঃ অধ্যা ડૉ ડો પ્રો શ્રી ਡਾ ਪ੍ਰੋ ਸ੍ਰੀ ଡ ଡା ଶ୍ରୀ
    திரு திருமதி டாக்டர் డా శ్రీ ప్రొ ಡಾ ಶ್ರೀ ಪ್ರೊ ഡോ ശ്രീ പ്രൊഫ
    """.split()  # noqa: SIM905
)

# In text with a full stop of its own script, a period is that of an abbreviation.
_FULL_STOPS = ("।", "۔", "።")

_UNSPACED_END = regex.compile(r"[。！？။၊꧉꧈]+[\p{Pe}\p{Pf}]*")
_LONG = 5000

_OPENING = " ([{«“„\"'‘‚‹—–-"
_SPACES = " \u200b"  # a zero-width space separates words in some scripts


def split_sentences(paragraph: str, language: str = "en") -> list[str]:
    """Split a paragraph into sentences.

    Args:
        paragraph: the text.
        language: its language, a code that `resolve_language` accepts.

    Returns:
        The sentences, each on one line with white space folded; no empty ones.
    """
    code = resolve_language(language)
    if len(paragraph) <= _LONG or paragraph.isascii():
        pieces = sentencex.segment(code, paragraph)
    else:
        pieces = [piece for part in _parts(paragraph) for piece in sentencex.segment(code, part)]
    if not paragraph.isascii():
        # Many times faster than a search for any of them.
        for end in _END_CHARACTERS:
            if end in paragraph:
                pieces = [part for piece in pieces for part in _cut(piece)]
                break
    if len(pieces) > 1:
        pieces = _joined(pieces, paragraph, code)
    if paragraph.isprintable() and "  " not in paragraph:  # nothing to fold; faster
        folded = [sentence.strip() for sentence in pieces]
    else:
        folded = [" ".join(sentence.split()).strip(_SPACES) for sentence in pieces]
    return [sentence for sentence in folded if sentence]


def _parts(paragraph: str) -> Iterator[str]:
    """Yield a text without spaces in parts, since `sentencex` takes quadratic time for it."""
    begin = 0
    while end := _UNSPACED_END.search(paragraph, begin + _LONG):
        yield paragraph[begin : end.end()]
        begin = end.end()
    yield paragraph[begin:]


def _cut(piece: str) -> list[str]:
    """Cut a piece after the ends that `sentencex` does not know."""
    parts, begin = [], 0
    for end in _ENDS.finditer(piece):
        part = piece[begin : end.end()]
        if any(map(str.isalnum, part)):  # not an ornament before the text
            parts.append(part)
            begin = end.end()
    return [*parts, piece[begin:]]


def _joined(pieces: list[str], paragraph: str, language: str) -> list[str]:
    sentences, sentence = [], [pieces[0]]
    for piece in pieces[1:]:
        last = sentence[-1]
        # Most ends are plain: a long word before a capital, or no period.
        if last[-2:] == ". ":
            is_plain = (
                " " not in last[-_LONGEST_WORD - 2 : -2]
                and piece[:1].isupper()
                and len(last) > _LONGEST_SHORT
            )
        else:
            is_plain = last[-2:-1] in _PLAIN_ENDS
        if not is_plain and _continues(sentence, piece, paragraph, language):
            sentence.append(piece)
        else:
            sentences.append(sentence[0] if len(sentence) == 1 else "".join(sentence))
            sentence = [piece]
    return [*sentences, "".join(sentence)]


def _continues(sentence: list[str], after: str, paragraph: str, language: str) -> bool:
    """Return whether a sentence, in pieces, continues in the piece after it."""
    last = sentence[-1].rstrip()
    if not last.endswith("."):
        return last[-1:] in _NO_ENDS
    first = after.lstrip(_OPENING)[:1]
    if (
        first.islower()
        and not _NUMBER.fullmatch(after)
        # If the whole text is in lower case, as Georgian always is, this says nothing.
        and not next(filter(str.isalpha, sentence[0]), "").islower()
    ):
        return True
    before, _, word = last.rpartition(" ")
    word = word.lstrip(_OPENING)[:-1].lower()
    is_short = len(sentence) == 1 and len(last) <= _LONGEST_SHORT
    if word in _ABBREVIATIONS or (is_short and _NUMBER.fullmatch(last)):
        return True
    if language == "en":  # has many short answers, and `sentencex` knows its abbreviations
        return False
    if len(word) == 1 and word.isalpha():
        return True
    is_caseless = first.isalpha() and first.lower() == first.upper()
    if is_caseless and (_DOTTED.fullmatch(word) or any(map(paragraph.__contains__, _FULL_STOPS))):
        return True
    if first.isdecimal() and (_BEFORE_NUMBER.fullmatch(word) or last == sentence[-1]):
        return True
    if word.isdecimal() and language in _GERMAN:
        return before.rpartition(" ")[2].lower() in _BEFORE_ORDINAL
    return is_short and _SHORT.fullmatch(last) is not None
