"""From text to TFRecords: the files depend on text, options and seed only."""

import dataclasses
import hashlib
import itertools
import json
import pathlib
import shutil
from collections.abc import Iterator

import fsspec
import numpy as np
import pytest
from scipy import stats

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.features import pretraining_features
from albert_tf.input.manifest import manifest_file
from albert_tf.input.record_index import index_records
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.unknown import UnknownCharacters
from data_prep import parallel, plan
from data_prep.create_pretraining_data import run
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.tfrecords import read_examples
from tests.conftest import slow
from tests.support import references
from tests.support.texts import COMPRESS, contents, create, tokenized, unmasked


def texts_of(corpus, tokenizer) -> list[bytes]:
    """Return the ids of the documents."""
    documents = tokenized(corpus, tokenizer)
    ends = documents.sentence_offsets[documents.document_offsets]
    return [
        documents.ids[begin:end].astype(">i4").tobytes() for begin, end in itertools.pairwise(ends)
    ]


def segments_of(examples, tokenizer) -> Iterator[tuple[bytes, bytes]]:
    """Yield the ids of the two segments of each example, without masks."""
    for ids, mask in zip(unmasked(examples).astype(">i4"), examples["input_mask"], strict=True):
        middle, end = np.flatnonzero(ids == tokenizer.sep_id)
        assert end == mask.sum() - 1
        yield ids[1:middle].tobytes(), ids[middle + 1 : end].tobytes()


def is_in_order(first: bytes, second: bytes, texts: list[bytes]) -> bool:
    """Return whether one of the texts contains both segments, the second after the first."""
    return any(first in text and second in text[text.index(first) :] for text in texts)


def test_examples_are_text_of_one_document_with_correct_labels(options, corpus, tokenizer):
    manifest, examples = create(options)
    texts = texts_of(corpus, tokenizer)
    labels = examples["next_sentence_labels"][:, 0]
    assert len(labels) == manifest["examples"] > 300
    for segments, label in zip(segments_of(examples, tokenizer), labels, strict=True):
        assert is_in_order(*segments[:: -1 if label else 1], texts)


def test_the_manifest_counts_what_is_in_the_files(options, corpus, model_file):
    options = dataclasses.replace(options, max_predictions_per_seq=20)
    manifest, examples = create(options)
    path = manifest_file(options.output_file[0])
    assert json.loads(pathlib.Path(path).read_text("utf-8")) == json.loads(json.dumps(manifest))
    assert manifest["vocabulary"]["sha256"] == hashlib.sha256(model_file.read_bytes()).hexdigest()
    assert manifest["settings"]["ngram"] == 3
    text = corpus.read_text("utf-8")
    assert manifest["documents"] == text.count("\n\n") + 1
    assert manifest["sentences"] == sum(bool(line.strip()) for line in text.split("\n"))
    assert manifest["examples"] == len(examples["input_ids"]) == sum(manifest["files"].values())
    assert manifest["padding_share"] == pytest.approx(1 - examples["input_mask"].mean())
    assert manifest["masked_tokens"] == examples["masked_lm_weights"].sum()
    assert manifest["positive_label_share"] == pytest.approx(
        examples["next_sentence_labels"].mean()
    )
    drawn = np.array(list(manifest["ngrams_drawn"].values()))
    assert stats.chisquare(drawn, np.array([6, 3, 2]) / 11 * drawn.sum()).pvalue > 1e-3


@pytest.mark.integration
def test_the_manifest_counts_unknown_tokens(options, corpus, tmp_path, tokenizer, capsys):
    chinese = tmp_path / "chinese.txt"
    chinese.write_text("A 中国 name\nIt is 中\n\nOne more\nand the end\n", "utf-8")
    run(dataclasses.replace(options, input_file=(str(corpus), str(chinese))))
    printed = capsys.readouterr().out
    manifest = json.loads(pathlib.Path(manifest_file(options.output_file[0])).read_text("utf-8"))
    texts = [path.read_text("utf-8").split("\n") for path in (corpus, chinese)]
    ids = [[id for line in lines for id in tokenizer.encode(line)] for lines in texts]
    unknown = [part.count(tokenizer.unk_id) for part in ids]
    assert manifest["unknown_tokens"] == sum(unknown)
    assert {c: manifest["unknown_characters"][c] for c in "中国"} == {"中": 2, "国": 1}
    share = unknown[1] / len(ids[1])
    assert manifest["unknown_share_by_file"][str(chinese)] == share
    assert f"of the tokens ({sum(unknown):,} of " in printed
    assert f"{chinese}: {share:.2%} unknown\n" in printed
    # 2 + 1 Chinese characters; each is one token with its neighbors.
    lines = [line for lines in texts for line in lines]
    lost = UnknownCharacters(tokenizer).in_unknown_tokens(lines)[1]
    assert manifest["unknown_character_share"] == pytest.approx(lost / len("".join(lines)))


