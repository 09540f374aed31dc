"""Words of raw text, and which pieces of a vocabulary begin a word (for whole-word masking)."""

import functools
import re
import string
import unicodedata
from collections.abc import Callable, Iterable, Mapping

import regex

WORD_START = "\u2581"  # SentencePiece writes the space before a word as this character

# Punctuation that is a word on its own but does not end one in the middle of a piece ("co-op").
# In the original it excludes the apostrophe and the signs < = >, which always start a word.
_INNER_PUNCTUATION = frozenset(string.punctuation) - frozenset("'<=>")

# Characters that lines may break between although no space separates words, by Unicode's classes of
# line breaking (UAX #14): SA is Thai, Lao, Khmer, Burmese, Tai Tham, ...; AK to VI are the scripts
# of Java, Bali and others; ID, CJ and NS are ideographs, kana, Yi, ... The classes also contain
# full-width Latin and some Hangul, which are written with spaces.
UNSPACED = (
    r"[[\p{LB=SA}\p{LB=AK}\p{LB=AP}\p{LB=AS}\p{LB=VF}\p{LB=VI}\p{LB=ID}\p{LB=CJ}\p{LB=NS}]"
    r"&&[\p{L}\p{M}\p{Nl}]--[\p{Latin}\p{Hangul}]]"
)
_UNSPACED = regex.compile(UNSPACED, regex.V1)

_BYTE = re.compile("<0x([0-9A-F]{2})>")

_JOINERS = "-.\u2010\u2011"  # parts of a word between two characters that are neither


def byte_of(piece: str) -> int | None:
    """Return the byte that a SentencePiece piece stands for, of a character without a piece."""
    found = _BYTE.fullmatch(piece)
    return int(found[1], 16) if found else None


def continues_character(piece: str) -> bool:
    """Return whether a piece is a byte of a character, but not the first."""
    return 0x80 <= (byte_of(piece) or 0) < 0xC0


def starts_word(piece: str) -> bool:
    """Return whether a SentencePiece piece begins a word, for whole-word masking.

    As in the original's `is_start_piece`, these are `▁...`, `<...`, single punctuation marks, and
    pieces that contain anything other than letters and punctuation, such as digits. In the
    original, only the letters a to z continue a word. Here, letters of every script written with
    spaces do, since otherwise no Greek or Russian word would ever be masked as a whole. In scripts
    without spaces, every piece is a word, unless it begins with a vowel sign or accent. So is a
    character that is written in bytes: only its first one begins a word.
    """
    if continues_character(piece):
        return False
    if piece.startswith((WORD_START, "<")) or piece in _INNER_PUNCTUATION:
        return True
    if is_mark(piece[0]):
        return False
    return not all(c in _INNER_PUNCTUATION or _continues_word(c) for c in piece)


def starts_unspaced_word(text: str) -> bool:
    """Return whether a text inside a word can begin one (scripts written without spaces)."""
    return bool(text) and is_unspaced(text[0]) and not is_mark(text[0])


def _continues_word(character: str) -> bool:
    if character.isascii():
        return character.isalpha()
    return unicodedata.category(character)[0] in "LM" and not is_unspaced(character)


def is_mark(character: str) -> bool:
    """Return whether a character belongs to the one before it, as vowel signs and accents do."""
    return unicodedata.category(character)[0] == "M"


@functools.lru_cache(maxsize=100_000)
def is_unspaced(character: str) -> bool:
    """Return whether a character is a letter or mark of a script written without spaces."""
    return _UNSPACED.match(character) is not None


def unspaced_in(text: str) -> list[int]:
    """Return where the letters and marks of scripts written without spaces are in a text."""
    return [found.start() for found in _UNSPACED.finditer(text)]


def character_ranges(
    characters: Iterable[int], write: Callable[[int], str] = r"\U{:08x}".format
) -> str:
    """Return the inside of a character class; as ranges, since beyond U+FFFF each entry costs time.

    Args:
        characters: code points.
        write: how a regular expression writes one.
    """
    ranges: list[list[int]] = []
    for character in sorted(characters):
        if ranges and ranges[-1][1] == character - 1:
            ranges[-1][1] = character
        else:
            ranges.append([character, character])
    return "".join(f"{write(first)}-{write(last)}" for first, last in ranges)


def split_words(text: str, joined: bool = True) -> list[tuple[int, int]]:
    """Split a raw text into words, for models that label words.

        Anna O'Brien's train left London-Paris at 7:30.
        # Anna  O'Brien  '  s  train  left  London-Paris  at  7:30  .

    A word contains no white space. Punctuation and symbols are words on their own, except hyphens
    and periods between other characters ("London-Paris", "U.S"), an apostrophe after a first
    letter, and a period, comma or colon between digits; this is close to corpora such as
    CoNLL-2003. Every letter of a script that is written without spaces is a word, with the marks
    after it, as in Chinese corpora.

    Args:
        joined: whether punctuation may be part of a word or number, as described above. Otherwise
            it always stands alone, so that an entity may begin or end at each, as "Paris" in
            "Paris-based".

    Returns:
        The first character of each word and the one after its last, in order. Characters outside
        of all words are white space.
    """
    return [match.span() for match in _words(joined).finditer(text)]


@functools.cache
def _words(joined: bool) -> re.Pattern[str]:
    return re.compile(pattern_of_words(character_sets(), joined))


@functools.cache
def character_sets() -> dict[str, str]:
    """Return the sets of characters that end words, as in brackets of a regular expression.

    A character may be in several sets or in none.
    """
    # Scanning all planes would take 0.2 s; above these are ideographs and their variants alone.
    categories = {code: unicodedata.category(chr(code))[0] for code in range(0x20000)}
    unspaced = unspaced_in("".join(map(chr, categories)))

    def ranges(characters: Iterable[int]) -> str:
        return character_ranges(characters, write=lambda code: re.escape(chr(code)))

    return {
        "space": r"\s",
        "apart": ranges(code for code in categories if categories[code] in "PS"),
        "unspaced": ranges(code for code in unspaced if categories[code] != "M")
        + "\U00020000-\U0003ffff",
        "unspaced_marks": ranges(code for code in categories if categories[code] == "M")
        + "\U000e0100-\U000e01ef",
        "joiners": re.escape(_JOINERS),
        "letters": "A-Za-z",
        "apostrophes": "'’",
        "digits": "0-9",
        "separators": ".,:",
    }


def pattern_of_words(sets: Mapping[str, str], joined: bool) -> str:
    """Return the regular expression of a word.

    Args:
        sets: those of `character_sets`, or symbols that stand for their characters.
        joined: as in `split_words`.
    """
    chars = sets.__getitem__
    plain = f"[^{chars('space')}{chars('apart')}{chars('unspaced')}]"
    single = f"[{chars('unspaced')}][{chars('unspaced_marks')}]*|[{chars('apart')}]"
    if not joined:
        return f"{plain}+|{single}"
    # No look-around, which the regular expressions of TensorFlow graphs do not have.
    first_letter = f"(?:[{chars('letters')}][{chars('apostrophes')}])?"
    inner = f"{first_letter}{plain}+(?:[{chars('joiners')}]{plain}+)*"
    number = f"[{chars('digits')}]+(?:[{chars('separators')}][{chars('digits')}]+)+"
    return f"{number}|{inner}|{single}"
