"""Reports and the page of attention can be read on a phone, in light and dark."""

import pytest

from albert_tf.analysis import attention
from albert_tf.analysis.analysis_options import AttentionOptions
from tests.support.browser import faults, phone

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def page():
    with phone() as page:  # skips where there is no browser, before anything is trained
        yield page


def test_the_report_of_pretraining_and_the_attention_page(page, pretrained, tmp_path):
    text = "The unbreakable cat sat on the mat."
    attention.run(AttentionOptions(model=str(pretrained), text=text, output_dir=str(tmp_path)))
    assert not faults(page, pretrained / "report.html", tmp_path / "attention.html")
