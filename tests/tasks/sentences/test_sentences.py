"""Sentence vectors: losses and search against their definitions, tables, and folders of others."""

import dataclasses
import json
import types

import numpy as np
import pytest
from scipy.special import log_softmax

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.interop.convert import convert
from albert_tf.interop.convert_options import ConvertOptions
from albert_tf.interop.heads import possible_heads
from albert_tf.interop.loading import open_weights
from albert_tf.tasks.sentences.model import (
    AlbertForSentences,
    ContrastiveObjective,
    CosineObjective,
)
from albert_tf.tasks.sentences.options import SentenceOptions, read_settings_in
from albert_tf.tasks.sentences.readers import TextPair, read_pairs
from albert_tf.tasks.sentences.task import SentenceTask, scores_of, search, unit_length
from albert_tf.tasks.sentences.text_model import SentenceEncoder
from tests.conftest import refusal
from tests.support.models import write_trained

OPTIONS = {"output_dir": "out", "do_train": True}
FILE = {"train_file": "pairs.tsv"}


def cosine(a, b) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


@pytest.mark.parametrize("texts", [2, 3])
def test_the_loss_tells_the_right_text_from_those_that_are_wrong(texts):
    draw = np.random.default_rng(texts)
    vectors = draw.normal(size=(9, texts, 5)).astype(np.float32)
    ids = draw.permutation(9 * texts).reshape(9, texts).astype(np.int32)
    ids[1, 0] = ids[0, 0]  # the same first text: the second one of either is right
    ids[3, 1] = ids[2, 1]  # the same second text
    ids[5, 1] = ids[4, 0]  # a first text that is also a second one
    ids[7, -1] = ids[6, 1]  # a right text that is a wrong one elsewhere
    losses, correct = [], 0
    for row in range(9):
        logits = [cosine(vectors[row, 0], vectors[row, 1]) / 0.1]
        for other in range(9):
            for place in range(1, texts):
                if (other, place) == (row, 1) or ids[other, place] in ids[row, :2]:
                    continue
                if place == 1 and ids[other, 0] == ids[row, 0]:
                    continue
                logits.append(cosine(vectors[row, 0], vectors[other, place]) / 0.1)
        losses.append(-log_softmax(logits)[0])
        correct += np.argmax(logits) == 0
    batch = {"input_ids": np.ones((9, texts, 1), np.int32), "label_ids": ids}
    objective = ContrastiveObjective(0.1)
    sums, weights = objective.sums({"vectors": vectors}, batch), objective.weights(batch)
    assert float(objective.loss(sums, weights)) == pytest.approx(np.mean(losses), rel=1e-5)
    assert float(sums["contrastive_accuracy"]) == correct
    # Scores are fitted by the cosines.
    truth = draw.uniform(size=9).astype(np.float32)
    sums = CosineObjective().sums({"vectors": vectors}, {**batch, "label_values": truth})
    cosines = [cosine(row[0], row[1]) for row in vectors]
    expected = np.sum((np.array(cosines) - truth) ** 2)
    assert float(sums["similarity_loss"]) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("rows_at_a_time", [4, 1000])
def test_search_ranks_what_is_not_right_as_well(monkeypatch, rows_at_a_time):
    draw = np.random.default_rng(1)
    vectors = unit_length(draw.normal(size=(40, 3)))
    vectors[1] = vectors[2]  # equally similar: the wrong one counts as nearer
    pairs = np.concatenate([draw.integers(0, 40, (60, 2)), [[0, 1], [0, 2], [5, 2], [7, 7]]])
    candidates = sorted(set(pairs[:, 1].tolist()))
    monkeypatch.setattr("albert_tf.tasks.sentences.task._MOST", rows_at_a_time * len(candidates))
    found = search(vectors, pairs)
    assert found.candidates == len(candidates)
    for (query, right), rank, first in zip(pairs.tolist(), found.ranks, found.first, strict=True):
        answers = {b for a, b in pairs.tolist() if a == query}
        wrong = [each for each in candidates if each != query and each not in answers]
        own = vectors[query] @ vectors[right]
        nearer = [each for each in wrong if vectors[query] @ vectors[each] > own - 1e-9]
        assert rank == 1 + len(nearer)
        best = max([right, *wrong], key=lambda each: vectors[query] @ vectors[each])
        assert vectors[query] @ vectors[first] == pytest.approx(vectors[query] @ vectors[best])
    # Vectors that are all the same find nothing.
    assert (search(np.ones((40, 1)), np.arange(40).reshape(20, 2)).ranks == 20).all()
    assert scores_of(np.array([1, 2, 5, 20])) == {
        "eval_recall_at_1": 0.25,
        "eval_recall_at_5": 0.75,
        "eval_recall_at_10": 0.75,
        "eval_mrr": pytest.approx((1 + 1 / 2 + 1 / 5 + 1 / 20) / 4),
    }


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_vectors_depend_on_nothing_but_their_texts(pooling):
    config = AlbertConfig(vocab_size=30, hidden_size=8, num_attention_heads=2, num_hidden_layers=1)
    model = AlbertForSentences(config, pooling)
    text, other = [2, 7, 8, 3], [2, 9, 10, 11, 12, 13, 3]
    alone = np.asarray(model({"input_ids": np.array([[text]])})["vectors"])
    ids = np.array([[text + [0] * 5, other + [0] * 2], [other + [0] * 2, text + [0] * 5]])
    mask = (ids > 0).astype(np.int32)
    vectors = np.asarray(model({"input_ids": ids, "input_mask": mask})["vectors"])
    assert alone.shape == (1, 1, 8)
    assert vectors.shape == (2, 2, 8)
    np.testing.assert_allclose(vectors[[0, 1], [0, 1]], alone[[0, 0], 0], atol=1e-6)
    hidden = np.asarray(model({"input_ids": np.array([[text]])})["sequence_output"])[0]
    expected = hidden.mean(axis=0) if pooling == "mean" else hidden[0]
    np.testing.assert_allclose(alone[0, 0], expected, atol=1e-6)


