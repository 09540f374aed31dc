"""Sentences of 39 languages, worked out by hand, and what no language may do to a text."""

import itertools
import pathlib

import pytest
import regex
import sentencex
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from data_prep.languages import resolve_language
from data_prep.sentences import split_sentences


def read_oracle() -> list[tuple[str, list[str]]]:
    """Return languages and sentences; in languages with `*` no space separates them."""
    folder = pathlib.Path(__file__).parent
    lines = (folder / "sentences.txt").read_text("utf-8").split("\n")
    groups = itertools.groupby((line for line in lines if not line.startswith("#")), key=bool)
    found = [(language, sentences) for has_text, (language, *sentences) in groups if has_text]
    # Words, brackets and quotations that look like ends, or do not.
    lines = (folder / "sentence_pairs.txt").read_text("utf-8").split("\n")
    pairs = (line.split("\t") for line in lines if "\t" in line)
    return [*found, *((language, text.split(" | ")) for language, text in pairs)]


@pytest.mark.parametrize(("language", "sentences"), read_oracle())
def test_sentences_as_a_reader_would_split_them(language, sentences):
    space = "" if language.endswith("*") else " "
    assert split_sentences(space.join(sentences), language.rstrip("*")) == sentences


# Commas, a Burmese genitive, and what `sentencex` takes for the point of an abbreviation.
NO_ENDS = set("\u104a\ua9c8\u1b5e\u1735.\u2024\ufe52\uff0e")


@pytest.mark.integration
def test_every_terminator_of_unicode_ends_a_sentence():
    terminal = regex.compile(r"\p{Sentence_Terminal}")
    found = [c for c in map(chr, range(0x110000)) if terminal.match(c) and c not in NO_ENDS]
    # Of historic scripts, vertical forms, and what was added since 2023.
    newer = {0x1B4E, 0x1B4F, 0x1B7F, 0x2CF9, 0x2CFA, 0x2CFB, 0x2E60, 0x2E61, 0xFE12, 0xFE15, 0xFE16}
    found = [c for c in found if ord(c) not in newer and not 0x113D4 <= ord(c) <= 0x16D6F]
    assert len(found) > 100
    found += ["\u037e", "\u0f0d", "\u0f0e", "\u1361\u1361"]
    for end in found:
        sentences = [f"ཀཁགང{end}", f"ཅཆཇཉ{end}", "ཏཐདན"]
        assert split_sentences(" ".join(sentences), "bo") == sentences, hex(ord(end[0]))


@pytest.mark.parametrize(
    ("language", "text", "count"),
    [
        ("ar", "١. الأول هنا. ٢. الثاني هناك.", 2),
        ("bo", "༄༅། །བཀྲ་ཤིས་བདེ་ལེགས། །ཁྱེད་རང་སུ་ཡིན།", 2),  # an ornament before the text
    ],
)
def test_numbers_of_lists_and_ornaments_are_no_sentences(language, text, count):
    assert len(split_sentences(text, language)) == count


def test_a_book_without_spaces_and_paragraphs():
    sentences = ["他说：“我们走吧！”", "然后他们走了。"] * 5000
    assert split_sentences("".join(sentences), "zh") == sentences


@pytest.mark.parametrize(
    ("language", "sentence"),
    [
        ("he", "הוא אמר (לאט) בשעה 5 והם הלכו."),
        ("hi", "डॉ. सिंह ने कहा “जाओ” और वह 5 बजे घर गया."),
        ("ru", "Он сказал: «Иди» (сразу), и все они ушли."),
        ("zh", "他说：“我们走吧！”然后他们走了。"),
    ],
)
def test_a_long_paragraph_is_segmented_in_windows(language, sentence, monkeypatch):
    lengths = []
    segment = sentencex.segment
    monkeypatch.setattr(
        sentencex, "segment", lambda code, text: lengths.append(len(text)) or segment(code, text)
    )
    paragraph = " ".join([sentence] * 3000)
    assert split_sentences(paragraph, language) == split_sentences(sentence, language) * 3000
    # Linear, where the time for a window is quadratic.
    assert max(lengths) < 30_000
    assert sum(lengths) < 1.2 * len(paragraph)


@pytest.mark.parametrize(
    ("language", "text", "sentences"),
    [
        ("en", "Nothing  is here.  It\tis\u3000not.", ["Nothing is here.", "It is not."]),
        ("en", "It  is here.  It is  not.", ["It is here.", "It is not."]),
        ("en", " It is\u00a0not. \n It was. ", ["It is not.", "It was."]),
        # A zero-width space separates words in Javanese, also where a sentence ends.
        ("jv", "ꦲꦏꦸ꧉\u200b ꦝꦺꦮꦺ꧉\u200b", ["ꦲꦏꦸ꧉", "ꦝꦺꦮꦺ꧉"]),
        ("my", "သူ။\u200b", ["သူ။"]),
        ("en", " \u200b \n", []),
    ],
)
def test_white_space_is_folded(language, text, sentences):
    assert split_sentences(text, language) == sentences


@given(
    st.text(
        "aA.1 \u0430\u0410!?;\u037e\u17d4\u179b\u0f0d\u0f0b\u104a\ua9c8\u1361\u200b\n'\"()"
        "[]（）。「」『』“”гetc",
        max_size=40,
    ),
    st.sampled_from(["en", "de", "el", "km", "my", "bo", "hy", "ja", "zh", "ru", "sv", "und"]),
)
def test_splitting_only_splits(text, language):
    sentences = split_sentences(text, language)
    assert "".join("".join(sentences).split()).replace("\u200b", "") == "".join(
        text.split()
    ).replace("\u200b", "")
    assert all(sentence == " ".join(sentence.split()) != "" for sentence in sentences)


@pytest.mark.parametrize(
    ("code", "language"),
    [
        ("fi", "fi"), ("fi-FI", "fi"), ("pt-BR", "pt"), ("pt_br", "pt"), ("zh-Hant-TW", "zh"),
        ("sr_Latn", "sr"), ("EN", "en"), ("deu", "de"), ("ger", "de"), ("cmn", "zh"), ("arb", "ar"),
        ("iw", "he"), ("zh-cmn-Hans", "zh"), ("yue", "yue"), ("zh-yue", "yue"), ("simple", "en"),
        ("be-tarask", "be"), ("be-x-old", "be"), ("als", "gsw"), ("nds-nl", "nds-nl"),
        ("nds_NL", "nds-nl"), ("fiu-vro", "vro"), ("zh-min-nan", "nan"), ("rsk", "rsk"),
        ("und", "und"), ("mul", "mul"),
    ],
)  # fmt: skip
def test_codes_of_languages(code, language):
    assert resolve_language(code) == language


@pytest.mark.parametrize(
    "code",
    ["xx", "xyz", "klingonese", "English", "english!", "x", "", " ", "en-000", "en-Foo", "x-mine"],
)
def test_what_is_no_language_is_refused(code):
    with pytest.raises(InputError, match=f"^`language`={regex.escape(code)}: no such language; "):
        resolve_language(code)
