"""Hugging Face folders without spiece.model or vocab.txt: the ids of tokenizer.json."""

import json
import pathlib
import shutil

import pytest

from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from tests.support import references, tiny
from tests.support.models import letters

TEXTS = [
    "A cat, 1999, sat in 2010, not on 31,032 mats.",
    "Ünï  [MASK] 中文 (“quoted”) - £3.50",
    "",
    "ÀÉ x",
]


@pytest.fixture
def folder(tmp_path, monkeypatch) -> pathlib.Path:
    monkeypatch.setenv("ALBERT_TF_CACHE", str(tmp_path / "cache"))
    return tmp_path / "folder"


def saved(name: str, vocabulary: str, folder: pathlib.Path, **settings) -> dict:
    """Save what transformers makes of a vocabulary, and return its tokenizer.json."""
    transformers = pytest.importorskip("transformers")
    source = folder.with_name("source")
    source.mkdir()
    shutil.copy(vocabulary, source / ("vocab.txt" if "Bert" in name else "spiece.model"))
    (source / "config.json").write_text(json.dumps({"model_type": name.lower()}))
    kind = getattr(transformers, f"{name}TokenizerFast")
    kind.from_pretrained(str(source), **settings).save_pretrained(folder)
    (folder / "tokenizer_config.json").unlink()
    assert [path.name for path in folder.iterdir()] == ["tokenizer.json"]
    return json.loads((folder / "tokenizer.json").read_text())


def check(tokenizer: Tokenizer, expected: Tokenizer) -> None:
    assert tokenizer.pieces == expected.pieces
    assert tokenizer.special_symbols() == expected.special_symbols()
    for symbols in (False, True):
        for text in TEXTS:
            assert tokenizer.encode(text, symbols) == expected.encode(text, symbols)


@pytest.mark.integration
@pytest.mark.parametrize("keep_accents", [False, True])
def test_unigram(folder, keep_accents):
    vocabulary = str(references.OWN_VOCABULARY)
    content = saved("Albert", vocabulary, folder, keep_accents=keep_accents)
    expected = Tokenizer.load(vocabulary)
    tokenizer = Tokenizer.load(str(folder))
    assert tokenizer.normalization.keep_accents is keep_accents
    if not keep_accents:
        check(tokenizer, expected)
        # Older releases of transformers take 100 off the scores of pieces such as "12,".
        for piece in content["model"]["vocab"]:
            piece[1] -= 100 * (piece[0][-1:] == "," and piece[0][-2:-1].isdigit())
        (folder / "tokenizer.json").write_text(json.dumps(content))
        check(Tokenizer.load(str(folder / "tokenizer.json")), expected)
    # What lies next to it wins, and so does the user.
    assert not Tokenizer.load(str(folder), do_lower_case=False).do_lower_case
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not Tokenizer.load(str(folder)).do_lower_case


@pytest.mark.integration
@pytest.mark.parametrize("lower", [False, True])
def test_wordpiece(folder, lower):
    vocabulary = folder.with_name("vocab.txt")
    vocabulary.write_text(letters(tiny.VOCAB))
    content = saved("Bert", str(vocabulary), folder, do_lower_case=lower)
    check(Tokenizer.load(str(folder)), Tokenizer.load(str(vocabulary), do_lower_case=lower))
    content["model"]["vocab"]["x" * 9] = 10_000
    (folder / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"tokenizer.json: .* \(ValueError: ids are not 0, 1, 2"):
        Tokenizer.load(str(folder))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"model": {"type": "BPE"}}, "KeyError: 'BPE'"),
        ({"model": {"type": "Unigram", "vocab": [["a", 0]]}}, "KeyError: 'unk_id'"),
        ({"model": {"type": "Unigram"}, "normalizer": {"type": "NFC"}}, "ValueError: normalizer N"),
        ({"model": {"type": "WordPiece", "vocab": {}}}, "ValueError: not enough values"),
    ],
)
def test_other_tokenizers_are_refused(folder, content, reason):
    folder.mkdir()
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError) as error:
        Tokenizer.load(str(path))
    assert str(error.value).startswith(f"{path}: not a tokenizer of ALBERT or BERT ({reason}")
