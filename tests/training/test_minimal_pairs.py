"""Minimal pairs: their files, their scores against a loop of transformers, and their accuracies."""

import dataclasses
import json
import math

import numpy as np
import pytest
from tensorboard.backend.event_processing.plugin_event_accumulator import EventAccumulator

import albert_tf
from albert_tf.analysis.__main__ import run_analysis
from albert_tf.analysis.analysis_options import PairsOptions
from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.input.minimal_pairs import Pair, read_pairs
from albert_tf.interop.adjacent_files import AdjacentFiles
from albert_tf.interop.convert import write_model
from albert_tf.interop.converted_model import ConvertedModel
from albert_tf.report.sections import text_table
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.pair_results import pairs_table, results
from albert_tf.training.pretraining import pretrain
from albert_tf.weights import Weights
from tests.conftest import refusal
from tests.support import tiny
from tests.support.html import read_page
from tests.support.models import CONFIGS, keras_file, letters, random_model, values_of
from tests.support.pretraining import options_of
from tests.support.references import OWN_VOCABULARY

BLIMP = (
    '{"sentence_good": "A b.", "sentence_bad": "A c.", "field": "syntax", "UID": "a_b", '
    '"linguistics_term": "subject-verb agreement", "pairID": 0}\n'
)


@pytest.mark.parametrize(
    ("name", "text", "phenomena"),
    [
        ("a.tsv", "a b\ta c\nd\te\n", ["", ""]),
        ("a.tsv", "a b\ta c\tword  order\nd\te\t\n", ["word_order", ""]),
        ("a.tsv", "UID\tsentence_bad\tsentence_good\nx\ta c\ta b\n", ["x"]),
        ("a.jsonl", BLIMP, ["subject_verb_agreement"]),
        ("a.csv", 'sentence_good,sentence_bad\n"a, b",c\n', [""]),
    ],
)
def test_files_of_pairs(tmp_path, name, text, phenomena):
    (tmp_path / name).write_text(text)
    pairs = read_pairs([str(tmp_path / name)], "eval_pairs")
    assert [pair.phenomenon for pair in pairs] == phenomena
    assert pairs[0].good[:1].lower() == "a"
    assert pairs[0].bad in ("a c", "A c.", "c")
    if name == "a.jsonl":
        (pair,) = read_pairs([str(tmp_path / "*.jsonl")], "eval_pairs", "UID")
        assert pair == Pair("A b.", "A c.", "a_b", f"{tmp_path}/a.jsonl:1")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.tsv", "a b\nc d\n", "a.tsv:1: has one column; each line must have a good sentence, a"),
        ("a.tsv", "a\tb\tc\td\n", "a.tsv:1: has 4 columns; each line must have a good sentence"),
        ("a.tsv", "", "a.tsv:1: empty; each line must have a good sentence"),
        ("a.tsv", "a\tb\nc\n", "a.tsv:2: 1 fields instead of 2"),
        ("a.tsv", "a\t \n", "a.tsv:1: column 'sentence_bad' is empty"),
        ("a.tsv", "a\ta\n", "a.tsv:1: the good and the bad sentence are the same"),
        ("a.tsv", "sentence_good\tsentence_bad\n", "a.tsv: contains no pair of sentences"),
        ("a.jsonl", '{"good": "a", "bad": "b"}', "no column 'sentence_good'; the columns are 'go"),
        ("a.jsonl", '["a", "b"]', "a.jsonl:1: not a JSON object on a line of its own"),
        ("a.jsonl", "", "a.jsonl: empty; it must contain one JSON object per line"),
        ("a.txt", "a\tb\n", "a.txt: a table must end in .tsv"),
        ("b.tsv", "a\tb\n", "`eval_pairs`: no file matches"),
    ],
)
def test_files_without_pairs_are_one_line(tmp_path, name, text, message):
    (tmp_path / name).write_text(text)
    assert message in refusal(read_pairs, [str(tmp_path / name.replace("b", "c"))], "eval_pairs")


