"""The vocabulary of the examples is that of the model, as far as both are known."""

import hashlib
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.records import Records, check_vocabularies

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
TEXT = "".join(f"{piece}\n" for piece in PIECES)
OTHER = TEXT.replace("a\nb\n", "b\na\n")


def manifest_of(text: str) -> dict:
    settings = {"max_seq_length": 8, "max_predictions_per_seq": 2}
    vocabulary = {"special_ids": [2, 3], "mask_id": 4, "replacement_ids": [[5, 7]]}
    vocabulary["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return {"settings": settings, "files": {}, "vocab_size": 7, "vocabulary": vocabulary}


def records(**manifests: dict) -> Records:
    return Records(None, {}, None, None, manifests)


@pytest.mark.parametrize(
    ("model", "data", "fits"),
    [
        (TEXT, None, True),
        (OTHER, None, False),
        (None, TEXT, True),
        (None, OTHER, False),
        (OTHER, TEXT, True),
        (None, None, True),
    ],
    ids=["same", "other", "data", "other data", "extended", "unknown"],
)
@pytest.mark.parametrize("argument", ["output_dir", "init_checkpoint"])
def test_a_model_and_examples(tmp_path, argument, model, data, fits):
    if model:
        (tmp_path / "vocab.txt").write_text(model)
    if data:
        content = {"x.manifest.json": manifest_of(data)}
        (tmp_path / "training_data.json").write_text(json.dumps(content))
    options = PretrainingOptions(**{"output_dir": "new", argument: str(tmp_path)})
    old = records(old={**manifest_of(TEXT), "vocabulary": None}, older={})

    def check(examples: Records) -> None:
        check_vocabularies(options, argument == "output_dir", None, old, examples)

    check(old)
    if fits:
        check(records(d=manifest_of(TEXT)))
        return
    with pytest.raises(InputError) as error:
        check(records(d=manifest_of(TEXT)))
    named = f"`{argument}`={tmp_path}: has another vocabulary than the examples (d)"
    assert str(error.value) == named


def test_files_of_two_vocabularies():
    options = PretrainingOptions(output_dir="new")
    one, other = records(a=manifest_of(TEXT), c={}), records(b=manifest_of(OTHER))
    check_vocabularies(options, False, one, None)
    for mixed in ((one, other), (records(**one.manifests, **other.manifests), None)):
        with pytest.raises(InputError, match="made with different vocabularies: a, b"):
            check_vocabularies(options, False, *mixed)