@pytest.mark.integration
@pytest.mark.parametrize("flags", [{}, {"packing": "fit"}, {"pack_rows": True}])
def test_the_same_seed_gives_the_same_bytes(options, request, monkeypatch, flags):
    options = dataclasses.replace(options, **flags)
    file = pathlib.Path(options.output_file[0])
    create(options)
    first = file.read_bytes()
    file.unlink()
    # Not even the pieces in which the work is done may matter.
    request.getfixturevalue("small_pieces")
    if flags:  # but of rows, the buckets in which they are filled
        monkeypatch.setattr(plan, "_TOKENS_PER_BUCKET", 32_000_000)
    create(options)
    assert file.read_bytes() == first
    create(dataclasses.replace(options, random_seed=1))
    assert file.read_bytes() != first


@pytest.mark.integration
@pytest.mark.parametrize("flags", [*slow({}), {"pack_rows": True, "packing": "fit"}])
def test_the_number_of_processes_does_not_matter(options, tmp_path, monkeypatch, flags):
    options = dataclasses.replace(options, **flags)
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 1)
    found = []
    for processes in (1, 2):
        create(dataclasses.replace(options, num_processes=processes, num_shards=3))
        found.append(contents(tmp_path / "out"))
        shutil.rmtree(tmp_path / "out")
    assert found[0] == found[1]
    assert len(found[0]) == 5


@pytest.mark.integration
def test_shards_are_one_data_set_in_random_order(options, tmp_path, corpus, tokenizer):
    _, whole = create(options)
    sharded = dataclasses.replace(options, num_shards=3)
    manifest, parts = create(sharded)
    for name, array in whole.items():
        assert (parts[name] == array).all(), name
    names = [f"train.tfrecord-{n:05d}-of-00003" for n in range(3)]
    assert list(manifest["files"]) == names
    assert {path.name for path in (tmp_path / "out").iterdir()} == {
        *names, "train.tfrecord", "train.manifest.json", "train.index.json",
    }  # fmt: skip
    features = pretraining_features(64, 10)
    indexes = json.loads((tmp_path / "out" / "train.index.json").read_text())["files"]
    for name, count in manifest["files"].items():
        path = tmp_path / "out" / name
        assert indexes[name] == index_records(str(path))
        assert len(read_examples(str(path), features)["input_ids"]) == count
        assert hashlib.sha256(path.read_bytes()).hexdigest() == manifest["sha256"][name]
    # Where an example stands in the files says nothing about where it stood in the text.
    text = b"".join(texts_of(corpus, tokenizer))
    places = [text.index(first) for first, _ in segments_of(whole, tokenizer)]
    assert abs(stats.spearmanr(places, np.arange(len(places))).statistic) < 0.12


def test_the_next_sentence_comes_from_another_document(options, corpus, tokenizer):
    for flags in ({"pair_objective": "nsp"}, {"random_next_sentence": True}):
        manifest, examples = create(dataclasses.replace(options, **flags))
        assert manifest["settings"]["pair_objective"] == "nsp"
    texts = texts_of(corpus, tokenizer)
    labels = examples["next_sentence_labels"][:, 0]
    assert 0.4 < labels.mean() < 0.6
    chance = 0
    for segments, label in zip(segments_of(examples, tokenizer), labels, strict=True):
        together = is_in_order(*segments, texts)
        assert label or together
        # Segments of a few tokens, of four bytes, may well occur in both documents.
        chance += label and together and min(map(len, segments)) > 40
    assert chance < 0.05 * labels.sum()


def test_without_pairs_an_example_is_one_segment(options, tokenizer):
    manifest, examples = create(dataclasses.replace(options, pair_objective="none"))
    assert manifest["positive_label_share"] == 0
    assert not examples["segment_ids"].any()
    assert not examples["next_sentence_labels"].any()
    assert ((unmasked(examples) == tokenizer.sep_id).sum(1) == 1).all()


def test_dynamic_files_contain_the_text_that_static_ones_mask(options):
    nsp = dataclasses.replace(options, pair_objective="nsp")
    _, static = create(nsp)
    manifest, dynamic = create(dataclasses.replace(nsp, masking="dynamic"))
    assert (dynamic["input_ids"] == unmasked(static)).all()
    for name in set(dynamic) - {"input_ids"}:
        assert (dynamic[name] == static[name]).all(), name
    assert manifest["vocabulary"]["mask_id"] == 4
    assert manifest["positive_label_share"] == static["next_sentence_labels"].mean()
    assert not {"masked_tokens", "swapped_in_training"} & set(manifest)


