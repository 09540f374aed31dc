"""convert_checkpoint.py with more pieces and positions: old rows and ids stay, new are used."""

import dataclasses
import shutil

import numpy as np
import pytest
import tokenizers

from albert_tf.errors import InputError
from albert_tf.interop.loading import load_weights, open_preset, open_weights
from albert_tf.tokenizers import Tokenizer, extension
from tests.interop.test_convert import run, values_at
from tests.support import references
from tests.support.models import CONFIGS, features, keras_file, letters, random_model

pytestmark = pytest.mark.integration

WORDS, POSITIONS, BIAS = (
    "bert/embeddings/word_embeddings",
    "bert/embeddings/position_embeddings",
    "cls/predictions/output_bias",
)
# In the order of ids, not of length. No text of `PLAIN` contains any; "▁ж" is of an unknown letter.
LISTED = {
    "spiece.model": ["▁tens", "▁tensorboard", "▁myocardial", "izzles", "▁ж"],
    "vocab.txt": ["myocard", "myocardial", "##izzles", "zebu"],
}
PLAIN = (references.OWN_TEXT / "records_text.txt").read_text("utf-8").split("\n")[:200]


def write_model(folder, vocabulary: str, padding: int = 0):
    folder.mkdir(parents=True)
    if vocabulary == "vocab.txt":
        (folder / vocabulary).write_text(letters(CONFIGS["shared"].vocab_size))
    else:
        shutil.copy(references.OWN_VOCABULARY, folder / vocabulary)
    size = Tokenizer.load(str(folder / vocabulary)).vocab_size + padding
    model = random_model("pretraining", dataclasses.replace(CONFIGS["shared"], vocab_size=size))
    return keras_file(folder, model)


def written_list(folder, pieces) -> str:
    (folder / "pieces.txt").write_text("".join(f"{piece}\n" for piece in pieces), "utf-8")
    return str(folder / "pieces.txt")


@pytest.fixture(scope="module", params=LISTED)
def adapted(request, tmp_path_factory):
    """Return the folders of a model before and after, and the list."""
    folder = tmp_path_factory.mktemp("adapted")
    source = write_model(folder / "before", request.param)
    pieces = LISTED[request.param]
    flags = {"add_pieces": written_list(folder, pieces), "max_position_embeddings": 45}
    return source, run(source, folder / "after", **flags), pieces


def test_rows_stay_and_new_ones_are_means(adapted):
    source, target, pieces = adapted
    before, after = values_at(source), values_at(target)
    tokenizer = Tokenizer.load(str(source.parent))
    assert open_weights(str(target)).config == dataclasses.replace(
        open_weights(str(source)).config,
        vocab_size=tokenizer.vocab_size + len(pieces),
        max_position_embeddings=45,
    )
    ids = extension.encode_piece(tokenizer, pieces[1])
    assert len(ids) > 2
    for name in (WORDS, BIAS):
        expected = before[name][ids].mean(axis=0)
        np.testing.assert_allclose(after[name][tokenizer.vocab_size + 1], expected, atol=1e-6)
    for name, value in before.items():
        assert after[name][: len(value)].tobytes() == value.tobytes(), name
    rows = np.arange(45) % len(before[POSITIONS])
    assert after[POSITIONS].tobytes() == before[POSITIONS][rows].tobytes()


def test_a_model_gives_text_without_new_pieces_the_same_outputs(adapted):
    source, target, _ = adapted
    before, after = (
        random_model("pretraining", open_weights(str(path)).config) for path in (source, target)
    )
    for model, path in ((before, source), (after, target)):
        assert not load_weights(model, str(path)).missing
    inputs = features(before.config)
    one, other = before(inputs), after(inputs)
    size = before.config.vocab_size
    for name in ("sequence_output", "masked_lm_logits"):
        np.testing.assert_allclose(one[name], np.array(other[name])[..., :size], atol=1e-6)


