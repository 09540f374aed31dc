"""Writes minimal pairs of English sentences from templates, for a first look at a small model.

    python -m examples.minimal_pairs pairs.tsv
    albert-analyze pairs --model=demo/pretrained --input_file=pairs.tsv

Each line has a good sentence, a bad one and the phenomenon. All bad sentences of a phenomenon have
the words of the good ones, so that their frequencies decide nothing. They are words of novels,
common enough for a model of twenty minutes.
"""

import itertools
import sys
from collections.abc import Iterator

from albert_tf.files import write_text

# Singular, plural, pronoun.
PEOPLE = [
    ("man", "men", "himself"), ("woman", "women", "herself"), ("boy", "boys", "himself"),
    ("girl", "girls", "herself"), ("king", "kings", "himself"), ("queen", "queens", "herself"),
    ("brother", "brothers", "himself"), ("sister", "sisters", "herself"),
    ("son", "sons", "himself"), ("daughter", "daughters", "herself"),
]  # fmt: skip
# With one and with several.
VERBS = [("was", "were"), ("is", "are"), ("has been", "have been"), ("looks", "look")]
STATES = ["very happy", "quite alone"]
ACTIONS = ["saw", "asked", "found", "loved"]


def pairs() -> Iterator[tuple[str, str, str]]:
    """Yield good sentence, bad sentence and phenomenon."""
    for (one, many, _), (is_, are), state in itertools.product(PEOPLE, VERBS, STATES):
        yield f"The {one} {is_} {state}.", f"The {one} {are} {state}.", "agreement"
        yield f"The {many} {are} {state}.", f"The {many} {is_} {state}.", "agreement"
    for ((one, many, _), (other, others, _)), (is_, are) in itertools.product(
        zip(PEOPLE, PEOPLE[3:] + PEOPLE[:3], strict=True), VERBS
    ):
        near = f"The {one} with the {others}", f"The {many} with the {other}"
        yield f"{near[0]} {is_} very old.", f"{near[0]} {are} very old.", "agreement at a distance"
        yield f"{near[1]} {are} very old.", f"{near[1]} {is_} very old.", "agreement at a distance"
    for (one, many, own), action in itertools.product(PEOPLE, ACTIONS):
        wrong = "herself" if own == "himself" else "himself"
        yield f"The {one} {action} {own}.", f"The {one} {action} {wrong}.", "anaphora: gender"
        yield f"The {many} {action} themselves.", f"The {many} {action} {own}.", "anaphora: number"
        yield f"The {one} {action} {own}.", f"The {one} {action} themselves.", "anaphora: number"
        yield f"The {one} {action} the house.", f"The {one} the house {action}.", "word order: verb"
        yield f"The old {one} {action} it.", f"The {one} old {action} it.", "word order: adjective"


def write_pairs(path: str) -> None:
    write_text(path, "".join("\t".join(pair) + "\n" for pair in pairs()))


if __name__ == "__main__":
    write_pairs(sys.argv[1])
