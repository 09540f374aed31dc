"""What pretraining can predict about the two segments of an example, one row each.

Data preparation makes the pairs, and names their objective in the manifest, by which training finds
its loss. Imports nothing, so that the choices of a flag cost no time.
"""

from typing import NamedTuple


class PairObjective(NamedTuple):
    """A binary prediction about a pair of segments.

    Attributes:
        part: of the training loss, with which the names of its loss and accuracy begin; None if
            examples have a single segment.
        labels: what labels 0 and 1 mean.
    """

    part: str | None
    labels: tuple[str, str]


PAIR_OBJECTIVES = {
    # Sentence order prediction, ALBERT paper, section 3.1.
    "sop": PairObjective("sentence_order", ("in order", "swapped")),
    # Next sentence prediction, as in BERT.
    "nsp": PairObjective("next_sentence", ("next", "from another document")),
    "none": PairObjective(None, ("one segment", "one segment")),
}
