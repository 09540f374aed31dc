"""Text to TFRecords on one machine: tokenize, cut into pairs, shuffle, mask, write.

The ids of the corpus are held once, as one flat array; every copy of every example is five numbers
until the batch that writes it. What an example holds follows from the seed, its document's number
and the copy, so neither the order of the work nor the number of processes can change it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.input.features import pretraining_features
from albert_tf.input.masking import MaskedBatch, Masking, derive_seeds, draw_masks
from albert_tf.tokenization import Tokenizer
from data_prep.corpora.text import read_documents
from data_prep.progress import Progress
from data_prep.segments import Examples, Pairing, Pairs, TokenizedDocuments, assemble, make_pairs

if TYPE_CHECKING:
    from data_prep.create_pretraining_data import Options

_SENTENCES_AT_ONCE = 20_000
_EXAMPLES_AT_ONCE = 1024


def create_pretraining_data(options: Options) -> dict[str, Any]:
    """Writes the TFRecord files and their manifest, all or none, and returns the manifest.

    Raises:
        InputError: an input is missing, empty or not UTF-8, the vocabulary does not fit, the
            output cannot be written, or the text gives no example.
    """
    start = time.monotonic()
    paths = files.expand_globs(options.input_file, "input_file")
    for path in options.output_file:
        files.make_folder(os.path.dirname(path), "output_file")
    tokenizer = load_tokenizer(options)

    documents = tokenize(paths, tokenizer)
    if not len(documents.ids):
        raise InputError(f"--input_file: no text in {', '.join(paths)}")
    pairing = Pairing(options.max_seq_length, options.short_seq_prob, options.one_segment_chunks)
    pairs = make_copies(documents, tokenizer, pairing, options.random_seed, options.dupe_factor)
    if not len(pairs.spans):
        raise InputError(
            "--one_segment_chunks: every document is a single sentence, so no pair is left; "
            "use split, and check that blank lines stand between documents only"
        )
    manifest_path = manifest_file(options.output_file[0])
    with contextlib.ExitStack() as stack:
        partial = [stack.enter_context(files.replacing(path)) for path in options.output_file]
        statistics = write_examples(partial, documents, pairs, tokenizer, options)
        files.remove(manifest_path)  # it would not fit the files that now take their places
    examples_per_file = dict(zip(options.output_file, statistics.pop("per_file"), strict=True))
    manifest = {
        "settings": dataclasses.asdict(options),
        "vocabulary_sha256": _sha256(tokenizer.path),
        "vocab_size": tokenizer.vocab_size,
        "text_bytes": text_bytes(paths),
        "documents": len(documents.document_offsets) - 1,
        "sentences": len(documents.sentence_offsets) - 1,
        "tokens": len(documents.ids),
        "examples": len(pairs.spans),
        "files": {os.path.basename(path): count for path, count in examples_per_file.items()},
        **statistics,
        "swapped_share": float(pairs.swapped.mean()),
        "truncated_tokens": pairs.truncated_tokens,
        "dropped_chunks": pairs.dropped_chunks,
        "seconds": round(time.monotonic() - start, 3),
        "versions": _versions(),
    }
    files.write_text(manifest_path, json.dumps(manifest, indent=2, ensure_ascii=False) + "\n")
    return manifest


def manifest_file(first_output: str) -> str:
    """`data/train-0.tfrecord` -> `data/train-0.manifest.json`."""
    return os.path.splitext(first_output)[0] + ".manifest.json"


def load_tokenizer(options: Options) -> Tokenizer:
    """The tokenizer of `--spm_model_file`, or of `--vocab_file` alone; they must agree.

    Raises:
        InputError: a file is missing or no vocabulary, or the two differ.
    """
    tokenizer = Tokenizer.load(options.spm_model_file or options.vocab_file, options.do_lower_case)
    if options.spm_model_file and options.vocab_file:
        pieces = [line.split("\t")[0] for line in files.read_lines(options.vocab_file)]
        if pieces != tokenizer.pieces:
            raise InputError(
                f"--vocab_file: {options.vocab_file} ({len(pieces):,} pieces) is not the "
                f"vocabulary of {options.spm_model_file} ({tokenizer.vocab_size:,} pieces)"
            )
    return tokenizer


def tokenize(paths: Sequence[str], tokenizer: Tokenizer) -> TokenizedDocuments:
    """Reads and tokenizes text files into one flat array, without sentences that have no token."""
    ids: list[np.ndarray] = []
    sentence_lengths: list[np.ndarray] = []
    document_lengths: list[int] = []
    characters = 0
    with Progress("tokenized", "MB", text_bytes(paths) / 1e6) as progress:
        for documents in _batches(paths):
            texts = [sentence for document in documents for sentence in document]
            encoded = tokenizer.encode_batch(texts)
            lengths = np.array([len(sentence) for sentence in encoded])
            ids.append(np.concatenate(encoded))
            sentence_lengths.append(lengths[lengths > 0])
            document_lengths += _nonempty_per_document(documents, lengths)
            characters += sum(map(len, texts))
            progress.update(characters / 1e6)
    return TokenizedDocuments(
        ids=np.concatenate([np.empty(0, np.int32), *ids]),
        sentence_offsets=_offsets(np.concatenate([np.empty(0, np.int64), *sentence_lengths])),
        document_offsets=_offsets(np.array(document_lengths, np.int64)),
    )


def text_bytes(paths: Sequence[str]) -> int:
    """The size of the local ones among some files."""
    return sum(os.path.getsize(path) for path in paths if not files.is_remote(path))


def _batches(paths: Sequence[str]) -> Iterator[list[list[str]]]:
    """Groups of documents with about `_SENTENCES_AT_ONCE` sentences."""
    batch: list[list[str]] = []
    sentences = 0
    for path in paths:
        for document in read_documents(path):
            batch.append(document)
            sentences += len(document)
            if sentences >= _SENTENCES_AT_ONCE:
                yield batch
                batch, sentences = [], 0
    if batch:
        yield batch


def _nonempty_per_document(documents: list[list[str]], lengths: np.ndarray) -> list[int]:
    """How many sentences of each document have a token; documents without any are left out."""
    starts = _offsets(np.array([len(document) for document in documents]))[:-1]
    counts = np.add.reduceat(lengths > 0, starts, dtype=np.int64)
    return counts[counts > 0].tolist()


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def make_copies(
    documents: TokenizedDocuments,
    tokenizer: Tokenizer,
    pairing: Pairing,
    random_seed: int,
    dupe_factor: int,
) -> Pairs:
    """Cuts the corpus `dupe_factor` times, each time differently, and shuffles all the pairs."""
    copies = [
        make_pairs(documents, tokenizer.word_starts, pairing, int(derive_seeds(random_seed, copy)))
        for copy in range(dupe_factor)
    ]
    seeds = np.concatenate([copy.seeds for copy in copies])
    # Sorting by a number of their own shuffles the examples, the same way whoever made them.
    order = np.argsort(derive_seeds(random_seed, seeds), kind="stable")
    return Pairs(
        spans=np.concatenate([copy.spans for copy in copies])[order],
        swapped=np.concatenate([copy.swapped for copy in copies])[order],
        seeds=seeds[order],
        truncated_tokens=sum(copy.truncated_tokens for copy in copies),
        dropped_chunks=sum(copy.dropped_chunks for copy in copies),
    )


def write_examples(
    paths: Sequence[str],
    documents: TokenizedDocuments,
    pairs: Pairs,
    tokenizer: Tokenizer,
    options: Options,
) -> dict[str, Any]:
    """Masks and writes all examples in their order; returns statistics for the manifest."""
    from data_prep.records import RecordWriter

    features = pretraining_features(options.max_seq_length, options.max_predictions_per_seq)
    masking = Masking(
        options.max_predictions_per_seq,
        options.masked_lm_prob,
        options.ngram,
        options.favor_shorter_ngram,
    )
    drawn = np.zeros(options.ngram, np.int64)
    masked_lengths = np.zeros(options.ngram, np.int64)
    tokens = masked_tokens = 0
    total = len(pairs.spans)
    with (
        RecordWriter(paths, features) as writer,
        Progress("wrote", "examples", total) as progress,
    ):
        for begin in range(0, total, _EXAMPLES_AT_ONCE):
            batch = slice(begin, begin + _EXAMPLES_AT_ONCE)
            examples = assemble(
                documents.ids, pairs.spans[batch], tokenizer, options.max_seq_length
            )
            words = examples.token_boundary
            masked = draw_masks(
                examples.input_ids,
                examples.lengths,
                words if options.do_whole_word_mask else np.ones_like(words),
                pairs.seeds[batch],
                masking,
                (tokenizer.cls_id, tokenizer.sep_id),
                tokenizer.mask_id,
                tokenizer.replacement_ids,
            )
            writer.write(as_features(examples, masked, pairs.swapped[batch]))
            drawn += masked.drawn_lengths
            masked_lengths += masked.masked_lengths
            tokens += int(examples.lengths.sum())
            masked_tokens += int(masked.weights.sum())
            progress.update(begin + len(examples.lengths))
    return {
        "per_file": writer.examples_per_file,
        "padding_share": 1 - tokens / (total * options.max_seq_length),
        "masked_tokens": masked_tokens,
        "masked_share": masked_tokens / tokens,
        "ngrams_drawn": {n: int(count) for n, count in enumerate(drawn, start=1)},
        "ngrams_masked": {n: int(count) for n, count in enumerate(masked_lengths, start=1)},
    }


def as_features(
    examples: Examples, masked: MaskedBatch, swapped: np.ndarray
) -> dict[str, np.ndarray]:
    """A batch of masked examples by feature name, `[batch, *shape]`."""
    is_token = np.arange(examples.input_ids.shape[1]) < examples.lengths[:, None]
    return {
        "input_ids": masked.input_ids,
        "input_mask": is_token.astype(np.int32),
        "segment_ids": examples.segment_ids,
        "token_boundary": examples.token_boundary,
        "masked_lm_positions": masked.positions,
        "masked_lm_ids": masked.ids,
        "masked_lm_weights": masked.weights,
        "next_sentence_labels": swapped.astype(np.int32)[:, None],
    }


def _sha256(path: str) -> str:
    with files.open_file(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def _versions() -> dict[str, str]:
    from importlib import metadata

    names = ("albert-tf", "sentencepiece", "numpy", "numba", "tensorflow")
    versions = {}
    for name in names:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[name] = metadata.version(name)
    return versions
