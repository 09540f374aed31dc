"""Codes of languages, as users write them."""

from __future__ import annotations

import functools

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


@functools.cache
def resolve_language(code: str) -> str:
    """Finds the language that a code stands for.

    Args:
        code: a BCP 47 tag (`pt-BR`, `zh-Hant`, `sr_Latn`), a code of ISO 639-1, 639-2 or 639-3
            (`fi`, `deu`, `ger`), or the code of a Wikipedia (`simple`, `zh-yue`); in Wikipedia's
            sense where it has two.

    Returns:
        The shortest code of the language, in lower case, without its script and region: `pt`, `zh`.

    Raises:
        InputError: if there is no such language.
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
