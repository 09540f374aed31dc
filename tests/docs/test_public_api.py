"""Every public name has a docstring, an example that runs, and an entry on the overview page."""

import doctest
import importlib.util
import inspect
import logging
import re
from unittest import mock

import keras
import numpy as np
import pytest

import albert_tf
from albert_tf.training.pretraining_tasks import PRETRAINING_TASKS
from tests.conftest import ROOT
from tests.support import published as published_weights


@pytest.fixture(scope="module")
def published(tmp_path_factory) -> str:
    folder = str(tmp_path_factory.mktemp("hub") / "published")
    published_weights.write_published(folder)
    return folder


@pytest.mark.integration
def test_the_snippet_of_the_readme_runs_as_it_stands(published):
    text = (ROOT / "README.md").read_text("utf-8")
    snippet = re.search(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)[1]
    assert published_weights.NAME in snippet
    names: dict = {}
    exec(snippet.replace(published_weights.NAME, published), names)
    assert list(names["classifier"].labels) == sorted({*names["labels"]})


@pytest.mark.slow
def test_every_public_name_has_an_example_that_runs(published, capsys, caplog):
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE, verbose=False)
    known = {"albert_tf": albert_tf, "keras": keras, "np": np}
    parser, without = doctest.DocTestParser(), []
    caplog.set_level(logging.WARNING, "albert_tf")  # notes are no results of an example
    with mock.patch.dict(PRETRAINING_TASKS):
        for name in albert_tf.__all__:
            text = inspect.getdoc(getattr(albert_tf, name)) or ""
            _, _, example = text.partition("\nExample:\n")
            text = text.replace(published_weights.NAME, published)
            test = parser.get_doctest(text, dict(known), name, None, 0)
            if not example or not test.examples:
                without.append(name)
            runner.run(test)
    assert not runner.summarize(verbose=False).failed, capsys.readouterr().out
    assert not without, f"no section `Example:` with lines of >>>: {', '.join(without)}"


def test_the_page_of_all_names_is_up_to_date():
    spec = importlib.util.spec_from_file_location("public_api", ROOT / "docs" / "public_api.py")
    public_api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(public_api)
    listed = [name for names in public_api.groups().values() for name in names]
    assert sorted(listed) == albert_tf.__all__
    undocumented = [n for n in listed if not public_api.purpose(getattr(albert_tf, n))]
    assert not undocumented
    page = public_api.PAGE.read_text("utf-8")
    assert page == public_api.page(), "outdated: run `python -m docs.public_api`"
