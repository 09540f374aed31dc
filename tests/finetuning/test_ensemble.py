"""Ensembles: what is averaged, against plain loops; what does not fit together is named."""

import contextlib
import dataclasses
import itertools
import shutil

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, softmax

from albert_tf.errors import InputError
from albert_tf.finetuning.command import check_early, member_options
from albert_tf.finetuning.task import mean_log_odds, mean_log_probabilities
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.question_answering.spans import mean_of_spans
from tests.conftest import random_inputs
from tests.support.finetuning import options_of, write_files

POSITION, STARTS, ENDS = 3, 3, 2  # the first token of the context; what a model proposes


@random_inputs(20)
@given(st.integers(0, 2**32 - 1), st.sampled_from([1.0, 30.0, 1000.0]))
def test_probabilities_are_averaged(seed, scale):
    random = np.random.default_rng(seed)
    logits = [(scale * random.normal(size=(4, 3))).astype(np.float32) for _ in range(3)]
    wide = [each.astype(np.float64) for each in logits]
    found = softmax(mean_log_probabilities(logits), axis=-1)
    np.testing.assert_allclose(found, np.mean([softmax(w, -1) for w in wide], 0), atol=1e-12)
    found = expit(mean_log_odds(logits))
    np.testing.assert_allclose(found, np.mean([expit(w) for w in wide], 0), atol=1e-12)


def proposals(random: np.random.Generator, windows: int) -> dict[str, np.ndarray]:
    """Return what a conditional head computes: distinct starts, distinct ends of each."""
    length = POSITION + 6

    def indexes(count: int) -> np.ndarray:
        # Without [CLS], the span that pads rows with fewer spans.
        return 1 + np.array([random.permutation(length - 1)[:count] for _ in range(windows)])

    def scores(count: int) -> np.ndarray:
        return np.log(random.dirichlet(np.ones(count + 1), windows)[:, :count])

    return {
        "start_top_index": indexes(STARTS),
        "start_top_log_probs": scores(STARTS),
        "end_top_index": np.concatenate([indexes(ENDS) for _ in range(STARTS)], axis=1),
        "end_top_log_probs": np.concatenate([scores(ENDS) for _ in range(STARTS)], axis=1),
        "cls_logits": random.normal(size=windows),
    }


def spans_of(outputs: dict[str, np.ndarray], row: int) -> dict[tuple[int, int], float]:
    """Return probability of every span that a window has."""
    values = {name: each[row] for name, each in outputs.items()}
    ends = len(values["end_top_index"]) // len(values["start_top_index"])
    return {
        (values["start_top_index"][n // ends], end): np.exp(
            values["start_top_log_probs"][n // ends] + values["end_top_log_probs"][n]
        )
        for n, end in enumerate(values["end_top_index"])
    }


@random_inputs(20)
@given(st.integers(0, 2**32 - 1))
def test_spans_have_the_mean_of_their_probabilities(seed):
    random = np.random.default_rng(seed)
    models = [proposals(random, 2) for _ in range(3)]
    averaged = mean_of_spans(models)
    np.testing.assert_allclose(
        averaged["cls_logits"], np.mean([each["cls_logits"] for each in models], axis=0)
    )
    for row in range(2):
        singles = [spans_of(each, row) for each in models]
        found = spans_of(averaged, row)
        for span in {span for each in singles for span in each}:
            expected = sum(each.get(span, 0.0) for each in singles) / 3
            assert found.pop(span) == pytest.approx(expected, rel=1e-9)
        assert set(found) <= {(0, 0)}  # pads the shorter row


def test_folders_and_flags_that_do_not_suit_are_named(tmp_path):
    for name in ("seed-1", "seed-2", "best"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "checkpoint").touch()
    (tmp_path / "grid.tsv").touch()
    options = ClassificationOptions(
        output_dir=str(tmp_path / "both"), do_eval=True, ensemble=(f"{tmp_path}/*",)
    )
    folders = [each.output_dir for each in member_options(options)]
    assert folders == [f"{tmp_path}/seed-1", f"{tmp_path}/seed-2"]

    def message(**changes) -> str:
        changed = dataclasses.replace(options, **changes)
        try:
            check_early(changed)
        except InputError as error:
            return str(error)
        return "accepted"

    one, same = f"{tmp_path}/seed-1", f"{tmp_path}/seed-[1]"
    assert "needs at least two models" in message(ensemble=(one, same, f"{one}/"))
    assert message(ensemble=(one, "no")) == "`ensemble`=no: no folder with a trained model"
    assert "no folder with a trained model matches" in message(ensemble=("no-*",))
    assert message(do_train=True).startswith("`do_train`: cannot be combined with `ensemble`")
    assert "an ensemble reads files only" in message(do_predict=True, predict_file="-")
    assert "which `ensemble` only reads" in message(eval_checkpoints="all")


USES = {
    "a single model": ("checkpoint", {}),
    "several runs": ("seeds.json", {"seeds": 2}),
    "a cross-validation": ("folds.json", {"folds": 2, "eval_file": None}),
    "an ensemble": ("ensemble.tsv", {"do_train": False, "ensemble": ("models/*",)}),
}


@pytest.mark.parametrize(("used", "asked"), [*itertools.product(USES, USES)])
def test_results_of_several_kinds_of_runs_are_not_mixed(tmp_path, monkeypatch, used, asked):
    monkeypatch.chdir(tmp_path)
    (file, _), (_, changes) = USES[used], USES[asked]
    write_files(tmp_path)
    for path in (
        f"out/{file}",
        "out/best/checkpoint",
        "models/1/checkpoint",
        "models/2/checkpoint",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    if asked == "an ensemble":
        changes = changes | dict.fromkeys(("albert_config_file", "vocab_file", "train_file"))
        for folder in ("1", "2"):
            shutil.copy("config.json", f"models/{folder}/albert_config.json")
    expected = contextlib.nullcontext()
    if used != asked:
        message = f"^`output_dir`=.*: contains {used}, whose results those of {asked} would replace"
        expected = pytest.raises(InputError, match=message)
    with expected:
        check_early(options_of(tmp_path, tmp_path / "out", **changes))
