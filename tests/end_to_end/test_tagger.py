"""run_tagger.py, as a user would call it: columns, raw texts, and named entities by context."""

import itertools
import json
import os
import random
import sys

import pytest

from albert_tf.errors import InputError
from tests.end_to_end.conftest import call, json_lines, results_of
from tests.support.finetuning import write_model
from tests.support.html import read_page

pytestmark = pytest.mark.integration

# Words by their only tag, of sentences that a tiny model learns at once.
WORDS = {
    "B-PER": ["Anna", "Boris", "Clara"],
    "I-PER": ["Lee", "Wolf", "Novak"],
    "B-LOC": ["Rome", "Oslo", "Lima"],
    "O": ["the", "dog", "ran", "from", ",", "."],
}
SIZES = {
    "embedding_size": 16,
    "hidden_size": 48,
    "num_attention_heads": 4,
    "initializer_range": 0.1,
}


def write_columns(path, sentences):
    path.write_text("\n".join("".join(f"{w} {t}\n" for w, t in each) for each in sentences))


def sentences(count, seed):
    draw = random.Random(seed)
    for _ in range(count):
        parts = [["B-PER", "I-PER"], ["B-LOC"], ["O"], ["O", "O", "O", "O"]]
        tags = itertools.chain(*draw.choices(parts, k=draw.randint(2, 7)))
        yield [(draw.choice(WORDS[tag]), tag) for tag in (*tags, "O")]


def test_columns_are_learned_evaluated_and_predicted(tmp_path, monkeypatch):
    write_model(tmp_path, [word.lower() for words in WORDS.values() for word in words], **SIZES)
    files = {"vocab_file": "vocab.txt", "albert_config_file": "config.json", "output_dir": "out"}
    flags = [f"--{flag}={tmp_path}/{name}" for flag, name in files.items()]
    write_columns(tmp_path / "train.txt", sentences(120, seed=1))
    held_out = list(sentences(20, seed=2))
    write_columns(tmp_path / "dev.txt", held_out)
    output = call(
        *("run_tagger.py", "--do_train", "--do_eval", "--do_predict", *flags),
        *(f"--train_file={tmp_path}/train.txt", f"--eval_file={tmp_path}/dev.txt"),
        *(f"--predict_file={tmp_path}/dev.txt", "--max_seq_length=12", "--train_batch_size=16"),
        *("--train_step=60", "--learning_rate=0.003", "--eval_every_steps=30"),
        *("--warmup_step=10", f"--cached_dir={tmp_path}/cache"),
    )
    out = tmp_path / "out"
    results = results_of(out)
    assert results["eval_f1"] > 0.99
    assert results["eval_accuracy"] > 0.99
    assert "tags in IOB2" in output
    assert "longer than 12 tokens, so that there are 178 windows" in output
    assert len(os.listdir(tmp_path / "cache")) == 2
    assert json.loads((out / "labels.json").read_text()) == [
        "O",
        "B-LOC",
        "I-LOC",
        "B-PER",
        "I-PER",
    ]
    best = json.loads((out / "best" / "tagging.json").read_text())
    assert (best["unit"], best["tags"], best["max_seq_length"]) == ("words", "entities", 12)
    # Words with the true tag and the predicted one, in the same order.
    expected = [[word, tag] for sentence in held_out for word, tag in sentence]
    columns = [line.split() for line in (out / "predictions.conll").read_text().splitlines()]
    assert [row[:2] for row in columns if row] == expected
    assert "predict_f1 = " in (out / "predict_results.txt").read_text()
    titles = "".join(read_page((out / "report.html").read_text()).text)
    for part in ("Confusion of types", "always O", "all types"):
        assert part in titles

    # The folder alone tags raw texts of standard input, with characters as they are there.
    read, write = os.pipe()
    os.write(write, "the dog  ran from\u00a0Rome.\n\nAnna Lee,Oslo\n".encode())
    os.close(write)
    with os.fdopen(read) as stdin, monkeypatch.context() as patch:
        patch.setattr(sys, "stdin", stdin)
        call(
            *("run_tagger.py", "--do_predict", f"--output_dir={out}", "--predict_file=-"),
            f"--predict_output={tmp_path}/lines.jsonl",
        )
    lines = json_lines(tmp_path / "lines.jsonl")
    found = [[(e["label"], e["start"], e["end"]) for e in line["entities"]] for line in lines]
    assert found == [[("LOC", 18, 22)], [], [("PER", 0, 8), ("LOC", 9, 13)]]
    assert all(0.5 < e["score"] <= 1 for line in lines for e in line["entities"])

    (tmp_path / "other.txt").write_text("Anna B-ORG\n")
    with pytest.raises(InputError, match="contains a model with the tags"):
        call(*("run_tagger.py", "--do_train", *flags, f"--train_file={tmp_path}/other.txt"))