def test_dynamic_files_have_all_pairs_in_order(options, tokenizer):
    _, static = create(options)
    manifest, dynamic = create(dataclasses.replace(options, masking="dynamic"))
    assert manifest["swapped_in_training"] is True
    assert "positive_label_share" not in manifest
    assert not dynamic["next_sentence_labels"].any()
    labels = static["next_sentence_labels"][:, 0]
    both = segments_of(static, tokenizer), segments_of(dynamic, tokenizer)
    for ours, stored, label in zip(*both, labels, strict=True):
        assert stored == ours[:: -1 if label else 1]


def test_copies_are_cut_and_masked_differently(options):
    _, examples = create(dataclasses.replace(options, short_seq_prob=0.0))
    ids = examples["input_ids"]
    assert len(np.unique(ids, axis=0)) > 0.98 * len(ids)


def test_single_tokens_are_masked_without_whole_words(options, tokenizer):
    _, examples = create(dataclasses.replace(options, do_whole_word_mask=False, ngram=1))
    ids = unmasked(examples)
    starts = tokenizer.word_starts[ids] | (ids == tokenizer.sep_id)
    rows, columns = np.nonzero(examples["masked_lm_weights"])
    following = examples["masked_lm_positions"][rows, columns] + 1
    masked = np.zeros_like(starts)
    masked[rows, following - 1] = True
    inside = ~starts[rows, following]
    assert not masked[rows, following][inside].all()


# A small file leaves more to chance.
@pytest.mark.parametrize(("name", "tolerance"), [("own_text", 0.04), ("en_30k", 0.015)])
def test_statistics_of_the_original(name, tolerance, shared, tmp_path):
    reference = references.records_reference(name, shared)
    listed = tmp_path / "vocabulary.vocab"  # with a model, it has to agree with it
    pieces = Tokenizer.load(str(reference.vocabulary)).pieces
    listed.write_text("".join(f"{piece}\t0\n" for piece in pieces), "utf-8")
    options = PretrainingDataOptions(
        input_file=(str(reference.text),),
        output_file=(str(tmp_path / "ours.tfrecord"),),
        spm_model_file=str(reference.vocabulary),
        vocab_file=str(listed),
        max_seq_length=reference.max_seq_length,
        max_predictions_per_seq=reference.max_predictions_per_seq,
        dupe_factor=reference.dupe_factor,
        short_seq_prob=0.0,  # as it happened in the original's run: no document was drawn
    )
    features = pretraining_features(reference.max_seq_length, reference.max_predictions_per_seq)
    original = read_examples(str(reference.records), features)
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

    np.testing.assert_allclose(statistics(ours), statistics(original), rtol=0.01, atol=tolerance)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_predictions_per_seq": 65}, "`max_predictions_per_seq`=65"),
        ({"spm_model_file": None}, "`spm_model_file`"),
        ({"output_file": ("a", "a")}, "named twice"),
        ({"num_shards": 2, "output_file": ("a", "b")}, "`num_shards`=2: requires a single name"),
        ({"random_next_sentence": True, "pair_objective": "sop"}, "`random_next_sentence`"),
        ({"work_dir": "gs://bucket/work"}, "`work_dir`=gs://bucket/work"),
        ({"input_file": ("nothing-*.txt",)}, "`input_file`: no file matches 'nothing-\\*.txt'"),
    ],
)
def test_invalid_options_are_reported(options, change, message):
    with pytest.raises(InputError, match=message):
        create(dataclasses.replace(options, **change))


