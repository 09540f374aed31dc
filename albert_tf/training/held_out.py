"""Held-out examples as people read them: filled masks after each evaluation, and baselines."""

import contextlib
import dataclasses
import functools
import itertools
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, parse_json, read_lines, write_text
from albert_tf.input.record_batches import RecordStream
from albert_tf.report.sections import Section, Shade, table
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.wordpiece import CONTINUES, WordPieceTokenizer
from albert_tf.tokenizers.words import WORD_START, byte_of, continues_character

FILLED_FILE = "filled_masks.jsonl"

# Examples and masks of each that are shown, and tokens on both sides of a mask.
_EXAMPLES, _MASKS, _CONTEXT = 6, 3, 12
# Examples that baselines are computed on.
MOST_COUNTED = 8192


@dataclasses.dataclass(frozen=True)
class Filled:
    """The predictions of an evaluation after a step, a line of `filled_masks.jsonl`.

    `examples` is their checksum, masks included; `masked_lm_ids` are `[examples][predictions]`.
    """

    step: int
    examples: int
    masked_lm_ids: list[list[int]]


class Mask(NamedTuple):
    """A masked word or phrase: where it is, and its text around, within and as predicted."""

    before: str
    truth: str
    after: str
    predicted: tuple[str, ...]


class Baseline(NamedTuple):
    """The best constant answer to a part of the objective, and what it would score."""

    answer: int
    accuracy: float
    loss: float


