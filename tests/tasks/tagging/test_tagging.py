"""Tagging: entities and scores as seqeval's, windows, the loss, files, and models on strings."""

import dataclasses
import json
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from keras import ops

from albert_tf import TokenClassifier
from albert_tf.errors import InputError
from albert_tf.finetuning.context import read_sets
from albert_tf.finetuning.run_report import write_predict_results
from albert_tf.finetuning.task import ExampleSet, data_key
from albert_tf.input.examples import Features
from albert_tf.modeling.losses import TokenClassificationObjective
from albert_tf.tasks.tagging.options import TaggingOptions
from albert_tf.tasks.tagging.readers import TaggedText, as_example, from_words, kind_of_tags
from albert_tf.tasks.tagging.report import find_errors, marked_text
from albert_tf.tasks.tagging.tags import Entity, chunks, count_matches, invalid_tags, kind_of
from albert_tf.tasks.tagging.task import TaggingTask
from albert_tf.tasks.tagging.windows import (
    TEXT,
    WORDS,
    TagWindows,
    WordTags,
    encoded_form,
    first_tokens,
    make_windows,
    nearest_window,
    predict_tags,
    raw_words,
)
from albert_tf.tokenizers.normalization import Normalization
from albert_tf.tokenizers.packing import window_starts
from albert_tf.tokenizers.words import split_words
from tests.conftest import GOLDEN, random_inputs
from tests.support.models import write_trained

TAGS = ["O", *(prefix + type_ for prefix in "BIES" for type_ in ("-A", "-B", "-x-y", ""))]


def scores_of(truth, predicted):
    """Return the scores of tag sequences, by the way that they are scored in an evaluation."""
    texts = [from_words("f:1", 0, ["w"] * len(tags), tags) for tags in truth]
    examples = [as_example(text, text.words, True) for text in texts]
    found = [
        WordTags(tags, np.ones(len(tags))).entities(text.text, text.words)
        for tags, text in zip(predicted, texts, strict=True)
    ]
    return count_matches([example.entities for example in examples], found)


def test_scores_are_those_that_seqeval_gave():
    for case in json.loads((GOLDEN / "seqeval/cases.json").read_text()):
        truth, predicted = ([line.split() for line in case[name]] for name in ("true", "pred"))
        assert [list(each) for each in chunks(truth[0])] == case["entities"]
        counts = scores_of(truth, predicted)
        for name in ("precision", "recall", "f1"):
            assert getattr(counts[""], name) == pytest.approx(case[name], abs=1e-12)
        by_type = {
            label: [each.precision, each.recall, each.f1, each.support]
            for label, each in counts.items()
            if label
        }
        assert by_type == {label: pytest.approx(row) for label, row in case["types"].items()}


def test_schemes_are_recognized_and_invalid_tags_counted():
    lines = {
        "O I-A I-A B-A O I-B": ("IOB1", 0),
        "B-A I-A B-A O B-B": ("IOB2", 0),
        "B-A I-A B-A O B-B O I-A I-B": ("IOB2", 2),
        "B-A E-A S-A O B-A I-A E-A": ("IOBES", 0),
        "B-A M-A E-A S-A O B-A O E-B": ("IOBES", 2),
    }
    for line, expected in lines.items():
        assert invalid_tags([line.split()]) == expected, line


@pytest.mark.parametrize(
    ("tags", "kind", "reason"),
    [
        ("NN VB", "plain", "'NN' has no prefix"),
        ("S L M S", "plain", "all are letters, but none of them both"),
        ("E W S O", "plain", "all are letters"),
        ("B O", "plain", "all are letters"),
        ("B M E S", "entities", "all are prefixes"),
        ("O B I", "entities", "all are prefixes"),
        ("O I", "entities", "all are prefixes"),
        ("O S-X", "entities", "all are O or have a prefix and a type, such as 'S-X'"),
    ],
)
def test_what_tags_mean_is_guessed_with_a_reason(caplog, tags, kind, reason):
    tags = tags.split()
    texts = [from_words("f:1", 0, tags, tags)]
    with caplog.at_level("INFO"):
        assert kind_of_tags(texts) == kind
    assert caplog.messages[0].startswith(f"tags: {kind}, because {reason}")
    assert kind_of(tags)[0] == kind  # of an export, or of `labels`
    assert kind_of_tags(texts, "plain") == "plain"


