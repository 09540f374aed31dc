"""Studies are declared correctly, and what is made of their results is right."""

import dataclasses
import math

import numpy as np
import pytest
import scipy.stats

from albert_tf.errors import InputError
from albert_tf.options import flag_name
from albert_tf.training.options import PretrainingOptions
from data_prep.pretraining_data_options import PretrainingDataOptions
from experiments import pictures
from experiments.results import Difference, Estimate, Row, agreement, findings, table
from experiments.runs import Run, by_formula, config_of
from experiments.scales import SCALES
from experiments.studies import STUDIES, find_study
from experiments.study import MASKED_LM, OWN, Study
from experiments.workspace import Corpus, Workspace

DATA_FLAGS = {flag_name(field) for field in dataclasses.fields(PretrainingDataOptions)}
TRAINING_FLAGS = {flag_name(field) for field in dataclasses.fields(PretrainingOptions)}


@pytest.mark.parametrize("scale", SCALES.values(), ids=SCALES)
@pytest.mark.parametrize("name", STUDIES)
def test_a_study_asks_for_models_and_flags_that_exist(name, scale, tmp_path):
    study = find_study(name)
    workspace = Workspace(str(tmp_path), scale, Corpus((), "books", 0.1))
    variants = study.variants(scale)
    assert len({variant.name for variant in variants}) == len(variants)
    for variant in variants:
        assert config_of(workspace, variant).parameter_count() > 0
        assert set(variant.data) | set(scale.data) <= DATA_FLAGS
        assert set(variant.training) | set(scale.training) <= TRAINING_FLAGS
    for column in study.columns:
        assert column.on in (None, OWN, *study.evaluate_on)
    assert study.compared in study.columns
    assert len({pictures.name_of(each) for each in study.pictures}) == len(study.pictures)
    if study.reference is not None:
        assert study.reference in {variant.name for variant in variants}


def test_the_papers_sizes_have_the_papers_parameters(tmp_path):
    """Tables 2 to 4 round to millions; xlarge and xxlarge are explained in docs/analysis.md."""
    workspace = Workspace(str(tmp_path), SCALES["paper"], Corpus((), "books", 0.1))
    for name in ("embedding_size", "sharing", "speed"):
        for variant in find_study(name).variants(workspace.scale):
            stated = variant.paper.get("parameters")
            if stated is None or stated in ("60M", "235M"):
                continue
            ours = by_formula(workspace, variant)["parameters"]
            assert ours == pytest.approx(float(stated.removesuffix("M")), abs=1.1), variant.name


def test_unknown_studies_are_refused(tmp_path):
    with pytest.raises(InputError, match="must be one of data, depth"):
        find_study("deepness")
    empty = tmp_path / "empty.py"
    empty.write_text("")
    with pytest.raises(InputError, match="does not assign a Study"):
        find_study(str(empty))


def test_intervals_are_those_of_student_and_welch():
    one, other = [0.30, 0.32, 0.31], [0.25, 0.27, 0.23]
    estimate = Estimate.of(one)
    error = np.std(one, ddof=1) / math.sqrt(3)
    assert estimate.margin == pytest.approx(scipy.stats.t.ppf(0.975, 2) * error)
    difference = Difference.of(one, other)
    assert difference.value == pytest.approx(0.06)
    assert difference.is_clear == (scipy.stats.ttest_ind(one, other, equal_var=False).pvalue < 0.05)
    assert Difference.of(one, [0.1]) is None
    # A constant has no spread: the interval is that of the other values.
    constant = Difference.of(one, [0.25] * 3)
    assert constant.low == pytest.approx(estimate.low - 0.25)
    assert Difference.of([0.25] * 3, one).high == pytest.approx(0.25 - estimate.low)
    assert math.isnan(Estimate.of([0.3]).margin)


def _study(**changes) -> Study:
    fields = {"title": "T", "source": "s", "question": "q?", "variants": lambda scale: ()}
    return Study(**{**fields, "columns": (MASKED_LM,), **changes})


def _row(name: str, mean: float, average: float | None = None, spread: float = 0.001) -> Row:
    values = {MASKED_LM.heading: [mean - spread, mean, mean + spread]}
    return Row(name, values, (), {} if average is None else {"Avg": average})


def test_what_disagrees_with_the_paper_is_said():
    rows = [_row("a", 0.3, 80.0), _row("b", 0.2, 79.0), _row("c", 0.4, 78.0), _row("d", 0.4)]
    found = agreement(_study(), rows)
    assert (found.pairs, found.clear, found.agree) == (3, 3, 1)
    assert found.disagree == [("c", "a"), ("c", "b")]
    assert "“c” is better than “a”" in findings(_study(), rows)
    noisy = [_row("a", 0.30, 80.0, 0.1), _row("b", 0.29, 79.0, 0.1)]
    assert findings(_study(), noisy).startswith("No two models differ")
    assert table(_study(), noisy).splitlines()[3].endswith("| (-1) |")


def test_a_head_that_was_not_trained_has_chance_in_its_place(tmp_path, monkeypatch):
    study = find_study("sentence_order")
    workspace = Workspace(str(tmp_path), SCALES["tiny"], Corpus((), "books", 0.1))
    monkeypatch.setattr(Workspace, "text_digest", lambda self: "text")
    monkeypatch.setattr(Run, "train", lambda self: None)
    monkeypatch.setattr(Run, "_trained", lambda self: {})
    accuracies = ("masked_lm_accuracy", "next_sentence_accuracy", "sentence_order_accuracy")
    monkeypatch.setattr(Run, "_evaluated", lambda self, flags: dict.fromkeys(accuracies, 0.75))
    rows = [
        Row.of(each, study.columns, {}, [Run(workspace, each, 0).measured(study)] * 2)
        for each in study.variants(workspace.scale)
    ]
    text = table(study, rows)
    assert "| none | 75 | 50.0 (chance) | 50.0 (chance) |" in text
    assert "| SOP | 75 | 75 | 75 |" in text
