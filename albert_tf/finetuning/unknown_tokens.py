"""Tokens of fine-tuning data that the vocabulary has no piece for."""

from __future__ import annotations

import itertools

import numpy as np

from albert_tf.finetuning.task import ExampleSet, FineTuningTask
from albert_tf.tokenizers.unknown import NOTABLE_SHARE, UnknownCharacters, describe_unknown

# In which unknown characters are looked for, and of which unknown tokens are measured; each takes
# at most about a second.
_MOST_TEXTS, _MOST_MEASURED = 20_000, 2_000


def unknown_tokens(task: FineTuningTask, examples: ExampleSet) -> str:
    """Returns a line on the unknown tokens of a set; "" if they are fewer than `NOTABLE_SHARE`.

    Args:
        task: that has read and encoded the examples.
        examples: one of its sets.
    """
    tokenizer, ids = task.tokenizer, examples.features.ids
    unknown = int((ids == tokenizer.unk_id).sum())
    tokens = int((~np.isin(ids, (tokenizer.cls_id, tokenizer.sep_id))).sum())
    if not unknown or unknown < NOTABLE_SHARE * tokens:
        return ""
    texts = list(itertools.islice(task.texts(examples.examples), _MOST_TEXTS))
    characters = UnknownCharacters(tokenizer)
    sample = texts[:_MOST_MEASURED]
    _, lost = characters.in_unknown_tokens(sample)
    share = lost / max(sum(map(len, sample)), 1)
    return describe_unknown(unknown, tokens, characters.count(texts), share)
