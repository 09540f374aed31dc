"""Prepares data for pretraining; each step is a command, `python -m data_prep.COMMAND`.

- `extract_corpus`: files of many formats -> text with one sentence per line
- `train_vocabulary`: text -> a SentencePiece or WordPiece vocabulary
- `create_pretraining_data`: text and a vocabulary -> TFRecord files of examples, with a manifest
- `inspect`: TFRecord files -> examples as text, statistics, plots

Every command is a function of a dataclass of options, for use from Python: `extraction.extract`,
`train_vocabulary.train_vocabulary`, `pretraining_data.create_pretraining_data`.
"""

import albert_tf  # noqa: F401  # for Ctrl-C while the modules of a command are loading