def test_new_pieces_take_the_rows_beyond_the_vocabulary(tmp_path):
    source = write_model(tmp_path / "before", "vocab.txt", padding=3)
    target = run(source, tmp_path / "plain")
    before, after = values_at(source), values_at(target)
    assert [after[name].tobytes() for name in before] == [v.tobytes() for v in before.values()]
    tokenizer = Tokenizer.load(str(target))
    assert open_preset(str(target)).config.vocab_size == tokenizer.vocab_size + 3
    pieces = LISTED["vocab.txt"]
    for count, size in ((2, 3), (4, 4)):
        flags = {"add_pieces": written_list(tmp_path, pieces[:count])}
        after = values_at(run(target, tmp_path / f"more{count}", **flags))
        ids = extension.encode_piece(tokenizer, pieces[1])
        for name in (WORDS, BIAS):
            assert len(after[name]) == tokenizer.vocab_size + size
            mean = before[name][ids].mean(axis=0)
            np.testing.assert_allclose(after[name][tokenizer.vocab_size + 1], mean, atol=1e-6)
            kept = after[name][tokenizer.vocab_size + count :]
            np.testing.assert_array_equal(kept, before[name][tokenizer.vocab_size + count :])
    (target / "vocab.txt").write_text(letters(tokenizer.vocab_size + 4))
    with pytest.raises(InputError, match=r"vocab.txt: has \d+ ids, .* is only \d+"):
        open_preset(str(target))


def test_every_tokenizer_uses_new_pieces_and_no_other_text_changes(adapted):
    from albert_tf.export.graph_tokenizers import graph_tokenizer

    source, target, pieces = adapted
    before, after = Tokenizer.load(str(source.parent)), Tokenizer.load(str(target))
    assert [*map(before.encode, PLAIN)] == [*map(after.encode, PLAIN)]
    words = ["f" + p.strip("#") if p.endswith("izzles") else p.strip("▁") for p in pieces]
    with_new = [f"A {word.title()}, {word}s, ({word})" for word in words]
    found = [after.encode(text) for text in with_new]
    for id, ids in enumerate(found, start=before.vocab_size):
        assert ids.count(id) >= 2, after.convert_ids_to_tokens(ids)
    flat, _ = after.encode_flat(with_new)  # word by word
    assert flat.tolist() == sum(found, [])
    in_graph = graph_tokenizer(after).encode(with_new)
    backend = tokenizers.Tokenizer.from_file(str(target / "tokenizer.json"))
    theirs = [backend.encode(text, add_special_tokens=False).ids for text in with_new]
    assert found == in_graph.to_list() == theirs


def test_another_format_and_back(adapted, tmp_path):
    _, target, _ = adapted
    back = run(run(target, tmp_path / "ours", "jax"), tmp_path / "back")
    for name in ("model.safetensors", "tokenizer.json", "config.json"):
        assert (back / name).read_bytes() == (target / name).read_bytes()


def test_pieces_are_those_that_save_most(tmp_path):
    (tmp_path / "vocab.txt").write_text(letters(60))
    tokenizer = Tokenizer.load(str(tmp_path))
    # abc saves 2 of 3 tokens 8 times, and then abcd 1 of 2 tokens 3 times.
    words = {"ABC": 5, "abcd": 3, "xd.xd": 2, "yz": 2, "zzzzzzz": 1, "a1": 9}
    assert extension.learn_pieces(tokenizer, words, 3) == ["abc", "xd", "abcd"]
    # No rare word, and nothing but letters.
    assert extension.learn_pieces(tokenizer, words, 9) == ["abc", "xd", "abcd", "yz"]
    words = {"xabc": 2, "yabc": 2, "zabc": 2}
    assert extension.learn_pieces(tokenizer, words, 1) == ["##abc"]
    with_digits = Tokenizer.load(str(references.OWN_VOCABULARY))
    assert extension.learn_pieces(with_digits, {"86420": 9, "gnugnu": 9}, 2) == ["▁gnugnu"]


def test_pieces_are_learned_from_text(tmp_path, capsys):
    source = write_model(tmp_path / "before", "spiece.model")
    (tmp_path / "text.txt").write_text("the myocardium of a myocardial cell\n" * 3)
    flags = {"learn_pieces_from": (str(tmp_path / "*.txt"),), "num_new_pieces": 3}
    target = run(source, tmp_path / "after", **flags)
    assert "% fewer)" in capsys.readouterr().out
    before, after = Tokenizer.load(str(source.parent)), Tokenizer.load(str(target))
    new = after.pieces[before.vocab_size :]
    assert len(new) == 3
    text = "the myocardium of a myocardial cell"
    assert set(new) <= set(after.tokenize(text))
    assert len(after.encode(text)) < len(before.encode(text)) - 5
    with pytest.raises(InputError, match=r"`num_new_pieces`=900: too many .*; \d works"):
        run(source, tmp_path / "none", **flags | {"num_new_pieces": 900})


