"""Examples as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator

import numpy as np

from data_prep.inspect.names import Names
from data_prep.inspect.reading import Batch

LEGEND = "[MASK→a]: a is masked and predicted; [KEPT→a]: a is kept; [b→a]: a is replaced by b"
WIDTH = 100


def examples(batch: Batch, names: Names, first: int) -> Iterator[str]:
    """Yields each example as lines of text: a summary, then its segments.

    Args:
        batch: the examples.
        names: names of the ids.
        first: number of the first example.
    """
    names.check(batch["input_ids"])
    weights = batch.get("masked_lm_weights")
    mask_id = -1
    if weights is not None:
        names.check(batch["masked_lm_ids"])
        seen = np.take_along_axis(batch["input_ids"], batch["masked_lm_positions"], axis=1)
        mask_id = names.mask_id(seen[weights > 0], batch["masked_lm_ids"][weights > 0])
    for row in range(len(batch["input_ids"])):
        example = {name: values[row] for name, values in batch.items()}
        tokens = _tokens(example, names, mask_id)
        is_token = example["input_mask"] > 0
        lines = [f"example {first + row}: {_summary(example, names)}"]
        for number, letter in enumerate("AB"):
            positions = np.flatnonzero(is_token & (example["segment_ids"] == number))
            if len(positions):
                segment = " ".join(tokens[position] for position in positions)
                lines.append(
                    textwrap.fill(
                        segment,
                        WIDTH,
                        initial_indent=f"  {letter}  ",
                        subsequent_indent=" " * 5,
                        break_long_words=False,
                        break_on_hyphens=False,
                    )
                )
        yield "\n".join(lines)


def _tokens(example: Batch, names: Names, mask_id: int) -> list[str]:
    """The pieces of an example, with masked ones in brackets."""
    tokens = [names.piece(id) for id in example["input_ids"].tolist()]
    if "masked_lm_weights" not in example:
        return tokens
    for position, id, weight in zip(
        example["masked_lm_positions"].tolist(),
        example["masked_lm_ids"].tolist(),
        example["masked_lm_weights"].tolist(),
        strict=True,
    ):
        if weight > 0:
            seen = int(example["input_ids"][position])
            kind = {mask_id: "MASK", id: "KEPT"}.get(seen, names.piece(seen))
            tokens[position] = f"[{kind}→{names.piece(id)}]"
    return tokens


def _summary(example: Batch, names: Names) -> str:
    """`120 tokens, 8 padding; 18 masked; swapped (label 1)`."""
    is_token = example["input_mask"] > 0
    parts = [f"{is_token.sum()} tokens, {(~is_token).sum()} padding"]
    if "masked_lm_weights" in example:
        parts.append(f"{(example['masked_lm_weights'] > 0).sum()} masked")
    else:
        parts.append("not masked yet")
    if "next_sentence_labels" in example:
        label = int(example["next_sentence_labels"][0])
        parts.append(f"{names.labels[label > 0]} (label {label})")
    return "; ".join(parts)
