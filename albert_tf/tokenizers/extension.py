"""More pieces for a vocabulary, of another domain for example, after those that it has.

Ids stay, and text that contains none of the new pieces has the same ids as before:

    pieces = learn_pieces(tokenizer, count_words(["manual.txt"]), 1000)
    extended = with_pieces(tokenizer, pieces, "folder")

In a SentencePiece model, new pieces are ordinary ones ("normal"). User-defined symbols would be cut
out of the middle of longer words. A piece has a score above that of its best segmentation into
others, so that it is preferred to them. Scores stay within the range of the model's own, since the
lowest decides how unknown characters are scored and the highest how user-defined symbols are.
"""

import collections
import heapq
import itertools
import os
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenizers.added_tokens import TextPart
from albert_tf.tokenizers.base import Tokenizer
from albert_tf.tokenizers.sentencepiece import SentencePieceTokenizer, read_model
from albert_tf.tokenizers.wordpiece import CONTINUES, WordPieceTokenizer
from albert_tf.tokenizers.words import WORD_START

# Sums of scores round by less than a thousandth (see sentencepiece.py).
_PREFERENCE = 1.0
_LONGEST_LEARNED = 24  # characters


def with_pieces(tokenizer: Tokenizer, pieces: Collection[str], folder: str) -> Tokenizer:
    """Write a vocabulary with more pieces, under the name of the given one, and load it.

    Args:
        tokenizer: a SentencePiece unigram model or a WordPiece vocabulary.
        pieces: new ones, as they are written in the vocabulary.
        folder: for the file; must exist.

    Raises:
        InputError: If the vocabulary is of another kind, or text never becomes one of the pieces.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        content = _sentencepiece(tokenizer, pieces)
    else:
        content = "".join(f"{piece}\n" for piece in (*tokenizer.pieces, *pieces)).encode()
    path = os.path.join(folder, os.path.basename(tokenizer.path))
    files.write_bytes(path, content, durable=False)
    extended = Tokenizer.load(path, normalization=tokenizer.normalization)
    unused = {}
    for id, piece in enumerate(pieces, start=tokenizer.vocab_size):
        if (found := encode_piece(extended, piece)) != [id]:
            unused[piece] = " ".join(extended.convert_ids_to_tokens(found)) or "nothing"
    if unused:
        piece, found_pieces = next(iter(unused.items()))
        more = f" (and {len(unused) - 1} more)" if len(unused) > 1 else ""
        raise InputError(
            f"`pieces`: {piece!r} would never be used{more}, since its text is tokenized as "
            f"{found_pieces!r}; write pieces as they are in the vocabulary"
        )
    return extended


def _sentencepiece(tokenizer: SentencePieceTokenizer, pieces: Collection[str]) -> bytes:
    model = read_model(tokenizer.serialized_model)
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        raise InputError(f"{tokenizer.path}: only unigram models can have more pieces")
    scores = {each.piece: each.score for each in model.pieces if each.type == each.NORMAL}
    lowest, highest = min(scores.values()), max(scores.values())
    for each in model.pieces:
        if each.type == each.USER_DEFINED:  # the score that SentencePiece gives them
            scores[each.piece] = len(each.piece.encode()) * highest - 0.1
    for piece in sorted(pieces, key=len):  # a longer one may consist of shorter ones
        preferred = _best_score(piece, scores, unknown=lowest - 10) + _PREFERENCE
        scores[piece] = min(max(preferred, lowest), highest)
    new = type(model)()
    for piece in tokenizer.pieces[tokenizer.base_size :]:  # which were added in Hugging Face
        new.pieces.add(piece=piece, type=model.SentencePiece.CONTROL)
    for piece in pieces:
        new.pieces.add(piece=piece, score=scores[piece], type=each.NORMAL)
    # What follows a message is merged with it.
    return tokenizer.serialized_model + new.SerializeToString()


def _best_score(text: str, scores: Mapping[str, float], unknown: float) -> float:
    best = [0.0]
    for end in range(1, len(text) + 1):
        last = best[end - 1] + scores.get(text[end - 1], unknown)
        starts = (start for start in range(end) if text[start:end] in scores)
        best.append(max([last, *(best[start] + scores[text[start:end]] for start in starts)]))
    return best[-1]


def encode_piece(tokenizer: Tokenizer, piece: str) -> list[int]:
    """Return the ids of the text that a piece of another vocabulary stands for.

    Args:
        piece: begins with `▁` or `##` if it would in a vocabulary of the kind of the tokenizer's.
    """
    if isinstance(tokenizer, WordPieceTokenizer):
        text = piece.removeprefix(CONTINUES)
        if text == piece:
            return tokenizer.encode(piece)
        # To the library, the rest of a word is a word that begins with ##.
        return tokenizer._ids_of_word[CONTINUES + tokenizer.preprocess(text)]
    text = piece.removeprefix(WORD_START)
    ids, _ = tokenizer._encode_part(TextPart(text, 0, text != piece, None))
    return list(ids)


def texts_of_pieces(tokenizer: Tokenizer) -> list[tuple[bool, str]]:
    """Return whether each piece begins a word, and its text without the mark of its kind."""
    is_wordpiece = isinstance(tokenizer, WordPieceTokenizer)
    mark = CONTINUES if is_wordpiece else WORD_START
    return [(p.startswith(mark) != is_wordpiece, p.removeprefix(mark)) for p in tokenizer.pieces]


def count_words(paths: Iterable[str]) -> collections.Counter[str]:
    """Count what white space separates in text files."""
    counts: collections.Counter[str] = collections.Counter()
    for path in paths:
        for line in files.read_lines(path):
            counts.update(line.split())
    return counts


def count_tokens(tokenizer: Tokenizer, words: Mapping[str, int]) -> int:
    """Return the number of tokens of a text, given how often its words occur."""
    encoded = tokenizer.encode_batch([*words])
    return sum(len(ids) * count for ids, count in zip(encoded, words.values(), strict=True))


def learn_pieces(tokenizer: Tokenizer, words: Mapping[str, int], count: int) -> list[str]:
    """Return new pieces that shorten a text most, measured in tokens.

    Greedy: each is the sequence of tokens within a word that saves most after the pieces before
    it, where a sequence of n tokens saves n - 1 whenever it occurs. In contrast to the pairs that
    byte-pair encoding merges, no piece is only a step to a longer one. Pieces consist of letters.

    Args:
        words: of the text -> how often they occur; those that occur once are ignored.

    Returns:
        At most `count` pieces, the one that saves most first.
    """
    runs = _runs_of_letters(tokenizer, words)
    search = _Search(runs, len(CONTINUES) if isinstance(tokenizer, WordPieceTokenizer) else 0)
    known = set(tokenizer.pieces)

    def is_usable(piece: str) -> bool:
        # Normalization could change what two pieces say next to each other.
        parts = tokenizer.convert_ids_to_tokens(encode_piece(tokenizer, piece))
        return piece not in known and search.joined(parts) == piece

    return list(itertools.islice(search.best_pieces(is_usable), count))


def _runs_of_letters(tokenizer: Tokenizer, words: Mapping[str, int]) -> dict[Sequence[str], int]:
    """Return the sequences of tokens that pieces can be made of, and how often they occur."""
    begins, texts = zip(*texts_of_pieces(tokenizer), strict=True)
    # No characters are the beginning of a word.
    letters = [all(unicodedata.category(c)[0] in "LM" for c in text) for text in texts]
    symbols = set(tokenizer.special_symbols().values())
    counts: collections.Counter[Sequence[str]] = collections.Counter()
    repeated = [word for word, count in words.items() if count > 1]
    for word, ids in zip(repeated, tokenizer.encode_batch(repeated), strict=True):
        run: list[str] = []
        for id in (*ids.tolist(), tokenizer.pad_id):
            ends = id in symbols or not letters[id]
            if ends or begins[id]:
                if len(run) > 1:
                    counts[tuple(run)] += words[word]
                run = []
            if not ends:
                run.append(tokenizer.pieces[id])
    return counts


class _Search:
    """Sequences of tokens within words, by how many tokens they save."""

    def __init__(self, runs: Mapping[Sequence[str], int], prefix_length: int):
        self._runs, self._counts = list(runs), list(runs.values())
        self._prefix_length = prefix_length
        self._savings: collections.Counter[str] = collections.Counter()
        self._places: dict[str, set[int]] = collections.defaultdict(set)
        for number in range(len(self._runs)):
            self._add(number, +1)

    def joined(self, pieces: Sequence[str]) -> str:
        return "".join([*pieces[:1], *(piece[self._prefix_length :] for piece in pieces[1:])])

    def best_pieces(self, is_usable: Callable[[str], bool]) -> Iterator[str]:
        """Yield the usable piece that saves most, given those before it; the first of equals."""
        heap = [(-saved, piece) for piece, saved in self._savings.items()]
        heapq.heapify(heap)
        while heap:
            saved, piece = heapq.heappop(heap)
            if self._savings[piece] < -saved:  # by the pieces before it
                if self._savings[piece]:
                    heapq.heappush(heap, (-self._savings[piece], piece))
                continue
            if not is_usable(piece):
                continue
            yield piece
            for number in sorted(self._places.pop(piece)):
                self._add(number, -1)
                self._runs[number] = self._merged(self._runs[number], piece)
                self._add(number, +1)

    def _add(self, number: int, sign: int) -> None:
        for piece, saved in self._sequences(self._runs[number]):
            self._savings[piece] += sign * saved * self._counts[number]
            if sign > 0:
                self._places[piece].add(number)

    def _sequences(self, run: Sequence[str]) -> Iterator[tuple[str, int]]:
        for first in range(len(run)):
            piece = run[first]
            for last in range(first + 1, len(run)):
                piece += run[last][self._prefix_length :]
                if len(piece) > _LONGEST_LEARNED:
                    break
                yield piece, last - first

    def _merged(self, run: Sequence[str], piece: str) -> list[str]:
        merged: list[str] = []
        first = 0
        while first < len(run):
            lengths = range(2, len(run) - first + 1)
            fits = (n for n in lengths if self.joined(run[first : first + n]) == piece)
            length = next(fits, 1)
            merged.append(piece if length > 1 else run[first])
            first += length
        return merged
