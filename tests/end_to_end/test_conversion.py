"""A pretrained model on its way to other formats, and back into training, as a user would go."""

import dataclasses
import json
import re
import shutil

import pytest

from albert_tf.errors import InputError
from albert_tf.tokenizers.normalization import Normalization, read_normalization
from tests.conftest import once
from tests.end_to_end.conftest import RECORD_FLAGS, TRAIN_FLAGS, call, run

pytestmark = pytest.mark.integration


@pytest.fixture(scope="module")
def formats(project, pretrained, shared_folder):
    """Return the pretrained model in formats of others, as the commands make it."""
    folder = shared_folder / "formats"
    paths = {name: folder / name for name in ("huggingface", "google")}

    def write():
        for to in paths:
            call(
                "convert_checkpoint.py", f"--to={to}", f"--input={pretrained}",
                f"--output={paths[to]}", f"--spm_model_file={project.model}",
            )  # fmt: skip

    once(folder, write)
    return paths


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


def test_training_starts_from_a_model_with_another_vocabulary(project, pretrained, tmp_path):
    text = f"--input_file={project.folder}/train.txt"
    call(
        "data_prep.train_vocabulary", text, f"--output_prefix={tmp_path}/new",
        "--model_type=wordpiece", "--vocab_size=600",
    )  # fmt: skip
    (tmp_path / "words.tsv").write_text("the\tthe\nclass\tobject\n")
    printed, _ = run(
        "convert_checkpoint.py", "--to=albert_tf", f"--input={pretrained}",
        f"--output={tmp_path}/start", f"--new_vocabulary={tmp_path}/new.txt",
        f"--dictionary={tmp_path}/words.tsv",
    )  # fmt: skip
    assert re.search(r"new.txt: 600 pieces: \d+ copied, \d+ spelled, \d translated", printed)
    call(
        "data_prep.create_pretraining_data", text, f"--output_file={tmp_path}/new.tfrecord",
        f"--vocab_file={tmp_path}/start/vocab.txt", *RECORD_FLAGS,
    )  # fmt: skip
    words = (*RECORD_FLAGS, *TRAIN_FLAGS, f"--init_checkpoint={tmp_path}/start")
    words += ("--do_train", f"--output_dir={tmp_path}/out", "--train_only=embeddings:3")
    call("run_pretraining.py", f"--input_file={tmp_path}/new.tfrecord", *words)
    assert (tmp_path / "out" / "model.ckpt-24.index").exists()
    words = ("--do_train", *words, f"--output_dir={tmp_path}/old", f"--input_file={project.train}")
    with pytest.raises(InputError, match=r"^`init_checkpoint`=.*has another vocabulary than"):
        call("run_pretraining.py", *words)