@pytest.mark.parametrize(
    ("scheme", "tags", "wrong"),
    [
        ("auto", "B-X NN", "NN"),
        ("auto", "O B-X I-", "I-"),
        ("bio", "B-", "B-"),
        ("bio", "B-X S-X", "S-X"),
        ("iobes", "B-X L-X", "L-X"),
        ("bmes", "O B-X I-X", "I-X"),
        ("bilou", "B L M", "M"),
        ("iob2", "B-X I-X O", None),
        ("bilou", "U L O", None),
    ],
)
def test_tags_are_of_the_scheme(scheme, tags, wrong):
    texts = [from_words(f"f:{n}", n, ["a"], [tag]) for n, tag in enumerate(tags.split())]
    if wrong is None:
        assert kind_of_tags(texts, scheme) == "entities"
        return
    with pytest.raises(InputError, match=f'^f:[0-2]: tag "{wrong}": must be O, or B-'):
        kind_of_tags(texts, scheme)


def test_the_loss_is_that_of_hugging_face():
    folder = GOLDEN / "hf_tiny_tokcls"
    inputs, outputs = np.load(folder / "inputs.npz"), np.load(folder / "outputs.npz")
    # Labels may be longer than the batch, and what fills a batch does not count.
    labels = np.pad(inputs["labels"], [(0, 1), (0, 3)])
    logits = np.pad(outputs["logits"], [(0, 1), (0, 0), (0, 0)])
    batch = {"label_ids": labels, "is_real_example": np.array([1, 1, 1, 1, 0])}
    batch["label_ids"][:, -3:] = -1
    objective = TokenClassificationObjective()
    sums, weights = objective.sums({"logits": logits}, batch), objective.weights(batch)
    assert float(objective.loss(sums, weights)) == pytest.approx(float(outputs["loss"]), abs=1e-5)
    kept = inputs["labels"] >= 0
    correct = (outputs["logits"].argmax(-1) == inputs["labels"])[kept].sum()
    assert float(ops.convert_to_numpy(sums["token_classification_accuracy"])) == correct


class Letters:
    """A tokenizer with a token for every letter, or for two where they are `joined`."""

    cls_id, sep_id, pad_id, unk_id = 1, 2, 0, -1
    normalization = Normalization()

    def __init__(self, joined=()):
        self.joined = joined

    def encode_with_offsets(self, text):
        ids, offsets, place = [], [], 0
        while place < len(text):
            length = 2 if text[place : place + 2] in self.joined else 1
            if text[place] != "~" and not text[place].isspace():
                ids.append(10 + ord(text[place]))
                offsets.append((place, place + length))
            place += length
        return np.array(ids, np.int32), np.array(offsets, np.int32).reshape(-1, 2)


@random_inputs(50)
@given(st.lists(st.text("abc~", min_size=1, max_size=5), max_size=12), st.integers(3, 9))
def test_every_word_is_predicted_once_where_it_has_most_context(words, length):
    texts = [
        encoded_form(text.text, text.words, WORDS)
        for text in (from_words("f:1", 0, words), from_words("f:2", 1, ["abc", "~"]))
    ]
    windows = make_windows(texts, Letters(), length)
    windows.label(range(len(words) + 2), length)
    again = TagWindows.from_arrays(windows.to_arrays())
    np.testing.assert_equal(vars(again), vars(windows))
    plain = Features.from_arrays(windows.to_arrays())
    keys = {data_key([ExampleSet("eval", "", [], each)]) for each in (windows, plain)}
    assert len(keys) == 1, "or finished runs would be repeated"
    padded = windows.padded(length)
    labels = padded["label_ids"]
    own = [number for number, word in enumerate([*words, "abc"]) if set(word) != {"~"}]
    assert sorted(labels[labels >= 0].tolist()) == own
    tokens = "".join(words).replace("~", "")
    starts = window_starts(len(tokens), length - 2)
    assert set(range(len(tokens))) == {
        token for start in starts for token in range(start, min(start + length - 2, len(tokens)))
    }
    place = 0
    for number, word in enumerate(words):
        if set(word) == {"~"}:
            continue
        row, position = windows.places[number]
        letter = word.replace("~", "")[0]
        assert padded["input_ids"][row, position] == 10 + ord(letter)
        context = [min(place - start, start + length - 3 - place) for start in starts]
        assert context[nearest_window(np.array([place]), starts, length - 2)[0]] == max(context)
        assert place - starts[row] + 1 == position
        place += len(word.replace("~", ""))


