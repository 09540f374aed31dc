"""Texts as data preparation holds them, and runs of it."""

from __future__ import annotations

import json
import os
import pathlib
from collections import Counter

import numpy as np

from albert_tf.input.features import pretraining_features
from albert_tf.tokenizers import Tokenizer
from data_prep import create_pretraining_data, pipeline
from data_prep.create_pretraining_data import Options
from data_prep.examples import join_documents
from data_prep.records import read_examples
from data_prep.segments import TokenizedDocuments
from data_prep.units import Unit, read_unit


def tokenized(path, tokenizer: Tokenizer) -> TokenizedDocuments:
    """The documents of a text file."""
    documents = list(read_unit(Unit(str(path), 0, 0, os.path.getsize(path)), Counter()))
    texts = [sentence for document in documents for sentence in document.sentences]
    return join_documents(documents, [tokenizer.encode_flat(texts)], tokenizer.vocab_size)


def create(options: Options):
    """Runs the pipeline; returns the manifest and all examples."""
    create_pretraining_data.check(options)
    manifest = pipeline.create_pretraining_data(options)
    features = pretraining_features(options.max_seq_length, options.max_predictions_per_seq)
    if options.masking == "dynamic":
        features = {name: f for name, f in features.items() if not name.startswith("masked_lm")}
    read = [read_examples(path, features) for path in options.output_files]
    return manifest, {name: np.concatenate([part[name] for part in read]) for name in features}


def contents(folder: pathlib.Path) -> dict[str, bytes]:
    """All files of a folder, but the manifests' times and number of processes."""
    found = {}
    for path in folder.iterdir():
        found[path.name] = path.read_bytes()
        if path.name.endswith(".manifest.json"):
            manifest = json.loads(path.read_text("utf-8"))
            del manifest["seconds"], manifest["settings"]["num_processes"]
            found[path.name] = json.dumps(manifest).encode()
    return found
