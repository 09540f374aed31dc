"""Makes a task of long texts: which of several novels a passage is from.

    python -m benchmarks.novels --books=books --novels=12 --words=150 --output_dir=novels

Passages of the first two thirds of each novel are for training (`train.tsv`), those of the last
third for evaluation (`eval.tsv`). The novels are by different authors, in files AUTHOR_TITLE.txt.
"""

from __future__ import annotations

import argparse
import pathlib


def passages(path: pathlib.Path, words: int) -> list[str]:
    """Return a book as passages of whole lines, of at least a number of words."""
    found: list[str] = []
    passage: list[str] = []
    for line in path.read_text("utf-8-sig").splitlines():
        passage += line.split()
        if len(passage) >= words:
            found.append(" ".join(passage))
            passage = []
    return found[1:]  # without the page that names the author


def spread(items: list[str], count: int) -> list[str]:
    """Return a number of items from all over a list."""
    return items[:: max(len(items) // count, 1)][:count]


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--books", type=pathlib.Path, required=True)
    parser.add_argument("--novels", type=int, default=12)
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--passages", type=int, default=90, help="of each novel")
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    options = parser.parse_args()
    by_author = {path.name.split("_")[0]: path for path in sorted(options.books.glob("*_*.txt"))}
    rows: dict[str, list[str]] = {"train": [], "eval": []}
    for path in [*by_author.values()][: options.novels]:
        found = passages(path, options.words)
        end = 2 * len(found) // 3
        train, held_out = 2 * options.passages // 3, options.passages // 3
        rows["train"] += [f"{text}\t{path.stem}\n" for text in spread(found[:end], train)]
        rows["eval"] += [f"{text}\t{path.stem}\n" for text in spread(found[end:], held_out)]
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for split, lines in rows.items():
        path = options.output_dir / f"{split}.tsv"
        path.write_text("".join(["text\tlabel\n", *lines]), "utf-8")
        print(f"{path}: {len(lines)} passages of {options.novels} novels")


if __name__ == "__main__":
    main()