def test_accuracies_by_phenomenon():
    pairs = [Pair("a", "b", name, "") for name in ("x", "x", "y_z", "", "x")]
    scores = np.array([[-1, -2], [-2, -1], [-1, -2], [-1, -1.5], [-3, -3]])
    found = results(pairs, scores)
    assert found == {
        **{"pairs_accuracy": 0.6, "pairs_weight": 5},
        **{"pairs/x_accuracy": 1 / 3, "pairs/x_weight": 3},  # a tie is not right
        **{"pairs/y_z_accuracy": 1, "pairs/y_z_weight": 1},
    }
    others = {**found, "masked_lm_weight": 7.0, "pairs_original_accuracy": 0.2}
    shown = pairs_table(others, found).without_empty_columns()
    assert text_table(shown.columns, shown.rows).splitlines()[2].split()[:6] == (
        ["x", "3", "33.3%", "6.1%", "to", "79.2%"]
    )
    assert [row[0] for row in shown.rows] == ["all", "x", "y z"]
    scores[1, 0] = np.nan
    assert all(math.isnan(v) for name, v in results(pairs, scores).items() if "accuracy" in name)


def sensitive_model(config: AlbertConfig):
    """Return a random model in which a token changes what is predicted elsewhere."""
    model = random_model("pretraining", config)
    for weight in model.weights:
        weight.assign(2 * (weight.numpy() - 0.1) + weight.path.endswith("gamma"))
    return model


def transformers_scores(folder, tokenizer, texts, rest_of_word: bool) -> list[float]:
    """Return the scores of texts by a plain loop, one masked sentence at a time."""
    torch, transformers = pytest.importorskip("torch"), pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    model = transformers.AutoModelForPreTraining.from_pretrained(folder).eval().double()
    scores = []
    for text in texts:
        ids = [tokenizer.cls_id, *tokenizer.encode(text), tokenizer.sep_id]
        pieces, total = tokenizer.convert_ids_to_tokens(ids), 0.0
        for place in range(1, len(ids) - 1):
            masked = list(ids)
            masked[place] = tokenizer.mask_id
            after = place + 1
            while rest_of_word and (pieces[after].startswith("##") or pieces[after].isalpha()):
                if not pieces[after].startswith("##") and "##a" in tokenizer.pieces:
                    break  # of a WordPiece vocabulary, it begins a word
                masked[after] = tokenizer.mask_id
                after += 1
            with torch.no_grad():
                logits = model(torch.tensor([masked])).prediction_logits[0, place]
            total += float(torch.log_softmax(logits, -1)[ids[place]])
        scores.append(total)
    return scores


@pytest.mark.integration
@pytest.mark.parametrize("kind", ["WordPiece", "SentencePiece"])
def test_scores_are_those_of_a_loop_of_transformers(tmp_path, kind):
    if kind == "WordPiece":
        (tmp_path / "vocab.txt").write_text(letters(70))
        tokenizer, config = Tokenizer.load(tmp_path / "vocab.txt"), CONFIGS["BERT"]
        texts = ["abc d ef.", "a, bcde", "", "f gh"]
    else:
        tokenizer = Tokenizer.load(OWN_VOCABULARY)
        config = dataclasses.replace(CONFIGS["shared"], vocab_size=tokenizer.vocab_size)
        texts = ["Bewildered gardeners, undone.", "the cat", "", "a"]
    values = values_of(sensitive_model(config))
    folder, source = str(tmp_path / "model"), Weights("albert_tf", "x", {}, config)
    write_model(
        folder,
        ConvertedModel("pretraining", config, values, tokenizer, AdjacentFiles(), source),
        "huggingface",
    )
    masked_lm = albert_tf.MaskedLM.from_preset(folder)
    found = []
    for rest in (False, True):
        found.append(masked_lm.score(texts, batch_size=4, rest_of_word=rest))
        expected = transformers_scores(folder, tokenizer, texts, rest)
        np.testing.assert_allclose(found[-1], expected, rtol=0, atol=1e-4)
    assert abs(found[0] - found[1])[0] > 1e-2, "the first text has a word of several pieces"
    assert found[0][2] == 0


