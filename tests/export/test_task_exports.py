"""export_saved_model of fine-tuned models: folders, TFLite files, cards, and what is refused."""

import dataclasses
import json
import pathlib
import types

import numpy as np
import pytest
import tensorflow as tf

from albert_tf.errors import InputError
from albert_tf.export import check as export_check
from albert_tf.export import standalone
from albert_tf.export.build import export_saved_model
from albert_tf.export.export_options import CheckOptions
from albert_tf.export.graph_packing import HUB_NAMES
from albert_tf.export.task_export import task_settings
from albert_tf.finetuning.trained_settings import read_settings
from albert_tf.interop.loading import open_preset
from albert_tf.task_kinds import kind_of, task_kinds
from albert_tf.tasks.classification.datasets import ClassificationDataset
from albert_tf.tasks.classification.options import ClassificationSettings
from albert_tf.tasks.classification.targets import OneLabel
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tokenizers import Tokenizer
from tests.conftest import refusal
from tests.export.conftest import options_of
from tests.support.served import LABELS, LONGEST, require_tensorflow_text, texts, trained_folder

pytestmark = pytest.mark.integration


def lite_outputs(file: pathlib.Path, **inputs):
    interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter(str(file))
    return interpreter.get_signature_runner("serving_default")(**inputs)


@pytest.mark.slow
def test_lite_files_and_card_of_an_encoder(classifier, tmp_path, capsys):
    options = options_of(
        classifier,
        tmp_path / "export",
        head="encoder",
        preprocess=False,
        tflite_lengths=("12", "16"),
        license="apache-2.0",
    )
    export_saved_model(options)
    folder = tmp_path / "export"
    printed = capsys.readouterr().out
    encoder = tf.saved_model.load(str(folder / "encoder"))
    ids = np.arange(5, 17, dtype=np.int32)[None]
    inputs = {
        "input_word_ids": ids,
        "input_mask": (ids < 14).astype(np.int32),
        "input_type_ids": ((ids > 8) & (ids < 14)).astype(np.int32),
    }
    expected = encoder({name: tf.constant(value) for name, value in inputs.items()})
    card = (folder / "README.md").read_text()
    for precision, tolerance in (("float32", 1e-5), ("int8", 0.1)):
        file = folder / "tflite" / f"encoder_12_{precision}.tflite"
        given = lite_outputs(file, **inputs)
        for name in ("pooled_output", "sequence_output"):
            np.testing.assert_allclose(given[name], expected[name], atol=tolerance)
        size = f"{file.stat().st_size:,} bytes"
        assert f"{file.name}: {size}" in printed
        assert f"| tflite/{file.name} | {size} |" in card
    assert len(list((folder / "tflite").iterdir())) == 4
    header = card.split("---")[1]
    assert "license: apache-2.0" in header
    assert "pipeline_tag: feature-extraction" in header
    for known in ("eval_accuracy | 0.75", "Training steps: 7", 'load("export/encoder")'):
        assert known in card
    assert str(tmp_path) not in card


@pytest.mark.slow
def test_a_classifier_is_exported_with_all_that_goes_with_it(classifier, tmp_path):
    require_tensorflow_text()
    folder = tmp_path / "export"
    export_saved_model(options_of(classifier, folder, preprocess=False, tflite_lengths=("16",)))
    signature = tf.saved_model.load(str(folder / "classifier")).signatures["single"]
    lines = [text for text in texts(9, 30) if text]
    given = signature(text=tf.constant(lines))
    assert {label.decode() for label in given["labels"].numpy()[0]} == set(LABELS)

    # What the tokenizer makes of the texts, the TFLite file classifies alike: the same length.
    tokenizer = Tokenizer.load(str(classifier / "small.model"))
    features = tokenizer(lines, None, 16, padding="max_length")
    packed = {HUB_NAMES[name]: values for name, values in features.items()}
    for row, probabilities in enumerate(given["probabilities"].numpy()):
        one = {name: value[row : row + 1] for name, value in packed.items()}
        file = folder / "tflite" / "classifier_16_float32.tflite"
        logits = lite_outputs(file, **one)["logits"][0]
        np.testing.assert_allclose(tf.nn.softmax(logits), probabilities, atol=1e-5)
    card = (folder / "README.md").read_text()
    assert "pipeline_tag: text-classification" in card
    assert 'load("export/classifier").signatures["serving_default"]' in card
    assert all(label in card for label in LABELS)


def remember_module(head, monkeypatch):
    """Trace the model of a task once, however often an export is checked."""
    export, made = kind_of(head).load("export"), []
    signatures = export.signatures

    def first(self):
        if not made:
            made.append((self, signatures(self)))
        return made[0][1]

    monkeypatch.setattr(export, "signatures", first)


