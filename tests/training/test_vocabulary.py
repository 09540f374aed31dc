"""The vocabulary of the examples is that of the model, as far as both are known."""

from __future__ import annotations

import hashlib
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.input.manifest import check_same_vocabulary
from albert_tf.training.records import Records

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
TEXT = "".join(f"{piece}\n" for piece in PIECES)
OTHER = TEXT.replace("a\nb\n", "b\na\n")


def manifest_of(text: str, path: str = "") -> dict:
    settings = {"max_seq_length": 8, "max_predictions_per_seq": 2, "vocab_file": path}
    vocabulary = {"special_ids": [2, 3], "mask_id": 4, "replacement_ids": [[5, 7]]}
    vocabulary["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return {"settings": settings, "files": {}, "vocab_size": 7, "vocabulary": vocabulary}


@pytest.mark.parametrize(
    ("model", "data", "fits"),
    [
        (TEXT, None, True),
        (TEXT.replace("\n", "\r\n"), None, True),
        (TEXT + "ab\n", None, True),
        (OTHER, None, False),
        (None, TEXT, True),
        (None, OTHER, False),
        (OTHER, TEXT, True),
        (None, None, True),
    ],
    ids=["same", "line ends", "longer", "other", "data", "other data", "either", "unknown"],
)
def test_a_model_and_examples(tmp_path, model, data, fits):
    examples = tmp_path / "examples.txt"
    examples.write_text(TEXT)
    folder = tmp_path / "model"
    folder.mkdir()
    if model:
        (folder / "vocab.txt").write_text(model, newline="")
    if data:
        content = {"x.manifest.json": manifest_of(data)}
        (folder / "training_data.json").write_text(json.dumps(content))
    manifest = manifest_of(TEXT, str(examples))
    for manifests in ({"d.manifest.json": manifest}, {"old": {**manifest, "vocabulary": None}}):
        records = Records(None, {}, None, None, manifests)
        if fits or "old" in manifests:
            records.check_vocabulary("init_checkpoint", str(folder))
            continue
        with pytest.raises(InputError) as error:
            records.check_vocabulary("init_checkpoint", str(folder))
        assert str(error.value) == (
            f"`init_checkpoint`={folder}: has another vocabulary than the examples "
            "(d.manifest.json)"
        )


def test_files_of_two_vocabularies():
    mixed = {"a": manifest_of(TEXT), "b": manifest_of(OTHER), "c": {}}
    check_same_vocabulary({name: mixed[name] for name in ("a", "c")})
    with pytest.raises(InputError, match="the files were made with different vocabularies: a, b"):
        check_same_vocabulary(mixed)
