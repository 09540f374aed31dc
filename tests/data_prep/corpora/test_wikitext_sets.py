"""WikiText-2 and WikiText-103."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from data_prep.corpora import text
from data_prep.corpora.base import ReaderOptions
from data_prep.corpora.wikitext_sets import detokenized
from data_prep.extraction_options import ExtractionOptions
from tests.conftest import random_inputs
from tests.data_prep.corpora.reading import read

ARTICLES = """ 
 = The <i> Flying </i> Castle = 
 
 It is a castle . It has 1 @,@ 500 rooms . 
 Its roof @-@ top is gone . 
 
 = = History = = 
 
 
 = = = Before 1900 = = = 
 
 It was built in 1880 . 
 
 = Empty = 
 
 = = References = = 
 
 = 2 + 2 = 4 = 
 
 A sum . 
"""  # noqa: W291, W293


def test_a_title_begins_a_document(tmp_path):
    (tmp_path / "wiki.train.raw").write_text(ARTICLES)
    found, counts = read("wikitext", [str(tmp_path / "*")])
    assert [(document.name, document.paragraphs) for document in found] == [
        (
            "The <i> Flying </i> Castle",
            [
                "It is a castle. It has 1,500 rooms.",
                "Its roof-top is gone.",
                "It was built in 1880.",
            ],
        ),
        ("2 + 2 = 4", ["A sum."]),
    ]
    assert counts.left_out == {"articles without text": 1}
    assert not counts.warnings
    ExtractionOptions("out.txt", "wikitext", ("wiki.raw",), keep_headings=True).check()
    found, _ = read("wikitext", [str(tmp_path / "*")], ReaderOptions(keep_headings=True))
    assert found[0].paragraphs[2:4] == ["History", "Before 1900"]
    assert found[1].paragraphs == ["References"]


def test_a_long_line_is_left_out_wherever_it_is_cut(tmp_path):
    (tmp_path / "wiki.raw").write_text(f" = T = \n\n a{'€' * 400_000}\n One .\n", "utf-8")
    (document,), counts = read("wikitext", [str(tmp_path / "*")])
    assert document.paragraphs == ["One."]
    assert counts.left_out == {"lines longer than a megabyte": 1}


@random_inputs(30)
@given(length=st.integers(1, 300))
def test_units_of_any_length_give_the_same_documents(tmp_path_factory, length):
    path = tmp_path_factory.mktemp("wikitext") / "wiki.train.raw"
    path.write_text(ARTICLES * 2)
    whole, _ = read("wikitext", [str(path)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(text, "_UNIT_BYTES", length)
        assert read("wikitext", [str(path)])[0] == whole
    assert len(whole) == 4


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ("a guest @-@ starring role ( 2 @.@ 5 % ) :", "a guest-starring role (2.5%):"),
        ('the play " Herons " , " Daylight " ;', 'the play "Herons", "Daylight";'),
        ("Boulter 's , they 're , did n't , I 'll", "Boulter's, they're, didn't, I'll"),
        ("$ 5 @,@ 000 @,@ 000 [ sic ] – 3 − 1", "$5,000,000 [sic] – 3 − 1"),
        ("Q : what ? A : “ this ” !", "Q: what? A: “this”!"),
    ],
)
def test_spaces_of_the_tokenizer_are_removed(tokens, expected):
    assert detokenized(tokens) == expected


def test_other_files_are_reported(tmp_path):
    (tmp_path / "a.txt").write_text("Just text .\n")
    with pytest.raises(InputError, match=r"a\.txt: not WikiText, which begins with a title"):
        read("wikitext", [str(tmp_path / "a.txt")])
    (tmp_path / "b.txt").write_text(" = A = \n\n The <unk> is here .\n")
    assert read("wikitext", [str(tmp_path / "b.txt")])[1].warnings == [
        f"{tmp_path}/b.txt: has <unk> for rare words; use the raw files"
    ]
