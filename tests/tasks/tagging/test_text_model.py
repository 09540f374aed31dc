"""TokenClassifier: words or raw texts in, tags or entities out; what is invalid is named."""

import pytest

from albert_tf import TokenClassifier
from albert_tf.errors import InputError
from tests.support.models import write_trained


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_trained(tmp_path_factory.mktemp("pretrained") / "folder")


def test_words_have_tags_of_either_kind(pretrained):
    tagger = TokenClassifier.from_preset(pretrained, labels=["ADJ", "NOUN"])
    words = [["new", "york"], ["rome"], []]
    found = tagger.predict(words)
    assert [[each.text for each in of_text] for of_text in found] == words
    assert found[0][1][1:3] == (4, 8)
    assert {each.label for each in found[0]} <= {"ADJ", "NOUN"}
    assert tagger.predict([]) == []


def test_what_is_invalid_is_named(pretrained):
    tagger = TokenClassifier.from_preset(pretrained, labels=["O", "B-LOC", "I-LOC"])

    def refused(message, texts, entities):
        for method in (tagger.fit, tagger.evaluate):
            with pytest.raises(InputError, match=message) as error:
                method(texts, entities)
            assert "\n" not in str(error.value)

    refused(r"`entities`: has 2 items, but `texts` has 1", ["a b"], [[], []])
    refused(r"`texts`\[0\]: must be a list, not 7 \(int\)", [7], [[]])
    refused(r"`entities`\[0\]: must be a list, not", ["a b"], [7])
    refused(r"`entities`\[0\]: must be \(start, end, label\), not", ["a b"], [[(0, "b", "LOC")]])
    refused(r"`entities`\[0\]: entity \"LOC\" from 0 to 9: must be", ["a b"], [[(0, 9, "LOC")]])
    refused(r"`entities`\[0\]: tag 'B-PER': must be one of O, B-", ["a b"], [[(0, 1, "PER")]])
    refused(r"`entities`\[1\]: 2 tokens, but 1 tag", [["a"], ["a", "b"]], [["O"], ["O"]])
    refused(r"`texts`: must be all texts or all lists of words", ["a", ["a"]], [[], ["O"]])
    refused("at least one is required|no example to evaluate", [], [])
    for labels in ([], ["O", "O"]):
        with pytest.raises(InputError, match="`labels`=.*: must be distinct, and at least one"):
            TokenClassifier.from_preset(pretrained, labels=labels)
    with pytest.raises(InputError, match="has no head for this task; call `fit` first"):
        TokenClassifier.from_preset(pretrained).predict(["a"])
