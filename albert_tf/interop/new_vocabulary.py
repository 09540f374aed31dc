"""A new vocabulary for a trained model, such as that of another language.

The body of the model stays. A row of the embeddings, or of the output bias, starts from

- the row of the special symbol with the same role, or of the same piece ("copied");
- the mean of the pieces of its translation, if a word list has the piece as a word ("translated");
- the mean of the pieces into which the model's own vocabulary splits its text ("spelled");
- draws with the mean and spread of all rows, if that vocabulary cannot spell it ("drawn").

WECHSEL (arXiv 2112.06598) and FOCUS (arXiv 2305.14481) weight the nearest pieces in static
embeddings, which would have to be fetched or trained on much text of the new language; this needs
no more than the two vocabularies.
"""

import collections
import itertools
import logging

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenizers import Tokenizer, extension
from albert_tf.tokenizers.wordpiece import CONTINUES, WordPieceTokenizer
from albert_tf.tokenizers.words import WORD_START, byte_of

_SYMBOLS = ("pad_id", "unk_id", "cls_id", "sep_id", "mask_id")

logger = logging.getLogger(__name__)


def find_sources(old: Tokenizer, new: Tokenizer, dictionary: str | None) -> list[list[int]]:
    """Return the old rows that each new row starts from the mean of; none if it must be drawn.

    `dictionary` is a text file with a word of the new language, a tab and a translation a line.

    Raises:
        InputError: If a line of `dictionary` is something else.
    """
    special = {getattr(new, name): getattr(old, name) for name in _SYMBOLS}
    translated = _translations(dictionary, old, new) if dictionary else {}
    own = {text: id for id, text in enumerate(extension.texts_of_pieces(old))}

    def source(id: int, text: tuple[bool, str]) -> tuple[str, list[int]]:
        if id in special:
            return "copied", [special[id]]
        if id in translated:
            return "translated", translated[id]
        if text in own:
            return "copied", [own[text]]
        rows = _spelling(old, *text)
        return "spelled" if rows else "drawn", rows

    new_texts = extension.texts_of_pieces(new)
    kinds, sources = zip(*itertools.starmap(source, enumerate(new_texts)), strict=True)
    counts = collections.Counter(kinds)
    shown = (f"{counts[kind]:,} {kind}" for kind in ("copied", "spelled", "translated", "drawn"))
    logger.info("%s: %s pieces: %s", new.path, f"{new.vocab_size:,}", ", ".join(shown))
    if counts["drawn"] == new.vocab_size - len(special):
        logger.warning(
            "%s: only the special symbols start from the model's; no other piece can be spelled "
            "in %s", new.path, old.path,
        )  # fmt: skip
    return list(sources)


def _spelling(old: Tokenizer, begins: bool, text: str) -> list[int]:
    """Return the pieces of a text at the beginning of a word, or not, without unknown ones.

    What is found only in the other place is taken from there: in WordPiece, punctuation is a word.
    """
    if byte_of(text) is not None:
        return []
    is_wordpiece = isinstance(old, WordPieceTokenizer)
    mark = CONTINUES if is_wordpiece else WORD_START
    for place in (begins, not begins):
        marked = f"{mark}{text}" if place != is_wordpiece else text
        if ids := _known(old, extension.encode_piece(old, marked)):
            return ids
    return []


def _known(old: Tokenizer, ids: list[int]) -> list[int]:
    """Return ids without unknown ones; none if only a space is left, which says nothing."""
    known = [id for id in ids if id != old.unk_id]
    return known if set(known) - {old._space} else []


def _translations(path: str, old: Tokenizer, new: Tokenizer) -> dict[int, list[int]]:
    """Return the pieces of the translations of those words in a list that are a new piece.

    A word that the list does not have starts from the translation of its lower-cased form.
    """
    translations = collections.defaultdict[int, list[int]](list)
    capitalized = collections.defaultdict[int, list[int]](list)
    for place, line in files.located_lines(path):
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2 or not all(columns):
            raise InputError(
                f"`dictionary`={place}: {line!r}: must be a word, a tab and its translation"
            )
        rows = _known(old, old.encode(columns[1]))
        for found, word in ((capitalized, columns[0].capitalize()), (translations, columns[0])):
            if rows and len(ids := new.encode(word)) == 1:
                found[ids[0]] += rows
    if not translations:
        logger.warning("%s: no word in it is a piece that can be translated", path)
    return capitalized | translations
