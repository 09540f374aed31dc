"""Every analysis as a user runs it, in one process."""

import base64
import json
import pathlib
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

from albert_tf.analysis import __main__ as command
from albert_tf.analysis.__main__ import ANALYSES, run_analysis
from albert_tf.analysis.analysis_options import labeled_models
from albert_tf.analysis.attention import attention_page
from albert_tf.analysis.layers import LayerDistances, picture
from albert_tf.errors import InputError
from tests.support.html import Reader
from tests.support.models import write_trained

HOSTILE = ["[CLS]", "</script><script>alert(1)", "<img src=x onerror=alert(1)>", '"&\u2028']


def test_the_page_escapes_all_text():
    weights = np.full((2, 3, 4, 4), 0.25)
    weights[1, 2, 3] = [0.5, 0, 0.125, 0.375]
    tables = {"<entropy>": np.arange(6.0).reshape(2, 3)}
    text = attention_page("<script>model", HOSTILE, weights, tables, ["</script>"] * 6)
    page = Reader(text)
    assert [name for name, _ in page.elements].count("script") == 2
    assert not {"img", "link", "iframe"} & page.names()
    assert not any(key.startswith("on") for _, attributes in page.elements for key in attributes)
    assert "https://" not in text
    for shown in (*HOSTILE[:3], "Attention of <script>model", "<entropy>", "5.00"):
        assert shown in page.text
    data = json.loads(re.search(r'id="data">(.*?)</script>', text, re.DOTALL)[1])
    assert data["tokens"] == HOSTILE
    stored = np.frombuffer(base64.b64decode(data["weights"]), "<u2").reshape(weights.shape)
    np.testing.assert_allclose(stored / data["scale"], weights, atol=1e-5)


def test_labels_of_models(tmp_path):
    names = ("a=out/albert", "org/name", str(tmp_path))
    assert labeled_models(names) == {
        "a": "out/albert",
        "name": "org/name",
        tmp_path.name: str(tmp_path),
    }
    with pytest.raises(InputError, match="`model`=out/name: name is already the label of org/name"):
        labeled_models(["org/name", "out/name"])
    with pytest.raises(InputError, match="`model`=a=: must be a name of a model, or LABEL=NAME"):
        labeled_models(["a="])


def run(name: str, folder: pathlib.Path, **flags) -> dict:
    """Return the JSON file of an analysis."""
    options = ANALYSES[name][0](output_dir=str(folder / "out"), **flags)
    run_analysis(name, options)
    return json.loads((folder / "out" / f"{name}.json").read_text())


@pytest.mark.integration
def test_every_analysis_of_a_training_folder(tmp_path, capsys, monkeypatch):
    trained = write_trained(tmp_path / "trained")
    (tmp_path / "text.txt").write_text("a cat\n\nb c\n")
    models = (f"x={trained}", f"y&<={trained}")
    both = run("layers", tmp_path, model=models, input_file=str(tmp_path / "text.txt"))["models"]
    assert [each["label"] for each in both] == ["x", "y&<"]
    assert both[0]["l2"] == both[1]["l2"]
    assert both[0]["tokens"] == 6 + 4
    assert "no picture is drawn: with one layer, there is no curve\n" in capsys.readouterr().out
    two = LayerDistances(np.ones(2), np.ones(2), np.zeros(2), 1)
    svg = ElementTree.fromstring(picture({"y&<": two}))
    assert "y&<" in "".join(svg.itertext())
    assert "prefers-color-scheme: dark" in "".join(svg.itertext())

    found = run("attention", tmp_path, model=trained, text="a", text_pair="[MASK]")
    assert "\nif uniform         1.609  0.200  0.400 " in capsys.readouterr().out
    assert found["tokens"] == ["[CLS]", "a", "[SEP]", "[MASK]", "[SEP]"]
    assert np.shape(found["statistics"]["entropy"]) == (1, 2)
    assert "script" in Reader((tmp_path / "out" / "attention.html").read_text()).names()

    flags = {"model": f"{trained}/albert_config.json", "text": "a [MASK]"}
    run("attention", tmp_path, **flags)
    with pytest.raises(InputError, match="`model`=base_v2: is a config without weights"):
        run("attention", tmp_path, **{**flags, "model": "base_v2"})
    run("parameters", tmp_path, model=("base_v2",))
    assert "wrote parameters.json, parameters.svg to " in capsys.readouterr().out

    monkeypatch.setattr("sys.argv", ["albert-analyze", "heads"])
    with pytest.raises(SystemExit):
        command.cli()
    assert capsys.readouterr().err == (
        "albert-analyze: error: heads: the first word must be one of layers, attention, "
        "parameters\n"
    )
