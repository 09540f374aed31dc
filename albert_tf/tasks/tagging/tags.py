"""Tags of words: a prefix and the type of an entity, "B-LOC", or "O" outside of all entities."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Literal

OUTSIDE = "O"

# How tags are to be understood: prefix and type, or a label of its own for every word.
ENTITY_TAGS, PLAIN_TAGS = "entities", "plain"

_TAG = re.compile(r"([BIESMLUW])(?:-(.*))?", re.DOTALL)
# What `--tag_scheme` names, with the prefixes of each.
SCHEMES = {n: n.upper() for n in ("bio", "iob1", "iob2", "bioes", "iobes", "bmes", "bilou")}
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


def kind_of(tags: Iterable[str], scheme: str = "auto") -> tuple[Literal["entities", "plain"], str]:
    """Return how tags are to be understood, and why: by the scheme, or if it is "auto", by them."""
    if scheme != "auto":
        return "plain" if scheme == PLAIN_TAGS else "entities", f"`tag_scheme`={scheme}"
    found = {tag: split_tag(tag) for tag in tags}
    if plain := [tag for tag, parts in found.items() if parts is None]:
        return "plain", f"{plain[0]!r} has no prefix such as B-"
    if typed := [tag for tag in found if "-" in tag]:
        return "entities", f"all are {OUTSIDE} or have a prefix and a type, such as {typed[0]!r}"
    prefixes = {parts[0] for parts in found.values() if parts}
    if prefixes <= {"I", OUTSIDE} or ("B" in prefixes and prefixes & {"I", "E"}):
        return "entities", "all are prefixes, among them those that continue an entity"
    return "plain", "all are letters, but none of them both begin and continue entities"
