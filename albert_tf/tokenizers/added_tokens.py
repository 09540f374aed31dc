"""Tokens that were added to a vocabulary in Hugging Face: texts that are never split.

Versions of `transformers` record them as `added_tokens_decoder` in `tokenizer_config.json`, as
`added_tokens` in `tokenizer.json`, or in `added_tokens.json` and `special_tokens_map.json`.
"""

import dataclasses
import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from albert_tf.errors import InputError
from albert_tf.files import exists, read_json

# By the names of Hugging Face.
_SYMBOLS = {
    "cls_token": ("[CLS]",),
    "sep_token": ("[SEP]",),
    "pad_token": ("<pad>", "[PAD]"),
    "unk_token": ("<unk>", "[UNK]"),
    "mask_token": ("[MASK]",),
}
# Of every vocabulary; `Tokenizer.encode` says when they are read as symbols.
OWN_SYMBOLS = frozenset(symbol for symbols in _SYMBOLS.values() for symbol in symbols)


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A text that is one token wherever it occurs; fields as of `tokenizers.AddedToken`.

    An `id` of None is that of the piece of this name, or the next one.
    """

    content: str
    id: int | None = None
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False

    def in_library(self) -> Any:
        """Return it as `tokenizers.AddedToken`."""
        from tokenizers import AddedToken

        values = dataclasses.asdict(self)
        del values["id"]
        return AddedToken(**values)


@dataclasses.dataclass(frozen=True)
class _Config:
    """What is read of `tokenizer_config.json` and `special_tokens_map.json`."""

    added_tokens_decoder: dict[str, AddedToken] = dataclasses.field(default_factory=dict)
    additional_special_tokens: list[str | AddedToken] | None = None
    cls_token: str | AddedToken | None = None
    sep_token: str | AddedToken | None = None
    pad_token: str | AddedToken | None = None
    unk_token: str | AddedToken | None = None
    mask_token: str | AddedToken | None = None
    extra_special_tokens: list[str | AddedToken] | dict[str, str | AddedToken] | None = None

    def special(self) -> dict[str, AddedToken]:
        extra = self.extra_special_tokens
        if isinstance(extra, dict):
            extra = [*extra.values()]
        tokens = [
            AddedToken(each, special=True) if isinstance(each, str) else each
            for each in extra or self.additional_special_tokens or ()
        ]
        return {token.content: token for token in tokens}


@dataclasses.dataclass(frozen=True)
class _TokenizerFile:
    added_tokens: tuple[AddedToken, ...] = ()
    pre_tokenizer: dict[str, Any] | None = None


def read_added_tokens(folder: str) -> tuple[tuple[AddedToken, ...], str | None]:
    """Return the tokens that files in a folder add to a vocabulary, and where a space is added.

    The second is the `prepend_scheme` of its `tokenizer.json`, if there is one.

    Raises:
        InputError: If a file is damaged.
    """

    def read(name: str, kind: Any) -> Any:
        path = os.path.join(folder, f"{name}.json")
        return read_json(path, kind) if exists(path) else kind()

    config, file = read("tokenizer_config", _Config), read("tokenizer", _TokenizerFile)
    names = read("special_tokens_map", _Config)
    for name, symbols in _SYMBOLS.items():
        for each in filter(None, (getattr(config, name), getattr(names, name))):
            if (text := each if isinstance(each, str) else each.content) not in symbols:
                valid = " or ".join(symbols)
                raise InputError(f"{folder}: {name}={text}: must be {valid}, as in ALBERT and BERT")
    special = (
        config.special() | dataclasses.replace(names, additional_special_tokens=None).special()
    )
    by_content = read("added_tokens", dict[str, int])
    found: dict[str, AddedToken] = {}
    for token in (
        *(
            dataclasses.replace(token, id=int(id))
            for id, token in config.added_tokens_decoder.items()
            if id.isdecimal()
        ),
        *file.added_tokens,
        *(
            AddedToken(each, id, normalized=each not in special, special=each in special)
            for each, id in by_content.items()
        ),
        *(special | names.special()).values(),
    ):
        if token.content not in OWN_SYMBOLS:
            found.setdefault(token.content, token)
    return tuple(found.values()), prepend_scheme(file.pre_tokenizer)


def steps(node: Any) -> Iterator[dict[str, Any]]:
    """Yield the normalizers or the pre-tokenizers of a `tokenizer.json` one by one."""
    if isinstance(node, dict) and node.get("type") == "Sequence":
        for each in node.get("normalizers") or node.get("pretokenizers") or ():
            yield from steps(each)
    elif isinstance(node, dict):
        yield node


def prepend_scheme(pre_tokenizer: dict[str, Any] | None) -> str | None:
    """Return where the pre-tokenizer of a `tokenizer.json` adds a space, as it names that."""
    for step in steps(pre_tokenizer):
        if step.get("type") == "Metaspace":
            adds = step.get("add_prefix_space", True)  # of earlier versions
            return step.get("prepend_scheme") or ("always" if adds else "never")
    return None


def by_id(
    tokens: Iterable[AddedToken],
    pieces: Sequence[str],
    user_defined: Iterable[int],
    scheme: str | None,
    path: str,
) -> dict[int, AddedToken]:
    """Return the tokens that were added to the vocabulary at `path`, with its `pieces`, by id.

    From a SentencePiece model, transformers also adds the pieces that are `user_defined`, which
    changes what is around them. Here they are as in the original, unless the vocabulary has new
    tokens: then they are added, unless a `tokenizer.json`, whose `scheme` this is, lacks them.

    Raises:
        InputError: If an id is of another piece, or not the next one.
    """
    ids = {piece: id for id, piece in enumerate(pieces)}
    found = {}
    for token in sorted(tokens, key=lambda token: (token.id is None, token.id or 0)):
        id = ids.setdefault(token.content, len(ids))
        if token.id not in (None, id):
            raise InputError(
                f"{path}: the added token {token.content!r} has id {token.id}, which must be {id} "
                f"with this vocabulary of {len(pieces)} pieces"
            )
        found[id] = dataclasses.replace(token, id=id)
    for id in user_defined:
        if len(ids) == len(pieces):
            found.pop(id, None)
        elif scheme is None:
            found.setdefault(id, AddedToken(pieces[id], id))
    return found


class TextPart(NamedTuple):
    """A special symbol or an added token, or the text before, between or after these."""

    text: str
    start: int
    starts_word: bool
    symbol: int | None


class Splitter:
    """Finds tokens in texts as the `tokenizers` library does.

    Args:
        normalizer: returns one of that library.
        space: id of a space, where a text after a token begins a word only if there is one between
            them; None where every text does.
    """

    def __init__(
        self, tokens: Collection[AddedToken], normalizer: Callable[[], Any], space: int | None
    ):
        import tokenizers

        self._space = space
        # To this model, a text between two of the tokens is a token with id 0.
        self._backend = tokenizers.Tokenizer(tokenizers.models.WordLevel({"": 0}, unk_token=""))
        if any(token.normalized for token in tokens):
            self._backend.normalizer = normalizer()
        self._backend.add_tokens([token.in_library() for token in tokens])
        self._tokens = {self._backend.token_to_id(token.content): token for token in tokens}

    def split(self, text: str) -> list[TextPart]:
        """Split a text into tokens and what is before, between and after them."""
        parts: list[TextPart] = []
        encoding = self._backend.encode(text, add_special_tokens=False)
        for id, (start, end) in zip(encoding.ids, encoding.offsets, strict=True):
            if not (token := self._tokens.get(id)):
                starts_word = not parts or self._space is None or text[start].isspace()
                parts.append(TextPart(text[start:end], start, starts_word, None))
                continue
            # The library removes the space before a token only if it finds that in raw text.
            after_space = parts and parts[-1].symbol is None and parts[-1].text[-1:].isspace()
            if after_space and token.normalized and self._space is not None:
                parts.append(TextPart("", start, True, self._space))
            found = text[start:end].strip() or text[start:end]
            parts.append(TextPart(found, text.index(found, start), True, token.id))
        return [part for part in parts if part.symbol is not None or part.text.strip()]
