"""Texts as data preparation holds them."""

from __future__ import annotations

import os
from collections import Counter

from albert_tf.tokenization import Tokenizer
from data_prep.examples import join_documents
from data_prep.segments import TokenizedDocuments
from data_prep.units import Unit, read_unit


def tokenized(path, tokenizer: Tokenizer) -> TokenizedDocuments:
    """The documents of a text file."""
    documents = list(read_unit(Unit(str(path), 0, 0, os.path.getsize(path)), Counter()))
    texts = [sentence for document in documents for sentence in document.sentences]
    return join_documents(documents, [tokenizer.encode_flat(texts)], tokenizer.vocab_size)
