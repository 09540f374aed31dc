"""The files that pretraining reads: their lengths, what identifies them, their vocabulary."""

import dataclasses
import hashlib
import itertools
import json
import struct
import types

import pytest

from albert_tf.engines.base import create_engine
from albert_tf.engines.steps import StepOptions
from albert_tf.input import record_index
from albert_tf.input.features import pretraining_features
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex, find_indexes, masked_crc, write_indexes
from albert_tf.training import pretraining
from albert_tf.training.loop import in_stage
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.records import CHECKED_FILE, Records, check_vocabularies
from tests.conftest import refusal
from tests.support.pretraining import options_of
from tests.support.tiny import CONFIG, LENGTH, PREDICTIONS, batch, write_records

RECORDS, HOSTILE = 200, 150


@pytest.fixture
def options(tmp_path) -> PretrainingOptions:
    """Train on a file that has an index."""
    options = options_of(
        tmp_path, CONFIG, RECORDS, num_train_steps=2, num_warmup_steps=1, train_batch_size=8
    )
    write_indexes(options.input_file, find_indexes(options.input_file))
    return options


def make_hostile(path: str) -> str:
    """Let a record declare 2^60 bytes, with the checksum of that length; return the error."""
    with open(path, "r+b") as file:
        for _ in range(HOSTILE):
            file.seek(8 + int.from_bytes(file.read(8), "little"), 1)
        length = struct.pack("<Q", 2**60)
        file.write(length + masked_crc(length))
    return f"{path}: truncated, or not a TFRecord file: example {HOSTILE} goes beyond its end"


@pytest.mark.integration
def test_lengths_are_checked_before_a_run_and_not_when_it_resumes(options, tmp_path, monkeypatch):
    written = {}
    monkeypatch.setattr(pretraining, "restore", lambda *given: written.update(given[3]))
    monkeypatch.setattr(pretraining, "train", lambda *given: "model.ckpt-2")
    pretraining.pretrain(options)
    path = tmp_path / "out" / CHECKED_FILE
    path.parent.mkdir(exist_ok=True)
    path.write_text(written[CHECKED_FILE])
    walked = []
    index_records = record_index.index_records
    monkeypatch.setattr(
        record_index, "index_records", lambda path: walked.append(path) or index_records(path)
    )
    engine = create_engine("tensorflow", options)
    Records.find(engine, options, "input_file", CONFIG)
    assert not walked
    path.write_text("[")
    Records.find(engine, options, "input_file", CONFIG)
    assert walked == list(options.input_file)
    message = make_hostile(options.input_file[0])
    assert refusal(Records.find, engine, options, "input_file", CONFIG) == message


@pytest.mark.integration
def test_an_evaluation_is_about_the_examples_of_all_files(options, tmp_path):
    write_records(tmp_path / "b.tfrecord", batch(7))
    files = (*options.input_file, str(tmp_path / "b.tfrecord"))
    options = dataclasses.replace(options, eval_input_file=files, max_eval_steps=0)
    records = Records.find(create_engine("tensorflow", options), options, "eval_input_file", CONFIG)
    (evaluated,) = json.loads(records.evaluation_data(options))
    assert (evaluated["data"], evaluated["examples"]) == ("a.tfrecord, b.tfrecord", RECORDS + 7)


