"""A pretrained model on its way to other formats, and back into training, as a user would go."""

from __future__ import annotations

import dataclasses
import json
import pathlib
import shutil

import pytest

from albert_tf.errors import InputError
from albert_tf.tokenizers.normalization import Normalization, read_normalization
from tests.conftest import once
from tests.end_to_end.conftest import call, results_of, run
from tests.support.references import OWN_VOCABULARY

pytestmark = pytest.mark.integration

ONLY_WEIGHTS = ("--nopreprocess", "--nomeasure_latency")


@pytest.fixture(scope="module")
def formats(project, pretrained, shared_folder):
    """Return the pretrained model in every format, as the commands make it."""
    folder = shared_folder / "formats"
    paths = {
        "huggingface": folder / "huggingface",
        "google": folder / "google",
        "keras": folder / "keras" / "model.weights.h5",
    }
    once(folder, lambda: _write(paths, project, pretrained))
    return paths


def _write(paths, project, pretrained):
    def words(to: str, name: str, source: pathlib.Path) -> tuple[str, ...]:
        files = (
            f"--input={source}",
            f"--output={paths[name]}",
            f"--spm_model_file={project.model}",
        )
        return "convert_checkpoint.py", f"--to={to}", *files

    run(*words("huggingface", "huggingface", pretrained))
    call(*words("google", "google", pretrained))
    call(*words("albert_tf", "keras", paths["google"]))


@pytest.mark.slow
def test_pretraining_goes_on_from_an_export(project, pretrained, formats, tmp_path):
    """Of Keras weights, made of a checkpoint in the original's layout."""
    flags = (f"--init_checkpoint={formats['keras']}", f"--spm_model_file={project.model}")
    call("export_saved_model.py", *flags, f"--export_path={tmp_path}/export", *ONLY_WEIGHTS)
    flags = ("--do_train", "--do_eval", "--num_train_steps=1", "--learning_rate=0")
    words = project.pretrain_words(tmp_path / "out", f"--init_checkpoint={tmp_path}/export", *flags)
    assert ": 32 of 32 variables loaded\n" in call(*words)
    # A step of length zero later, it is the model that was converted.
    expected = {**results_of(pretrained), "global_step": 1}
    assert results_of(tmp_path / "out") == pytest.approx(expected, rel=1e-5)


def test_the_folder_for_hugging_face_says_what_is_known(project, pretrained, formats):
    card = (formats["huggingface"] / "README.md").read_text()
    results = (pretrained / "eval_results.txt").read_text().splitlines()
    for line in results:
        assert "| {} | {} |".format(*line.split(" = ")) in card
    assert "Training steps: 24." in card
    (manifest,) = json.loads((pretrained / "training_data.json").read_text()).values()
    assert f"{manifest['documents']:,}" in card
    assert manifest["vocabulary"]["sha256"] in card
    assert str(project.folder) not in card
    config = json.loads((formats["huggingface"] / "config.json").read_text())
    assert config["vocab_size"] == 600


def test_normalization_is_known_from_the_data(project, pretrained, formats, tmp_path):
    def recorded(folder):
        return read_normalization(str(folder))

    assert recorded(formats["huggingface"]) == Normalization(True, keep_accents=False)
    assert "| keep_accents | False |" in (formats["huggingface"] / "README.md").read_text()
    kept = tmp_path / "kept"
    shutil.copytree(pretrained, kept)
    data = json.loads((kept / "training_data.json").read_text())
    normalization = Normalization(False, keep_accents=True, unicode_form="NFKC")
    for manifest in data.values():
        manifest["vocabulary"]["normalization"] = dataclasses.asdict(normalization)
    (kept / "training_data.json").write_text(json.dumps(data))
    (tmp_path / "vocabulary.model").write_bytes(project.model.read_bytes())  # without its record
    for number, (target, flags) in enumerate(
        [("huggingface", ()), ("google", ()), ("huggingface", ("--do_lower_case",))]
    ):
        call(
            "convert_checkpoint.py", f"--to={target}", f"--input={kept}", *flags,
            f"--output={tmp_path}/{number}", f"--spm_model_file={tmp_path}/vocabulary.model",
        )  # fmt: skip
        expected = dataclasses.replace(normalization, do_lower_case=bool(flags))
        assert recorded(tmp_path / str(number)) == expected


def test_the_original_layout_holds_the_vocabulary(project, formats):
    assert (formats["google"] / "vocabulary.model").read_bytes() == project.model.read_bytes()
    assert (formats["google"] / "model.ckpt-24.index").exists()


def test_a_vocabulary_of_another_size_is_refused(project, pretrained, tmp_path):
    other = OWN_VOCABULARY
    # The text, that of this Python's help, decides which piece is the first to differ.
    message = r"piece \d+ is '.+', but '.+' in .* a larger vocabulary must begin with all pieces"
    with pytest.raises(InputError, match=message):
        call(
            "convert_checkpoint.py", "--to=huggingface", f"--input={pretrained}",
            f"--output={tmp_path}/out", f"--spm_model_file={other}",
        )  # fmt: skip
    assert not (tmp_path / "out").exists()