def test_words_that_share_a_token_or_have_none_continue_the_tag():
    text, words = "Xy z~ q", [(0, 1), (1, 2), (3, 4), (4, 5), (6, 7)]
    tokenizer = Letters(joined=("Xy",))
    _, offsets = tokenizer.encode_with_offsets(text)
    assert first_tokens(words, offsets).tolist() == [0, -1, 1, -1, 2]
    windows = make_windows([encoded_form(text, words, TEXT)], tokenizer, 8)
    logits = np.full((1, 5, 3), -9.0)
    for position, label in enumerate((0, 1, 0, 1, 0)):
        logits[0, position, label] = 9
    (tags,) = predict_tags(windows, logits, ["O", "B-A", "I-A"])
    assert tags.tags == ["B-A", "I-A", "O", "O", "B-A"]
    entities = tags.entities(text, words)
    assert [each[:4] for each in entities] == [("A", 0, 2, "Xy"), ("A", 6, 7, "q")]
    assert all(0.99 < each.score <= 1 for each in entities)


def test_raw_text_is_split_like_the_text_that_was_trained_on():
    text = "Anna O'Brien's train left London-Paris at 7:30.\u00a0我爱U.S. हिन्दी นี้ 1,5"
    joined = "Anna O'Brien ' s train left London-Paris at 7:30 . 我 爱 U.S . हिन्दी นี้ 1,5"
    apart = "Anna O ' Brien ' s train left London - Paris at 7 : 30 . 我 爱 U . S . हिन्दी นี้ 1 , 5"
    text, joined, apart = text + " ๒๕๖๐ꦲꦴꦏ꧀ꋧ", joined + " ๒๕๖๐ ꦲꦴ ꦏ꧀ ꋧ", apart + " ๒๕๖๐ ꦲꦴ ꦏ꧀ ꋧ"
    for is_joined, expected in ((True, joined), (False, apart)):
        words = [text[start:end] for start, end in split_words(text, is_joined)]
        assert words == expected.split()
    spans = raw_words("a,b", WORDS)
    assert encoded_form("a,b", spans, WORDS) == ("a , b", [(0, 1), (2, 3), (4, 5)])
    assert encoded_form("a,b", spans, TEXT) == ("a,b", spans)


def test_errors_are_named_and_marked_in_the_text():
    text = "Anna Lee met Bo in New York"
    truth = [Entity("PER", 0, 8, "Anna Lee"), Entity("PER", 13, 15, "Bo"),
             Entity("LOC", 19, 27, "New York")]  # fmt: skip
    predicted = [Entity("PER", 0, 4, "Anna"), Entity("LOC", 13, 15, "Bo"),
                 Entity("LOC", 9, 12, "met")]  # fmt: skip
    kinds = [(kind, true and true.text) for kind, true, _ in find_errors(truth, predicted)]
    assert kinds == [("wrong boundaries", "Anna Lee"), ("spurious", None), ("wrong type", "Bo"),
                     ("missed", "New York")]  # fmt: skip
    assert find_errors(truth, truth) == []
    assert marked_text(text, truth, 9, len(text)) == "... met [Bo PER] in [New York LOC]"


def test_entities_that_words_cannot_express():
    text = "Paris-based NYC"
    spans = [(0, 5, "LOC"), (0, 3, "X"), (12, 14, "LOC")]
    entities = tuple(Entity(label, i, j, text[i:j]) for i, j, label in spans)
    source = TaggedText("f:1", 0, text, entities=entities)
    example = as_example(source, raw_words(text, TEXT), True)
    # The longest of those that overlap is learned; the last is widened to the word.
    assert example.tags == ["B-LOC", "O", "O", "B-LOC"]
    assert len(example.entities) == 3, "what is evaluated stays as it is"


def test_random_tags_survive_the_way_into_iob2():
    draw = random.Random(3)
    for _ in range(200):
        tags = [draw.choice(TAGS) for _ in range(draw.randint(1, 9))]
        text = from_words("f:1", 0, ["w"] * len(tags), tags)
        assert chunks(as_example(text, text.words, True).tags) == chunks(tags)


def task_of(folder, labels, content, name="a.jsonl", **settings):
    """Return a task that evaluates and predicts a file with a model that was trained before."""
    folder.joinpath("labels.json").write_text(json.dumps(labels, ensure_ascii=False))
    folder.joinpath("tagging.json").write_text(json.dumps(settings))
    path = folder / name
    path.write_text(content)
    options = TaggingOptions(
        output_dir=str(folder), eval_file=str(path), predict_file=str(path), do_eval=True,
        do_predict=True, task_name="cluener", submission=True, max_seq_length=6,
    )  # fmt: skip
    return TaggingTask(options, Letters())


