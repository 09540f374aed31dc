"""The notebooks run from top to bottom, and their stored outputs are those of a complete run."""

import json
import os
import re

import pytest

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))

# What the tests change in the cell with the tag `parameters`, to take seconds instead of minutes.
PARAMETERS: dict[str, dict] = {
    "1_from_weights_to_a_classifier": {"PER_LABEL": 8, "EPOCHS": 1},
    "2_pretrain_on_your_own_text": {
        "YOUR_TEXT": f"{ROOT}/docs/*.md",
        "MEGABYTES": 0.2,
        "VOCAB_SIZE": 400,
        "STEPS": 2,
    },
    "3_inside_your_own_keras_model": {"EXAMPLES": 20, "EPOCHS": 1},
    "4_attention_and_layers": {},
    "5_question_answering_with_an_export": {"EXAMPLES": 20, "EPOCHS": 1},
}


def test_every_notebook_is_tested():
    assert [path.stem for path in NOTEBOOKS] == [*PARAMETERS]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stored_outputs_are_complete_and_of_no_machine(path):
    text = path.read_text("utf-8")
    code = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == [*range(1, len(code) + 1)]
    outputs = [output for cell in code for output in cell["outputs"]]
    assert "error" not in {output["output_type"] for output in outputs}
    assert any("image/png" in output.get("data", {}) for output in outputs) or path.stem[0] == "5"
    assert {key for cell in code for key in cell["metadata"]} <= {"tags"}
    assert not re.search(r"(/home/|/root/|/tmp/|site-packages)", text)
    assert str(ROOT) not in text
    install = "".join(code[0]["source"])
    assert "google.colab" in install
    assert "%pip install -q" in install


@pytest.mark.slow
def test_the_notebooks_run(tmp_path, monkeypatch):
    """One after the other in one process, which loads TensorFlow once and forgets all names."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    from tests.support.models import write_published

    write_published(f"{tmp_path}/published")
    monkeypatch.setenv("ALBERT_WEIGHTS", f"{tmp_path}/published")
    monkeypatch.setenv("MPLBACKEND", "module://matplotlib_inline.backend_inline")
    monkeypatch.setenv("PYTHONPATH", str(ROOT), prepend=os.pathsep)
    together = nbformat.v4.new_notebook()
    for path in NOTEBOOKS:
        folder = tmp_path / path.stem
        folder.mkdir()
        cells = nbformat.read(path, as_version=4).cells
        at = [cell.metadata.get("tags") == ["parameters"] for cell in cells].index(True)
        lines = [f"{name} = {value!r}" for name, value in PARAMETERS[path.stem].items()]
        cells.insert(at + 1, nbformat.v4.new_code_cell("\n".join(lines)))
        start = nbformat.v4.new_code_cell(f"%reset -f\n%cd -q {folder}")
        together.cells += [start, *cells]
    resources = {"metadata": {"path": str(tmp_path)}}
    nbclient.NotebookClient(
        together, timeout=600, kernel_name="python3", resources=resources
    ).execute()
