"""Reports and the page of attention can be read on a phone, in light and dark."""

from __future__ import annotations

import pytest

from albert_tf.analysis import attention
from albert_tf.analysis.analysis_options import AttentionOptions
from albert_tf.finetuning.run import fine_tune
from tests.support.browser import faults, phone
from tests.support.kinds_of_tasks import CASES, TRAINS_ALIKE, write_weights

pytestmark = pytest.mark.slow

KINDS = ("classification_of_pairs", "question_answering_2", "multiple_choice", "tagging_of_texts")
# A name in which nothing breaks a line.
LONG = "unbreakable" * 12


@pytest.fixture(scope="module")
def page():
    with phone() as page:  # skips where there is no browser, before anything is trained
        yield page


@pytest.mark.parametrize("name", KINDS)
def test_the_report_of_a_kind_of_task(page, name, tmp_path):
    weights, case, out = write_weights(tmp_path), CASES[name](tmp_path), tmp_path / LONG
    options = {**TRAINS_ALIKE, **case.files, **case.settings, "eval_every_steps": 10}
    options_class = case.kind.load("options")
    fine_tune(
        options_class(output_dir=str(out), init_checkpoint=weights, **options),
        case.kind.load("task"),
    )
    assert not faults(page, out / "report.html")


def test_the_report_of_pretraining_and_the_attention_page(page, pretrained, tmp_path):
    text = "The unbreakable cat sat on the mat."
    attention.run(AttentionOptions(model=str(pretrained), text=text, output_dir=str(tmp_path)))
    assert not faults(page, pretrained / "report.html", tmp_path / "attention.html")
