"""Tokenized texts, and runs of data preparation."""

import bz2
import functools
import gzip
import json
import lzma
import os
import pathlib
import pickle
from collections import Counter

import numpy as np
import pyarrow

from albert_tf.input.features import pretraining_features, row_features
from albert_tf.tokenizers import Tokenizer
from data_prep.corpora import CORPUS_FORMATS
from data_prep.corpora.base import Counts, Document, ReaderOptions
from data_prep.example_maker import join_documents
from data_prep.extraction_options import ExtractionOptions
from data_prep.output_documents import sources_file
from data_prep.pretraining_data import create_pretraining_data
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.segments import TokenizedDocuments
from data_prep.text_units import TextUnit, read_unit
from data_prep.tfrecords import read_examples

COMPRESS = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": functools.partial(pyarrow.compress, codec="zstd", asbytes=True),
}


class Killed(BaseException):
    """Stands for a kill, inside the process of the test."""


def corpus_options(folder, format: str, pattern: str = "in.txt", **more) -> ExtractionOptions:
    """Return how files in a folder are made a corpus; by default out.txt next to them."""
    more = {"output_file": f"{folder}/out.txt", "num_processes": 1} | more
    return ExtractionOptions(format=format, input_file=(f"{folder}/{pattern}",), **more)


def read_corpus(format: str, *patterns, **options) -> tuple[list[Document], Counts]:
    """Return all documents of a corpus and the sum of their counts, units pickled."""
    reader_options, found, counts = ReaderOptions(**options), [], Counts()
    for unit in CORPUS_FORMATS[format].units(list(map(str, patterns)), reader_options):
        unit, unit_counts = pickle.loads(pickle.dumps(unit)), Counts()
        found += CORPUS_FORMATS[format].documents(unit, reader_options, unit_counts)
        counts += unit_counts
    return found, counts


def documents(path: str) -> list[str]:
    """Return the documents of a corpus file."""
    return pathlib.Path(path).read_text("utf-8").rstrip("\n").split("\n\n")


def sources(path: str) -> list[tuple[str, str]]:
    """Return the source and the name of each document of a corpus file."""
    lines = pathlib.Path(sources_file(path)).read_text("utf-8").splitlines()
    return [tuple(line.split("\t")) for line in lines]


def tokenized(path, tokenizer: Tokenizer) -> TokenizedDocuments:
    """Return the documents of a text file."""
    documents = list(read_unit(TextUnit(str(path), 0, 0, os.path.getsize(path)), Counter()))
    texts = [sentence for document in documents for sentence in document.sentences]
    return join_documents(documents, [tokenizer.encode_flat(texts)], np.uint16)


def create(options: PretrainingDataOptions):
    """Run the pipeline; return the manifest and all examples."""
    manifest = create_pretraining_data(options)
    kind = row_features if options.pack_rows else pretraining_features
    features = kind(options.max_seq_length, options.max_predictions_per_seq)
    if options.masking == "dynamic":
        features = {name: f for name, f in features.items() if not name.startswith("masked_lm")}
    read = [read_examples(path, features) for path in options.output_files]
    return manifest, {name: np.concatenate([part[name] for part in read]) for name in features}


def unmasked(examples: dict[str, np.ndarray]) -> np.ndarray:
    """Return the ids without masks."""
    ids = examples["input_ids"].copy()
    if "masked_lm_weights" not in examples:
        return ids
    rows, columns = np.nonzero(examples["masked_lm_weights"])
    positions = examples["masked_lm_positions"][rows, columns]
    ids[rows, positions] = examples["masked_lm_ids"][rows, columns]
    return ids


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """Return all files of a folder, without durations and numbers of processes in manifests."""
    found = {}
    for path in folder.iterdir():
        found[path.name] = path.read_bytes()
        if path.name.endswith(".manifest.json"):
            manifest = json.loads(path.read_text("utf-8"))
            del manifest["seconds"], manifest["settings"]["num_processes"]
            found[path.name] = json.dumps(manifest).encode()
    return found


def contents_of_any_run(folder: pathlib.Path) -> dict[str, object]:
    """Return all files of a folder, without what names the folder and the runner."""
    found: dict[str, object] = dict(contents(folder))
    manifest = json.loads(found["train.manifest.json"])
    del manifest["settings"], manifest["fingerprint"]
    return found | {"train.manifest.json": manifest}
