"""Tokenizer files for Hugging Face `transformers`, with the original ids; loads no TensorFlow.

    write_tokenizer(Tokenizer.load("30k-clean.model"), "folder")
    transformers.AutoTokenizer.from_pretrained("folder")

These tokenizers, like all tokenizers of that library, treat the names of special symbols in texts
as the symbols: their ids are those of `encode(text, special_symbols=True)`.
"""

import dataclasses
import json
import os
import re
import string
import sys
import unicodedata
from collections.abc import Callable, Iterable
from typing import Any

import tokenizers
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.tokenizers import wordpiece
from albert_tf.tokenizers.base import Tokenizer
from albert_tf.tokenizers.sentencepiece import SentencePieceTokenizer, read_model
from albert_tf.tokenizers.tokenizer_json import UNREACHABLE
from albert_tf.tokenizers.wordpiece import WordPieceTokenizer
from albert_tf.tokenizers.words import WORD_START, character_ranges

# AlbertTokenizer and BertTokenizer build their own normalization (other quotes, other accents) and
# use only the vocabulary in tokenizer.json; this class uses the whole file.
TOKENIZER_CLASS = "PreTrainedTokenizerFast"

# Case-ignorable characters, which do not affect whether a sigma is final.
_IGNORABLE = r"[\p{M}\p{Cf}\p{Lm}\p{Sk}'.:\x{b7}\x{2018}\x{2019}\x{2024}\x{2027}]*"
_CASED = r"[\p{Lu}\p{Ll}\p{Lt}]"


def write_tokenizer(tokenizer: Tokenizer, folder: str, max_length: int = 512) -> None:
    """Write the files that `transformers.AutoTokenizer.from_pretrained(folder)` reads.

    These are `tokenizer.json`, `tokenizer_config.json` and a copy of the vocabulary, `spiece.model`
    or `vocab.txt`. `max_length` is that of the longest sequence that the model supports, in tokens.

    Raises:
        InputError: If the vocabulary is a SentencePiece model of another type than unigram.
    """
    if isinstance(tokenizer, SentencePieceTokenizer):
        name, backend = "spiece.model", _sentencepiece(tokenizer)
    elif isinstance(tokenizer, WordPieceTokenizer):
        name, backend = "vocab.txt", _wordpiece(tokenizer)
    else:
        raise InputError(f"`tokenizer`: a {type(tokenizer).__name__} has no Hugging Face form")
    symbols = [
        AddedToken(symbol, special=True, normalized=False, lstrip=id == tokenizer.mask_id)
        for symbol, id in tokenizer.special_symbols().items()
    ]
    backend.add_special_tokens(symbols)
    backend.add_tokens([token.in_library() for token in tokenizer.added_tokens.values()])
    cls, sep = tokenizer.pieces[tokenizer.cls_id], tokenizer.pieces[tokenizer.sep_id]
    backend.post_processor = processors.TemplateProcessing(
        single=f"{cls}:0 $A:0 {sep}:0",
        pair=f"{cls}:0 $A:0 {sep}:0 $B:1 {sep}:1",
        special_tokens=[(cls, tokenizer.cls_id), (sep, tokenizer.sep_id)],
    )
    in_backend: dict[str, Any] = {"added_tokens": None, "prepend_scheme": None}
    config = {
        "tokenizer_class": TOKENIZER_CLASS,
        "model_max_length": max_length,
        **dataclasses.replace(tokenizer.normalization, **in_backend).to_dict(),
        "model_input_names": ["input_ids", "token_type_ids", "attention_mask"],
        "clean_up_tokenization_spaces": False,
        "pad_token": tokenizer.pieces[tokenizer.pad_id],
        "unk_token": tokenizer.pieces[tokenizer.unk_id],
        "cls_token": cls,
        "sep_token": sep,
        "mask_token": {
            "__type": "AddedToken", "content": tokenizer.pieces[tokenizer.mask_id], "lstrip": True,
            "rstrip": False, "single_word": False, "normalized": False, "special": True,
        },
    }  # fmt: skip
    files.make_folder(folder, "folder")
    files.write_bytes(os.path.join(folder, name), files.read_bytes(tokenizer.path))
    files.write_text(os.path.join(folder, "tokenizer.json"), backend.to_str())
    text = json.dumps(config, indent=2, ensure_ascii=False) + "\n"
    files.write_text(os.path.join(folder, "tokenizer_config.json"), text)


