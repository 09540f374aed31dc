"""A tokenizer that is called returns what fine-tuning feeds a model, and decodes it."""

from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.tasks.classification.datasets import Example
from albert_tf.tasks.classification.encoding import featurize
from albert_tf.tokenizers import Tokenizer, packing
from tests.conftest import random_inputs, refusal
from tests.support import references
from tests.support.models import letters

WORDS = st.text(st.sampled_from("ab é9,[] ßI\n中"), max_size=30)


@pytest.fixture(scope="module", params=["sentencepiece", "wordpiece"])
def tokenizer(request, tmp_path_factory) -> Tokenizer:
    if request.param == "sentencepiece":
        return Tokenizer.load(str(references.OWN_VOCABULARY))
    path = tmp_path_factory.mktemp("vocabulary") / "vocab.txt"
    path.write_text(letters(60))
    return Tokenizer.load(str(path))


@random_inputs(50)
@given(rows=st.lists(st.tuples(WORDS, WORDS), min_size=1, max_size=4), length=st.integers(5, 24))
def test_are_those_of_fine_tuning(tokenizer, rows, length):
    texts, pairs = map(list, zip(*rows, strict=True))
    for seconds in (None, pairs):
        found = tokenizer(np.array(texts, object), seconds, length, padding="max_length")
        examples = [
            Example("", text, pair, None)
            for text, pair in zip(texts, seconds or [None] * len(texts), strict=True)
        ]
        expected = featurize(examples, tokenizer, length).padded(length)
        assert list(found) == ["input_ids", "input_mask", "segment_ids"]
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values)
            assert found[name].dtype == np.int32


@given(first=st.lists(st.just(5)), second=st.lists(st.just(6)), length=st.integers(5, 20))
def test_a_pair_loses_tokens_one_by_one_from_the_longer_text(first, second, length):
    shorter, others = packing.truncate(np.array(first), np.array(second), length)
    while len(first) + len(second) > length - 3:
        (first if len(first) > len(second) else second).pop()
    assert (shorter.tolist(), others.tolist()) == (first, second)


LONG_TEXTS = ("head", "head_tail", "windows", "windows_max")


