"""Trains a subword vocabulary on text with one sentence per line.

    python -m data_prep.train_vocabulary --input_file=corpus.txt --output_prefix=vocabulary/30k

writes the SentencePiece model vocabulary/30k.model and its list of pieces, vocabulary/30k.vocab;
with --model_type=wordpiece, vocabulary/30k.txt.
"""

from __future__ import annotations

import time

from albert_tf.options import command
from data_prep.vocabulary import VocabularyOptions, train_vocabulary


def run(options: VocabularyOptions) -> None:
    start = time.monotonic()
    output_file = train_vocabulary(options)
    print(f"{output_file}: {options.vocab_size:,} pieces in {time.monotonic() - start:.1f} s")


cli = command(VocabularyOptions, run)

if __name__ == "__main__":
    cli()
