"""Vocabularies laid out as in the original, from a uniform sample, or a clear error."""

import json
import re

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import DEFAULT_NORMALIZATION, Normalization
from albert_tf.tokenizers.wordpiece import SPECIAL_SYMBOLS
from data_prep import parallel, sentence_sample, text_units, train_vocabulary
from data_prep.train_vocabulary import VocabularyOptions, accent_loss
from data_prep.vocabulary_types import VOCABULARY_TYPES
from tests.conftest import run_python

# How every vocabulary of the published English models begins.
FIRST_PIECES = ["<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]", *'()"-.–£€']


def sentences_of(*paths, size: int = 0, seed: int = 1, num_processes: int = 1) -> list[str]:
    options = VocabularyOptions(input_file=(), output_prefix="x", num_processes=num_processes)
    return sentence_sample.sample_sentences([str(path) for path in paths], size, seed, options)


def test_pieces_are_laid_out_as_in_the_original(model_file):
    pieces = Tokenizer.load(str(model_file)).pieces
    assert pieces[:13] == FIRST_PIECES
    assert len(pieces) == len(set(pieces)) == 1000
    listed = model_file.with_suffix(".vocab").read_text("utf-8").splitlines()
    assert [line.split("\t")[0] for line in listed] == pieces


def test_text_is_lower_cased_without_accents_first(tmp_path):
    (tmp_path / "in.txt").write_text("Ünïcode CAFÉ\n\n \nthe End\n", "utf-8")
    lines = sentences_of(tmp_path / "in.txt")
    prepare = VOCABULARY_TYPES["unigram"].prepare
    cased = Normalization(do_lower_case=False)
    assert [prepare(line, DEFAULT_NORMALIZATION) for line in lines] == ["unicode cafe", "the end"]
    assert [prepare(line, cased) for line in lines] == ["Unicode CAFE", "the End"]