@pytest.mark.slow
def test_pretraining_evaluates_pairs_as_the_finished_model_does(tmp_path, caplog):
    file, held, out = tmp_path / "pairs.tsv", str(tmp_path / "a.tfrecord"), tmp_path / "out"
    file.write_text("a b c.\ta c b c.\torder\nab\tba\torder\nc d\tC d\tcase\n")
    out.mkdir()
    (out / "vocab.txt").write_text(letters(tiny.VOCAB))
    options = options_of(
        tmp_path, tiny.CONFIG, 16, do_eval=True, eval_input_file=(held,), eval_every_steps=2,
        num_train_steps=4, num_warmup_steps=1, train_batch_size=8, eval_pairs=(str(file),),
        init_checkpoint=str(keras_file(tmp_path / "start", sensitive_model(tiny.CONFIG))),
    )  # fmt: skip
    pretrain(options)
    assert "minimal pairs: in 1 of 3, both sentences are the same tokens" in caplog.text
    rows = [json.loads(line) for line in (out / "evaluations.jsonl").read_text().splitlines()]
    events = EventAccumulator(str(out / "eval")).Reload()
    for name in ("pairs", "pairs/order", "pairs/case", "pairs_original"):
        assert len(events.Tensors(f"quality/{name}_accuracy")) == len(rows) == 2
        assert f"{name}_accuracy = " in (out / "eval_results.txt").read_text()
    assert {row["pairs_weight"] for row in rows} == {3}
    # The examples have random ids, of single letters or of pieces that are unused.
    examples = tiny.batch(16)
    is_letter = (examples["masked_lm_ids"] < 5 + 28 + 26) * examples["masked_lm_weights"]
    assert {row["characters_weight"] for row in rows} == {is_letter.sum()}
    assert is_letter.sum() < examples["masked_lm_weights"].sum()
    assert 4 < rows[-1]["bits_per_character"] < 16, "about log2(60) and more"
    page = read_page((out / "report.html").read_text())
    assert "phenomenon pairs accuracy 95% interval all 3 " in page.text
    run_analysis(
        "pairs",
        PairsOptions(
            model=(str(out),),
            input_file=(str(file),),
            batch_size=2,
            output_dir=str(tmp_path / "analysis"),
        ),
    )
    (found,) = json.loads((tmp_path / "analysis" / "pairs.json").read_text())["models"]
    assert found["pairs"] == pytest.approx({name: rows[-1][name] for name in found["pairs"]})
    columns, *scores = (tmp_path / "analysis" / "scores.tsv").read_text().splitlines()
    assert columns.split("\t") == ["model", "pair", "good", "bad", "original_good", "original_bad"]
    by_pair = np.array([row.split("\t")[2:] for row in scores], float)
    right = (by_pair[:, 0] > by_pair[:, 1]).mean()
    assert right == pytest.approx(found["pairs"]["pairs_accuracy"])
    masked_lm, pairs = albert_tf.MaskedLM.from_preset(out), read_pairs([str(file)], "eval_pairs")
    for column, rest in enumerate((True, True, False, False)):
        alone = masked_lm.score([pair[column % 2] for pair in pairs], rest_of_word=rest)
        np.testing.assert_allclose(by_pair[:, column], alone, rtol=0, atol=1e-4)
    assert np.abs(by_pair[:, :2] - by_pair[:, 2:]).max() > 1e-3, "ab is a word of two pieces"
    file.write_text("a b\t" + "a " * 20)
    with pytest.raises(InputError, match="pairs.tsv:1: 22 tokens; the model reads at most 16"):
        pretrain(dataclasses.replace(options, do_train=False))
    with pytest.raises(InputError, match="`eval_pairs`=x: needs `do_eval` or `eval_every_steps`"):
        pretrain(dataclasses.replace(options, do_eval=False, eval_every_steps=0, eval_pairs=("x",)))
    (out / "vocab.txt").unlink()
    with pytest.raises(InputError, match="`eval_pairs`=.*: the model comes without its vocabulary"):
        pretrain(dataclasses.replace(options, do_train=False))
