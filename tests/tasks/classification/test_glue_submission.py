"""What GLUE's server takes, gathered from the folders of the tasks."""

import dataclasses
import zipfile

import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.classification import glue_submission
from albert_tf.tasks.classification.glue_submission import SubmissionOptions, gather
from tests.conftest import run_python


@pytest.fixture
def rows(monkeypatch):
    """Test sets of three rows and two tasks, instead of hundreds of thousands."""
    rows = {"CoLA.tsv": 3, "AX.tsv": 2}
    monkeypatch.setattr(glue_submission, "SUBMISSION_ROWS", rows)
    return rows


def write(folder, name, count, header="index\tprediction"):
    folder = folder / "submission"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [header, *(f"{row}\t1" for row in range(count))]
    (folder / name).write_text("".join(f"{line}\n" for line in lines))


@pytest.fixture
def options(tmp_path):
    return SubmissionOptions(output_dirs=(f"{tmp_path}/*",), submission_file=f"{tmp_path}/glue.zip")


@pytest.mark.slow
def test_as_a_command(tmp_path):
    write(tmp_path / "wnli", "WNLI.tsv", glue_submission.SUBMISSION_ROWS["WNLI.tsv"])
    words = ("-m", "albert_tf.tasks.classification.glue_submission", f"--output_dirs={tmp_path}/*")
    done = run_python(*words, f"--submission_file={tmp_path}/glue.zip", "--incomplete")
    assert done.returncode == 0, done.stderr
    with zipfile.ZipFile(tmp_path / "glue.zip") as file:
        assert file.namelist() == ["WNLI.tsv"]


def test_all_files_in_one(rows, options, tmp_path, capsys):
    write(tmp_path / "cola", "CoLA.tsv", 3)
    write(tmp_path / "mnli", "AX.tsv", 2)
    gather(options)
    with zipfile.ZipFile(options.submission_file) as file:
        assert sorted(file.namelist()) == ["AX.tsv", "CoLA.tsv"]
        assert file.read("AX.tsv") == b"index\tprediction\n0\t1\n1\t1\n"
    assert "missing" not in capsys.readouterr().out
    first = (tmp_path / "glue.zip").read_bytes()
    gather(options)
    assert (tmp_path / "glue.zip").read_bytes() == first


def test_what_is_missing_is_named(rows, options, tmp_path, capsys):
    write(tmp_path / "cola", "CoLA.tsv", 3)
    with pytest.raises(InputError, match="no AX.tsv; the server accepts only all"):
        gather(options)
    assert not (tmp_path / "glue.zip").exists()
    gather(dataclasses.replace(options, incomplete=True))
    assert "missing: AX.tsv" in capsys.readouterr().out
    with zipfile.ZipFile(options.submission_file) as file:
        assert file.namelist() == ["CoLA.tsv"]


def test_what_the_server_would_refuse_is_named(rows, options, tmp_path):
    def message(**changes):
        with pytest.raises(InputError) as error:
            gather(dataclasses.replace(options, **changes))
        return str(error.value)

    (tmp_path / "empty").mkdir()
    assert "no submission/*.tsv in any" in message()
    write(tmp_path / "mnli", "AX.tsv", 2)
    write(tmp_path / "cola", "CoLA.tsv", 4)
    assert "CoLA.tsv: 4 predictions; the server expects 3" in message()
    write(tmp_path / "cola", "CoLA.tsv", 3, header="id\tlabel")
    assert "CoLA.tsv:1: must be" in message()
    write(tmp_path / "other", "CoLA.tsv", 3)
    assert "`output_dirs`: both " in message()
    assert "no file matches" in message(output_dirs=(f"{tmp_path}/nowhere",))
    assert "must end in .zip" in message(submission_file="glue.tar")
    assert not (tmp_path / "glue.zip").exists()
