"""Turns text into subword ids as the original ALBERT does; loads no TensorFlow.

    tokenizer = Tokenizer.load("30k-clean.model")      # or "albert/albert-base-v2"
    tokenizer.tokenize("The cat sat.")      # ['▁the', '▁cat', '▁sat', '.']
    tokenizer.encode("The cat sat.")        # [14, 2008, 847, 9]

White space, accents and case are normalized *before* the subword model, as recorded in the
`tokenizer_config.json` next to a vocabulary, or else as in the original. Control symbols are added
by the caller: `[MASK]` in a text is six characters of text, unless the caller asks for it to be
read as the symbol, as in a prompt:

    tokenizer.encode("The cat [MASK].", special_symbols=True)       # [14, 2008, 4, 9]

Called with texts, a tokenizer returns the inputs of a model:

    features = tokenizer(["The cat sat.", "Hello."])    # input_ids, input_mask, segment_ids
    outputs = model(features)
"""

import abc
import dataclasses
import itertools
import os
import unicodedata
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Literal, overload

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import check_unicode, exists, is_folder, read_bytes, write_for
from albert_tf.hub.names import find_vocabulary, local_vocabulary
from albert_tf.tokenizers import packing, tokenizer_json
from albert_tf.tokenizers.added_tokens import AddedToken, Splitter, TextPart, by_id
from albert_tf.tokenizers.normalization import UNRECORDED, Normalization, read_normalization


