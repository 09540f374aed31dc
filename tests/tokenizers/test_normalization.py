"""A vocabulary's own normalization: recorded next to it, obeyed by whatever encodes text.

Also Hugging Face folders without spiece.model or vocab.txt: the ids of tokenizer.json.
"""

import json
import pathlib
import shutil
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import Normalization, read_normalization
from albert_tf.tokenizers.sentencepiece import read_model
from albert_tf.tokenizers.wordpiece import SPECIAL_SYMBOLS
from data_prep.train_vocabulary import accent_loss
from data_prep.vocabulary_types import VOCABULARY_TYPES
from tests.conftest import random_inputs, refusal
from tests.support import references, tiny
from tests.support.models import letters

LINES = [
    "Việt Nam có nhiều tiếng nói, người ta nói.",
    "Žluťoučký kůň pěl ďábelské ódy. Ïle d'été",
    "น้ำที่นี่ใสและเย็น คนไทยดื่มน้ำทุกวัน",
    "कुत्ता घर में है और क़ानून सबके लिए है",
    "می‌خواهم کتاب‌ها را بخوانم؛ آب سرد است",
    "ශ්‍රී ලංකාව දිවයිනකි",
    "ゲームがすきです。日本語と漢字",
    "한국어 문장은 이렇게 씁니다",
    "ọ́jọ́ kan é̩ ni, ẹ́gbẹ́",
    "El niño comió ½ piña en la ﬁesta",
]


LONG = "คนไทยดื่มน้ำทุกวัน" * 30


@pytest.fixture(scope="module", params=["unigram", "wordpiece"])
def folder(request, tmp_path_factory):
    """Return a vocabulary of these lines that keeps accents, without a record."""
    vocabulary_type = VOCABULARY_TYPES[request.param]
    kept = Normalization(True, keep_accents=True, unicode_form=vocabulary_type.unicode_form)
    text = [vocabulary_type.prepare(line, kept) for line in (*LINES, LONG)] * 20
    folder = tmp_path_factory.mktemp(request.param)
    size = {"unigram": 180, "wordpiece": 330}[request.param]
    name = {"unigram": "spiece.model", "wordpiece": "vocab.txt"}[request.param]
    (folder / name).write_bytes(vocabulary_type.train(text, size, 1.0, ())[0])
    return folder


def form_of(folder) -> str:
    return "NFKC" if (folder / "spiece.model").exists() else "NFC"


def record(folder, **config) -> Tokenizer:
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    return Tokenizer.load(str(folder))


@pytest.mark.integration
@pytest.mark.parametrize(
    "config",
    [
        {"do_lower_case": True, "keep_accents": True, "strip_accents": False},
        {"do_lower_case": False, "keep_accents": True, "strip_accents": False},
        {"do_lower_case": False, "keep_accents": True, "tokenize_chinese_chars": False},
    ],
)
def test_folders_of_hugging_face_give_its_ids(folder, config):
    import transformers

    is_model = (folder / "spiece.model").exists()
    config = config | {"tokenizer_class": "AlbertTokenizer" if is_model else "BertTokenizer"}
    ours = record(folder, **config)
    theirs = transformers.AutoTokenizer.from_pretrained(str(folder))
    for line in LINES:
        assert ours.encode(line) == theirs.encode(line, add_special_tokens=False), line


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({}, Normalization()),
        ({"keep_accents": True, "vocab_size": 3}, Normalization(keep_accents=True)),
        ({"strip_accents": False}, Normalization(keep_accents=True)),
        ({"strip_accents": None, "do_lower_case": True}, Normalization(do_lower_case=True)),
        ({"unicode_form": "NFC"}, Normalization(unicode_form="NFC")),
    ],
)
def test_records(tmp_path, config, expected):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    assert read_normalization(str(tmp_path)) == expected
    (tmp_path / "tokenizer_config.json").write_text(expected.to_json())
    assert read_normalization(str(tmp_path)) == expected


@pytest.mark.parametrize(
    "config", [{"unicode_form": "NFD"}, {"word_tokenizer_type": "mecab"}, {"do_basic_tokenize": 0}]
)
def test_unknown_rules_are_reported(tmp_path, config):
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config))
    with pytest.raises(InputError, match=rf"tokenizer_config\.json: {min(config)}="):
        read_normalization(str(tmp_path))


COMPOSED = st.text(
    st.sampled_from("".join(LINES) + "\u0301\u0323\u0329ﬁ½")
    | st.characters(exclude_categories=("Cs", "Cn"))
)


