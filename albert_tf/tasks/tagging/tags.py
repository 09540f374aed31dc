"""Tags of words: a prefix and the type of an entity, "B-LOC", or "O" outside of all entities."""

from __future__ import annotations

import re

OUTSIDE = "O"

# How tags are to be understood: prefix and type, or a label of its own for every word.
ENTITY_TAGS, PLAIN_TAGS = "entities", "plain"

_TAG = re.compile(r"([BIESMLUW])(?:-(.*))?", re.DOTALL)
# BMES, BILOU and others: their names for the prefixes of IOBES.
_PREFIXES = {"M": "I", "L": "E", "U": "S", "W": "S"}


def continued(tag: str) -> str:
    """Return the tag of a word that belongs to the word before it, which has `tag`."""
    found = split_tag(tag)
    return tag if found is None or tag == OUTSIDE else f"I-{found[1]}"


def split_tag(tag: str) -> tuple[str, str] | None:
    """Return the prefix (B, I, E, S or O) and the type of a tag; None if it has none of these."""
    if tag == OUTSIDE:
        return OUTSIDE, "_"
    found = _TAG.fullmatch(tag)
    return (_PREFIXES.get(found[1], found[1]), found[2] or "_") if found else None
