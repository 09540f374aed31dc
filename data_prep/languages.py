"""Codes of languages as users write them, and the share of a text in a language."""

import functools
import random
import re
import types
import unicodedata
from collections.abc import Iterable, Iterator

from albert_tf.errors import InputError

# Codes of Wikipedias that are no BCP 47 tags, or are those of other languages; and the default.
_WIKIPEDIAS = {
    "als": "gsw",
    "bat-smg": "sgs",
    "be-x-old": "be",
    "cbk-zam": "cbk",
    "eml": "egl",
    "en": "en",
    "fiu-vro": "vro",
    "map-bms": "jv",
    "nds-nl": "nds-nl",
    "nrm": "nrf",
    "roa-rup": "rup",
    "roa-tara": "nap",
    "rsk": "rsk",  # newer than the registry of `langcodes`
    "simple": "en",
    "zh-classical": "lzh",
}
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


@functools.cache
def resolve_language(code: str) -> str:
    """Find the language that a code stands for.

    Args:
        code: a BCP 47 tag (`pt-BR`, `zh-Hant`, `sr_Latn`), a code of ISO 639-1, 639-2 or 639-3
            (`fi`, `deu`, `ger`), or the code of a Wikipedia (`simple`, `zh-yue`); in Wikipedia's
            sense where it has two.

    Returns:
        The shortest code of the language, in lower case, without its script and region: `pt`, `zh`.

    Raises:
        InputError: If there is no such language.
    """
    normal = code.strip().lower().replace("_", "-")
    if normal in _WIKIPEDIAS:
        return _WIKIPEDIAS[normal]

    from langcodes import Language, LanguageTagError  # takes 0.1 s

    try:
        language = Language.get(normal)
        is_known = language.is_valid() and not (normal.startswith("x-") or language.extlangs)
    except LanguageTagError:
        is_known = False
    if not is_known:
        raise InputError(
            f"`language`={code}: no such language; give a BCP 47 tag or a code of ISO 639, such as "
            "fi, pt-BR or deu"
        )
    return language.prefer_macrolanguage().language or "und"


def check_known(language: str) -> None:
    """Raise InputError if a language cannot be identified, or py3langid is not installed."""
    known = {code for code, _ in _identifier().rank("")} - {"zxx"}  # no language
    if _code(language) not in set(map(_code, known)):
        raise InputError(
            f"`language_share`: `language`={language} cannot be identified; the languages that "
            f"can are {', '.join(sorted(known))}"
        )


def language_share(paragraphs: Iterable[str], language: str) -> float:
    """Compute the share of a text in a language, in characters.

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
            found, _ = _identifier().classify(start)
            characters[_code(found) == _code(language)] += len(text)
    total = sum(characters.values())
    return characters[True] / total if total else 1.0


def _identifier() -> types.ModuleType:
    try:
        import py3langid  # loads a model
    except ImportError:
        raise InputError(
            "`language_share`: py3langid is not installed; pip install 'albert-tf[clean]'"
        ) from None
    return py3langid


def _is_mostly_letters(text: str) -> bool:
    return 2 * sum(unicodedata.category(character)[0] in "LM" for character in text) > len(text)


@functools.cache
def _code(language: str) -> str:
    code = re.split("[-_]", language)[0]
    return _SAME.get(code, code)


def _pieces(paragraphs: Iterable[str]) -> Iterator[str]:
    piece = ""
    for paragraph in paragraphs:
        piece += f"\n{paragraph}" if piece else paragraph
        if len(piece) >= _PIECE_CHARACTERS:
            yield piece
            piece = ""
    if piece:
        yield piece
