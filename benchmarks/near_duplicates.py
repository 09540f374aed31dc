"""How well near duplicates are found, and how fast, next to datatrove's MinHash.

    python -m benchmarks.near_duplicates --input_file=corpus/train.txt --peer_python=PYTHON

Prints precision and recall on planted near duplicates, compared with the exact Jaccard index; then
MB of text a second, from the text to the documents that are kept, in one process each. PYTHON is
that of an environment with datatrove: `pip install datatrove regex spacy tokenizers 'xxhash<4'`.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import tempfile
import time

# datatrove's environment, which runs this file too, has none of the project's packages.
if os.environ.get("PEER") != "datatrove":
    import numpy as np

    from albert_tf.children import run_child
    from albert_tf.options import command, option
    from data_prep.document_store import DocumentStore
    from data_prep.near_duplicates import find_near_duplicates, signature
    from data_prep.output_documents import OutputDocument
    from tests.data_prep.test_near_duplicates import found_in, planted, similarities

    @dataclasses.dataclass(frozen=True)
    class Options:
        input_file: str = option(help="Text with a blank line between documents.")
        peer_python: str | None = option(None, "Python with datatrove, to compare with.")
        rounds: int = option(5, "Interleaved rounds.")


_PIECE_CHARACTERS = 3000
_PIECES = 4000
_DATATROVE_SIMILARITY = 0.72  # at which its default settings find half of the pairs


def run(options: Options) -> None:
    _print_precision_and_recall()
    with open(options.input_file, encoding="utf-8") as file:
        text = file.read(_PIECE_CHARACTERS * _PIECES)
    starts = range(0, len(text), _PIECE_CHARACTERS)
    texts = [text[start : start + _PIECE_CHARACTERS] for start in starts] + planted(300, 4)
    megabytes = sum(map(len, texts)) / 1e6
    print(f"{len(texts):,} documents, {megabytes:.1f} MB")
    signature("Compiled before it is timed.")
    find_near_duplicates(np.zeros((2, 128), np.uint16), _DATATROVE_SIMILARITY)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "texts.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(texts, file)
        for _ in range(options.rounds):
            start = time.perf_counter()
            kept = _kept(texts, folder)
            rate = megabytes / (time.perf_counter() - start)
            print(f"albert_tf: {rate:.2f} MB/s, {len(texts) - kept:,} left out")
            if options.peer_python:
                run_child(
                    [options.peer_python, os.path.abspath(__file__), path],
                    env=os.environ | {"PEER": "datatrove"},
                ).check_returncode()


def _print_precision_and_recall() -> None:
    texts = planted(300, 6, seed=1)
    exact = np.tril(similarities(texts, texts), -1)  # to earlier documents
    for threshold in (0.5, 0.7, 0.8, 0.9, 1):
        found = np.array(found_in(texts, threshold))
        of_found = exact[found].max(axis=1)
        of_kept = exact[~found][:, ~found].max(axis=1)
        right, missed = (of_found >= threshold).sum(), (of_kept >= threshold).sum()
        print(
            f"{threshold}: {found.sum():,} of {len(texts):,} left out, "
            f"precision {right / len(of_found):.1%}, recall {right / (right + missed):.1%}, "
            f"least similar left out {of_found.min():.2f}, most similar kept {of_kept.max():.2f}"
        )


def _kept(texts: list[str], folder: str) -> int:
    with tempfile.TemporaryDirectory(dir=folder) as place:
        store = DocumentStore(place)
        store.open()
        for text in texts:
            store.add(OutputDocument("name", "", "source", text, 1, 1, False, 1, signature(text)))
        kept = sum(1 for _ in store.without_near_duplicates(_DATATROVE_SIMILARITY))
        store.close()
        return kept


def run_datatrove(path: str) -> None:
    from datatrove.data import Document
    from datatrove.pipeline.dedup import (
        MinhashDedupBuckets,
        MinhashDedupCluster,
        MinhashDedupFilter,
        MinhashDedupSignature,
    )
    from datatrove.pipeline.dedup.minhash import MinhashConfig
    from datatrove.utils.logging import logger

    logger.remove()
    with open(path, encoding="utf-8") as file:
        texts = json.load(file)
    documents = [Document(text=text, id=str(number)) for number, text in enumerate(texts)]
    config = MinhashConfig()
    with tempfile.TemporaryDirectory() as folder:
        signatures = MinhashDedupSignature(f"{folder}/signatures", config=config)
        signatures.word_tokenizer.word_tokenize("Loaded before it is timed.")
        start = time.perf_counter()
        signatures.run(iter(documents))
        for number in range(config.num_buckets):
            MinhashDedupBuckets(f"{folder}/signatures", f"{folder}/buckets", config=config).run(
                None, number, config.num_buckets
            )
        MinhashDedupCluster(f"{folder}/buckets", f"{folder}/removed", config=config).run()
        kept = sum(1 for _ in MinhashDedupFilter(f"{folder}/removed").run(iter(documents)))
        rate = sum(map(len, texts)) / 1e6 / (time.perf_counter() - start)
    print(f"datatrove: {rate:.2f} MB/s, {len(texts) - kept:,} left out")


if __name__ == "__main__":
    if os.environ.get("PEER") == "datatrove":
        run_datatrove(sys.argv[1])
    else:
        command(Options, run)()
