"""Which words whole-word masking finds in a language, and how many examples get all of their masks.

    python -m benchmarks.word_masks --input_file='udhr/tha.txt,udhr/jav_java.txt'

Trains a small WordPiece vocabulary on each text and masks it in examples of 128 tokens, with words
up to the next space, with pieces as words in scripts without spaces, and with the words of ICU.
"""

from __future__ import annotations

import dataclasses
import os
import tempfile

import numpy as np
import tokenizers

from albert_tf.input.masking import Masking, derive_seeds, draw_masks
from albert_tf.options import command, option
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.wordpiece import CONTINUES, SPECIAL_SYMBOLS, words
from data_prep.word_segments import continuing_tokens, load_segmenter

_LENGTH, _MASKS, _LONG = 128, 20, 20


@dataclasses.dataclass(frozen=True)
class Options:
    input_file: tuple[str, ...] = option(help="Texts, separated by commas.")
    vocab_size: int = option(400, "Size of the vocabularies.")


def run(options: Options) -> None:
    print(f"{'':16}{'words':>8}{f'in words > {_LONG}':>16}{'below budget':>16}{'tokens/word':>14}")
    for path in options.input_file:
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip()]
        with tempfile.TemporaryDirectory() as folder:
            tokenizer = _train(lines, options.vocab_size, f"{folder}/vocab.txt")
        ids, lengths = tokenizer.encode_flat(lines)
        continues = continuing_tokens(tokenizer, lines, lengths, load_segmenter("icu"))
        for name, starts in {
            "spaces": np.array([not piece.startswith(CONTINUES) for piece in tokenizer.pieces])[
                ids
            ],
            "pieces": tokenizer.word_starts[ids],
            "icu": tokenizer.word_starts[ids] & ~continues,
        }.items():
            is_begin = starts.copy()
            is_begin[np.cumsum(lengths)[:-1]] = True
            sizes = np.diff(np.append(np.flatnonzero(is_begin), len(ids)))
            in_long, below = (
                sizes[sizes > _LONG].sum() / len(ids),
                _below_budget(tokenizer, ids, starts),
            )
            print(
                f"{os.path.basename(path):16}{name:>8}{in_long:>16.1%}{below:>16.1%}"
                f"{sizes.mean():>14.2f}"
            )


def _train(lines: list[str], vocab_size: int, path: str) -> Tokenizer:
    model = tokenizers.Tokenizer(tokenizers.models.WordPiece(unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    trainer = tokenizers.trainers.WordPieceTrainer(
        vocab_size=vocab_size, special_tokens=[*SPECIAL_SYMBOLS], show_progress=False
    )
    split = (" ".join(words(line, do_lower_case=False)) for line in lines)
    model.train_from_iterator(split, trainer)
    pieces = model.get_vocab()
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(sorted(pieces, key=pieces.__getitem__)))
    return Tokenizer.load(path, do_lower_case=False)


def _below_budget(tokenizer: Tokenizer, ids: np.ndarray, starts: np.ndarray) -> float:
    """Return the share of examples with fewer masks than they should have."""
    count = len(ids) // (_LENGTH - 2)
    examples = np.full((count, _LENGTH), tokenizer.sep_id, np.int32)
    examples[:, 0] = tokenizer.cls_id
    examples[:, 1:-1] = ids[: count * (_LENGTH - 2)].reshape(count, -1)
    words = np.ones((count, _LENGTH), np.bool_)
    words[:, 1:-1] = starts[: count * (_LENGTH - 2)].reshape(count, -1)
    masked = draw_masks(
        examples,
        np.full(count, _LENGTH),
        words,
        derive_seeds(1, np.arange(count)),
        Masking(_MASKS),
        (tokenizer.cls_id, tokenizer.sep_id),
        tokenizer.mask_id,
        tokenizer.replacement_ids,
    )
    return float((masked.weights.sum(1) < min(_MASKS, round(_LENGTH * 0.15))).mean())


cli = command(Options, run)

if __name__ == "__main__":
    cli()