@pytest.mark.integration
@random_inputs(80)
@given(text=COMPOSED)
@example(text="là=\u0338là")  # a sign of ASCII that becomes another one
def test_the_unicode_form_of_a_text_makes_no_difference(folder, text):
    form = form_of(folder)
    tokenizer = record(folder, keep_accents=True, do_lower_case=True, unicode_form=form)
    ids = [tokenizer.encode(unicodedata.normalize(form, text)) for form in ("NFC", "NFD")]
    assert ids[0] == ids[1]
    flat, _ = tokenizer.encode_flat([unicodedata.normalize("NFD", text)])
    assert flat.tolist() == ids[0]
    offsets = tokenizer.encode_with_offsets(unicodedata.normalize("NFD", text))[0]
    assert offsets.tolist() == ids[0]


def test_no_letter_is_lost(folder):
    form = form_of(folder)
    tokenizer = record(folder, keep_accents=True, do_lower_case=True, unicode_form=form)
    for line in LINES:
        assert tokenizer.unk_id not in tokenizer.encode(line)
        # Zero-width non-joiners separate words; joiners stay.
        expected = unicodedata.normalize(form, line).lower().replace("\u200c", " ")
        decoded = tokenizer.decode(tokenizer.encode(line))
        assert "".join(decoded.split()) == "".join(expected.split())


def test_long_words_are_cut_if_the_record_says_so(folder):
    if (folder / "spiece.model").exists():
        pytest.skip("SentencePiece has no longest word")
    assert record(folder, keep_accents=True).tokenize(LONG) == ["[UNK]"]
    tokenizer = record(folder, keep_accents=True, unicode_form="NFC")
    assert tokenizer.unk_id not in tokenizer.encode(LONG)
    assert tokenizer.decode(tokenizer.encode(LONG)).replace(" ", "") == LONG


@pytest.mark.slow
@pytest.mark.parametrize("model_type", VOCABULARY_TYPES)
def test_by_default_no_language_loses_a_letter(shared, model_type):
    """Of the 506 languages of the Universal Declaration of Human Rights."""
    vocabulary_type = VOCABULARY_TYPES[model_type]
    paths = sorted(shared("data/udhr").glob("*.txt"))
    assert len(paths) > 500
    for path in paths:
        lines = path.read_text("utf-8").splitlines()
        loss = accent_loss(lines, vocabulary_type.unicode_form, vocabulary_type.bare)
        assert not loss.is_negligible or loss.affected == loss.capitalized_affected == 0, path.name


TEXTS = [
    "A cat, 1999, sat in 2010, not on 31,032 mats.",
    "Ünï  [MASK] 中文 (“quoted”) - £3.50",
    "",
    "ÀÉ x",
]


