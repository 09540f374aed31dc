"""Vocabularies of Hugging Face folders that have only `tokenizer.json`.

The file contains the pieces and how text is normalized, from which a SentencePiece model or a
`vocab.txt` with the same ids is written to a cache.
"""

import base64
import dataclasses
import hashlib
import os
from collections.abc import Sequence
from typing import Any

from albert_tf.environment import cache_folder
from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_json, write_bytes
from albert_tf.tokenizers.added_tokens import OWN_SYMBOLS, AddedToken, prepend_scheme, steps
from albert_tf.tokenizers.normalization import CONFIG_FILE, UNRECORDED, Normalization
from albert_tf.tokenizers.words import WORD_START, byte_of

FILE = "tokenizer.json"
_OF_ANY_KIND = ("PreTrainedTokenizerFast", "TokenizersBackend")

# Lower than any sum of scores: such a piece has an id but is never chosen.
UNREACHABLE = -1000.0


@dataclasses.dataclass(frozen=True)
class _TokenizerFile:
    """What is read of `tokenizer.json`."""

    model: dict[str, Any]
    normalizer: dict[str, Any] | None = None
    pre_tokenizer: dict[str, Any] | None = None
    added_tokens: tuple[AddedToken, ...] = ()


def convert_vocabulary(path: str) -> tuple[str, Normalization]:
    """Return a vocabulary file with the ids of a `tokenizer.json`, and how it normalizes text.

    Args:
        path: of a `tokenizer.json` of AlbertTokenizerFast, BertTokenizerFast or this package.

    Raises:
        InputError: If it is damaged, or of another kind of tokenizer.
    """
    read = read_json(path, _TokenizerFile)
    try:
        # Early versions do not name the type.
        kind = "Unigram" if "unk_id" in read.model else "WordPiece"
        kind = read.model.get("type", kind)
        if kind not in _WRITERS:
            raise InputError(f"model.type={kind}: must be {' or '.join(_WRITERS)}")
        name, content, normalization = _WRITERS[kind](read)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        reason = f"lacks {error}" if isinstance(error, KeyError) else error
        raise InputError(
            f"{path}: not a tokenizer of ALBERT or BERT ({reason}); name a spiece.model or "
            "vocab.txt"
        ) from None
    digest = hashlib.sha256(content).hexdigest()
    folder = os.path.join(cache_folder(), "vocabularies", digest[:16])
    file = os.path.join(folder, name)
    if not exists(file):
        make_folder(folder, "path")
        write_bytes(file, content)
    return file, normalization


def normalization_next_to(vocabulary: str) -> Normalization:
    """Return how text is normalized by the `tokenizer.json` next to a vocabulary.

    It counts for the classes of `transformers` that read nothing else.
    """
    folder = os.path.dirname(vocabulary)
    path, config = os.path.join(folder, FILE), os.path.join(folder, CONFIG_FILE)
    if not (exists(path) and exists(config)):
        return UNRECORDED
    of_any = read_json(config, dict[str, Any]).get("tokenizer_class") in _OF_ANY_KIND
    return convert_vocabulary(path)[1] if of_any else UNRECORDED


def check_same(vocabulary: str, pieces: Sequence[str]) -> None:
    """Raise InputError if there is a `tokenizer.json` with other pieces next to a vocabulary.

    Either may be the one that a model was trained with.
    """
    path = os.path.join(os.path.dirname(vocabulary), FILE)
    if not exists(path):
        return
    found = read_json(path, _TokenizerFile).model.get("vocab", ())
    if not isinstance(found, dict):
        found = {text: id for id, (text, _) in enumerate(found)}
    for text, id in found.items():
        # A blank line is an empty piece there.
        if id < len(pieces) and pieces[id] != (text or " "):
            raise InputError(
                f"{path}: has {text!r} where {vocabulary} has {pieces[id]!r}; remove the one that "
                "the model was not trained with"
            )


