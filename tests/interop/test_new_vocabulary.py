"""convert_checkpoint.py with the vocabulary of another language: what every row starts from."""

import numpy as np
import pytest

import albert_tf
from albert_tf.errors import InputError
from albert_tf.interop.loading import open_preset
from albert_tf.tokenizers import Tokenizer, extension
from tests.interop.test_adaptation import BIAS, WORDS, write_model
from tests.interop.test_convert import run, values_at
from tests.support import references
from tests.support.models import CONFIGS, features, keras_file, letters, random_model

pytestmark = pytest.mark.integration

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def written(folder, lines, name="vocab.txt") -> str:
    folder.mkdir(exist_ok=True)
    (folder / name).write_text("".join(f"{line}\n" for line in lines), "utf-8")
    return str(folder / name)


def ids_of(tokenizer: Tokenizer) -> dict[str, int]:
    return {piece: id for id, piece in enumerate(tokenizer.pieces)}


@pytest.mark.parametrize("config", [CONFIGS["shared"], CONFIGS["BERT"]], ids=["ALBERT", "BERT"])
def test_a_vocabulary_in_another_order_gives_the_same_model(tmp_path, config):
    source = keras_file(tmp_path / "before", random_model("pretraining", config))
    pieces = letters(config.vocab_size).split()
    (source.parent / "vocab.txt").write_text("\n".join(pieces) + "\n")
    inputs = features(config)
    inputs["input_ids"] %= 57  # letters, with and without ##, and special symbols
    for name, order in {
        "same": np.arange(len(pieces)),
        "other": np.random.default_rng(1).permutation(57),  # and without what is [unused]
    }.items():
        vocabulary = written(tmp_path / f"for {name}", [pieces[id] for id in order])
        target = run(source, tmp_path / name, new_vocabulary=vocabulary)
        before, after = values_at(source), values_at(target)
        for path, value in before.items():
            expected = value[order] if path in (WORDS, BIAS) else value
            assert after[path].tobytes() == expected.tobytes(), path
        models = [
            albert_tf.from_preset(str(path), albert_tf.AlbertForPreTraining)
            for path in (source, target)
        ]
        assert models[1].config.vocab_size == Tokenizer.load(str(target)).vocab_size == len(order)
        own = models[0](inputs)
        new = models[1](inputs | {"input_ids": np.argsort(order)[inputs["input_ids"]]})
        np.testing.assert_array_equal(new["sequence_output"], own["sequence_output"])
        expected = np.array(own["masked_lm_logits"])[..., order]
        np.testing.assert_allclose(new["masked_lm_logits"], expected, atol=1e-6)


def test_rows_start_from_what_pieces_mean(tmp_path, capsys):
    source = write_model(tmp_path / "before", "spiece.model")
    old = Tokenizer.load(str(source.parent))
    before, id = values_at(source)[WORDS], ids_of(old)
    spelled, other = ["tensorboard", "##izzles", "Zebu"], ["жук", "##ж", "<0xD0>"]
    pieces = ["the", *other, "##s", *SPECIAL[::-1], *spelled, "model", "haus", "##haus", ".", "den"]
    pieces += ["Haus", "The"]
    vocabulary = written(tmp_path / "new", pieces)
    listed = ["model\tthe", "haus\tthe tensor", "haus\tlists", "", "den\tжук", "the haus\tthe"]
    listed += ["The\tlists", "the\tmodel"]
    flags = {"new_vocabulary": vocabulary, "dictionary": written(tmp_path, listed, "words.tsv")}
    flags["do_lower_case"] = False  # of the new one
    target = run(source, tmp_path / "after", **flags)
    counts = "20 pieces: 6 copied, 6 spelled, 5 translated, 3 drawn"
    assert f"{vocabulary}: {counts}" in capsys.readouterr().out
    values = values_at(target)
    after = dict(zip(pieces, values[WORDS], strict=True))
    assert after["##s"].tobytes() == before[id["s"]].tobytes()
    for piece, same in zip(SPECIAL, ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]"), strict=True):
        assert after[piece].tobytes() == before[id[same]].tobytes()
    for piece, ids in {
        "tensorboard": extension.encode_piece(old, "▁tensorboard"),
        "##izzles": extension.encode_piece(old, "izzles"),
        "Zebu": old.encode("zebu"),
        "model": [id["▁the"]],
        "haus": [*old.encode("the tensor"), *old.encode("lists")],
        "Haus": [*old.encode("the tensor"), *old.encode("lists")],
        "the": old.encode("model"),
        "The": old.encode("lists"),
        "##haus": extension.encode_piece(old, "haus"),
    }.items():
        np.testing.assert_allclose(after[piece], before[ids].mean(axis=0), atol=1e-6)
    assert all(np.isfinite(value).all() for value in values.values())
    drawn = np.array([after[piece] for piece in other])
    assert len(np.unique(drawn)) == drawn.size
    far = np.abs(drawn - before.mean(axis=0)) / before.std(axis=0)
    assert 0.5 < far.mean() < 1.1
    assert far.max() < 5
    again = run(source, tmp_path / "again", **flags)
    for name in ("model.safetensors", "vocab.txt", "tokenizer_config.json"):
        assert (again / name).read_bytes() == (target / name).read_bytes()