def test_what_cannot_be_added_is_named(tmp_path, capsys):
    source = write_model(tmp_path / "before", "spiece.model")

    def refused(message: str, name="out", **flags):
        with pytest.raises(InputError, match=message) as error:
            run(source, tmp_path / name, **flags)
        assert "\n" not in str(error.value)
        assert not (tmp_path / name).exists()

    for pieces, message in {
        (): "contains no piece that .*model lacks",
        ("▁the", "[MASK]"): "contains no piece",
        ("▁zebu", "▁gnu", "▁zebu"): "line 3 repeats line 1, '▁zebu'",
        ("▁new york",): "line 1, '▁new york', has a space",
        ("▁new▁york",): "has a space",
        ("▁Zebu", "▁Gnu", "▁emu"): "'▁Zebu' would never be used .and 1 more.*tokenized as '▁ z",
    }.items():
        refused(f"`add_pieces`.*{message}", add_pieces=written_list(tmp_path, pieces))
    pieces = written_list(tmp_path, ["▁the", "▁zebu", "gnu"])
    refused("`output`=.*a folder", "out.weights.h5", add_pieces=pieces, to="albert_tf")
    refused("`max_position_embeddings`=20: must be above 20", max_position_embeddings=20)
    refused("no file matches", learn_pieces_from=("nowhere*",))
    refused("^`num_new_pieces`=5: needs `learn_pieces_from`$", num_new_pieces=5)

    run(source, tmp_path / "good", add_pieces=pieces)
    notes = capsys.readouterr().out
    assert "in the vocabulary already: ▁the\n" in notes
    assert "1 of 2 new pieces do not begin with ▁ and only continue words: gnu\n" in notes


def test_a_larger_vocabulary_extends_the_model(tmp_path):
    source = write_model(tmp_path / "before", "vocab.txt")
    lines = (source.parent / "vocab.txt").read_text().splitlines()
    larger = tmp_path / "larger.txt"
    larger.write_text("\n".join([*lines, "cab"]) + "\n")
    values = values_at(run(source, tmp_path / "after", spm_model_file=str(larger)))
    old = values_at(source)[WORDS]
    assert values[WORDS][:-1].tobytes() == old.tobytes()
    ids = [lines.index("c"), lines.index("##a"), lines.index("##b")]
    np.testing.assert_allclose(values[WORDS][-1], old[ids].mean(axis=0), atol=1e-6)
    for changed in (["cab", *lines], [*lines[:10], *lines[11:], "cab", "bac"]):
        larger.write_text("\n".join(changed) + "\n")
        with pytest.raises(InputError, match=r"`spm_model_file`.* piece \d+ is .* must begin with"):
            run(source, tmp_path / "none", spm_model_file=str(larger))
    larger.write_text("\n".join([*lines[:10], *lines[:9:-1]]) + "\n")
    with pytest.raises(InputError, match=r"^`spm_model_file`=.*: is not the vocabulary of"):
        run(source, tmp_path / "none", spm_model_file=str(larger))


def test_other_models_than_unigram_are_refused(tmp_path):
    model = references.trained_sentencepiece(["the cat sat on the mat"] * 20, 25, model_type="bpe")
    (tmp_path / "bpe.model").write_bytes(model)
    with pytest.raises(InputError, match=r"bpe\.model: only unigram"):
        extension.with_pieces(Tokenizer.load(str(tmp_path)), ["▁zebu"], str(tmp_path / "out"))


def test_a_piece_is_preferred_to_new_pieces_that_it_consists_of(tmp_path):
    """Commas have high scores, so that scores are sums and not those of the rarest piece."""
    before = Tokenizer.load(str(references.OWN_VOCABULARY))
    after = extension.with_pieces(before, [",,,,", ",,"], str(tmp_path))
    assert after.tokenize("the,,,, a,, b,") == ["▁the", ",,,,", "▁a", ",,", "▁b", ","]
