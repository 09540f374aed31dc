"""Served taggers find what run_tagger.py finds, in the same raw texts."""

import random

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.export.task_export import TrainedModel
from albert_tf.interop.adjacent_files import AdjacentFiles
from albert_tf.tasks.tagging.export import TaggingExport, WordSplitter
from albert_tf.tasks.tagging.options import TaggingSettings
from albert_tf.tasks.tagging.windows import encoded_form, make_windows, predict_tags, raw_words
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.words import split_words
from tests.conftest import slow
from tests.support.models import letters, random_model
from tests.support.served import (
    assert_nothing_is_answered,
    config_for,
    require_tensorflow_text,
    texts,
    write_vocabulary,
)

require_tensorflow_text()

# What words and tokens can disagree about: punctuation, scripts without spaces, marks that belong
# to the letter before, emoji of several characters, and characters that no token covers.
PIECES = [
    *("a", "b", "the", "cat", "1", "9", ".", ",", ":", "'", "’", "-", "‐", "_", "$", "%", "<"),
    *(" ", " ", " ", "\n", "\t", "\u3000", "北", "京", "か", "ガ", "ﾞ", "ก", "็", "é", "e\u0301"),
    *("\u0301", "👩🏽\u200d🚀", "🤗", "\u200b", "\ufeff", "\u0007", "½", "ﬁ", "İ", "U.S."),
    *("O'Neil", "ꦲ", "ꦴ", "ꀀ", "ᨾ", "๑", "𠀀", "葛\U000e0100"),
    *("\u00a0", "\u2581", "\u2581x", "\u2028", "\u0085", "\ufeff "),
    *("1,000.5", "mat1,000x", "7:30", "\ufffd", "مرحبا", "नमस्ते", "ⓐ", "𝒳", "x" * 30),
]
IOBES = ("O", *(f"{prefix}-{type_}" for type_ in ("地名", "PER") for prefix in "BIES"))
PLAIN = ("NOUN", "VERB", "B", ".")


def odd_texts(count, most=14, seed=0):
    draw = random.Random(seed)
    made = ["".join(draw.choices(PIECES, k=draw.randint(0, most))) for _ in range(count)]
    return [*made, *texts(count, most, seed), "", " ", "\u0007", "\u200b", "the cat " * 30]


@pytest.mark.integration
@pytest.mark.parametrize("joined", [True, False])
def test_words_are_those_of_the_library(joined):
    lines = odd_texts(200)
    words = WordSplitter(joined)(tf.constant(lines))
    found = (words.rows, *words.spans(), *words.joined())
    rows, starts, ends, joined_lines, first, after = (values.numpy() for values in found)
    expected = [split_words(line, joined) for line in lines]
    assert rows.tolist() == [row for row, spans in enumerate(expected) for _ in spans]
    assert list(zip(starts, ends, strict=True)) == [span for spans in expected for span in spans]
    pairs = zip(lines, expected, strict=True)
    of_lines = [[line[start:end] for start, end in spans] for line, spans in pairs]
    joined_lines = [line.decode() for line in joined_lines]
    assert joined_lines == [" ".join(words) for words in of_lines]
    spans = zip(rows, first, after, strict=True)
    assert [joined_lines[row][start:end] for row, start, end in spans] == sum(of_lines, [])


@pytest.fixture(scope="module")
def tokenizers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vocabulary")
    (folder / "vocab.txt").write_text(letters(80))
    return {"unigram": write_vocabulary(folder), "wordpiece": Tokenizer.load(f"{folder}/vocab.txt")}


def predictions(trained, lines):
    """Return texts with their entities or tagged words, as run_tagger.py predicts them."""
    settings, labels = trained.settings, trained.adjacent.labels
    words = [raw_words(line, settings.unit) for line in lines]
    forms = [encoded_form(*pair, settings.unit) for pair in zip(lines, words, strict=True)]
    windows = make_windows(forms, trained.tokenizer, settings.max_seq_length)
    features = windows.padded(settings.max_seq_length)
    logits = trained.model({n: features[n] for n in ("input_ids", "input_mask", "segment_ids")})
    tags = predict_tags(windows, logits["logits"].numpy(), labels)
    rows = zip(lines, words, tags, strict=True)
    if settings.tags == "plain":
        return [
            [
                (tag, *span, line[slice(*span)], score)
                for span, tag, score in zip(spans, *each, strict=True)
            ]
            for line, spans, each in rows
        ]
    return [list(map(tuple, each.entities(line, spans))) for line, spans, each in rows]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("unit", "tags", "labels", "vocabulary"),
    [
        ("text", "entities", IOBES, "unigram"),
        *slow(
            ("words", "entities", IOBES, "unigram"),
            ("words", "entities", IOBES, "wordpiece"),
            ("words", "plain", PLAIN, "wordpiece"),
        ),
    ],
)
def test_a_tagger_finds_what_the_program_finds(tokenizers, unit, tags, labels, vocabulary):
    tokenizer = tokenizers[vocabulary]
    model = random_model("tagger", config_for(tokenizer), labels=len(labels))
    settings = TaggingSettings(unit=unit, tags=tags, max_seq_length=12)
    trained = TrainedModel("tagger", model, tokenizer, AdjacentFiles(labels=labels), settings)
    lines = odd_texts(60)
    signature = TaggingExport(trained, [tokenizer.path]).signatures()["serving_default"]
    given = signature(text=tf.constant(lines))
    assert_nothing_is_answered(signature, given, text=[0])
    given = {name: values.numpy() for name, values in given.items()}
    columns = [given[name].tolist() for name in ("label", "start", "end", "text")]
    expected = predictions(trained, lines)
    longest = max(map(len, expected))
    assert sum(map(len, expected)) > 100
    assert {values.shape for values in given.values()} == {(len(lines), longest)}
    for number, (line, found) in enumerate(zip(lines, expected, strict=True)):
        row = zip(*(column[number] for column in columns), strict=True)
        spans = [(label.decode(), start, end, text.decode()) for label, start, end, text in row]
        padding = [("", -1, -1, "")] * (longest - len(found))
        assert spans == [*(each[:4] for each in found), *padding], line
        scores = [*(each[4] for each in found), *(0 for _ in padding)]
        np.testing.assert_allclose(given["score"][number], scores, atol=1e-6)
