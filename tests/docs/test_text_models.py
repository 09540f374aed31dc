"""The Python of docs/text-models.md runs, with tiny weights in place of published ones."""

from __future__ import annotations

import re

import pytest

from tests.conftest import ROOT
from tests.support.kinds_of_tasks import write_weights


@pytest.mark.slow
def test_the_page_runs(tmp_path, monkeypatch):
    page = (ROOT / "docs" / "text-models.md").read_text(encoding="utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    weights = write_weights(tmp_path)
    code = code.replace('"albert/albert-base-v2"', f'"{weights}", max_seq_length=16')
    code = code.replace(
        "QuestionAnswerer.from_preset(", "QuestionAnswerer.from_preset(max_query_length=8, name="
    )
    code = code.replace(
        "MultipleChoice.from_preset(", "MultipleChoice.from_preset(max_qa_length=8, name="
    )
    monkeypatch.chdir(tmp_path)
    variables: dict = {}
    exec(compile(code, "docs/text-models.md", "exec"), variables)
    answer = variables["answers"][0]
    assert variables["context"][answer.start : answer.end] == answer.text
    assert variables["classifier"].labels == ["negative", "positive"]
