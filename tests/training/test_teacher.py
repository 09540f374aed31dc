"""What a student learns from a teacher: losses by their formulas, gradients by differences."""

import dataclasses
import re
import types

import numpy as np
import pytest
from keras import ops
from scipy.spatial import distance
from scipy.special import log_softmax, softmax

from albert_tf.modeling.heads import AlbertForPreTraining
from albert_tf.modeling.losses import PretrainingObjective
from albert_tf.training import teacher
from albert_tf.training.folder import START_FILE, start_file, warn_of_changes
from albert_tf.training.options import PretrainingOptions
from tests.conftest import refusal
from tests.support.backends import forward, gradient_function
from tests.support.models import keras_file
from tests.support.oracle import Oracle, random_weights
from tests.support.tiny import CONFIG, LENGTH, batch

pytestmark = pytest.mark.integration

STUDENT = dataclasses.replace(CONFIG, num_hidden_layers=2, intermediate_size=24)
TEACHER = dataclasses.replace(
    CONFIG, embedding_size=48, hidden_size=48, num_attention_heads=4, num_hidden_groups=2
)
TOKENS = 3


def model(config, seed: int):
    built = AlbertForPreTraining(config)
    shapes = {weight.path: tuple(weight.shape) for weight in built.weights}
    values = random_weights(shapes, seed)
    for weight in built.weights:
        weight.assign(values[weight.path])
    return built, Oracle(config, values)


def taught(student, model, predicts_tokens: bool = True):
    built = teacher.TaughtModel(student, teacher._Teacher(model, predicts_tokens))
    return built, teacher.TaughtObjective(PretrainingObjective("sop"), predicts_tokens)


def relations(oracle, ids, mask, segments, heads):
    """Return log relations of queries, keys and values `[seq, seq]`, for each relation head."""
    hidden = oracle.encode(ids, mask, segments)[-2]
    group = oracle.config.num_hidden_groups - 1
    scope = f"bert/encoder/transformer/group_{group}/inner_group_0/attention_1/self"
    for name in ("query", "key", "value"):
        for part in np.split(oracle.dense(f"{scope}/{name}", hidden), heads, axis=1):
            scores = part @ part.T / np.sqrt(part.shape[1])
            yield log_softmax(np.where(mask > 0, scores, -np.inf), axis=-1)


def expected_losses(student, model, projection, examples) -> dict[str, float]:
    """Return the losses of arXiv 2012.15828, 1910.01108 and 1503.02531, one token at a time."""
    totals = dict.fromkeys(("relation", "hidden", "masked_lm"), 0.0)
    rows = zip(
        *(examples[name] for name in ("input_ids", "input_mask", "segment_ids")), strict=True
    )
    for number, row in enumerate(rows):
        mask = row[1]
        pairs = zip(*(relations(each, *row, heads=2) for each in (model, student)), strict=True)
        for of_teacher, of_student in pairs:
            for token in np.flatnonzero(mask):
                known = np.flatnonzero(mask)
                truth = of_teacher[token][known]
                gain = truth - of_student[token][known]
                totals["relation"] += np.sum(np.exp(truth) * gain) / 2
        last, ours = (each.encode(*row)[-1] for each in (model, student))
        mapped = ours @ projection[0] + projection[1]
        angles = [distance.cosine(*pair) for pair in zip(mapped, last, strict=True)]
        totals["hidden"] += np.sum(angles, where=mask > 0)
        at, weights = (examples[f"masked_lm_{name}"][number] for name in ("positions", "weights"))
        logits, ours = (each.masked_lm(x, at) for each, x in ((model, last), (student, ours)))
        divergence = softmax(logits, -1) * (log_softmax(logits, -1) - log_softmax(ours, -1))
        totals["masked_lm"] += np.sum(divergence.sum(axis=-1) * weights)
    tokens, masked = examples["input_mask"].sum(), examples["masked_lm_weights"].sum()
    counts = {"relation": tokens, "hidden": tokens, "masked_lm": masked}
    return {f"teacher_{part}_loss": total / counts[part] for part, total in totals.items()}


def test_losses_are_those_of_the_papers_whatever_the_widths():
    (student, of_student), (other, of_teacher) = model(STUDENT, 1), model(TEACHER, 2)
    built, objective = taught(student, other)
    random = np.random.default_rng(0)
    projection = [random.normal(0, 0.3, shape) for shape in ((16, 48), 48)]
    built.projection.set_weights(projection)
    examples = batch(TOKENS)
    outputs = forward(built, examples)
    sums, weights = objective.sums(outputs, examples), objective.weights(examples)
    expected = expected_losses(of_student, of_teacher, projection, examples)
    for name, value in expected.items():
        found = float(sums[name]) / float(weights[name.removesuffix("_loss")])
        assert found == pytest.approx(value, rel=1e-4), name
    plain = PretrainingObjective("sop")
    own = forward(student, examples)
    total = plain.loss(plain.sums(own, examples), plain.weights(examples))
    expected_total = float(total) + sum(expected.values())
    assert float(objective.loss(sums, weights)) == pytest.approx(expected_total, rel=1e-4)
    # Without that head, masked tokens and pairs are left out, and the text has no masks.
    built, alone = taught(student, other, predicts_tokens=False)
    built.projection.set_weights(projection)
    found = alone.loss(alone.sums(forward(built, examples), examples), alone.weights(examples))
    ids = examples["input_ids"].copy()
    for row, column in np.argwhere(examples["masked_lm_positions"] > 0):
        place = examples["masked_lm_positions"][row, column]
        ids[row, place] = examples["masked_lm_ids"][row, column]
    assert (ids != examples["input_ids"]).any()
    text = {**examples, "input_ids": ids}
    expected = expected_losses(of_student, of_teacher, projection, text)
    del expected["teacher_masked_lm_loss"]
    assert float(found) == pytest.approx(sum(expected.values()), rel=1e-4)


