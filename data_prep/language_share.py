"""The share of a document that is in a language, by py3langid."""

from __future__ import annotations

import functools
import random
import re
import unicodedata
from collections.abc import Iterable, Iterator

from albert_tf.errors import InputError

try:
    import py3langid
except ImportError:
    raise InputError(
        "`language_share`: py3langid is not installed; pip install 'albert-tf[clean]'"
    ) from None

# Identifying is slow. Short paragraphs are identified together, longer ones by their start, and a
# long document by so many pieces of it: not at equal distances, since languages can alternate.
_PIECE_CHARACTERS = 300
_MAX_PIECES = 100
# Shorter texts are often given a wrong language. Bytes of UTF-8: two or three for a character of a
# script that only few languages use.
_MIN_BYTES = 100
# Codes of the same language or of members of a macrolanguage of ISO 639-3, which are often taken
# for one another.
_SAME = {
    "arb": "ar", "ary": "ar", "arz": "ar", "bs": "sh", "cmn": "zh", "fil": "tl", "hr": "sh",
    "id": "ms", "nb": "no", "nn": "no", "sr": "sh", "wuu": "zh", "yue": "zh",
}  # fmt: skip


def check_known(language: str) -> None:
    """Checks that the share of a language can be computed.

    Raises:
        InputError: if it is unknown.
    """
    known = {code for code, _ in py3langid.rank("")} - {"zxx"}  # no language
    if _code(language) not in set(map(_code, known)):
        raise InputError(
            f"`language_share`: `language`={language} cannot be identified; the languages that "
            f"can are {', '.join(sorted(known))}"
        )


def language_share(paragraphs: Iterable[str], language: str) -> float:
    """Computes the share of a text in a language, in characters.

    Args:
        paragraphs: the text. What is short or not mostly letters, such as numbers, does not count.
        language: a code from `resolve_language` that `check_known` accepts.

    Returns:
        The share, from 0 to 1; 1 if nothing counts.
    """
    characters = dict.fromkeys([True, False], 0)
    pieces = list(_pieces(paragraphs))
    if len(pieces) > _MAX_PIECES:
        pieces = random.Random(0).sample(pieces, _MAX_PIECES)
    for text in pieces:
        start = text[:_PIECE_CHARACTERS]
        if len(start.encode("utf-8", "replace")) >= _MIN_BYTES and _is_mostly_letters(start):
            found, _ = py3langid.classify(start)
            characters[_code(found) == _code(language)] += len(text)
    total = sum(characters.values())
    return characters[True] / total if total else 1.0


def _is_mostly_letters(text: str) -> bool:
    return 2 * sum(unicodedata.category(character)[0] in "LM" for character in text) > len(text)


@functools.cache
def _code(language: str) -> str:
    code = re.split("[-_]", language)[0]
    return _SAME.get(code, code)


def _pieces(paragraphs: Iterable[str]) -> Iterator[str]:
    """Yields the paragraphs, short ones together with those that follow."""
    piece = ""
    for paragraph in paragraphs:
        piece += f"\n{paragraph}" if piece else paragraph
        if len(piece) >= _PIECE_CHARACTERS:
            yield piece
            piece = ""
    if piece:
        yield piece