@pytest.fixture
def converted(tmp_path, monkeypatch) -> pathlib.Path:
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
def test_unigram(converted, keep_accents):
    vocabulary = str(references.OWN_VOCABULARY)
    content = saved("Albert", vocabulary, converted, keep_accents=keep_accents)
    expected = Tokenizer.load(vocabulary)
    tokenizer = Tokenizer.load(str(converted))
    assert tokenizer.normalization.keep_accents is keep_accents
    if not keep_accents:
        check(tokenizer, expected)
        # Older releases of transformers take 100 off the scores of pieces such as "12,".
        for piece in content["model"]["vocab"]:
            piece[1] -= 100 * (piece[0][-1:] == "," and piece[0][-2:-1].isdigit())
        (converted / "tokenizer.json").write_text(json.dumps(content))
        check(Tokenizer.load(str(converted / "tokenizer.json")), expected)
    # What lies next to it wins, and so does the user.
    assert not Tokenizer.load(str(converted), do_lower_case=False).do_lower_case
    (converted / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    assert not Tokenizer.load(str(converted)).do_lower_case


@pytest.mark.integration
@pytest.mark.parametrize("lower", [False, True])
def test_wordpiece(converted, lower, caplog):
    vocabulary = converted.with_name("vocab.txt")
    vocabulary.write_text(f"{letters(tiny.VOCAB)}n\n")
    content = saved("Bert", str(vocabulary), converted, do_lower_case=lower)
    expected = Tokenizer.load(str(vocabulary), do_lower_case=lower)
    line = f"line {tiny.VOCAB + 1} repeats line 19, 'n'; the last one counts, as in BERT"
    assert line in caplog.text
    assert expected.encode("n") == [content["model"]["vocab"]["n"]] == [tiny.VOCAB]
    assert 18 not in expected.replacement_ids
    tokenizer = Tokenizer.load(str(converted))
    assert tokenizer.pieces[18] == " "
    tokenizer.pieces[18] = "n"
    check(tokenizer, expected)
    shutil.copy(vocabulary, converted)
    check(Tokenizer.load(str(converted), do_lower_case=lower), expected)
    (converted / "vocab.txt").unlink()
    content["model"]["vocab"]["x" * 9] = 10_000
    (converted / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"tokenizer.json: .* \(model.vocab: ids are not 0, 1, 2"):
        Tokenizer.load(str(converted))


WORD_PIECE = {"model": {"type": "WordPiece", "vocab": {}}}
BERT_RULES = {
    **WORD_PIECE,
    "normalizer": {"type": "BertNormalizer"},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ({"model": {"type": "BPE"}}, "model.type=BPE: must be Unigram or WordPiece)"),
        ({"model": {"type": "Unigram", "vocab": [["a", 0]]}}, "lacks 'unk_id')"),
        ({"model": {"type": "Unigram"}, "normalizer": {"type": "NFD"}}, "normalizer=NFD: must be"),
        (WORD_PIECE, "normalizer=None: must be BertNormalizer)"),
        (
            {**WORD_PIECE, "normalizer": {"type": "NFKC"}},
            "normalizer=NFKC: must be BertNormalizer)",
        ),
        (
            {**WORD_PIECE, "normalizer": {"type": "BertNormalizer", "clean_text": False}},
            "normalizer.clean_text=false: must be true)",
        ),
        ({**BERT_RULES, "pre_tokenizer": None}, "pre_tokenizer=None: must be BertPreTokenizer)"),
        (
            {**BERT_RULES, "model": WORD_PIECE["model"] | {"continuing_subword_prefix": "@@"}},
            "model.continuing_subword_prefix=@@: must be ##)",
        ),
        (
            {**BERT_RULES, "model": WORD_PIECE["model"] | {"max_input_chars_per_word": 5}},
            "model.max_input_chars_per_word=5: must be at least 100)",
        ),
    ],
)
def test_other_tokenizers_are_refused(converted, content, reason):
    converted.mkdir()
    path = converted / "tokenizer.json"
    path.write_text(json.dumps(content))
    expected = f"{path}: not a tokenizer of ALBERT or BERT ({reason}"
    assert refusal(Tokenizer.load, str(path)).startswith(expected)


def test_files_that_contradict_each_other_are_refused(tmp_path):
    vocabulary = tmp_path / "vocab.txt"
    vocabulary.write_text("".join(f"{piece}\n" for piece in [*SPECIAL_SYMBOLS, "cat", "dog"]))
    ids = {piece: id for id, piece in enumerate([*SPECIAL_SYMBOLS, "dog", "cat"])}
    content = {**BERT_RULES, "model": {"type": "WordPiece", "vocab": ids}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"tokenizer.json: has 'dog' where .*vocab.txt has 'cat'"):
        Tokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    (tmp_path / "special_tokens_map.json").write_text('{"cls_token": {"content": "cat"}}')
    assert "cls_token=cat: must be [CLS], as in ALBERT" in refusal(Tokenizer.load, tmp_path)


@pytest.mark.parametrize("name", ["vocab.txt", "spiece.model"])
@pytest.mark.parametrize(
    ("pieces", "lower"),
    [("The ing cat s", False), ("Кот кот а", False), ("the cat Ⅷ 中 <S> A1 NB.", True)],
)
def test_capital_letters_tell_what_is_lower_cased(tmp_path, caplog, name, pieces, lower):
    path, own = tmp_path / name, pieces.split()
    if name == "vocab.txt":
        marked = [own[0], *(f"##{piece}" for piece in own[1:])]
        content = "\n".join([*SPECIAL_SYMBOLS, *marked]).encode()
    else:
        model = read_model(references.OWN_VOCABULARY.read_bytes())
        del model.pieces[5:]
        for piece in own:
            model.pieces.add(piece=f"▁{piece}", score=-1)
        content = model.SerializeToString()
    path.write_bytes(content)
    with caplog.at_level("INFO"):
        rules = [Tokenizer.load(str(path)).normalization for _ in range(2)][0]
    kept = not lower and name == "vocab.txt"  # as in BERT
    assert (rules.do_lower_case, rules.keep_accents) == (lower, kept)
    assert len(caplog.messages) == (not lower)
    assert Tokenizer.load(str(path), do_lower_case=True).do_lower_case
    assert Tokenizer.load(str(path), normalization=rules).normalization == rules