def _sentencepiece(tokenizer: SentencePieceTokenizer) -> tokenizers.Tokenizer:
    model = read_model(tokenizer.serialized_model)
    if model.trainer_spec.model_type != model.trainer_spec.UNIGRAM:
        raise InputError(
            f"{tokenizer.path}: tokenizer.json can be written for unigram models only; "
            "train the vocabulary with --model_type=unigram"
        )
    steps = [
        normalizers.Replace(_any_of(map(ord, filter(str.isspace, _characters())), "+"), " "),
        *_composed(tokenizer),
        *_without_accents(tokenizer, normalizers.NFKD(), unicodedata.combining),
        *(_lower_case() if tokenizer.do_lower_case else []),
    ]
    rules = model.normalizer_spec
    if rules.precompiled_charsmap:
        steps.append(normalizers.Precompiled(rules.precompiled_charsmap))
    if rules.remove_extra_whitespaces:
        # Leading spaces are kept: after a symbol, they mark the beginning of a word.
        steps += [normalizers.Replace(Regex(" +"), " "), normalizers.Strip(left=False, right=True)]
    scores = [piece.score for piece in model.pieces]
    best = max(piece.score for piece in model.pieces if piece.type == piece.NORMAL)
    for id, piece in enumerate(model.pieces):
        if piece.type == piece.USER_DEFINED:  # the score that SentencePiece gives them
            scores[id] = len(piece.piece.encode("utf-8")) * best - 0.1
        elif piece.type in (piece.CONTROL, piece.UNUSED, piece.BYTE):
            scores[id] = UNREACHABLE
        elif id in tokenizer.ids_of_split:
            # The original splits pieces such as "12," after they were chosen. The ids differ from
            # its own where excluding them moves another boundary ("31,032" into "3" "1,0" "32").
            scores[id] += UNREACHABLE
    has_bytes = any(piece.type == piece.BYTE for piece in model.pieces)
    backend = tokenizers.Tokenizer(
        models.Unigram(
            [(piece.piece, score) for piece, score in zip(model.pieces, scores, strict=True)],
            unk_id=tokenizer.unk_id,
            byte_fallback=has_bytes,
        )
    )
    backend.normalizer = normalizers.Sequence(steps)
    # Only the beginning of the text gets a space: "[MASK]." must not become "[MASK]" and " .",
    # except where Hugging Face, which added tokens, does that.
    prepend = "always" if tokenizer.prepends_always else "first"
    prepend = prepend if rules.add_dummy_prefix else "never"
    one_word = not any(WORD_START in piece[1:] for piece in tokenizer.pieces)
    backend.pre_tokenizer = pre_tokenizers.Metaspace(WORD_START, prepend, split=one_word)
    if prepend == "always":  # nor is the space before an added token one more piece
        words = pre_tokenizers.WhitespaceSplit()
        backend.pre_tokenizer = pre_tokenizers.Sequence([words, backend.pre_tokenizer])
    backend.decoder = decoders.Metaspace(WORD_START, prepend)
    if has_bytes:
        backend.decoder = decoders.Sequence([decoders.ByteFallback(), backend.decoder])
    return backend


def _wordpiece(tokenizer: WordPieceTokenizer) -> tokenizers.Tokenizer:
    normalization = tokenizer.normalization
    steps: list[normalizers.Normalizer] = []
    replaced = _replaced(lambda text: wordpiece.without_controls(text, normalization))
    for replacement, characters in replaced.items():  # by nothing, and by a space
        steps.append(normalizers.Replace(_any_of(characters), replacement))
    alone = [
        ord(c)
        for c in _characters()
        if c in string.punctuation or unicodedata.category(c).startswith("P")
    ]
    steps += [
        *_composed(tokenizer),
        *(_lower_case() if normalization.do_lower_case else []),
        *_without_accents(tokenizer, normalizers.NFD(), lambda c: unicodedata.category(c) == "Mn"),
    ]
    backend = tokenizers.Tokenizer(
        models.WordPiece(
            {piece: id for id, piece in enumerate(tokenizer.pieces[: tokenizer.base_size])},
            unk_token=tokenizer.pieces[tokenizer.unk_id],
            max_input_chars_per_word=wordpiece.LONGEST_WORD,
            continuing_subword_prefix=wordpiece.CONTINUES,
        )
    )
    backend.normalizer = normalizers.Sequence(steps)
    spaces = _ranges(map(ord, filter(str.isspace, _characters())))
    if normalization.tokenize_chinese_chars:
        alone += map(ord, re.findall(f"[{wordpiece.IDEOGRAPHS}]", "".join(_characters())))
    own_words = _ranges(alone)
    length = f"{{1,{wordpiece.LONGEST_WORD}}}" if normalization.unicode_form else "+"
    word = Regex(f"[{own_words}]|[^{spaces}{own_words}]{length}")
    backend.pre_tokenizer = pre_tokenizers.Split(word, "removed", invert=True)
    backend.decoder = decoders.WordPiece(wordpiece.CONTINUES)
    return backend


def _composed(tokenizer: Tokenizer) -> list[normalizers.Normalizer]:
    form = tokenizer.normalization.unicode_form
    return [normalizers.NFC() if form == "NFC" else normalizers.NFKC()] if form else []


def _without_accents(
    tokenizer: Tokenizer, decomposition: normalizers.Normalizer, is_accent: Callable[[str], Any]
) -> list[normalizers.Normalizer]:
    if tokenizer.normalization.keep_accents:
        return []
    accents = map(ord, filter(is_accent, _characters()))
    return [decomposition, normalizers.Replace(_any_of(accents), "")]


def _lower_case() -> list[normalizers.Normalizer]:
    # The library lower-cases each character on its own and does not know the final sigma.
    final_sigma = rf"{_CASED}{_IGNORABLE}\K\x{{3a3}}(?!{_IGNORABLE}{_CASED})"
    return [normalizers.Replace(Regex(final_sigma), "ς"), normalizers.Lowercase()]


def _characters() -> Iterable[str]:
    return map(chr, range(sys.maxunicode + 1))


def _replaced(normalize: Callable[[str], str]) -> dict[str, list[int]]:
    """Return the characters that a text loses or exchanges, by what they become."""
    found: dict[str, list[int]] = {"": [], " ": []}
    for first in range(0, sys.maxunicode + 1, 256):
        page = "".join(map(chr, range(first, first + 256)))
        if normalize(page) != page:  # few pages; one by one, all characters take seconds
            for character in page:
                if (replacement := normalize(character)) != character:
                    found[replacement].append(ord(character))
    return {replacement: characters for replacement, characters in found.items() if characters}


def _any_of(characters: Iterable[int], times: str = "") -> Regex:
    return Regex(f"[{_ranges(characters)}]{times}")


def _ranges(characters: Iterable[int]) -> str:
    return character_ranges(characters, write=r"\x{{{:x}}}".format)
