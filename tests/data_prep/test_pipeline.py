"""From text to TFRecords: what is in the files follows from text, flags and seed alone."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import pathlib

import numpy as np
import pytest
from scipy import stats

from albert_tf.errors import InputError
from albert_tf.input.features import pretraining_features
from albert_tf.tokenization import Tokenizer
from data_prep import create_pretraining_data, pipeline
from data_prep.create_pretraining_data import Options
from data_prep.records import read_examples


@pytest.fixture
def options(corpus, model_file, tmp_path) -> Options:
    return Options(
        input_file=(str(corpus),),
        output_file=(str(tmp_path / "out" / "train.tfrecord"),),
        spm_model_file=str(model_file),
        max_seq_length=64,
        max_predictions_per_seq=10,
        dupe_factor=2,
    )


def create(options: Options):
    """Runs the pipeline; returns the manifest and all examples."""
    create_pretraining_data.check(options)
    manifest = pipeline.create_pretraining_data(options)
    features = pretraining_features(options.max_seq_length, options.max_predictions_per_seq)
    read = [read_examples(path, features) for path in options.output_file]
    return manifest, {name: np.concatenate([part[name] for part in read]) for name in features}


def unmasked(examples) -> np.ndarray:
    ids = examples["input_ids"].copy()
    rows, columns = np.nonzero(examples["masked_lm_weights"])
    ids[rows, examples["masked_lm_positions"][rows, columns]] = examples["masked_lm_ids"][
        rows, columns
    ]
    return ids


def test_examples_are_text_of_one_document_with_true_labels(options, corpus, tokenizer):
    manifest, examples = create(options)
    documents = pipeline.tokenize([str(corpus)], tokenizer)
    ends = documents.sentence_offsets[documents.document_offsets]
    texts = [
        documents.ids[begin:end].astype(">i4").tobytes()
        for begin, end in zip(ends[:-1], ends[1:], strict=True)
    ]
    assert len(unmasked(examples)) == manifest["examples"] > 300
    for ids, mask, segments, label in zip(
        unmasked(examples),
        examples["input_mask"],
        examples["segment_ids"],
        examples["next_sentence_labels"][:, 0],
        strict=True,
    ):
        tokens = ids[mask == 1]
        assert (ids[mask == 0] == tokenizer.pad_id).all()
        assert tokens[0] == tokenizer.cls_id
        separators = np.flatnonzero(tokens == tokenizer.sep_id)
        assert separators[-1] == len(tokens) - 1
        assert len(separators) == 2
        assert (np.flatnonzero(segments) == np.arange(separators[0] + 1, len(tokens))).all()
        first = tokens[1 : separators[0]].astype(">i4").tobytes()
        second = tokens[separators[0] + 1 : -1].astype(">i4").tobytes()
        before, after = (second, first) if label else (first, second)
        assert any(before in text and after in text[text.index(before) :] for text in texts)


def test_the_manifest_counts_what_is_in_the_files(options, corpus, model_file):
    options = dataclasses.replace(options, max_predictions_per_seq=20)
    manifest, examples = create(options)
    path = pipeline.manifest_file(options.output_file[0])
    assert json.loads(pathlib.Path(path).read_text("utf-8")) == json.loads(json.dumps(manifest))
    assert manifest["vocabulary_sha256"] == hashlib.sha256(model_file.read_bytes()).hexdigest()
    assert manifest["settings"]["ngram"] == 3
    text = corpus.read_text("utf-8")
    assert manifest["documents"] == text.count("\n\n") + 1
    assert manifest["sentences"] == sum(bool(line.strip()) for line in text.split("\n"))
    assert manifest["examples"] == len(examples["input_ids"]) == sum(manifest["files"].values())
    assert manifest["padding_share"] == pytest.approx(1 - examples["input_mask"].mean())
    assert manifest["masked_tokens"] == examples["masked_lm_weights"].sum()
    assert manifest["swapped_share"] == pytest.approx(examples["next_sentence_labels"].mean())
    drawn = np.array(list(manifest["ngrams_drawn"].values()))
    assert stats.chisquare(drawn, np.array([6, 3, 2]) / 11 * drawn.sum()).pvalue > 1e-3


def test_the_same_seed_gives_the_same_bytes(options, tmp_path, monkeypatch):
    file = pathlib.Path(options.output_file[0])
    create(options)
    first = file.read_bytes()
    # Not even the size of the batches in between may matter.
    monkeypatch.setattr(pipeline, "_SENTENCES_AT_ONCE", 100)
    monkeypatch.setattr(pipeline, "_EXAMPLES_AT_ONCE", 17)
    create(options)
    assert file.read_bytes() == first
    create(dataclasses.replace(options, random_seed=1))
    assert file.read_bytes() != first


def test_shards_hold_the_examples_in_turn_and_in_random_order(options, tmp_path):
    _, whole = create(options)
    shards = tuple(str(tmp_path / f"shard-{number}.tfrecord") for number in range(3))
    manifest, _ = create(dataclasses.replace(options, output_file=shards))
    features = pretraining_features(64, 10)
    for number, path in enumerate(shards):
        part = read_examples(path, features)
        assert (part["input_ids"] == whole["input_ids"][number::3]).all()
        assert manifest["files"][f"shard-{number}.tfrecord"] == len(part["input_ids"])
    # Neighbours in the file come from different documents and copies: the first tokens of a
    # document do not come first.
    documents = pipeline.tokenize(list(options.input_file), Tokenizer.load(options.spm_model_file))
    pairing = pipeline.Pairing(64)
    tokenizer = Tokenizer.load(options.spm_model_file)
    spans = pipeline.make_copies(documents, tokenizer, pairing, 12345, 2).spans
    place = stats.spearmanr(spans[:, 0], np.arange(len(spans))).statistic
    assert abs(place) < 0.15


def test_copies_are_cut_and_masked_differently(options):
    _, examples = create(dataclasses.replace(options, short_seq_prob=0.0))
    ids = examples["input_ids"]
    assert len(np.unique(ids, axis=0)) > 0.98 * len(ids)


def test_single_tokens_are_masked_without_whole_words(options, tokenizer):
    _, examples = create(dataclasses.replace(options, do_whole_word_mask=False, ngram=1))
    ids = unmasked(examples)
    starts = tokenizer.word_starts[ids] | (ids == tokenizer.sep_id)
    rows, columns = np.nonzero(examples["masked_lm_weights"])
    positions = examples["masked_lm_positions"][rows, columns]
    following = positions + 1
    inside = ~starts[rows, following]
    masked = np.zeros_like(starts)
    masked[rows, positions] = True
    assert inside.any()
    assert not masked[rows, following][inside].all()


def test_statistics_of_the_original(shared, tmp_path):
    original = np.load(shared("golden/tfrecord/en_30k.npz"))
    options = Options(
        input_file=(str(shared("golden/tfrecord/input.txt")),),
        output_file=(str(tmp_path / "en.tfrecord"),),
        spm_model_file=str(shared("data/albert_en_vocab/30k-clean.model")),
        vocab_file=str(shared("data/albert_en_vocab/30k-clean.vocab")),
        max_seq_length=128,
        dupe_factor=2,
        short_seq_prob=0.0,  # as it happened in the original's run: no document was drawn
    )
    _, ours = create(options)
    assert {name: array.shape for name, array in ours.items()} == {
        name: original[name].shape for name in original
    }

    def statistics(arrays):
        weights = arrays["masked_lm_weights"]
        kept = weights > 0
        after = np.take_along_axis(arrays["input_ids"], arrays["masked_lm_positions"], 1)
        return [
            arrays["input_mask"].mean(),
            kept.sum(1).mean(),
            kept.sum() / arrays["input_mask"].sum(),
            (after == 4)[kept].mean(),
            (after == arrays["masked_lm_ids"])[kept].mean(),
            arrays["token_boundary"][arrays["input_mask"] == 1].mean(),
        ]

    np.testing.assert_allclose(statistics(ours), statistics(original), rtol=0.01, atol=0.015)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_seq_length": 4}, "--max_seq_length: 4"),
        ({"masked_lm_prob": 1.5}, "--masked_lm_prob: 1.5"),
        ({"short_seq_prob": -0.1}, "--short_seq_prob: -0.1"),
        ({"ngram": 0}, "--ngram: 0"),
        ({"dupe_factor": 0}, "--dupe_factor: 0"),
        ({"max_predictions_per_seq": 0}, "--max_predictions_per_seq: 0"),
        ({"max_predictions_per_seq": 65}, "--max_predictions_per_seq: 65"),
        ({"spm_model_file": None}, "--spm_model_file"),
        ({"output_file": ("a", "a")}, "named twice"),
        ({"input_file": ("nothing-*.txt",)}, "--input_file: no file matches 'nothing-\\*.txt'"),
    ],
)
def test_flags_out_of_range_are_named(options, change, message):
    with pytest.raises(InputError, match=message):
        create(dataclasses.replace(options, **change))


def test_one_sentence_documents(options, tmp_path):
    path = tmp_path / "lines.txt"
    path.write_text("\n\n".join(f"This is the only sentence number {n}." for n in range(50)))
    options = dataclasses.replace(options, input_file=(str(path),))
    manifest, _ = create(options)
    assert manifest["examples"] == 100
    with pytest.raises(InputError, match="one_segment_chunks"):
        create(dataclasses.replace(options, one_segment_chunks="drop"))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "no text"),
        (b"\n \n\n", "no text"),
        (b"caf\xe9 society\n", r"in\.txt: line 1 is not UTF-8"),
    ],
)
def test_a_bad_text_leaves_nothing_behind(options, tmp_path, content, message):
    (tmp_path / "in.txt").write_bytes(content)
    with pytest.raises(InputError, match=message):
        create(dataclasses.replace(options, input_file=(str(tmp_path / "in.txt"),)))
    assert not list((tmp_path / "out").iterdir())


def test_sentences_without_a_token_are_left_out(tmp_path, tokenizer):
    (tmp_path / "in.txt").write_text("one\n\u200b\ntwo three\n\n\ufeff\u200b\n\nfour\n", "utf-8")
    documents = pipeline.tokenize([str(tmp_path / "in.txt")], tokenizer)
    assert documents.document_offsets.tolist() == [0, 2, 3]
    expected = [len(tokenizer.encode(text)) for text in ("one", "two three", "four")]
    assert np.diff(documents.sentence_offsets).tolist() == expected


def test_a_failure_while_writing_leaves_nothing_behind(options, tmp_path, monkeypatch):
    create(options)
    folder = tmp_path / "out"
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    assert set(before) == {"train.tfrecord", "train.manifest.json"}

    def fail(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(pipeline, "as_features", fail)
    with pytest.raises(OSError, match="No space"):
        create(options)
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_vocab_file_of_another_model_is_refused(options, model_file, tmp_path):
    lines = model_file.with_suffix(".vocab").read_text("utf-8").split("\n")
    create(dataclasses.replace(options, vocab_file=str(model_file.with_suffix(".vocab"))))
    (tmp_path / "other.vocab").write_text("\n".join(lines[:500]), "utf-8")
    with pytest.raises(InputError, match=r"--vocab_file: .*other\.vocab \(500 pieces\)"):
        create(dataclasses.replace(options, vocab_file=str(tmp_path / "other.vocab")))