@pytest.mark.parametrize("document_sentences", [0, 7])
def test_compressed_text_gives_the_same_records(options, corpus, tmp_path, document_sentences):
    options = dataclasses.replace(options, document_sentences=document_sentences)
    manifest, _ = create(options)
    if document_sentences:
        assert manifest["documents"] == -(-manifest["sentences"] // document_sentences)
    plain = pathlib.Path(options.output_file[0]).read_bytes()
    (tmp_path / "in.txt.xz").write_bytes(COMPRESS[".xz"](corpus.read_bytes()))
    # What `extract_corpus` wrote next to the text before; globs pass over it.
    (tmp_path / "in.corpus.json").write_text('{"seconds": 1}')
    (tmp_path / "in.sources.tsv").write_text("book\tname\n")
    found, _ = create(dataclasses.replace(options, input_file=(str(tmp_path / "in.*"),)))
    assert pathlib.Path(options.output_file[0]).read_bytes() == plain
    assert found["text_bytes"] == manifest["text_bytes"] == corpus.stat().st_size
    assert found["corpora"] == {"in.txt.xz": {"seconds": 1}}


@pytest.mark.parametrize(
    ("text", "flags", "message"),
    [
        ("", {}, "no text"),
        ("\n \n\n", {}, "no text"),
        ("The only one.\n\n" * 50, {"one_segment_chunks": "drop"}, "one_segment_chunks"),
        ("One.\nAnother.\n" * 30, {"pair_objective": "nsp"}, "^`pair_objective`=nsp: no example"),
        (
            "One.\nAnother.\n" * 30 + "\n\na",
            {"random_next_sentence": True},
            "^`random_next_sentence`: no example could get a second segment",
        ),
    ],
)
def test_text_without_examples_leaves_nothing(options, tmp_path, text, flags, message):
    (tmp_path / "in.txt").write_text(text)
    options = dataclasses.replace(options, input_file=(str(tmp_path / "in.txt"),))
    with pytest.raises(InputError, match=message):
        create(dataclasses.replace(options, **flags))
    assert not list((tmp_path / "out").iterdir())
    if flags:
        assert create(options)[0]["examples"]


@pytest.mark.integration
@pytest.mark.parametrize("documents", [2, 3, 5])
def test_from_two_documents_on_half_of_the_next_sentences_are_from_another(
    options, tmp_path, documents
):
    texts = [f"This is sentence {n} of the text.\n" * 3 for n in range(documents)]
    (tmp_path / "in.txt").write_text("\n".join(texts))
    options = dataclasses.replace(options, input_file=(str(tmp_path / "in.txt"),), dupe_factor=5)
    labels: list[int] = []
    for seed in range(12):
        few = dataclasses.replace(options, pair_objective="nsp", random_seed=seed)
        labels += create(few)[1]["next_sentence_labels"].ravel().tolist()
    assert 0.4 < np.mean(labels) < 0.6


def test_sentences_without_tokens_are_dropped(tmp_path, tokenizer):
    (tmp_path / "in.txt").write_text("one\n\u0301\ntwo three\n\n\u0301\u0300\n\nfour\n", "utf-8")
    documents = tokenized(tmp_path / "in.txt", tokenizer)
    assert documents.document_offsets.tolist() == [0, 2, 2, 3]
    expected = [len(tokenizer.encode(text)) for text in ("one", "two three", "four")]
    assert np.diff(documents.sentence_offsets).tolist() == expected


def test_a_vocab_file_of_another_model_is_refused(options, model_file, tmp_path):
    lines = model_file.with_suffix(".vocab").read_text("utf-8").split("\n")
    create(dataclasses.replace(options, vocab_file=str(model_file.with_suffix(".vocab"))))
    (tmp_path / "other.vocab").write_text("\n".join(lines[:500]), "utf-8")
    with pytest.raises(InputError, match=r"`vocab_file`=.*other\.vocab: has 500 pieces"):
        create(dataclasses.replace(options, vocab_file=str(tmp_path / "other.vocab")))


@pytest.mark.integration
def test_remote_files(options, tmp_path, monkeypatch, small_pieces):
    """All files are remote: in fsspec's file system in memory."""
    memory = fsspec.filesystem("memory")
    monkeypatch.setattr(type(memory), "store", {})
    monkeypatch.setattr(type(memory), "pseudo_dirs", [""])
    options = dataclasses.replace(options, num_processes=1, num_shards=2)
    create(options)
    for name, path in (("in.txt", options.input_file[0]), ("v.model", options.spm_model_file)):
        files.copy_file(path, f"memory://{name}")
    remote = dataclasses.replace(
        options,
        input_file=("memory://in.txt",),
        spm_model_file="memory://v.model",
        output_file=("memory://out/train.tfrecord",),
        work_dir=str(tmp_path / "work"),
    )
    manifest, _ = create(remote)
    for ours, theirs in zip(options.output_files, remote.output_files, strict=True):
        assert files.read_bytes(theirs) == pathlib.Path(ours).read_bytes()
    names = [f"train.tfrecord-{n:05d}-of-00002" for n in range(2)]
    written = sorted(files.names_in("memory://out"))
    assert written == ["train.index.json", "train.manifest.json", *names]
    assert not list((tmp_path / "work").iterdir())
    assert create(remote)[0] == json.loads(json.dumps(manifest))  # found finished