class Words:
    """A tokenizer of words, each with the number of its letters as its id."""

    cls_id, sep_id, pad_id = 1, 2, 0

    def encode_batch(self, texts):
        return [np.array([10 + len(word) for word in text.split()]) for text in texts]


def test_examples_have_all_texts_in_training_and_one_otherwise():
    pairs = [
        TextPair("", "a bb", "ccc", "a bb", 1.0),
        TextPair("", "ccc", "a a a a a", "dddd", 4.0),
    ]
    options = SentenceOptions(output_dir="out", max_seq_length=5, negative_column="n")
    task = SentenceTask(options, Words())
    train, one = task.encode("train", pairs), task.encode("eval", pairs)
    assert one.padded(5)["input_ids"][:, 0].tolist() == [
        [1, 11, 12, 2, 0],
        [1, 13, 2, 0, 0],
        [1, 11, 11, 11, 2],
    ]
    assert one.tokens_cut.tolist() == [0, 0, 2]
    arrays = train.padded(5)
    texts = [[one.padded(5)["input_ids"][number, 0].tolist() for number in (0, 1, 0)]]
    assert arrays["input_ids"][:1].tolist() == texts
    assert arrays["label_ids"].tolist() == [[0, 1, 0], [1, 2, 3]]
    assert train.tokens_cut.tolist() == [0, 2]
    # Scores beyond cosines are scaled by those of the training data.
    scored = SentenceTask(dataclasses.replace(options, score_column="s"), Words())
    scored.learn_scale(pairs)
    labels = scored.encode("train", [pair._replace(negative=None) for pair in pairs])
    assert labels.arrays["label_values"].tolist() == [0, 1]
    outputs = {"vectors": np.array([[[3.0, 4]], [[5, 0]], [[0, 2]]])}
    examples = types.SimpleNamespace(examples=pairs, split="eval")
    np.testing.assert_allclose(scored.cosines(examples, outputs), [0.6, 0])
    assert scored.score(examples, outputs)["spearman"] == pytest.approx(-1)
    # Models of an ensemble: the cosines' mean.
    both = task.average(examples, [outputs, {"vectors": np.array([[[1.0]], [[9]], [[9]]])}])
    np.testing.assert_allclose(task.cosines(examples, both), [0.8, 0.5])
    assert task.collapse(examples, {"vectors": np.ones((3, 1, 2))})


def write(path, rows) -> str:
    path.parent.mkdir(exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in rows))
    return str(path)


def test_tables_are_read_by_their_columns(tmp_path):
    file = write(
        tmp_path / "a.tsv",
        [("q", "a", "wrong", "s"), ("Who?", "I.", "It.", "0.5"), ("x", "y", "z", "2")],
    )
    columns = {"train_file": file, "text_column": "q", "text_pair_column": "a"}
    options = SentenceOptions(**OPTIONS, **columns, negative_column="wrong").with_defaults()
    assert read_pairs(options, "train")[0] == TextPair(f"{file}:2", "Who?", "I.", "It.")
    options = SentenceOptions(**OPTIONS, **columns, score_column="s").with_defaults()
    assert [pair.score for pair in read_pairs(options, "train")] == [0.5, 2]
    for change, message in [
        ({"score_column": "a"}, "a.tsv:2: column 'a' contains 'I.', not a number"),
        ({"score_column": "b"}, "a.tsv:2: no column 'b'; the columns are 'q', 'a', 'wrong', 's'"),
        ({"train_file": None}, "`train_file`: a table is required"),
    ]:
        error = refusal(read_pairs, dataclasses.replace(options, **change), "train")
        assert error.removeprefix(f"{tmp_path}/") == message