def test_scores_and_files_of_raw_texts(tmp_path):
    label = {"name": {"abc": [[3, 5]]}, "address": {"de": [[7, 8]], "xy": [[0, 1]]}}
    content = json.dumps({"id": 7, "text": "xy abc de.", "label": label})
    labels = ["O", "B-address", "I-address", "B-name", "I-name"]
    task = task_of(tmp_path, labels, content + "\n", unit="text")
    evaluated, predicted = read_sets(task)
    windows = evaluated.features
    assert windows.texts_split == 1
    # Words are xy, abc, de and the period; the second has the wrong type.
    logits = np.zeros((*windows.padded(6)["label_ids"].shape, 5))
    for (row, position), tag in zip(windows.places, (1, 1, 1, 0), strict=True):
        logits[row, position, tag] = 5
    outputs = {"logits": logits}
    scores = task.score(evaluated, outputs)
    assert scores["eval_f1"] == scores["eval_precision"] == pytest.approx(2 / 3)
    assert scores["eval_accuracy"] == 3 / 4
    log_sum = np.log(np.exp(5) + 4)
    assert scores["eval_loss"] == pytest.approx(log_sum - 5 * 3 / 4)
    baseline = task.baseline(evaluated)
    assert (baseline.answer, baseline.results["eval_f1"]) == ("always O", 0)
    assert task.collapse(evaluated, outputs) is None
    nothing = {"logits": np.eye(5)[np.zeros(logits.shape[:2], int)]}
    assert task.collapse(evaluated, nothing) == "every predicted tag is 'O'"
    (example,) = evaluated.examples
    same = [example._replace(tags=["O"] * len(example.tags))]
    assert task.collapse(dataclasses.replace(evaluated, examples=same), nothing) is None
    by_type, confusion, errors = task.report_sections(evaluated, outputs)
    assert by_type.tables[0].rows == [
        ("address", "2", "3", "66.7%", "100.0%", "80.0%"),
        ("name", "1", "0", "", "0.0%", "0.0%"),
        ("all types", "3", "3", "66.7%", "66.7%", "66.7%"),
    ]
    assert set(by_type.intervals) == {"eval_f1", "eval_precision", "eval_recall"}
    row = [getattr(cell, "text", cell) for cell in confusion.tables[0].rows[1]]
    assert row == ["name", "1", "0", "0", "0"]
    assert errors.tables[0].rows[0][2].startswith("wrong type: abc (name) → abc (address)")

    task.write_predictions(str(tmp_path), predicted, outputs)
    submitted = (tmp_path / "submission/cluener_predict.json").read_text()
    places = {"xy": [[0, 1]], "abc": [[3, 5]], "de": [[7, 8]]}
    assert json.loads(submitted) == {"id": 7, "label": {"address": places}}
    assert (tmp_path / "predictions.conll").read_text() == (
        "xy B-address B-address\nabc B-name B-address\nde B-address B-address\n. O O\n"
    )
    unknown = predicted.examples[0]._replace(tags=None, entities=None)
    some = dataclasses.replace(predicted, examples=[*predicted.examples, unknown])
    assert task.answered(some) == [0]
    write_predict_results(str(tmp_path), task, [(predicted, outputs)])
    assert "predict_f1 = 0.66666667" in (tmp_path / "predict_results.txt").read_text()


def test_plain_tags_have_no_entities(tmp_path):
    task = task_of(tmp_path, ["N", "V"], "ab N\nc V\n\nde N\n", "a.txt", tags="plain")
    assert task.metric == "eval_accuracy"
    examples, _ = read_sets(task)
    logits = np.zeros((2, 6, 2))
    logits[..., 0] = 1
    scores = task.score(examples, {"logits": logits})
    assert set(scores) == {"eval_accuracy", "eval_loss"}
    assert scores["eval_accuracy"] == task.baseline(examples).results["eval_accuracy"] == 2 / 3
    first, _ = task.decode(examples, {"logits": logits})
    assert json.loads(first) == {"id": 0, "text": "ab c", "words": ["ab", "c"], "tags": ["N", "N"]}
    # Lines of standard input, which are numbered from 1, have the ids of a file.
    assert [line.source.id for line in task.parse_lines(["ab c", "de"], 1)] == [0, 1]
    tags, errors = task.report_sections(examples, {"logits": logits})
    assert tags.tables[0].rows[1] == ("V", "1", "0", "", "0.0%", "0.0%")
    assert errors.tables[0].rows == [("c", "V", "N", "1")]


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
