"""The generator of minimal pairs."""

import collections
import re

from albert_tf.input.minimal_pairs import read_pairs
from examples.minimal_pairs import write_pairs


def test_frequencies_of_words_decide_nothing(tmp_path):
    path = str(tmp_path / "pairs.tsv")
    write_pairs(path)
    pairs = read_pairs([path], "eval_pairs")
    assert 300 < len(pairs) == len({(pair.good, pair.bad) for pair in pairs})
    found = collections.Counter(pair.phenomenon for pair in pairs)
    assert min(found.values()) >= 40
    assert len(found) == 6
    for name in found:
        good, bad = (
            collections.Counter(re.findall(r"\w+", " ".join(texts)))
            for texts in zip(*((p.good, p.bad) for p in pairs if p.phenomenon == name), strict=True)
        )
        assert good == bad, name