@pytest.mark.parametrize(
    ("widths", "heads"),
    [((768, 768), 48), ((768, 384), 48), ((1024, 384), 64), ((384, 384), 24), ((312, 768), 12)],
)
def test_relation_heads_have_the_size_of_the_paper_where_both_widths_divide(widths, heads):
    assert teacher.relation_heads(*widths) == heads


def test_a_student_that_is_its_teacher_has_nothing_to_learn():
    (student, _), (other, _) = model(TEACHER, 3), model(TEACHER, 3)
    built, objective = taught(student, other)
    assert built.projection is None
    examples = batch(TOKENS)
    sums = objective.sums(forward(built, examples), examples)
    learned = {name: float(value) for name, value in sums.items() if name.startswith("teacher")}
    assert learned == pytest.approx(dict.fromkeys(learned, 0.0), abs=1e-4)
    assert len(learned) == 3


def test_gradients_are_those_of_the_student_alone():
    (student, _), (other, _) = model(STUDENT, 1), model(TEACHER, 2)
    built, objective = taught(student, other)
    trained = {weight.path for weight in built.weights}
    extra = {"teacher_projection/kernel", "teacher_projection/bias"}
    assert trained == {weight.path for weight in student.weights} | extra

    def loss(outputs, examples):
        value = objective.loss(objective.sums(outputs, examples), objective.weights(examples))
        return value, value

    examples = {name: ops.convert_to_tensor(value) for name, value in batch(TOKENS).items()}
    differentiate = gradient_function(built, loss)
    _, gradients = differentiate(examples)
    random, step = np.random.default_rng(0), 1e-3
    ways = [random.normal(0, 1, weight.shape) for weight in built.trainable_variables]
    slope = sum(np.vdot(way, np.asarray(each)) for way, each in zip(ways, gradients, strict=True))
    values = []
    for sign in (1, -1):
        for weight, way in zip(built.trainable_variables, ways, strict=True):
            weight.assign_add((sign * step * way).astype("float32"))
        values.append(float(differentiate(examples)[0]))
        for weight, way in zip(built.trainable_variables, ways, strict=True):
            weight.assign_sub((sign * step * way).astype("float32"))
    assert (values[0] - values[1]) / (2 * step) == pytest.approx(slope, rel=2e-2)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"vocab_size": 61}, "has vocab_size 61, but the student needs 60"),
        ({"vocab_size": 59}, "has vocab_size 59, but the student needs 60"),
        ({"type_vocab_size": 1}, "has type_vocab_size 1, but the student needs 2"),
        ({"max_position_embeddings": 8}, f"has max_position_embeddings 8, but .* {LENGTH}"),
    ],
)
def test_a_teacher_that_cannot_read_the_examples_is_refused(changes, message, monkeypatch):
    opened = types.SimpleNamespace(config=dataclasses.replace(TEACHER, **changes))
    monkeypatch.setattr(teacher, "open_weights", lambda path: opened)
    lengths = {"max_seq_length": LENGTH, "max_predictions_per_seq": 4}
    options = PretrainingOptions(output_dir="out", teacher="bert", do_train=True, **lengths)
    found = refusal(teacher.find_teacher, options, CONFIG)
    assert re.match(f"`teacher`=bert: {message}$", found), found
    assert teacher.find_teacher(dataclasses.replace(options, do_train=False), CONFIG) is None


def test_other_weights_of_a_teacher_are_noticed(tmp_path, caplog):
    path, out = str(keras_file(tmp_path / "teacher", model(TEACHER, 1)[0])), tmp_path / "out"
    options = PretrainingOptions(output_dir=str(out), teacher=path)
    before = teacher.teacher_identity(options)
    out.mkdir()
    (out / START_FILE).write_text(start_file(options, "x", before)[START_FILE])
    for seed, said in ((1, ""), (2, f"{out}: since the last start, the teacher has other weights")):
        keras_file(tmp_path / "teacher", model(TEACHER, seed)[0])
        warn_of_changes(options, "x", 5, teacher.teacher_identity(options))
        assert "".join(caplog.messages) == said