@pytest.mark.integration
@pytest.mark.parametrize(
    ("model_type", "endings"), [("unigram", ("model", "vocab")), ("wordpiece", ("txt",))]
)
def test_the_same_text_gives_the_same_files(corpus, tmp_path, model_type, endings):
    for name in "ab":  # each in a process with hash seeds of its own
        done = run_python(
            "-m", "data_prep.train_vocabulary", f"--model_type={model_type}", "--vocab_size=700",
            f"--input_file={corpus}", f"--output_prefix={tmp_path}/{name}",
            "--input_sentence_size=500",
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
    for ending in endings:
        contents = [(tmp_path / f"{name}.{ending}").read_bytes() for name in "ab"]
        assert contents[0] == contents[1]
    assert {path.name for path in tmp_path.iterdir()} == {
        "tokenizer_config.json",
        *(f"{name}.{ending}" for name in "ab" for ending in endings),
    }
    assert Tokenizer.load(str(tmp_path / f"a.{endings[0]}")).vocab_size == 700


def trained(model_type: str, sentences: list[str], vocab_size: int, folder) -> Tokenizer:
    contents = VOCABULARY_TYPES[model_type].train(sentences, vocab_size, 0.99995, ())
    path = folder / f"v{VOCABULARY_TYPES[model_type].endings[0]}"
    path.write_bytes(contents[0])
    return Tokenizer.load(str(path))


@pytest.mark.parametrize("model_type", ["unigram", "wordpiece"])
@pytest.mark.parametrize("vocab_size", [30_000, 50_000])
def test_the_size_named_in_the_error_works(corpus, tmp_path, model_type, vocab_size):
    prepare = VOCABULARY_TYPES[model_type].prepare
    sentences = [prepare(line, DEFAULT_NORMALIZATION) for line in sentences_of(corpus)][:300]
    with pytest.raises(InputError, match=f"`vocab_size`={vocab_size}: too large") as error:
        trained(model_type, sentences, vocab_size, tmp_path)
    size = int(re.search(r"; (\d+) works", str(error.value))[1])
    assert size > 300
    assert trained(model_type, sentences, size, tmp_path).vocab_size == size


@pytest.mark.parametrize("model_type", ["unigram", "wordpiece"])
def test_a_size_below_the_alphabet_is_refused(tmp_path, model_type):
    sentences = ["the quick brown fox jumps over the lazy dog"] * 100
    with pytest.raises(InputError, match=r"`vocab_size`=20: too small.* need (\d+)") as error:
        trained(model_type, sentences, 20, tmp_path)
    if model_type == "wordpiece":
        needed = int(re.search(r"need (\d+)", str(error.value))[1])
        assert trained(model_type, sentences, needed, tmp_path).vocab_size == needed


def test_wordpiece_learns_frequent_pairs(tmp_path):
    """The special symbols, the alphabet, then merges, the most frequent pair first."""
    # A word that the tokenizer would not split is not learned from.
    sentences = ["ab " * 5 + "cab " * 3 + "。 中 文 ]"] * 10 + ["z" * 201]
    assert trained("wordpiece", sentences, 15, tmp_path).pieces == [
        *SPECIAL_SYMBOLS, "]", "a", "b", "c", "。", "中", "文", "##a", "##b", "ab",
    ]  # fmt: skip


def test_wordpiece_drops_rare_characters(tmp_path):
    sentences = ["the cat sat on a mat"] * 5000 + ["the q cat", "aqa"]
    with pytest.raises(InputError, match=r"; (\d+) works") as error:
        trained("wordpiece", sentences, 1000, tmp_path)
    tokenizer = trained(
        "wordpiece", sentences, int(re.search(r"; (\d+) works", str(error.value))[1]), tmp_path
    )
    assert not any("q" in piece for piece in tokenizer.pieces)
    assert tokenizer.tokenize("The cat q") == ["the", "cat", "[UNK]"]


# Frequent vowel signs, tone marks and umlauts; words that differ in nothing else.
GERMAN = "schön ist es schon hier und die Tür war zu, für uns und die Bären fuhr er fort."
THAI = "น้ำที่นี่ใสและเย็น คนไทยดื่มน้ำทุกวัน"
ENGLISH = "She read the letter in the café near the old station, and nobody came to see her. "


def train(tmp_path, text: str, **flags) -> Tokenizer:
    (tmp_path / "in.txt").write_text(text, "utf-8")
    options = VocabularyOptions(
        **{
            "input_file": (str(tmp_path / "in.txt"),),
            "output_prefix": str(tmp_path / "vocabulary" / "vocab"),
            "model_type": "wordpiece",
            "vocab_size": 60,
            "num_processes": 1,
            **flags,
        }
    )
    train_vocabulary.run(options)
    return Tokenizer.load(str(tmp_path / "vocabulary"))


@pytest.mark.parametrize("model_type", ["unigram", "wordpiece"])
@pytest.mark.parametrize(
    ("text", "kept", "example"),
    [
        (GERMAN + "\n", True, "schön → schon"),
        (THAI + "\n", True, "นี"),
        (ENGLISH.replace("é", "e") + "\n", False, "0 of"),
        # One accent in a thousand words says nothing; one in ten thousand does.
        (ENGLISH + ENGLISH.replace("é", "e") * 60 + "\n", True, "café → cafe (another word"),
        ((ENGLISH + (ENGLISH.replace("é", "e") + "\n") * 1000) * 9, False, "café → cafe"),
        # Names do not count.
        ((ENGLISH.replace("é", "e") + "Gödel met Émile.\n") * 9, False, "Gödel → Godel"),
    ],
)
def test_accents_are_kept_unless_the_text_has_hardly_any(
    tmp_path, caplog, model_type, text, kept, example
):
    if "Gödel" in text:
        text = (ENGLISH.replace("é", "e") * 40 + "John and Mary met Tom in Paris.\n") * 40 + text
    caplog.set_level("INFO")
    loss = accent_loss(
        text.splitlines(),
        VOCABULARY_TYPES[model_type].unicode_form,
        VOCABULARY_TYPES[model_type].bare,
    )
    assert loss.is_negligible is not kept
    assert example in loss.describe(kept)


def test_what_a_vocabulary_does_to_text_is_recorded_next_to_it(tmp_path, caplog):
    caplog.set_level("INFO")
    tokenizer = train(tmp_path, (GERMAN + "\n") * 20)
    assert "accents are kept: " in caplog.text
    assert json.loads((tmp_path / "vocabulary/tokenizer_config.json").read_text()) == {
        "tokenizer_class": "BertTokenizer",
        "do_lower_case": True,
        "keep_accents": True,
        "strip_accents": False,
        "unicode_form": "NFC",
    }
    assert tokenizer.decode(tokenizer.encode("Scho\u0308n Tür")) == "schön tür"
    (tmp_path / "vocabulary/tokenizer_config.json").unlink()  # the meaning of old vocabularies
    assert Tokenizer.load(tokenizer.path).tokenize("Tür") != tokenizer.tokenize("Tür")
    tokenizer = train(tmp_path, (GERMAN + "\n") * 20, keep_accents=False)
    assert tokenizer.decode(tokenizer.encode("Schön Tür")) == "schon tur"


def test_a_folder_has_vocabularies_of_one_normalization(tmp_path):
    text = (GERMAN + "\n") * 20
    (tmp_path / "vocabulary").mkdir()
    (tmp_path / "vocabulary" / "trees.model").write_bytes(b"of another program")
    train(tmp_path, text)
    other = {"output_prefix": str(tmp_path / "vocabulary" / "w")}
    before = {path.name: path.read_bytes() for path in (tmp_path / "vocabulary").iterdir()}
    with pytest.raises(InputError, match=r"vocab\.txt in the same folder is normalized otherwise"):
        train(tmp_path, text, keep_accents=False, **other)
    assert before == {path.name: path.read_bytes() for path in (tmp_path / "vocabulary").iterdir()}
    # A vocabulary without a record would get another meaning.
    (tmp_path / "vocabulary" / "tokenizer_config.json").unlink()
    with pytest.raises(InputError, match=r"vocab\.txt in the same folder is normalized otherwise"):
        train(tmp_path, text, **other)


@pytest.mark.parametrize("gap", [" ", ""])
def test_long_lines_are_cut_and_not_ignored(tmp_path, gap):
    """SentencePiece ignores lines of more than 4,192 bytes."""
    words = ["голос", "вечер", "город", "река", "солнце"]
    line = gap.join(words * 300)
    assert len(line.encode()) > 3 * 4192
    tokenizer = trained("unigram", [line, "the cat sat on a mat \u2585"] * 20, 40, tmp_path)
    assert {*"".join(words)} <= set("".join(tokenizer.pieces))
    assert tokenizer.unk_id not in tokenizer.encode(line)


def test_lines_beyond_a_megabyte_are_counted(tmp_path, caplog):
    (tmp_path / "in.txt").write_text("the cat\n" + "x" * 1_000_001 + "\nsat\n")
    assert sentences_of(tmp_path / "in.txt") == ["the cat", "sat"]
    assert caplog.messages == ["left out: 1 line of more than 1,000,000 bytes"]


def test_symbols_and_coverage_of_the_user(tmp_path):
    text = ("x" * 40 + " the cat [url] sat\n") * 600 + "q\n"
    flags = {"model_type": "unigram", "vocab_size": 38, "user_defined_symbols": ("[url]",)}
    tokenizer = train(tmp_path, text, **flags)
    assert "[url]" in tokenizer.tokenize("cats[url]sat")
    assert "q" not in tokenizer.pieces
    assert "q" in train(tmp_path, text, **flags, character_coverage=1.0).pieces
    with pytest.raises(InputError, match=r"`user_defined_symbols`=\[URL\]: never occurs .*\[url\]"):
        train(tmp_path, text, **flags | {"user_defined_symbols": ("[URL]",)})
    # Of WordPiece, which splits text at punctuation, they are words.
    flags |= {"model_type": "wordpiece", "output_prefix": str(tmp_path / "w" / "vocab")}
    with pytest.raises(InputError, match=r"`user_defined_symbols`=\[url\]: never occurs"):
        train(tmp_path, text, **flags)
    train(
        tmp_path, text, **flags | {"vocab_size": 30, "user_defined_symbols": ("zebu", "cat", "a")}
    )
    tokenizer = Tokenizer.load(str(tmp_path / "w"))
    assert tokenizer.pieces[5:8] == ["zebu", "cat", "a"]
    assert len(set(tokenizer.pieces)) == tokenizer.vocab_size
    assert tokenizer.tokenize("A Zebu cat") == ["a", "zebu", "cat"]


@pytest.mark.integration
def test_the_sample_is_uniform_and_ordered(tmp_path, monkeypatch):
    monkeypatch.setattr(text_units, "_MIN_UNIT_BYTES", 500)
    monkeypatch.setattr(text_units, "_UNITS", 1_000_000)
    paths = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for path, first in zip(paths, (0, 600), strict=True):
        path.write_text("\n\n".join(str(number) for number in range(first, first + 600)))
    counts = np.zeros(1200)
    for seed in range(200):
        chosen = [int(text) for text in sentences_of(*paths, size=100, seed=seed)]
        assert len(set(chosen)) == 100
        assert chosen == sorted(chosen)
        counts[chosen] += 1
    for part in np.split(counts, 4):
        assert abs(part.mean() - 200 / 12) < 1.0
    everything = [str(number) for number in range(1200)]
    assert sentences_of(*paths) == sentences_of(*paths, size=5000) == everything


@pytest.mark.integration
def test_the_sample_depends_on_the_text_alone(corpus, monkeypatch):
    """Not on workers, units of work, and how many candidates are kept on the way."""
    expected = sentences_of(corpus, size=200)
    monkeypatch.setattr(text_units, "_MIN_UNIT_BYTES", 10_000)
    monkeypatch.setattr(text_units, "_UNITS", 1_000_000)
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 10_000)
    assert sentences_of(corpus, size=200) == expected
    assert sentences_of(corpus, size=200, num_processes=2) == expected
    monkeypatch.setattr(sentence_sample, "_SLACK", 100)
    assert sentences_of(corpus, size=200) == expected


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 5}, "`vocab_size`=5: too small"),
        ({"vocab_size": 5, "model_type": "wordpiece"}, "too small; the special .* need 5"),
        ({"input_file": ("none-*.txt",)}, "`input_file`: no file matches"),
    ],
)
def test_invalid_options_are_reported(corpus, tmp_path, changes, message):
    flags = {"input_file": (str(corpus),), "output_prefix": str(tmp_path / "v")} | changes
    with pytest.raises(InputError, match=message):
        train_vocabulary.run(VocabularyOptions(**flags))
