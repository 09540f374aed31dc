"""Reference files give the words that the segmenter gave which they were made with."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import random

import pytest
import rjieba

from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer
from data_prep import text_units, word_references
from data_prep.pretraining_data_options import PretrainingDataOptions
from tests.data_prep.test_word_segments import SENTENCES, vocabulary
from tests.support.texts import contents, create

__all__ = ["vocabulary"]  # a fixture

BLANK = ("", " \t", "\u3000", "\r")
LONGEST = 2000


def reference(tokenizer: Tokenizer, line: str) -> str:
    """Return the positions of tokens that are not at the start of a word of ideographs."""
    _, spans = tokenizer.encode_with_offsets(line)
    inside = set()
    begin = 0
    for word in rjieba.cut(line):
        if "\u4e00" <= word[0] <= "\u9fff":
            inside |= set(range(begin + 1, begin + len(word)))
        begin += len(word)
    return json.dumps([n for n, (start, _) in enumerate(spans.tolist(), 1) if start in inside])


def write(folder: pathlib.Path, tokenizer: Tokenizer, seed: int = 0) -> None:
    """Two texts with blank lines of all kinds and a line that is too long, and their references."""
    draw = random.Random(seed)
    for name in ("a", "b"):
        lines, references = [], []
        for number in range(200):
            line = draw.choice(SENTENCES) + draw.choice(("", " and more words", "\u3000"))
            if number == 100:
                line = line * LONGEST
            lines.append(line)
            references.append(reference(tokenizer, line.strip()))
            while draw.random() < 0.3:
                lines.append(draw.choice(BLANK))
        (folder / f"{name}.txt").write_text("\n".join(lines), "utf-8")
        (folder / f"{name}.ref").write_text("\n".join(references) + "\n")


@pytest.fixture
def options(vocabulary, tmp_path, monkeypatch) -> PretrainingDataOptions:
    # Many units, some of them inside a line.
    monkeypatch.setattr(text_units, "_MIN_UNIT_BYTES", 1)
    monkeypatch.setattr(text_units, "_UNITS", 60)
    for module in (text_units, word_references):
        monkeypatch.setattr(module, "MAX_LINE_BYTES", LONGEST)
    write(tmp_path, Tokenizer.load(vocabulary))
    return PretrainingDataOptions(
        input_file=(f"{tmp_path}/*.txt",),
        output_file=(str(tmp_path / "out" / "train.tfrecord"),),
        vocab_file=vocabulary,
        max_seq_length=64,
        dupe_factor=1,
        chinese_ref_file=(f"{tmp_path}/*.ref",),
    )


@pytest.mark.integration
@pytest.mark.parametrize("document_sentences", [0, 3])
def test_examples_are_those_of_the_segmenter(options, tmp_path, document_sentences):
    options = dataclasses.replace(options, document_sentences=document_sentences)
    manifest, _ = create(options)
    assert manifest["skipped_lines"] == 2
    records = contents(tmp_path / "out")["train.tfrecord"]
    create(dataclasses.replace(options, chinese_ref_file=(), word_segmenter="jieba"))
    assert contents(tmp_path / "out")["train.tfrecord"] == records
    create(dataclasses.replace(options, chinese_ref_file=()))
    assert contents(tmp_path / "out")["train.tfrecord"] != records


def test_other_references_are_another_run(options, tmp_path):
    create(options)
    records = contents(tmp_path / "out")["train.tfrecord"]
    (tmp_path / "a.ref").write_text("[]\n" * 200)
    create(options)
    assert contents(tmp_path / "out")["train.tfrecord"] != records


@pytest.mark.integration
@pytest.mark.parametrize(
    ("references", "message"),
    [
        ("[]\n" * 199, "b.ref: has 199 lines, fewer than .*b.txt has lines that are not blank$"),
        ("[]\n" * 201, "b.ref: has more lines than the 200 of .*b.txt that are not blank$"),
        ("[]\n" * 7 + "[1\n" + "[]\n" * 192, "b.ref: line 8 must be a JSON list of .* not b'.1"),
        ("[]\n[0]\n" + "[]\n" * 198, "b.ref: line 2 must be a JSON list of positions above 0"),
        ("3\n" * 200, "b.ref: line 1 must be a JSON list of positions above 0, not b'3"),
        ("[99]\n" * 200, "b.ref: token 99 of '.*' is not a Chinese character; the file must be"),
        (None, "b.ref: token .* of '.*' is not a Chinese character; .* with the same vocabulary$"),
    ],
)
def test_a_file_of_another_text_is_refused(options, tmp_path, references, message):
    (tmp_path / "b.ref").write_text(references or (tmp_path / "a.ref").read_text())
    with pytest.raises(InputError, match=message) as error:
        create(options)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out" / "train.tfrecord").exists()


def test_options(options):
    with pytest.raises(InputError, match="1 file for 2 text files"):
        create(
            dataclasses.replace(
                options, chinese_ref_file=(options.chinese_ref_file[0].replace("*", "a"),)
            )
        )
    with pytest.raises(InputError, match="use one of them"):
        create(dataclasses.replace(options, word_segmenter="jieba"))
    with pytest.raises(InputError, match="`chinese_ref_file`=.*requires `do_whole_word_mask`"):
        create(dataclasses.replace(options, do_whole_word_mask=False))
