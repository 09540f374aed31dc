"""Makes a task of long texts: who wrote a passage of a novel, of books that were not trained on.

    python -m benchmarks.authors --books=books --authors=8 --words=150 --output_dir=authors

The files of novels are called AUTHOR_TITLE_YEAR.txt. Of each of the first authors that have three
novels, two are for training (`train.tsv`) and one for evaluation (`eval.tsv`).
"""

from __future__ import annotations

import argparse
import collections
import pathlib

NOVELS = 3


def passages(path: pathlib.Path, words: int, count: int) -> list[str]:
    """Return passages of whole lines, of at least a number of words, from all over a book."""
    found: list[str] = []
    passage: list[str] = []
    for line in path.read_text("utf-8-sig").splitlines():
        passage += line.split()
        if len(passage) >= words:
            found.append(" ".join(passage))
            passage = []
    found = found[1:]  # without the page that names the author
    step = max(len(found) // count, 1)
    return found[::step][:count]


def main() -> None:
    """Write the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--books", type=pathlib.Path, required=True)
    parser.add_argument("--authors", type=int, default=8)
    parser.add_argument("--words", type=int, default=150)
    parser.add_argument("--passages", type=int, default=60, help="of each book")
    parser.add_argument("--output_dir", type=pathlib.Path, required=True)
    options = parser.parse_args()
    novels: dict[str, list[pathlib.Path]] = collections.defaultdict(list)
    for path in sorted(options.books.glob("*_*.txt")):
        novels[path.name.split("_")[0]].append(path)
    authors = [name for name, paths in novels.items() if len(paths) >= NOVELS][: options.authors]
    rows: dict[str, list[str]] = {"train": [], "eval": []}
    for author in authors:
        for number, path in enumerate(novels[author][:NOVELS]):
            split = "eval" if number == NOVELS - 1 else "train"
            texts = passages(path, options.words, options.passages)
            rows[split] += [f"{text}\t{author}\n" for text in texts]
    options.output_dir.mkdir(parents=True, exist_ok=True)
    for split, lines in rows.items():
        path = options.output_dir / f"{split}.tsv"
        path.write_text("".join(["text\tlabel\n", *lines]), "utf-8")
        print(f"{path}: {len(lines)} passages of {len(authors)} authors")


if __name__ == "__main__":
    main()