def test_sts_b_is_read_as_published(tmp_path):
    header = ("index", "sentence1", "sentence2", "score")
    write(tmp_path / "STS-B" / "train.tsv", [header, ("0", "A cat.", "A dog.", "2.5")])
    write(tmp_path / "STS-B" / "test.tsv", [header[:3], ("0", "A cat.", "A dog.")])
    options = SentenceOptions(
        output_dir="out", do_train=True, task_name="sts-b", data_dir=str(tmp_path)
    )
    options.check()
    assert read_pairs(options, "train")[0][1:] == ("A cat.", "A dog.", None, 2.5)
    assert read_pairs(options, "predict")[0].score is None
    with pytest.raises(InputError, match="contains no .*/STS-B/dev.tsv or"):
        read_pairs(options, "eval")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({**FILE, "micro_batch_size": 8}, "`micro_batch_size`=8: must be 0, since pairs are"),
        ({**FILE, "train_batch_size": 1}, "`train_batch_size`=1: must be at least 2, since"),
        ({"task_name": "sts-b", **FILE}, "`train_file`: needs `task_name`=table; sts-b reads"),
        ({"data_dir": "glue"}, "`data_dir`=glue: needs `task_name`=sts-b"),
        (
            {**FILE, "score_column": "s", "negative_column": "n"},
            "`negative_column` and `score_column` exclude each other",
        ),
    ],
)
def test_what_excludes_each_other_is_named(given, message):
    with pytest.raises(InputError, match=f"^{message}"):
        SentenceOptions(**OPTIONS, **given).check()
    # Scores are fitted one by one.
    SentenceOptions(**OPTIONS, **FILE, score_column="s", micro_batch_size=8).check()


@pytest.mark.integration
def test_conversion_keeps_how_vectors_are_made(tmp_path):
    settings = {"pooling": "cls", "max_seq_length": 10}
    folder, texts = write_trained(tmp_path / "trained", "encoder"), ["a cat", "b", "abc " * 9]
    weights = open_weights(folder)
    assert possible_heads(weights, folder) == ["encoder"]
    (tmp_path / "trained/sentences.json").write_text(json.dumps({**settings, "text_column": "q"}))
    assert possible_heads(weights, folder) == ["sentences"]
    vectors = SentenceEncoder.from_preset(folder).encode(texts)
    means = SentenceEncoder.from_preset(folder, pooling="mean").encode(texts)
    assert abs(vectors - means).max() > 0.01
    for number, to in enumerate(["jax", "huggingface", "google"]):
        converted = str(tmp_path / to)
        convert(ConvertOptions(input=folder, output=converted, to_format=to))
        encoder = SentenceEncoder.from_preset(converted)
        np.testing.assert_allclose(encoder.encode(texts), vectors, atol=1e-6)
        folder = converted if number else folder
    # So does sentence-transformers read them; it writes no settings of ours.
    huggingface = tmp_path / "huggingface"
    modules = json.loads((huggingface / "modules.json").read_text())
    assert [each["path"] for each in modules] == ["", "1_Pooling"]
    (huggingface / "sentences.json").unlink()
    assert read_settings_in(str(huggingface)) == settings
    encoder = SentenceEncoder.from_preset(str(huggingface))
    np.testing.assert_allclose(encoder.encode(texts), vectors, atol=1e-6)
    pooling = huggingface / "1_Pooling/config.json"
    pooling.write_text('{"pooling_mode": "cls"}')  # of version 6
    (huggingface / "sentence_bert_config.json").unlink()
    assert read_settings_in(str(huggingface)) == {**settings, "max_seq_length": 16}
    pooling.write_text('{"pooling_mode_max_tokens": true}')
    with pytest.raises(InputError, match="pools by pooling_mode_max_tokens; must be mean or cls"):
        read_settings_in(str(huggingface))
    (huggingface / "p").mkdir()
    (huggingface / "p" / "config.json").write_text('{"pooling_mode": "mean"}')
    modules[1]["path"] = "p"
    (huggingface / "modules.json").write_text(json.dumps(modules))
    assert read_settings_in(str(huggingface))["pooling"] == "mean"
    (huggingface / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    (huggingface / "sentence_bert_config.json").write_text('{"do_lower_case": true}')
    assert "do_lower_case=true: must be false" in refusal(read_settings_in, str(huggingface))
    modules[1]["type"] = "sentence_transformers.models.Dense"
    (huggingface / "modules.json").write_text(json.dumps(modules))
    assert "module Dense: must be one of Transf" in refusal(read_settings_in, str(huggingface))