@given(tokens=st.integers(0, 60), length=st.integers(5, 20))
def test_of_long_texts_the_end_or_the_middle_or_nothing_is_lost(tokens, length):
    ids = np.arange(10, 10 + tokens).tolist()
    tokenizer = SimpleNamespace(
        encode_batch=lambda texts: [np.array(ids, np.int32) for _ in texts],
        cls_id=2, sep_id=3, pad_id=0,
    )  # fmt: skip
    read = {}
    for how in LONG_TEXTS:
        features = featurize([Example("", "", None, None)] * 2, tokenizer, length, how)
        rows = np.split(features.ids, np.cumsum(features.lengths)[:-1])
        count = features.windows_per_text[1]
        assert features.first_windows.tolist() == [0, count]
        assert {(len(row) <= length, row[0], row[-1]) for row in rows} == {(True, 2, 3)}
        read[how] = [row[1:-1].tolist() for row in rows[count:]]
        lost = tokens - len({token for row in read[how] for token in row})
        assert features.tokens_cut.sum() == 2 * lost
        assert features.texts_split == 2 * (count > 1)
    room = length - 2
    if tokens <= room:
        assert all(rows == [ids] for rows in read.values())
        return
    assert read["head"] == [ids[:room]]
    first = -(-room // 4)
    assert read["head_tail"] == [ids[:first] + ids[first - room :]]
    starts = [row[0] for row in read["windows"]]
    assert np.diff(starts).max() <= room // 2, "they overlap"
    assert all(row == ids[row[0] - 10 :][:room] for row in read["windows"])
    assert (starts[0], read["windows"][-1][-1]) == (10, ids[-1])
    assert read["windows_max"] == read["windows"]


@random_inputs(30)
@given(text=WORDS, pair=WORDS, length=st.none() | st.integers(5, 24))
def test_offsets_are_of_the_raw_texts(tokenizer, text, pair, length):
    found = tokenizer([text, ""], [pair, ""], length, offsets=True)
    ids, segments, offsets = (found[n][0] for n in ("input_ids", "segment_ids", "offsets"))
    assert offsets.shape == (len(ids), 2)
    special = np.isin(ids, [tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id])
    assert not offsets[special].any()
    for number, raw in enumerate((text, pair)):
        of_text = ~special & (segments == number)
        whole_ids, whole_offsets = tokenizer.encode_with_offsets(raw)
        count = of_text.sum()
        assert length is not None or count == len(whole_ids)
        np.testing.assert_array_equal(ids[of_text], whole_ids[:count])
        np.testing.assert_array_equal(offsets[of_text], whole_offsets[:count])


def test_prompts_and_padding(tokenizer):
    cls, sep, pad = tokenizer.cls_id, tokenizer.sep_id, tokenizer.pad_id
    a, b = tokenizer.encode("a"), tokenizer.encode("b")
    found = tokenizer("a", "b", max_length=12, padding="max_length")
    ids, segments = [cls, *a, sep, *b, sep], [0] * (len(a) + 2) + [1] * (len(b) + 1)
    padding = 12 - len(ids)
    assert found["input_ids"].tolist() == [[*ids, *[pad] * padding]]
    assert found["input_mask"].tolist() == [[1] * len(ids) + [0] * padding]
    assert found["segment_ids"].tolist() == [segments + [0] * padding]
    found = tokenizer(["a [MASK].", "b"], special_symbols=True)
    mask = found["input_ids"] == tokenizer.mask_id
    assert mask.sum(axis=1).tolist() == [1, 0]
    assert not (tokenizer("a [MASK].")["input_ids"] == tokenizer.mask_id).any()
    assert found["input_mask"].sum(axis=1).tolist() == [len(mask[0]), 3]
    rows = tokenizer(["a [MASK].", "b"], padding=False, special_symbols=True)
    assert [row.tolist() for row in rows["input_ids"]] == [
        ids[kept > 0].tolist()
        for ids, kept in zip(found["input_ids"], found["input_mask"], strict=True)
    ]
    assert tokenizer([])["input_ids"].shape == (0, 0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"texts": 5}, "`texts`=5: must be a text or a sequence of texts, not int"),
        ({"texts": b"a"}, "`texts`=b'a': must be a text or a sequence of texts, not bytes"),
        ({"texts": ["a", float("nan")]}, "`texts`[1]=nan: must be a text, not float"),
        ({"texts": ["a"], "pairs": [None]}, "`pairs`[0]=None: must be a text, not NoneType"),
        ({"texts": ["a", "b"], "pairs": "c"}, "`pairs`: must be as many as `texts`, 2, not 1"),
        (
            {"texts": ["a", "the \ud83d cat"]},
            r"`texts`[1]: contains \ud83d, half of a surrogate pair",
        ),
        ({"texts": "a", "max_length": 4}, "`max_length`=4: must be at least 5"),
        (
            {"texts": "a", "padding": True},
            "`padding`=True: must be 'longest', 'max_length' or False",
        ),
        ({"texts": "a", "padding": "max_length"}, "`padding`='max_length': needs `max_length`"),
    ],
)
def test_invalid_arguments_are_named(tokenizer, arguments, message):
    assert refusal(tokenizer, **arguments) == message


def test_half_of_a_surrogate_pair_is_named(tokenizer):
    with pytest.raises(InputError, match=r"^`text`: contains \\ud83d, half of a surrogate pair$"):
        tokenizer.tokenize("the \ud83d cat")


def test_ids_are_decoded_without_control_symbols(tokenizer):
    texts = ["ab a", "", "b."]
    batch = tokenizer(texts, texts)["input_ids"]
    decoded = tokenizer.decode(batch)
    assert [text.split() for text in decoded] == [
        tokenizer.decode([*ids, *ids]).split() for ids in map(tokenizer.encode, texts)
    ]
    assert tokenizer.decode(batch.tolist()) == decoded
    assert tokenizer.decode(tokenizer(texts, texts, padding=False)["input_ids"]) == decoded
    assert tokenizer.decode([]) == tokenizer.decode([tokenizer.pad_id, tokenizer.mask_id]) == ""
    with pytest.raises(InputError, match="`ids`: -1 is not in the vocabulary; must be from 0 to"):
        tokenizer.decode([5, -1])
