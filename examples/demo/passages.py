"""Builds a classification task from a corpus: which source does a passage come from?

    python -m examples.demo.passages --flagfile=configs/demo/passages.cfg

reads `train.txt`, `eval.txt` and their `.sources.tsv` (the package or book of every document), and
writes `train.tsv` and `eval.tsv` with the columns `text` and `label`. Evaluation passages come from
documents that neither pretraining nor fine-tuning has seen. The name of the source, which would
give it away, is removed from every passage.
"""

import collections
import dataclasses
import random
import re
from collections.abc import Iterator

from albert_tf.errors import InputError
from albert_tf.files import make_folder, read_lines, read_text, write_text
from albert_tf.options import command, option, seed_option
from albert_tf.tokenizers.words import unspaced_in


@dataclasses.dataclass(frozen=True)
class PassageOptions:
    corpus_dir: str = option(help="Folder with train.txt and eval.txt from extract_corpus.")
    output_dir: str = option(help="Folder for train.tsv and eval.tsv.")
    num_labels: int = option(8, "Maximum number of sources; those with the most passages are used.")
    min_words: int = option(30, "Minimum number of words per passage.")
    max_train_passages: int = option(250, "Maximum number of training passages per source.")
    max_eval_passages: int = option(80, "Maximum number of evaluation passages per source.")
    random_seed: int = seed_option(12345, "Seed for the choice of passages.")


def passages(sentences: list[str], source: str, min_words: int) -> Iterator[str]:
    """Yield passages of consecutive sentences, without words that contain the source's name."""
    name = re.compile(rf"\S*{re.escape(source)}\S*", re.IGNORECASE)
    words: list[str] = []
    for sentence in sentences:
        words.extend(name.sub("", sentence).split())
        # Without spaces, two characters count as a word.
        if len(words) + len(unspaced_in("".join(words))) // 2 >= min_words:
            yield " ".join(words)
            words = []


def collect(corpus_dir: str, split: str, min_words: int) -> dict[str, list[str]]:
    """Return the passages of a split by source, in the order of the corpus."""
    found: dict[str, list[str]] = collections.defaultdict(list)
    sources = read_lines(f"{corpus_dir}/{split}.sources.tsv")
    documents = read_text(f"{corpus_dir}/{split}.txt").split("\n\n")
    for document, line in zip(documents, sources, strict=True):
        source = line.split("\t")[0].rsplit(".", 1)[0]
        found[source].extend(passages(document.splitlines(), source, min_words))
    return found


def run(options: PassageOptions) -> None:
    make_folder(options.output_dir, "output_dir")
    splits = {s: collect(options.corpus_dir, s, options.min_words) for s in ("train", "eval")}
    usable = [source for source in splits["train"] if splits["eval"].get(source)]
    # Sources are ranked by their passages in the smaller split.
    usable.sort(key=lambda s: (-len(splits["eval"][s]), -len(splits["train"][s]), s))
    labels = sorted(usable[: options.num_labels])
    if len(labels) < 2:
        raise InputError(
            f"`corpus_dir`={options.corpus_dir}: fewer than two sources have passages in both "
            "train.txt and eval.txt; more text, or a larger --eval_fraction, is required"
        )
    limits = {"train": options.max_train_passages, "eval": options.max_eval_passages}
    for split, limit in limits.items():
        rows = ["text\tlabel"]
        for label in labels:
            texts = splits[split][label]
            chosen = random.Random(options.random_seed).sample(texts, min(limit, len(texts)))
            rows.extend(f"{text}\t{label}" for text in chosen)
        write_text(f"{options.output_dir}/{split}.tsv", "\n".join(rows) + "\n")
        print(f"{options.output_dir}/{split}.tsv: {len(rows) - 1} passages")
    print(f"{len(labels)} sources: {', '.join(labels)}")


cli = command(PassageOptions, run)

if __name__ == "__main__":
    cli()