def test_pieces_of_wordpiece_spell_those_of_sentencepiece(tmp_path):
    source = write_model(tmp_path / "before", "vocab.txt")
    before, id = values_at(source), ids_of(Tokenizer.load(str(source.parent)))
    lines = ["the cat sat, on the mat.", "ändern ж"] * 20
    (tmp_path / "new.model").write_bytes(references.trained_sentencepiece(lines, 30))
    target = run(source, tmp_path / "after", new_vocabulary=str(tmp_path / "new.model"))
    after, new = values_at(target), Tokenizer.load(str(target))
    for row in new.replacement_ids:
        text = new.pieces[row].replace("ä", "a")
        letters_in = [f"##{letter}" for letter in text.strip("▁")]
        if text.startswith("▁") and letters_in:
            letters_in[0] = letters_in[0][2:]
        found = [id.get(piece, id.get(piece[2:])) for piece in letters_in]  # a comma is no ##,
        if found and None not in found:
            for name in (WORDS, BIAS):
                mean = before[name][found].mean(axis=0)
                np.testing.assert_allclose(after[name][row], mean, atol=1e-6)


def test_what_cannot_be_used_is_named(tmp_path, caplog):
    source = write_model(tmp_path / "before", "spiece.model")
    vocabulary = written(tmp_path / "new", [*SPECIAL, "the"])

    def refused(message: str, name="out", **flags):
        with pytest.raises(InputError, match=message) as error:
            run(source, tmp_path / name, **{"new_vocabulary": vocabulary, **flags})
        assert "\n" not in str(error.value)
        assert not (tmp_path / name).exists()

    for line in ("haus", "haus\tthe\tthat", "haus\t "):
        words = written(tmp_path, ["den\tthe", line], "words.tsv")
        refused("^`dictionary`=.*words.tsv:2: 'haus.*': must be a word, a tab", dictionary=words)
    refused("^`dictionary`=.*: needs `new_vocabulary`", new_vocabulary=None, dictionary=words)
    refused("nowhere.tsv: no such file", dictionary=str(tmp_path / "nowhere.tsv"))
    refused("^`new_vocabulary`=.*: no such", new_vocabulary=str(tmp_path / "nowhere.txt"))
    refused("must end in .model or .txt", new_vocabulary=words)
    refused("lacks \\[PAD\\]", new_vocabulary=written(tmp_path, ["the"], "short.txt"))
    refused("^`add_pieces`: adds to the model's", add_pieces=vocabulary)
    refused("^`output`=.*a folder", "out.weights.h5", to="albert_tf")
    (source.parent / "spiece.model").rename(tmp_path / "away.model")
    refused("^`new_vocabulary`: needs the vocabulary of the model in `spm_model_file`")

    flags = {"spm_model_file": str(tmp_path / "away.model")}
    nothing = written(tmp_path, [*SPECIAL, "жук"], "other.txt")
    flags |= {"do_lower_case": False, "dictionary": written(tmp_path, ["a b\tthe"], "no.tsv")}
    target = run(source, tmp_path / "good", new_vocabulary=nothing, **flags)
    assert "no.tsv: no word in it is a piece that can be translated" in caplog.text
    assert "only the special symbols start from the model's" in caplog.text
    tokenizer = open_preset(str(target)).tokenizer
    assert tokenizer.pieces == [*SPECIAL, "жук"]
    assert not tokenizer.do_lower_case, "the flag is about the new vocabulary"