class Tokenizer(abc.ABC):
    """Splits text into subwords of a fixed vocabulary.

    A subclass names the suffix of its vocabulary files, by which `Tokenizer.load` finds it:
    `class WordPieceTokenizer(Tokenizer, suffix=".txt")`.

    Attributes:
        normalization: what is done to text first, with a value for everything that applies.
        pieces: the vocabulary, by id; from `base_size` on, tokens that Hugging Face added to it.
        added_tokens: what is found in texts before they are split, by id.
        pad_id, unk_id, cls_id, sep_id, mask_id: ids of the special symbols.
        word_starts: bool `[vocab_size]`, True where a piece begins a word.
        replacement_ids: int32, ids of ordinary pieces, from which masking draws random
            replacements (no control symbols, unknown piece or added tokens).

    Example:
        >>> tokenizer = albert_tf.Tokenizer.load("albert/albert-base-v2")
        >>> tokenizer.decode(tokenizer.encode("The MODEL reads text."))
        'the model reads text.'
        >>> inputs = tokenizer(["One text.", "Another, which is longer."])
        >>> sorted(inputs)
        ['input_ids', 'input_mask', 'segment_ids']
        >>> inputs["input_ids"].shape == inputs["input_mask"].shape
        True
    """

    _by_suffix: "ClassVar[dict[str, type[Tokenizer]]]" = {}
    _space: int | None = None  # the id of the piece of a space, of a SentencePiece model

    path: str
    normalization: Normalization
    pieces: list[str]
    pad_id: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    word_starts: np.ndarray
    replacement_ids: np.ndarray

    def __init_subclass__(cls, suffix: str = "", **kwargs: Any):
        super().__init_subclass__(**kwargs)
        if suffix:
            Tokenizer._by_suffix[suffix] = cls

    def __init__(self, path: str, normalization: Normalization = UNRECORDED):
        self.path = path
        self.normalization = normalization
        self.added_tokens: dict[int, AddedToken] = {}
        self._splitters: dict[bool, Splitter] = {}

    def __getstate__(self) -> tuple[dict[str, Any], bytes]:
        # With its file, which is saved and exported with a model, and may be gone by then. Without
        # cached properties, which are computed again.
        cached = ("_continuing", "_ids_of_word", "_table")
        values = {name: value for name, value in vars(self).items() if name not in cached}
        return values, read_bytes(self.path)

    def __setstate__(self, state: tuple[dict[str, Any], bytes]) -> None:
        values, vocabulary = state
        vars(self).update(values)
        if not exists(self.path) or read_bytes(self.path) != vocabulary:
            self.path = write_for(self, os.path.basename(self.path), vocabulary)

    @staticmethod
    def load(
        path: str | os.PathLike[str],
        do_lower_case: bool | None = None,
        normalization: Normalization | None = None,
    ) -> "Tokenizer":
        """Load a vocabulary; the suffix of its name determines the class.

        Args:
            path: a SentencePiece `.model`, a WordPiece vocabulary `.txt` with one piece per line,
                a `tokenizer.json` of Hugging Face, a folder that contains one of them, or the name
                of published weights, such as "albert/albert-base-v2".
            do_lower_case: whether to lower-case text, as when the vocabulary was trained; None for
                what is recorded, or else True, unless the vocabulary has capital letters.
            normalization: what is recorded elsewhere, such as next to the weights. It takes
                precedence over the `tokenizer_config.json` next to the vocabulary.

        Raises:
            InputError: If there is no vocabulary for ALBERT, or `do_lower_case` is something else.
        """
        if not isinstance(do_lower_case, bool | np.bool_ | None):
            raise InputError(f"`do_lower_case`={do_lower_case!r}: must be True, False or None")
        path = local_vocabulary(path, argument="path")
        if is_folder(path):
            if not (vocabulary := find_vocabulary(path)):
                raise InputError(f"{path}: contains no spiece.model, vocab.txt or the like")
            path = vocabulary
        recorded, given = read_normalization(os.path.dirname(path)), path
        if os.path.basename(path) == tokenizer_json.FILE:
            path, found = tokenizer_json.convert_vocabulary(path)
        else:
            found = tokenizer_json.normalization_next_to(path)
        recorded = recorded.otherwise(found)
        suffix = os.path.splitext(path)[1]
        if suffix not in Tokenizer._by_suffix:
            if not exists(path):
                raise InputError(f"`path`={path}: no such file or folder")
            kinds = " or ".join(Tokenizer._by_suffix)
            raise InputError(f"{path}: a vocabulary file must end in {kinds}, not {suffix!r}")
        normalization = Normalization(do_lower_case).otherwise(normalization or recorded, recorded)
        tokenizer = Tokenizer._by_suffix[suffix](path, normalization)
        tokenizer_json.check_same(given, tokenizer.pieces)
        tokenizer._add(normalization.added_tokens or ())
        return tokenizer

    def _add(self, tokens: Iterable[AddedToken]) -> None:
        first = self.base_size = self.vocab_size
        if not tokens:
            return
        scheme = self.normalization.prepend_scheme
        self.added_tokens = by_id(tokens, self.pieces, self._user_defined(), scheme, self.path)
        new = [token.content for id, token in self.added_tokens.items() if id >= first]
        self.pieces += new
        self.word_starts = np.append(self.word_starts, np.ones(len(new), bool))
        kept = tuple(self.added_tokens.values()) or None
        self.normalization = dataclasses.replace(
            self.normalization, added_tokens=kept, prepend_scheme=scheme if kept else None
        )

    @property
    def vocab_size(self) -> int:
        return len(self.pieces)

    @property
    def do_lower_case(self) -> bool:
        """Whether text is lower-cased first."""
        return bool(self.normalization.do_lower_case)

    @abc.abstractmethod
    def preprocess(self, text: str) -> str:
        """Normalize a text for the subword model."""

    def tokenize(self, text: str, special_symbols: bool = False) -> list[str]:
        """Return the subwords of a text as strings; `special_symbols` as for `encode`."""
        check_unicode(text, "`text`")
        tokens: list[str] = []
        for part in self._parts(text, special_symbols):
            tokens += self._tokenize(part) if part.symbol is None else [self.pieces[part.symbol]]
        return tokens

    def encode(self, text: str, special_symbols: bool = False) -> list[int]:
        """Return the ids of a text, without `[CLS]` and `[SEP]` around them.

        Args:
            special_symbols: whether the names of special symbols (`[CLS]`, `[SEP]`, `[MASK]`,
                padding and unknown, spelled as in the vocabulary) are read as the symbols;
                otherwise they are ordinary text. White space before a symbol is dropped; text after
                a symbol begins a word if there is white space between them.
        """
        return self.encode_batch([text], special_symbols)[0].tolist()

    def encode_batch(self, texts: Sequence[str], special_symbols: bool = False) -> list[np.ndarray]:
        """Return the ids of each text, as `encode` does, in int32 arrays."""
        if special_symbols or self.added_tokens:
            return [self.encode_with_offsets(text, special_symbols)[0] for text in texts]
        try:
            return self._encode_texts(texts)
        except (TypeError, UnicodeEncodeError):  # of the subword models
            for number, text in enumerate(map(str, texts)):
                check_unicode(text, f"`texts`[{number}]")
            raise

    def encode_with_offsets(
        self, text: str, special_symbols: bool = False
    ) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of a text, as `encode` does, and the span of text of each.

        Returns:
            The ids of `encode`, int32 `[tokens]`, and their starts and ends in characters of the
            raw `text`, without surrounding white space, int32 `[tokens, 2]`. These never decrease.
            Tokens may share a character that was normalized to several. The span of a token for
            only the space before a word is empty.
        """
        ids: list[int] = []
        offsets: list[np.ndarray] = [np.empty([0, 2], np.int64)]
        for part in self._parts(text, special_symbols):
            if part.symbol is None:
                found, spans = self._encode_part(part)
            else:
                found, spans = [part.symbol], [(0, len(part.text))]
            ids += found
            offsets.append(np.reshape(spans, [-1, 2]) + part.start)
        return np.array(ids, np.int32), np.concatenate(offsets).astype(np.int32)

    def __call__(
        self,
        texts: str | Sequence[str],
        pairs: str | Sequence[str] | None = None,
        max_length: int | None = None,
        padding: str | Literal[False] = "longest",
        offsets: bool = False,
        special_symbols: bool = False,
    ) -> dict[str, Any]:
        """Return the inputs of a model for texts, or pairs of texts.

            model(tokenizer(["A fine film.", "Dull."]))
            model(tokenizer("Who wrote it?", "It was written by Ada.", max_length=128))

        A sequence is `[CLS] text [SEP]` or `[CLS] text [SEP] pair [SEP]`. One that is too long
        loses tokens at the end of its text, and a pair loses tokens of the longer text first, as
        in fine-tuning.

        Args:
            texts: a text, or a sequence or an array of texts.
            pairs: the second text of each pair; None for single texts.
            max_length: maximum length in tokens, special symbols included; None for no limit. The
                position embeddings of a model limit it, too: 512 for the published models.
            padding: "longest" pads to the longest sequence of this call, "max_length" to
                `max_length`, and False not at all.
            offsets: whether to return the character offsets of the tokens.
            special_symbols: whether the names of special symbols in the texts are read as the
                symbols, as for `encode`; needed for prompts with `[MASK]`.

        Returns:
            `input_ids`, `input_mask` (1 for tokens, 0 for padding) and `segment_ids` (0 for the
            first text and 1 for the second), int32 `[texts, seq]`, also for a single text. With
            `offsets`, also `offsets`, int32 `[texts, seq, 2]`: start and end of each token in
            characters of the raw text that it comes from; (0, 0) for `[CLS]`, `[SEP]` and padding.
            Without padding, these are lists of one array `[seq]`, or `[seq, 2]`, per text.

        Raises:
            InputError: If a text is not a string, numbers of texts and pairs differ, `max_length`
                is too small, or `padding` is unknown.
        """
        packing.check_padding(padding, max_length)
        firsts, seconds = packing.checked_pairs(texts, pairs)

        def encode(texts: list[str]) -> list[tuple]:
            if offsets:
                return [self.encode_with_offsets(text, special_symbols) for text in texts]
            return [(ids, ids) for ids in self.encode_batch(texts, special_symbols)]

        more = [(None, None)] * len(firsts) if seconds is None else encode(seconds)
        rows = packing.pack(encode(firsts), more, max_length, self.cls_id, self.sep_id, offsets)
        if padding is False:
            return rows
        length = max(map(len, rows["input_ids"]), default=0)
        if padding == "max_length" and max_length is not None:
            length = max_length
        return {
            name: packing.pad(values, length, self.pad_id if name == "input_ids" else 0)
            for name, values in rows.items()
        }

    def encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
        """Return the ids of all texts, int32 `[tokens]`, and their number per text, `[texts]`.

        For data preparation: uses a single thread, since every process has its own core, and
        remembers the ids of words as far as they do not depend on the words around them.
        """
        if not self.added_tokens:
            return self._encode_flat(texts)
        encoded = self.encode_batch(texts)
        lengths = np.array([len(ids) for ids in encoded], np.int64)
        return np.concatenate([np.empty(0, np.int32), *encoded]), lengths

    @abc.abstractmethod
    def _encode_flat(self, texts: Sequence[str]) -> tuple[np.ndarray, np.ndarray]: ...

    def _composed(self, texts: Sequence[str]) -> Sequence[str]:
        """Compose texts if the vocabulary does, so that no word begins with an accent."""
        form = self.normalization.unicode_form
        return [unicodedata.normalize(form, text) for text in texts] if form else texts

    def special_symbols(self) -> dict[str, int]:
        """Return the ids of the special symbols by their spelling in the vocabulary."""
        ids = (self.pad_id, self.unk_id, self.cls_id, self.sep_id, self.mask_id)
        return {self.pieces[id]: id for id in ids}

    def _parts(self, text: str, special_symbols: bool) -> Iterable[TextPart]:
        if not special_symbols and not self.added_tokens:
            return [TextPart(text, 0, True, None)]
        check_unicode(text, "`text`")
        if special_symbols not in self._splitters:
            own = self.special_symbols().items() if special_symbols else ()
            tokens = [AddedToken(name, id, special=True) for name, id in own]
            tokens += self.added_tokens.values()
            space = None if self.prepends_always else self._space
            self._splitters[special_symbols] = Splitter(tokens, self._normalizer, space)
        return self._splitters[special_symbols].split(text)

    @property
    def prepends_always(self) -> bool:
        """Whether any text after an added token begins a word (SentencePiece)."""
        return bool(self.added_tokens) and self.normalization.prepend_scheme != "first"

    @abc.abstractmethod
    def _normalizer(self) -> Any:
        """Return the `tokenizers.Normalizer` with which Hugging Face finds added tokens."""

    def _user_defined(self) -> Iterable[int]:
        """Return the ids of the user-defined pieces of a SentencePiece model."""
        return ()

    @abc.abstractmethod
    def _tokenize(self, part: TextPart) -> list[str]: ...

    @abc.abstractmethod
    def _encode_texts(self, texts: Sequence[str]) -> list[np.ndarray]: ...

    @abc.abstractmethod
    def _encode_part(self, part: TextPart) -> tuple[Sequence[int], Sequence[tuple[int, int]]]:
        """Return the ids and their spans within the part."""

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.pieces[id] for id in ids]

    @overload
    def decode(self, ids: Iterable[int]) -> str: ...

    @overload
    def decode(self, ids: Iterable[Iterable[int]]) -> list[str]: ...

    def decode(self, ids):
        """Return the text of some ids.

            tokenizer.decode(tokenizer.encode("The cat sat."))          # "the cat sat."
            tokenizer.decode(tokenizer(["A cat.", "Dogs."])["input_ids"])   # ["a cat.", "dogs."]

        Control symbols, which include padding, are skipped. The text is normalized: what
        normalization removed, such as upper case, does not come back. An unknown token becomes
        what the vocabulary writes for it: `⁇` (SentencePiece) or `[UNK]` (WordPiece).

        Args:
            ids: integers `[tokens]` or `[texts, tokens]`: an array, a tensor, a list, or a list of
                lists of different lengths.

        Returns:
            A text, or a list of texts.

        Raises:
            InputError: If an id is not in the vocabulary.
        """
        ids = list(ids)
        if ids and np.ndim(ids[0]):
            return [self.decode(row) for row in ids]
        ids = [int(id) for id in ids]
        for id in ids:
            if not 0 <= id < self.vocab_size:
                raise InputError(
                    f"`ids`: {id} is not in the vocabulary; must be from 0 to {self.vocab_size - 1}"
                )
        return " ".join(
            " ".join(added.content for _ in run) if added else self._decode([*run])
            for added, run in itertools.groupby(ids, self.added_tokens.get)
            if not added or not added.special
        )

    @abc.abstractmethod
    def _decode(self, ids: list[int]) -> str: ...