def _unigram(read: _TokenizerFile) -> tuple[str, bytes, Normalization]:
    from sentencepiece import sentencepiece_model_pb2  # loads protobuf

    kinds, replacements = _kinds(
        read, "Replace NFC NFKC NFKD StripAccents Lowercase Precompiled Strip"
    )
    special = {token.content for token in read.added_tokens if token.special}
    has_new = any((token.id or 0) >= len(read.model["vocab"]) for token in read.added_tokens)
    model = sentencepiece_model_pb2.ModelProto()
    by_bytes = model.trainer_spec.byte_fallback = bool(read.model.get("byte_fallback"))
    highest = max((score for _, score in read.model["vocab"] if score < 0), default=0.0)
    for id, (text, score) in enumerate(read.model["vocab"]):
        piece = model.pieces.add(piece=text, type=model.SentencePiece.NORMAL)
        # As SentencePiece scores them, and so this package; in other files, it is 0.
        of_user_defined = len(text.encode()) * highest - 0.1
        if id == read.model["unk_id"]:
            piece.type = piece.UNKNOWN
        elif by_bytes and byte_of(text) is not None:
            piece.type, score = piece.BYTE, 0
        elif text in special or score == UNREACHABLE:
            piece.type, score = piece.CONTROL, 0
        elif score == 0 or abs(score - of_user_defined) < 1e-9:
            piece.type, score = piece.USER_DEFINED, 0
        elif len(text) > 1 and text[-1] == "," and text[-2].isdigit():
            # ALBERT splits such pieces; older releases of transformers take 100 off their scores.
            # With new tokens, they are chosen as there.
            taken_off = 0 if has_new or score >= -100 else -100
            score -= UNREACHABLE if score < UNREACHABLE else taken_off
        piece.score = score
    model.trainer_spec.unk_id = read.model["unk_id"]
    rules = model.normalizer_spec
    rules.name = "identity"
    for step in steps(read.normalizer):
        if step["type"] == "Precompiled":
            rules.name = "nmt_nfkc"
            rules.precompiled_charsmap = base64.b64decode(
                step["precompiled_charsmap"], validate=True
            )
    rules.add_dummy_prefix = prepend_scheme(read.pre_tokenizer) != "never"
    if '"' not in replacements:  # as of ``, so that it is not of transformers
        rules.remove_extra_whitespaces = "Strip" in kinds or " " not in replacements
    normalization = Normalization(
        do_lower_case="Lowercase" in kinds,
        keep_accents=not kinds & {"NFKD", "StripAccents"},
        unicode_form=_form(kinds),
    )
    return "spiece.model", model.SerializeToString(), normalization


def _wordpiece(read: _TokenizerFile) -> tuple[str, bytes, Normalization]:
    ids: dict[str, int] = read.model["vocab"]
    used = {*ids.values()}
    if len(used) < len(ids) or min(used, default=0) < 0 or max(used, default=-1) >= 2 * len(used):
        raise InputError("model.vocab: ids are not 0, 1, 2, ...")
    # A `vocab.txt` with repeated lines leaves gaps.
    pieces = [""] * (max(used, default=-1) + 1)
    for piece, id in ids.items():
        pieces[id] = piece
    for token in read.added_tokens:
        if token.content in OWN_SYMBOLS and token.id == len(pieces):
            pieces.append(token.content)
    if (prefix := read.model.get("continuing_subword_prefix", "##")) != "##":
        raise InputError(f"model.continuing_subword_prefix={prefix}: must be ##")
    words = [step for step in steps(read.pre_tokenizer) if step.get("type") == "Split"]
    if words:  # of this package
        kinds, _ = _kinds(read, "Replace NFC NFKC NFD Lowercase")
        normalization = Normalization(
            do_lower_case="Lowercase" in kinds,
            keep_accents="NFD" not in kinds,
            tokenize_chinese_chars=r"\x{4e00}-" in words[0]["pattern"]["Regex"],
            unicode_form=_form(kinds),
        )
    else:
        found = list(steps(read.normalizer))
        if (names := [step["type"] for step in found]) != ["BertNormalizer"]:
            raise InputError(f"normalizer={', '.join(names) or None}: must be BertNormalizer")
        rules = found[0]
        if not rules.get("clean_text", True):
            raise InputError("normalizer.clean_text=false: must be true")
        names = [step["type"] for step in steps(read.pre_tokenizer)]
        if names != ["BertPreTokenizer"]:
            raise InputError(f"pre_tokenizer={', '.join(names) or None}: must be BertPreTokenizer")
        if (longest := read.model.get("max_input_chars_per_word", 100)) < 100:
            raise InputError(f"model.max_input_chars_per_word={longest}: must be at least 100")
        strips = rules.get("strip_accents")
        normalization = Normalization(
            do_lower_case=rules["lowercase"],
            keep_accents=None if strips is None else not strips,
            tokenize_chinese_chars=rules["handle_chinese_chars"],
        )
    return "vocab.txt", "".join(f"{piece}\n" for piece in pieces).encode(), normalization


_WRITERS = {"Unigram": _unigram, "WordPiece": _wordpiece}


def _kinds(read: _TokenizerFile, known: str) -> tuple[set[str], set[str]]:
    """Return the kinds of the normalizers, and what those that replace text write instead."""
    normalizers = list(steps(read.normalizer))
    kinds = {step["type"] for step in normalizers}
    if unknown := kinds.difference(known.split()):
        raise InputError(f"normalizer={min(unknown)}: must be one of {', '.join(known.split())}")
    written = {step["content"] for step in normalizers if step["type"] == "Replace"}
    if unknown := written - {'"', " ", WORD_START, "", "ς"}:
        raise InputError(f"normalizer=Replace by {min(unknown)!r}: is none of ALBERT's")
    return kinds, written


def _form(kinds: set[str]) -> Any:
    return next((form for form in ("NFC", "NFKC") if form in kinds), None)