@pytest.mark.slow
def test_the_check_compares_answers(tmp_path, capsys, monkeypatch):
    head, folder = "span", "squad"
    settings = {"version_2_with_negative": True, "max_query_length": 9}
    require_tensorflow_text()
    recorded = {kind_of(head).settings_file.replace(".", "__"): json.dumps(settings)}
    trained = trained_folder(tmp_path / "trained", head, labels=3, **recorded)
    options = options_of(trained, tmp_path / "export", head=head, preprocess=False)
    export_saved_model(options)
    # In this process: another one, and preprocess/, are what test_exports.py checks.
    program = types.SimpleNamespace(returncode=0)
    run = types.SimpleNamespace(run=lambda words, **_: standalone.main(*words[3:]) or program)
    monkeypatch.setattr(export_check, "subprocess", run)
    check = CheckOptions(words=("check", options.export_path), seq_lengths=())
    kept = []
    fresh = export_check._in_fresh_process
    monkeypatch.setattr(
        export_check, "_in_fresh_process", lambda *a: kept.append(fresh(*a)) or kept[0]
    )
    export_check.check(check)
    assert f"{folder}: same answers as the model for 12 inputs" in capsys.readouterr().out
    check = dataclasses.replace(check, init_checkpoint=str(trained))
    found = kept[0]
    remember_module(head, monkeypatch)
    exported = open_preset(options.export_path)
    answers = [name for name in found if name.startswith(f"{folder}/")]
    assert len(answers) == 5
    for name in answers:
        right = found[name]
        found[name] = np.zeros_like(right)
        with pytest.raises(InputError, match=f"gives another {name.split('/')[1]} than the model"):
            export_check._check_task(options.export_path, check, exported, found)
        found[name] = right


def test_what_cannot_be_is_named_and_leaves_nothing(classifier, tmp_path):
    options = options_of(classifier, tmp_path / "export", preprocess=False, head="encoder")

    def message(**changes) -> str:
        found = refusal(export_saved_model, dataclasses.replace(options, **changes))
        assert not (tmp_path / "export").exists()
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]
        return found

    assert "has the head classifier instead" in message(head="span")
    assert "has 3 outputs instead of one" in message(head="choice")
    assert "`max_seq_length`=4: must be at least 5" in message(head="classifier", max_seq_length=4)
    assert f"`tflite_lengths`=16,99: must be 1 to {LONGEST}" in message(tflite_lengths=("16", "99"))
    assert "`tflite_lengths`=a: must be numbers" in message(tflite_lengths=("a",))

    score = trained_folder(tmp_path / "score", "classifier", labels=1)
    assert "use `head`=classifier or `head`=choice" in message(
        init_checkpoint=str(score), head="auto"
    )
    (score / "multiple_choice.json").write_text("{")
    assert "multiple_choice.json: not JSON" in message(init_checkpoint=str(score), head="auto")


def test_what_training_notes_is_what_exports_read(tmp_path):
    dataset = ClassificationDataset("table", {}, pairs=True)
    task = types.SimpleNamespace(
        dataset=dataset,
        target=OneLabel(dataset, ("a", "b")),
        options=types.SimpleNamespace(max_seq_length=77, long_texts="head"),
    )
    for name, text in ClassificationTask.adjacent_files(task).items():
        (tmp_path / name).write_text(text)
    (tmp_path / "model.ckpt-1").write_text("")
    expected = ClassificationSettings(pairs=True, max_seq_length=77)
    for place in (tmp_path, tmp_path / "model.ckpt-1"):
        assert read_settings(ClassificationSettings, str(place), "target.json", {}) == expected
    changed = read_settings(
        ClassificationSettings, str(tmp_path), "target.json", {"max_seq_length": 9, "kind": None}
    )
    assert changed == dataclasses.replace(expected, max_seq_length=9)


@pytest.mark.parametrize(
    ("head", "part", "fitting"), [("choice", "max_qa_length", 37), ("span", "max_query_length", 36)]
)
def test_a_default_length_of_a_part_fits_into_the_model(tmp_path, head, part, fitting):
    kind, options = kind_of(head), options_of(tmp_path, tmp_path / "export")
    source = types.SimpleNamespace(config=types.SimpleNamespace(max_position_embeddings=40))
    assert getattr(task_settings(kind, options, source), part) == fitting
    (tmp_path / kind.settings_file).write_text('{"max_seq_length": 40}')
    for asked in (options, dataclasses.replace(options, max_seq_length=40, **{part: 38})):
        assert "must be at least" in refusal(task_settings, kind, asked, source)


@pytest.mark.parametrize("kind", [kind.load("export").settings_class for kind in task_kinds()])
def test_without_a_note_there_are_defaults(tmp_path, kind):
    assert read_settings(kind, str(tmp_path), "none.json", {}) == kind()
    recorded = {"max_seq_length": 30, "something": "else"}
    (tmp_path / "recorded.json").write_text(json.dumps(recorded))
    settings = read_settings(kind, str(tmp_path), "recorded.json", {})
    assert settings == dataclasses.replace(kind(), max_seq_length=30)