@pytest.mark.integration
@pytest.mark.parametrize("change", ["content", "count", "manifest", "folder", "nothing"])
def test_files_of_the_same_names_are_compared(options, tmp_path, change):
    seen, identities, path = [], [], tmp_path / "a.tfrecord"
    settings = {"max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS}
    manifest = {
        "settings": settings,
        "files": {path.name: RECORDS},
        "vocab_size": CONFIG.vocab_size,
    }
    engine = create_engine("tensorflow", options)
    for number in range(2):
        path.with_name("a.manifest.json").write_text(json.dumps(manifest))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(engine.workers, "check_same", seen.append)
            identities.append(Records.find(engine, options, "input_file", CONFIG).identity())
        if change == "content":  # of as many bytes
            write_records(path, {name: rows[::-1] for name, rows in batch(RECORDS).items()})
        elif change == "count":
            write_records(path, batch(RECORDS - number - 1))
        elif change == "manifest":
            settings["masked_lm_prob"] = 0.25
        elif change == "folder" and not number:
            (tmp_path / "moved").mkdir()
            path = path.rename(tmp_path / "moved" / path.name)
            options = dataclasses.replace(options, input_file=(str(path),))
    assert (seen[0] == seen[1]) == (change in ("folder", "nothing"))
    assert (identities[0] == identities[1]) == (change in ("manifest", "folder", "nothing"))


@pytest.mark.parametrize(
    ("warmup", "steps", "left_out"),
    [("2:5,10:8", 15, 20), ("2:10,4:15", 23, 0), ("5:1,10:2", 10, 25)],
)
def test_stages_read_no_record_twice_and_skip_the_rest_of_a_batch(options, warmup, steps, left_out):
    sizes = {"train_batch_size": 20, "batch_size_warmup": tuple(warmup.split(","))}
    options = dataclasses.replace(options, num_train_steps=steps, **sizes)
    index = RecordIndex.create(options.input_file)
    features = pretraining_features(LENGTH, PREDICTIONS)
    stream = RecordStream(index, features, 20, 3, shuffle_buffer_size=30)
    engine = types.SimpleNamespace(
        iterate=lambda stream, first: map(stream.batches().__getitem__, itertools.count(first))
    )
    training_step = dataclasses.make_dataclass("Step", ["options"])(StepOptions())
    read = []
    for step in range(steps):
        stage = options.stage(step)
        _, batches = in_stage(engine, training_step, stream, stage, step)
        examples = next(batches)["input_ids"]
        assert len(examples) == stage.batch_size
        read += [each.tobytes() for each in examples]
    assert len(set(read)) == len(read) == RECORDS - left_out


FORM = "must be SIZE:STEP, such as 256:10000"
GROW = "sizes and steps must grow, and sizes be divisors of `train_batch_size`=32 below it"


@pytest.mark.parametrize(
    ("warmup", "message"),
    [
        *((warmup, FORM) for warmup in ("4", "4:.1", "0:1", "4:1:2")),
        *((warmup, GROW) for warmup in ("12:9", "32:9", "64:9", "8:9,4:12", "4:9,8:9")),
        ("4:41,8:50", "begins at step 41, after `num_train_steps`=40"),
        ("4:40,8:50", None),
    ],
)
def test_sizes_of_batches(options, warmup, message):
    sizes = {"train_batch_size": 32, "batch_size_warmup": tuple(warmup.split(","))}
    options = dataclasses.replace(options, num_train_steps=40, **sizes)
    if message is None:
        return options.check()
    last = sizes["batch_size_warmup"][-1]
    assert refusal(options.check) == f"`batch_size_warmup`={last}: {message}"


PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b"]
TEXT = "".join(f"{piece}\n" for piece in PIECES)
OTHER = TEXT.replace("a\nb\n", "b\na\n")


def manifest_of(text: str) -> dict:
    settings = {"max_seq_length": 8, "max_predictions_per_seq": 2}
    vocabulary = {"special_ids": [2, 3], "mask_id": 4, "replacement_ids": [[5, 7]]}
    vocabulary["sha256"] = hashlib.sha256(text.encode()).hexdigest()
    return {"settings": settings, "files": {}, "vocab_size": 7, "vocabulary": vocabulary}


def records(**manifests: dict) -> Records:
    return Records(None, {}, None, None, manifests)


def test_what_a_folder_was_trained_on_before_is_kept(tmp_path):
    for examples in (1, 2, 2, 3):
        trained_on = records(x=manifest_of(TEXT) | {"examples": examples})
        data = trained_on.data_so_far(str(tmp_path))
        (tmp_path / "training_data.json").write_text(json.dumps(data))
        (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-5"')
    found = {name: manifest["examples"] for name, manifest in data.items()}
    assert found == {"x": 3, "earlier x": 2, "earlier earlier x": 1}


@pytest.mark.parametrize(
    ("model", "data", "fits"),
    [
        (TEXT, None, True),
        (OTHER, None, False),
        (None, TEXT, True),
        (None, OTHER, False),
        (OTHER, TEXT, True),
        (None, None, True),
    ],
    ids=["same", "other", "data", "other data", "extended", "unknown"],
)
@pytest.mark.parametrize("argument", ["output_dir", "init_checkpoint"])
def test_a_model_and_examples(tmp_path, argument, model, data, fits):
    if model:
        (tmp_path / "vocab.txt").write_text(model)
    if data:
        content = {"x.manifest.json": manifest_of(data)}
        (tmp_path / "training_data.json").write_text(json.dumps(content))
    options = PretrainingOptions(**{"output_dir": "new", argument: str(tmp_path)})
    old = records(old={**manifest_of(TEXT), "vocabulary": None}, older={})

    def check(examples: Records) -> None:
        check_vocabularies(options, argument == "output_dir", None, old, examples)

    check(old)
    if fits:
        check(records(d=manifest_of(TEXT)))
        return
    named = f"`{argument}`={tmp_path}: has another vocabulary than the examples (d)"
    assert refusal(check, records(d=manifest_of(TEXT))) == named
