"""Vocabularies that write rare characters in bytes, from training to other libraries."""

import numpy as np
import pytest
import tokenizers

from albert_tf.errors import InputError
from albert_tf.input.masking import Masking, Masks, draw_masks
from albert_tf.interop.huggingface_tokenizer import write_tokenizer
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.held_out import characters_of
from data_prep.train_vocabulary import VocabularyOptions, train_vocabulary

LINES = ["the cat sat on the mat, a dog too", "hello <world> of words"] * 30
TEXTS = [
    "the 🐈 sat жук on 中国x mat",
    "x🐈🐈y, mat",
    "🐈",
    "  🐈 the",
    "",
    "a dog <0xD0> x<0x9F>",
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("bytes")
    (folder / "in.txt").write_text("\n".join([*LINES, "жук"]) + "\n", "utf-8")
    options = VocabularyOptions(
        input_file=(str(folder / "in.txt"),), output_prefix=str(folder / "spiece"),
        vocab_size=293, byte_fallback=True, character_coverage=0.998,
    )  # fmt: skip
    return Tokenizer.load(train_vocabulary(options))


def test_characters_without_a_piece_become_bytes(tokenizer):
    assert tokenizer.tokenize("the 🐈")[-5:] == ["▁", "<0xF0>", "<0x9F>", "<0x90>", "<0x88>"]
    for text in TEXTS[:-1]:
        ids, spans = tokenizer.encode_with_offsets(text)
        assert tokenizer.unk_id not in ids
        assert tokenizer.decode(ids) == " ".join(text.split())
        for id, (start, end) in zip(ids.tolist(), spans.tolist(), strict=True):
            if tokenizer.pieces[id].startswith("<0x"):
                assert end == start + 1
                assert tokenizer.pieces[id] in "".join(f"<0x{b:02X}>" for b in text[start].encode())
    flat, _ = tokenizer.encode_flat(TEXTS)
    assert flat.tolist() == sum(map(tokenizer.encode, TEXTS), [])
    assert characters_of(tokenizer)[tokenizer.encode("🐈")].tolist() == [0, 1, 0, 0, 0]


@pytest.mark.integration
def test_other_libraries_make_the_same_of_a_text(tokenizer, tmp_path):
    from albert_tf.export.graph_tokenizers import graph_tokenizer

    write_tokenizer(tokenizer, str(tmp_path))
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    (tmp_path / "spiece.model").unlink()
    back, in_graph = Tokenizer.load(str(tmp_path)), graph_tokenizer(tokenizer)
    for text in TEXTS:
        ids, spans = tokenizer.encode_with_offsets(text)
        found = theirs.encode(text, add_special_tokens=False)
        assert found.ids == ids.tolist() == back.encode(text)
        assert theirs.decode(found.ids) == tokenizer.decode(ids)
        graph_ids, starts, ends = in_graph.encode_with_offsets([text])
        assert graph_ids.to_list() == [ids.tolist()]
        np.testing.assert_array_equal(np.stack([starts[0], ends[0]], axis=1), spans)


def test_a_character_is_masked_as_a_whole(tokenizer):
    row = [tokenizer.cls_id, *tokenizer.encode("x🐈🐈 the жук, 🐈" * 3), tokenizer.sep_id]
    ids = np.array([row] * 200, np.int32)
    special = (tokenizer.cls_id, tokenizer.sep_id)
    masks = Masks(Masking(99, ngram=1), special, tokenizer.mask_id, tokenizer.replacement_ids)
    seeds, lengths = np.arange(200, dtype=np.uint64), np.full(200, len(row), np.int32)
    masked = draw_masks(ids, lengths, tokenizer.word_starts[ids], seeds, masks)
    cat = [tokenizer.pieces.index(f"<0x{byte:02X}>") for byte in "🐈".encode()]
    first = [n for n in range(len(row)) if row[n : n + 4] == cat]
    shares = set()
    for positions, weights in zip(masked.positions, masked.weights, strict=True):
        chosen = set(positions[weights > 0].tolist())
        shares |= {sum(place + n in chosen for n in range(4)) for place in first}
    assert shares == {0, 4}


def test_only_unigram_vocabularies_have_bytes(tmp_path):
    options = VocabularyOptions(
        input_file=("in.txt",), output_prefix=str(tmp_path / "v"), model_type="wordpiece",
        byte_fallback=True,
    )  # fmt: skip
    with pytest.raises(InputError, match="^`byte_fallback`=True: needs `model_type`=unigram$"):
        options.check()
