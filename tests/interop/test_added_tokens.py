"""Tokens that were added in Hugging Face: the ids of `transformers`, in every layout of files."""

import json
import pathlib
import shutil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.export.graph_tokenizers import graph_tokenizer
from albert_tf.interop.huggingface_tokenizer import write_tokenizer
from albert_tf.tokenizers import Tokenizer, extension
from tests.conftest import random_inputs
from tests.support import references
from tests.support.models import letters

transformers = pytest.importorskip("transformers")

# content -> flags of `tokenizers.AddedToken`
ADDED = {
    "[ENT]": {"special": True},
    "<e1>": {"lstrip": True, "rstrip": True, "normalized": False},
    "Gnu": {"single_word": True},
    "catÉ": {"rstrip": True},
    "zu": {"normalized": False},
}
WORDS = [
    "the", "cat", "gnu", "Gnu", "caté", "CATE\u0301", "zu", "ZU", "[ENT]", "[ent]", "<e1>", "<E1>",
    " ", " ", "\t", "\u00a0", "É", "中", "s", "z", "(", ".", "-", ",", "12,",
]  # fmt: skip
LAYOUTS = ("tokenizer.json", "added_tokens_decoder", "added_tokens.json")


def write_layout(kind: str, layout: str, folder: pathlib.Path) -> pathlib.Path:
    """Write a folder in which only the files of one version of `transformers` add the tokens."""
    name = "spiece.model" if kind == "albert" else "vocab.txt"
    source = folder / "source"
    source.mkdir()
    if kind == "albert":
        shutil.copy(references.OWN_VOCABULARY, source / name)
    else:
        (source / name).write_text(letters(60))
    saved = getattr(transformers, f"{kind.title()}Tokenizer").from_pretrained(str(source))
    saved.add_tokens([transformers.AddedToken(text, **flags) for text, flags in ADDED.items()])
    first = len(saved) - len(ADDED)
    target = folder / layout
    saved.save_pretrained(target)
    (target / "config.json").write_text(json.dumps({"model_type": kind}))
    if layout == "tokenizer.json":
        return target
    (target / "tokenizer.json").unlink()
    shutil.copy(source / name, target / name)
    config = {"tokenizer_class": f"{kind.title()}Tokenizer"}
    if layout == "added_tokens_decoder":
        decoder = {i: t.__getstate__() for i, t in saved.added_tokens_decoder.items() if i >= first}
        config["added_tokens_decoder"] = decoder
    else:
        (target / layout).write_text(json.dumps({t: first + n for n, t in enumerate(ADDED)}))
        special = {"additional_special_tokens": ["[ENT]"]}
        (target / "special_tokens_map.json").write_text(json.dumps(special))
    (target / "tokenizer_config.json").write_text(json.dumps(config))
    return target


@pytest.fixture(scope="module", params=[(k, each) for k in ("albert", "bert") for each in LAYOUTS])
def folder(request, tmp_path_factory) -> pathlib.Path:
    return write_layout(*request.param, tmp_path_factory.mktemp("added"))


@pytest.fixture(scope="module")
def both(folder):
    return Tokenizer.load(str(folder)), transformers.AutoTokenizer.from_pretrained(str(folder))


@pytest.mark.integration
@random_inputs(80)
@given(words=st.lists(st.sampled_from(WORDS), max_size=8))
def test_ids_are_those_of_transformers(both, words):
    ours, theirs = both
    text = "".join(words)
    ids = ours.encode(text)
    assert ids == theirs(text, add_special_tokens=False)["input_ids"]
    assert ours.encode_flat([text, text])[0].tolist() == ids * 2
    found, spans = ours.encode_with_offsets(text)
    assert ids == found.tolist()
    for id, (start, end) in zip(ids, spans, strict=True):
        if id >= ours.base_size:
            assert text[start:end].strip() == text[start:end] != ""


@pytest.mark.integration
def test_they_stay_through_conversions(folder, both, tmp_path):
    ours, theirs = both
    assert ours.vocab_size == len(theirs) == ours.base_size + len(ADDED)
    text = "the <e1> cat[ENT]s gnu, catÉ zus [MASK]."
    # As next to checkpoints, in a Hugging Face folder, and there saved again by transformers.
    (tmp_path / "tokenizer_config.json").write_text(ours.normalization.to_json())
    shutil.copy(ours.path, tmp_path)
    write_tokenizer(ours, str(tmp_path / "back"))
    again = transformers.AutoTokenizer.from_pretrained(str(tmp_path / "back"))
    again.save_pretrained(tmp_path / "again")
    expected = theirs(text)["input_ids"]
    assert again(text)["input_ids"] == expected
    for each in (tmp_path, tmp_path / "back", tmp_path / "again"):
        tokenizer = Tokenizer.load(str(each))
        assert tokenizer.pieces == ours.pieces
        assert tokenizer(text, special_symbols=True)["input_ids"][0].tolist() == expected
    assert ours.decode(ours.encode("the <e1> gnu")) == "the <e1> Gnu"
    piece = "zebuzebu" if ours.path.endswith(".txt") else "▁zebuzebu"
    larger = extension.with_pieces(ours, [piece], str(tmp_path / "back"))
    assert larger.encode(text) == ours.encode(text)
    with pytest.raises(InputError, match=r"graph cannot find .* such as 'zu'"):
        graph_tokenizer(ours)


@pytest.mark.integration
@pytest.mark.parametrize("kept", ["vocab.txt", "tokenizer.json"])
@pytest.mark.parametrize("blank_lines", [0, 1, 2])
def test_blank_lines_of_the_vocabulary_move_their_ids(tmp_path, blank_lines, kept):
    (tmp_path / "vocab.txt").write_text(letters(60) + "\n" * blank_lines)
    config = {"tokenizer_class": "BertTokenizer", "extra_special_tokens": {"entity": "<e1>"}}
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    theirs = transformers.AutoTokenizer.from_pretrained(str(tmp_path))
    if kept == "tokenizer.json":
        theirs.save_pretrained(tmp_path)
        (tmp_path / "vocab.txt").unlink()
    ours = Tokenizer.load(str(tmp_path))
    assert ours.encode("a<e1>") == theirs("a<e1>", add_special_tokens=False)["input_ids"]
    assert ours.vocab_size == len(theirs)


def test_an_id_without_its_piece_is_refused(tmp_path):
    (tmp_path / "vocab.txt").write_text(letters(60))
    for token, message in (({"xx": 70}, "must be 60"), ({"a": 6}, "must be 5")):
        (tmp_path / "added_tokens.json").write_text(json.dumps(token))
        with pytest.raises(InputError, match=rf"vocab.txt: the added token .*{message} "):
            Tokenizer.load(str(tmp_path))