class HeldOut:
    """The examples that a run is evaluated on, read without its engine.

    These are at most `max_steps` batches of evaluation; 0 for all.
    """

    def __init__(self, stream: RecordStream, max_steps: int, folder: str):
        self._batches = stream.batches()
        counted = max(MOST_COUNTED // stream.batch_size, 1)
        self._count = min(max_steps or counted, counted, len(self._batches))
        self._path = f"{folder}/{FILLED_FILE}"

    def record(self, step: int, predictions: Mapping[str, np.ndarray]) -> None:
        """Write the predictions of an evaluation, next to those of the earliest one before it."""
        if "masked_lm_ids" not in predictions:
            return
        ids = predictions["masked_lm_ids"][:_EXAMPLES].tolist()
        earlier = [each for each in self.recorded() if each.step < step]
        lines = [*earlier[:1], Filled(step, self._checksum, ids)]
        text = "".join(f"{json.dumps(dataclasses.asdict(line))}\n" for line in lines)
        write_text(self._path, text)

    def recorded(self) -> list[Filled]:
        """Return the recorded predictions for these examples: the earliest and the latest."""
        found = []
        for line in read_lines(self._path) if exists(self._path) else ():
            with contextlib.suppress(InputError):
                found.append(parse_json(line, self._path, Filled))
        return [each for each in found if each.examples == self._checksum]

    def masks(self, tokenizer: Tokenizer, filled: Sequence[Filled]) -> Iterator[Mask]:
        """Yield masked words of the first examples, each with what was predicted."""
        numbers = self._batches[0].get("example_ids")
        for row, (ids, positions, truth) in enumerate(zip(*self._shown, strict=True)):
            text = ids.copy()
            text[positions] = truth
            of_row = np.zeros_like(ids) if numbers is None else numbers[row]
            masked = np.flatnonzero(ids[positions] == tokenizer.mask_id)
            # Subwords of a word, and words of a phrase, are masked and shown together.
            breaks = np.flatnonzero(np.diff(positions[masked]) != 1) + 1
            for places in np.split(masked, breaks)[:_MASKS] if len(masked) else ():
                start, end = positions[places[0]], positions[places[-1]] + 1
                own = np.flatnonzero(of_row == of_row[start])  # positions of one example
                yield Mask(
                    tokenizer.decode(text[max(start - _CONTEXT, own[0]) : start]),
                    tokenizer.decode(text[start:end]),
                    tokenizer.decode(text[end : min(end + _CONTEXT, own[-1] + 1)]),
                    tuple(
                        _text(tokenizer, [each.masked_lm_ids[row][place] for place in places])
                        for each in filled
                    ),
                )

    @property
    def _shown(self) -> tuple[list[np.ndarray], list[np.ndarray], list[np.ndarray]]:
        """Ids, masked positions and their true ids of the examples that are shown."""
        shown = {name: values[:_EXAMPLES] for name, values in self._batches[0].items()}
        real = shown["masked_lm_weights"] > 0

        def of_masks(name: str) -> list[np.ndarray]:
            return [row[is_real] for row, is_real in zip(shown[name], real, strict=True)]

        return list(shown["input_ids"]), of_masks("masked_lm_positions"), of_masks("masked_lm_ids")

    @functools.cached_property
    def _checksum(self) -> int:
        arrays = itertools.chain(*self._shown)
        return functools.reduce(lambda sum, each: zlib.crc32(each.tobytes(), sum), arrays, 0)

    def baselines(self) -> dict[str, Baseline]:
        """Return the baselines of `masked_lm` and `pairs`, unless nothing is to be predicted."""
        answers: dict[str, list[np.ndarray]] = {"masked_lm": [], "pairs": []}
        for number in range(self._count):
            batch = self._batches[number]
            answers["masked_lm"].append(batch["masked_lm_ids"][batch["masked_lm_weights"] > 0])
            weights = batch.get("next_sentence_weights", batch["is_real_example"][:, None])
            answers["pairs"].append(batch["next_sentence_labels"][weights > 0])
        joined = {part: np.concatenate(each) for part, each in answers.items()}
        return {part: _baseline(each) for part, each in joined.items() if len(each)}


def filled_masks(held_out: HeldOut, tokenizer: Tokenizer) -> list[Section]:
    """Return the part of a report with the recorded predictions; nothing without masks."""
    recorded = held_out.recorded()
    rows = []
    for mask in held_out.masks(tokenizer, recorded):
        predicted = (Shade(text, 0.4) if text == mask.truth else text for text in mask.predicted)
        rows.append((f"{mask.before} ____ {mask.after}", mask.truth, *predicted))
    if not rows:
        return []
    columns = dict.fromkeys(("text", "masked", *(f"after step {e.step:,}" for e in recorded)), "")
    text = (
        "The most probable tokens for masks of the first examples, right ones shaded. Other masked "
        "words around them are shown here, but the model did not see them."
    )
    return [Section("Filled masks", text, tables=[table(columns, rows)])]


def characters_of(tokenizer: Tokenizer) -> np.ndarray:
    """Return the number of characters of text that each piece stands for, int32 `[vocab_size]`.

    White space does not count, so that a text has as many under every vocabulary that normalizes it
    alike. The first byte of a character counts as all of it. -1 for pieces of which it is unknown:
    symbols, the unknown token, added and unused ones.
    """
    counts = np.full(tokenizer.vocab_size, -1, np.int32)
    is_wordpiece = isinstance(tokenizer, WordPieceTokenizer)
    for id in tokenizer.replacement_ids.tolist():
        piece = tokenizer.pieces[id]
        text = piece.removeprefix(CONTINUES) if is_wordpiece else piece.replace(WORD_START, "")
        counts[id] = len(text) if byte_of(text) is None else not continues_character(text)
    return counts


def _text(tokenizer: Tokenizer, ids: list[int]) -> str:
    """Return the text of predicted ids; the names of symbols if there are no others."""
    # An untrained model may predict one of the rows that it has beyond the vocabulary.
    ids = [id if id < tokenizer.vocab_size else tokenizer.unk_id for id in ids]
    return tokenizer.decode(ids) or " ".join(tokenizer.convert_ids_to_tokens(ids))


def _baseline(answers: np.ndarray) -> Baseline:
    """Return the most frequent answer; its loss is the entropy of all of them."""
    values, counts = np.unique(answers, return_counts=True)
    shares = counts / counts.sum()
    return Baseline(
        int(values[np.argmax(counts)]), float(shares.max()), float(-shares @ np.log(shares))
    )
