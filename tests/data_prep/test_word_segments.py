"""Whole words are masked in scripts without spaces, and nothing else changes."""

import dataclasses
import itertools
import pathlib
import sys

import numpy as np
import pytest
import rjieba

from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from data_prep import word_segments
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.word_segments import WORD_SEGMENTERS, continuing_tokens, load_segmenter
from tests.support.texts import contents, create

SENTENCES = [
    "我们使用语言模型来预测句子中的下一个词。",
    "他在北京大学学习计算机科学和自然语言处理。",
    "这个城市的历史文化遗产需要得到保护，2010年有了BERT模型 and more words。",
    "人工智能正在改变世界各地人民的日常生活。",
    "昨天晚上的音乐会非常精彩，观众们都很高兴。",
    "春天来了，公园里的花都开了，孩子们在草地上玩。",
]
LATIN = "the cat sat on a mat, 2010"


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("chinese") / "vocab.txt"
    characters = sorted(set("".join(SENTENCES).lower()) - {" "})
    words = ["and", "more", "words", "be", "##rt", "2010", "the", "cat", "sat", "##a"]
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(characters + words)]
    path.write_text("\n".join(pieces), "utf-8")
    return str(path)


@pytest.fixture
def options(vocabulary, tmp_path) -> PretrainingDataOptions:
    text = tmp_path / "in.txt"
    documents = [
        "\n".join(order) for order in itertools.islice(itertools.permutations(SENTENCES), 20)
    ]
    text.write_text("\n\n".join(documents), "utf-8")
    return PretrainingDataOptions(
        input_file=(str(text),),
        output_file=(str(tmp_path / "out" / "train.tfrecord"),),
        vocab_file=vocabulary,
        max_seq_length=128,
        max_predictions_per_seq=20,
        dupe_factor=2,
        word_segmenter="jieba",
    )


def words_of(tokenizer: Tokenizer, ids: np.ndarray, boundary: np.ndarray) -> list[str]:
    """Return the words of an example, as its boundaries say."""
    starts = np.flatnonzero(boundary)
    tokens = np.array(tokenizer.convert_ids_to_tokens(ids), object)
    return ["".join(t.removeprefix("##") for t in part) for part in np.split(tokens, starts)[1:]]


def test_the_words_of_examples_are_those_of_the_segmenter(options):
    manifest, examples = create(dataclasses.replace(options, masking="dynamic"))
    tokenizer = Tokenizer.load(options.vocab_file)
    expected = {word.lower() for sentence in SENTENCES for word in rjieba.cut(sentence)}
    assert "语言" in expected
    seen = set()
    names = ("input_ids", "token_boundary", "input_mask")
    for ids, boundary, mask in zip(*(examples[name] for name in names), strict=True):
        found = words_of(tokenizer, ids[: mask.sum()], boundary[: mask.sum()])
        # Segments may be cut off within words.
        for word, after in itertools.pairwise(found):
            if "[" not in word + after:
                seen.add(word)
    assert {word for word in seen if len(word) > 1} >= {"语言", "模型", "北京大学", "and", "bert"}
    assert seen <= expected
    assert manifest["settings"]["word_segmenter"] == "jieba"
    assert manifest["versions"]["rjieba"]


def test_whole_words_are_masked(options):
    _, examples = create(options)
    _, plain = create(dataclasses.replace(options, word_segmenter=None))
    names = ("input_ids", "token_boundary", "masked_lm_positions", "masked_lm_weights")
    for features, whole in ((examples, True), (plain, False)):
        longer = 0
        rows = zip(*(features[name] for name in names), strict=True)
        for ids, boundary, positions, weights in rows:
            masked = set(positions[weights > 0].tolist())
            ends = np.append(np.flatnonzero(boundary), boundary.nonzero()[0].max() + 1)
            for begin, end in itertools.pairwise(ends.tolist()):
                if ids[begin] not in (2, 3):  # [CLS], [SEP]; the rest of a word may follow
                    assert len(masked & set(range(begin, end))) in (0, end - begin)
                    longer += end - begin > 1
        assert (longer > 100) == whole


def test_text_of_other_scripts_is_not_affected(options, tmp_path):
    (tmp_path / "in.txt").write_text("\n\n".join([f"{LATIN}\n{LATIN}\nthe {LATIN}"] * 9))
    create(options)
    records = contents(tmp_path / "out")["train.tfrecord"]
    create(dataclasses.replace(options, word_segmenter=None))
    assert contents(tmp_path / "out")["train.tfrecord"] == records


def test_characters_of_one_word_that_are_split_or_joined_otherwise(vocabulary):
    """Accents, ideographs outside of the vocabulary, spaces inside the text."""
    tokenizer = Tokenizer.load(vocabulary)
    texts = ["", "语言 模型", "é语言é", "\u00ad语\u00ad言", "龘龘語言", "a 语言", "T恤"]
    lengths = np.array([len(ids) for ids in tokenizer.encode_batch(texts)])
    marks = continuing_tokens(tokenizer, texts, lengths, load_segmenter("jieba"))
    found = [part.tolist() for part in np.split(marks, np.cumsum(lengths))[:-1]]
    assert found[:3] == [[], [False, True, False, True], [False, False, True, False]]
    assert found[5:] == [[False, False, True], [False, False]]
    assert [len(part) for part in found] == lengths.tolist()


def characters_vocabulary(folder: pathlib.Path, characters: str) -> Tokenizer:
    """Return a tokenizer with a piece for each character, at the start of a word and inside."""
    pieces = [
        prefix + character for prefix in ("", "##") for character in dict.fromkeys(characters)
    ]
    path = folder / "vocab.txt"
    path.write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *pieces]), "utf-8")
    return Tokenizer.load(str(path), do_lower_case=False)


@pytest.mark.parametrize(
    "words",
    [
        ["ประเทศไทย", "มี", "คน", "มาก"],
        ["ມະນຸດ", "ທຸກຄົນ", "ເກີດ", "ມາ"],
        ["មនុស្ស", "ទាំងអស់", "មាន", "សេរីភាព"],
        ["တူညီ", "လွတ်လပ်", "သော"],
        ["人間", "は", "自由", "です"],
        ["自由", "和", "权利"],
        ["𠀀", "ไทย"],  # beyond 16 bits
        [*"ꦲꦏꦱꦫ"],  # ICU has no dictionary
    ],
)
def test_words_that_icu_finds(tmp_path, words):
    text = "".join(words)
    tokenizer = characters_vocabulary(tmp_path, text)
    texts = ["the", f"a {text} b", text]
    ids = [np.array(ids) for ids in tokenizer.encode_batch(texts)]
    lengths = np.array([len(part) for part in ids])
    continues = continuing_tokens(tokenizer, texts, lengths, load_segmenter("icu"))
    starts = (tokenizer.word_starts[np.concatenate(ids)] & ~continues)[-lengths[-1] :]
    assert words_of(tokenizer, ids[-1], starts) == words


def test_options(options, monkeypatch):
    (field,) = [f for f in dataclasses.fields(options) if f.name == "word_segmenter"]
    assert field.metadata["choices"] == tuple(WORD_SEGMENTERS)
    monkeypatch.setitem(sys.modules, "rjieba", None)
    with pytest.raises(InputError, match=r"rjieba is not installed; .*'albert-tf\[chinese\]'"):
        word_segments.load_segmenter("jieba")
    monkeypatch.setitem(sys.modules, "icu4py.breakers", None)
    with pytest.raises(InputError, match=r"`word_segmenter`=icu: icu4py.* 'albert-tf\[words\]'"):
        word_segments.load_segmenter("icu")
