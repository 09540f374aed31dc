"""The report on pretraining, from the files that a run leaves."""

import dataclasses
import json
import math
import types

import numpy as np
import pytest

from albert_tf.tokenizers import Tokenizer
from albert_tf.training import pretraining_report
from albert_tf.training.evaluation import BestRecord
from albert_tf.training.held_out import HeldOut
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.pretraining_report import write_report
from albert_tf.training.pretraining_tasks import find_pretraining_task
from tests.support.html import Reader, read_page
from tests.support.tiny import CONFIG

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "cat", "sat", "on", "<b>", "dog"]
SOP = find_pretraining_task("sop")
MODEL = types.SimpleNamespace(config=CONFIG)


def ids(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def examples() -> dict[str, np.ndarray]:
    """Return two examples and one that fills up the batch."""
    masked = [ids("cat sat the"), ids("cat <b> [PAD]"), [0, 0, 0]]
    return {
        "input_ids": np.array(
            [
                ids("[CLS] the [MASK] [MASK] on [MASK] <b> [SEP]"),
                ids("[CLS] dog [MASK] cat sat [SEP] [PAD] [PAD]"),
                ids("[PAD]") * 8,
            ]
        ),
        # The second mask of the second example kept its word.
        "masked_lm_positions": np.array([[2, 3, 5], [2, 3, 0], [0, 0, 0]]),
        "masked_lm_ids": np.array(masked),
        "masked_lm_weights": np.float32([[1, 1, 1], [1, 1, 0], [0, 0, 0]]),
        "next_sentence_labels": np.array([[1], [0], [0]]),
        "is_real_example": np.array([1, 1, 0]),
    }


def packed() -> dict[str, np.ndarray]:
    """Return the same examples in a row, and one that fills up the batch."""
    both = examples()
    row = {
        "input_ids": np.concatenate([both["input_ids"][0], both["input_ids"][1, :6]]),
        "example_ids": np.repeat([1, 2], [8, 6]),
        "masked_lm_positions": np.array([2, 3, 5, 8 + 2, 8 + 3]),
        "masked_lm_ids": both["masked_lm_ids"].ravel()[:5],
        "masked_lm_weights": np.ones(5, np.float32),
        "next_sentence_labels": np.array([1, 0, 0]),
        "next_sentence_weights": np.float32([1, 1, 0]),
        "is_real_example": np.array(1),
    }
    return {name: np.stack([value, np.zeros_like(value)]) for name, value in row.items()}


def held_out(folder, batch: dict[str, np.ndarray] | None = None) -> HeldOut:
    batches = [examples() if batch is None else batch]
    stream = types.SimpleNamespace(batches=lambda: batches, batch_size=3)
    return HeldOut(stream, 0, str(folder))


def predictions(first: str, second: str) -> dict[str, np.ndarray]:
    return {"masked_lm_ids": np.array([ids(first), ids(second), [0, 0, 0]])}


@pytest.fixture
def tokenizer(tmp_path) -> Tokenizer:
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    return Tokenizer.load(str(tmp_path / "vocab.txt"))


def test_masks_are_filled_by_the_earliest_and_the_latest_evaluation(tmp_path, tokenizer):
    held = held_out(tmp_path)
    for step, first in ((10, "the the the"), (20, "on on on"), (30, "cat sat [SEP]")):
        held.record(step, predictions(first, "dog dog dog"))
    assert [each.step for each in held.recorded()] == [10, 30]
    masks = [tuple(mask) for mask in held.masks(tokenizer, held.recorded())]
    assert masks[0] == ("the", "cat sat", "on the <b>", ("the the", "cat sat"))
    assert masks[1] == ("the cat sat on", "the", "<b>", ("the", "[SEP]"))
    assert masks[2][:2] == ("dog", "cat"), "a word that the model saw is no mask"
    assert len(masks) == 3
    beyond = predictions("cat sat [SEP]", "dog dog dog")
    beyond["masked_lm_ids"][0, 0] = len(WORDS) + 1  # a row that no word has
    held.record(40, beyond)
    latest = next(held.masks(tokenizer, held.recorded()[-1:]))
    assert latest.predicted == ("[UNK] sat",)
    # Steps that are repeated after a restart replace those from before it.
    held.record(20, predictions("on on on", "dog dog dog"))
    assert [each.step for each in held.recorded()] == [10, 20]
    held.record(10, predictions("on on on", "dog dog dog"))
    assert [each.step for each in held.recorded()] == [10]
    held.record(5, {})
    other = examples()
    other["masked_lm_ids"][0, 0] += 1
    assert held_out(tmp_path, other).recorded() == [], "they are about other examples"


def test_text_around_a_mask_is_of_its_example(tmp_path, tokenizer):
    masks = list(held_out(tmp_path, packed()).masks(tokenizer, []))
    assert [mask[:3] for mask in masks] == [
        ("the", "cat sat", "on the <b>"),
        ("the cat sat on", "the", "<b>"),
        ("dog", "cat", "<b> sat"),
    ]


@pytest.mark.parametrize("batch", [examples(), packed()], ids=["examples", "rows"])
def test_a_constant_answer_scores_the_share_of_the_most_frequent(tmp_path, batch):
    found = held_out(tmp_path, batch).baselines()
    assert found["masked_lm"].answer == WORDS.index("cat")
    assert found["masked_lm"].accuracy == pytest.approx(2 / 5)
    shares = np.array([2, 1, 1, 1]) / 5
    assert found["masked_lm"].loss == pytest.approx(-sum(shares * np.log(shares)))
    assert found["pairs"][1:] == pytest.approx((1 / 2, math.log(2)))


def report(tmp_path, held=None, results=None, **changes) -> Reader:
    options = PretrainingOptions(
        albert_config_file="configs/small.json",
        output_dir=str(tmp_path),
        do_train=True,
        eval_input_file=("held.tfrecord",),
        max_seq_length=8,
        max_predictions_per_seq=3,
    )
    options = dataclasses.replace(options, **changes)
    best = BestRecord("masked_lm_accuracy", 0.5, 30) if results else None
    write_report(options, options, MODEL, SOP, 40, held, results or {}, best)
    return read_page((tmp_path / "report.html").read_text())


@pytest.fixture
def logged(tmp_path):
    """Write the logs of 3 evaluations and of 12,000 records, the last of which a kill cut short."""
    rows = [
        {
            "step": step,
            **dict.fromkeys(("loss", "masked_lm_accuracy", "sentence_order_accuracy"), 1 / step),
            "learning_rate": 1e-3,
            "examples_per_second": 200.0 if step > 10 else 0.5,
            "tokens_per_second": 1600.0,
            "mfu": 0.25,
            "input_wait": 0.015,
        }
        for step in range(1, 12_001)
    ]
    lines = [*map(json.dumps, rows), '{"step": 12001, "lo']
    damage = b"\xff\x80\xfe\x00"  # of a power cut
    (tmp_path / "metrics.jsonl").write_bytes("\n".join(lines).encode() + damage)
    evaluations = [{"step": step, "masked_lm_accuracy": 0.25} for step in (10, 20, 30)]
    text = "".join(f"{json.dumps(row)}\n" for row in evaluations)
    (tmp_path / "evaluations.jsonl").write_text(text)
    corpora = dict.fromkeys(("/texts/novels.txt", "b", "c"), {"settings": {"language": "en"}})
    manifest = {
        "settings": {"max_seq_length": 8, "max_predictions_per_seq": 3},
        **{"corpora": corpora, "files": {}, "vocab_size": 11, "documents": 1000},
    }
    (tmp_path / "training_data.json").write_text(json.dumps({"data.manifest.json": manifest}))


@pytest.mark.integration
def test_everything_in_one_page(tmp_path, tokenizer, logged):
    held = held_out(tmp_path)
    for step, first in ((10, "the the the"), (40, "cat sat [SEP]")):
        held.record(step, predictions(first, "dog dog dog"))
    results = {
        **{"global_step": 40, "masked_lm_loss": 1.25, "sentence_order_loss": 0.5},
        **{"masked_lm_accuracy": 0.4, "masked_lm_weight": 1000.0, "sentence_order_accuracy": 0.9},
    }
    page = report(tmp_path, held, results)
    assert "Pretraining of small on novels.txt, b and 1 more: 40 steps" in page.text
    assert "40.0% 95% interval 37.0% to 43.1% (Wilson, 1,000 predictions)" in page.text
    assert "Masked-token accuracy is not above that of always “cat”." in page.text
    assert "Masked-token accuracy 40.0% 37.0% to 43.1% 40.0% always “cat”" in page.text
    assert "Sentence-order accuracy 90.0% 50.0% always the same label" in page.text
    assert "text masked after step 10 after step 40" in page.text
    assert "dotted line is the checkpoint with the best masked_lm_accuracy: step 30." in page.text
    assert "the ____ on the <b> cat sat the the cat sat" in page.text
    for title in ("Loss", "Masked-token accuracy", "Learning rate", "Utilization"):
        assert title in page.text
    assert sum(name == "svg" for name, _ in page.elements) == 6
    assert "200.0 sequences/s, 1,600 tokens/s, model FLOPs utilization 25.0%, 1.5%" in page.text
    assert "data.manifest.json 1,000" in page.text
    assert f"The encoder has {CONFIG.parameter_count():,} parameters" in page.text
    assert "--albert_config_file=configs/small.json" in page.text
    assert (tmp_path / "report.html").stat().st_size < 100_000, "curves are thinned out"
    first = (tmp_path / "report.html").read_text()
    report(tmp_path, held, results)
    assert (tmp_path / "report.html").read_text() == first


def test_a_run_without_evaluation_or_vocabulary(tmp_path, monkeypatch):
    monkeypatch.setattr(pretraining_report, "_MOST_ROWS", 3)
    lines = [json.dumps({"step": step, "loss": 1.0}) for step in range(10)]
    (tmp_path / "metrics.jsonl").write_text("\n".join(lines))
    page = report(tmp_path, albert_config_file=None)
    assert "Pretraining of ALBERT (2 layers of 16): 40 steps" in page.text
    assert not {"Results", "Filled", "Training curves"} & set(page.text.split(" "))
    assert "svg" not in page.names(), "three records are no curve"
    held = held_out(tmp_path)
    held.record(40, predictions("cat sat the", "cat <b> dog"))
    page = report(tmp_path, held, {"masked_lm_accuracy": 0.9}, eval_input_file=())
    assert "Results on the training files" in page.text
    assert "Masked-token accuracy 90.0% 40.0% always the most frequent token" in page.text
    assert "Filled masks" not in page.text
    assert "Warning" not in page.text
