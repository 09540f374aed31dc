"""Tags of words, the entities that they mean, and how those of a model are scored.

Tags are a prefix and a type, "B-LOC", or "O" outside of all entities. Which words are an entity is
defined as in the evaluation script of CoNLL-2000 and the default mode of seqeval, for every scheme
(IOB1, IOB2, IOBES) and for invalid sequences: "I-LOC" after "O" begins an entity, for example.
"""

import collections
import re
from collections.abc import Iterable, Sequence
from typing import Literal, NamedTuple

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


class Entity(NamedTuple):
    """An entity in a text.

    Attributes:
        label: its type, such as "LOC".
        start: its first character.
        end: the character after its last.
        text: its characters.
        score: mean probability of the tags of its words; 1 for an entity of the data.
    """

    label: str
    start: int
    end: int
    text: str
    score: float = 1.0

    @property
    def span(self) -> tuple[int, int]:
        return self.start, self.end

    @property
    def key(self) -> tuple[str, int, int]:
        """What an exact match compares."""
        return self.label, self.start, self.end


class Scores(NamedTuple):
    """Numbers of entities: in the data, predicted, and predicted correctly."""

    support: int
    predicted: int
    correct: int

    @property
    def precision(self) -> float:
        return self.correct / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        return self.correct / self.support if self.support else 0.0

    @property
    def f1(self) -> float:
        total = self.precision + self.recall
        return 2 * self.precision * self.recall / total if total else 0.0


def chunks(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Return the entities of a sequence of tags: type, first word, and the word after the last."""
    found: list[tuple[str, int, int]] = []
    before, type_before, start = OUTSIDE, "_", 0
    for number, tag in enumerate([*tags, OUTSIDE]):
        prefix, type_ = split_tag(tag) or (OUTSIDE, "_")
        if not (prefix in "IE" and before in "BI" and type_ == type_before):
            if before != OUTSIDE:
                found.append((type_before, start, number))
            start = number
        before, type_before = prefix, type_
    return found


def iob2(chunks: Iterable[tuple[str, int, int]], words: int) -> list[str]:
    """Return the IOB2 tags of some words; an entity that overlaps an earlier one is left out."""
    tags = [OUTSIDE] * words
    for type_, start, end in chunks:
        if all(tag == OUTSIDE for tag in tags[start:end]):
            tags[start:end] = [f"B-{type_}", *[f"I-{type_}"] * (end - start - 1)]
    return tags


def invalid_tags(sequences: Iterable[Sequence[str]]) -> tuple[str, int]:
    """Find the scheme of sequences of tags.

    Returns:
        "IOBES", "IOB1" or "IOB2", and how many tags are invalid in it.
    """
    begins = insides = iobes_errors = 0
    prefixes = set()
    for tags in sequences:
        before, type_before = OUTSIDE, "_"
        for tag in [*tags, OUTSIDE]:
            prefix, type_ = split_tag(tag) or (OUTSIDE, "_")
            prefixes.add(prefix)
            same = before != OUTSIDE and type_ == type_before
            begins += prefix == "B" and not same  # IOB1 has I here
            insides += prefix == "I" and not same  # IOB2 has B here
            iobes_errors += (prefix in "IE") != (before in "BI" and (prefix in "BSO" or same))
            before, type_before = prefix, type_
    if prefixes & {"E", "S"}:
        return "IOBES", iobes_errors
    return ("IOB1", begins) if insides > begins else ("IOB2", insides)


def count_matches(
    truth: Sequence[Sequence[Entity]], predicted: Sequence[Sequence[Entity]]
) -> dict[str, Scores]:
    """Count entities by type; predictions are correct if type, start and end are those of one.

    Returns:
        Type -> numbers, sorted by type; "" for all types together, first.
    """
    true, found = (
        {(each.key, text) for text, entities in enumerate(texts) for each in entities}
        for texts in (truth, predicted)
    )
    sets = (true, found, true & found)
    counts = [collections.Counter(key[0] for key, _ in entities) for entities in sets]
    labels = sorted(counts[0] | counts[1])
    by_type = {label: Scores(*(each[label] for each in counts)) for label in labels}
    return {"": Scores(*map(len, sets)), **by_type}
