"""TokenClassifier: raw texts in, entities out, as run_tagger.py predicts them."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest

from albert_tf import TokenClassifier
from albert_tf.errors import InputError
from albert_tf.finetuning.run import fine_tune
from albert_tf.tasks.tagging.options import TaggingOptions
from albert_tf.tasks.tagging.task import TaggingTask
from tests.support.models import write_trained

PLACES, OTHERS = ("paris", "rome", "new york"), ("we", "like", "to", "see", "it", ".")


def sentences(count, seed=0):
    """Texts, and the places in them."""
    draw = random.Random(seed)
    texts, entities = [], []
    for _ in range(count):
        text, spans = "", []
        for part in draw.choices([*PLACES, *OTHERS], k=draw.randint(1, 12)):
            text += " " * bool(text)
            if part in PLACES:
                spans.append((len(text), len(text) + len(part), "LOC"))
            text += part
        texts.append(text)
        entities.append(spans)
    return texts, entities


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    return write_trained(tmp_path_factory.mktemp("pretrained") / "folder")


@pytest.mark.slow
def test_what_fit_learns_is_saved_and_predicted_as_by_the_command(pretrained, tmp_path):
    tagger = TokenClassifier.from_preset(pretrained)
    texts, entities = sentences(64)
    history = tagger.fit(
        texts, entities, steps=16, batch_size=16, learning_rate=0.01, verbose=0
    ).history
    assert history["loss"][-1] < history["loss"][0]
    assert tagger.labels == ["O", "B-LOC", "I-LOC"]
    held_out, truth = sentences(20, seed=1)
    found = tagger.predict(held_out)
    assert sum(map(len, found)) > 10
    spans = [{(each.start, each.end, each.label) for each in of_text} for of_text in found]
    correct = sum(len(one & set(other)) for one, other in zip(spans, truth, strict=True))
    f1 = 2 * correct / (sum(map(len, spans)) + sum(map(len, truth)))
    assert tagger.evaluate(held_out, truth)["eval_f1"] == pytest.approx(f1)
    for text, of_text in zip(held_out, found, strict=True):
        assert all(text[each.start : each.end] == each.text for each in of_text)

    folder = tmp_path / "saved"
    tagger.save(str(folder))
    assert json.loads((folder / "tagging.json").read_text())["unit"] == "text"
    raw = tmp_path / "raw.jsonl"
    raw.write_text("".join(json.dumps({"text": text}) + "\n" for text in held_out))
    options = TaggingOptions(
        output_dir=str(folder), predict_file=str(raw), do_train=False, do_eval=False,
        do_predict=True,
    )  # fmt: skip
    fine_tune(options, TaggingTask)
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    restored = TokenClassifier.from_preset(str(folder))
    assert restored.labels == tagger.labels
    assert restored.predict(held_out) == found
    for line, of_text in zip(lines, found, strict=True):
        predicted = [tuple(entity.values()) for entity in json.loads(line)["entities"]]
        assert [entity[:4] for entity in predicted] == [each[:4] for each in of_text]
        scores = [each.score for each in of_text]
        np.testing.assert_allclose([entity[4] for entity in predicted], scores, atol=1e-6)


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
    refused(r"`entities`\[1\]: 1 tags, but 2 words", [["a"], ["a", "b"]], [["O"], ["O"]])
    refused(r"`texts`: must be all texts or all lists of words", ["a", ["a"]], [[], ["O"]])
    refused(r"`texts`: at least one is required", [], [])
    for labels in ([], ["O", "O"]):
        with pytest.raises(InputError, match="`labels`=.*: must be distinct, and at least one"):
            TokenClassifier.from_preset(pretrained, labels=labels)
    with pytest.raises(InputError, match="has no head for this task; call `fit` first"):
        TokenClassifier.from_preset(pretrained).predict(["a"])
