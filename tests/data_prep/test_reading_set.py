"""Reading sets: same as with the commands, created once, complete, with the right settings."""

from __future__ import annotations

import copy
import dataclasses
import json
import pathlib

import pytest

from albert_tf.errors import InputError
from albert_tf.training.options import PretrainingOptions
from data_prep import reading_set
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.reading_set import make_reading_set
from tests.support.texts import create

# Not the defaults, so they must come from the manifest.
SETTINGS = {
    "max_seq_length": 48,
    "max_predictions_per_seq": 6,
    "masked_lm_prob": 0.2,
    "ngram": 2,
    "short_seq_prob": 0.4,
    "pair_objective": "nsp",
    "do_lower_case": False,
}


@pytest.fixture(scope="session")
def passages(corpus, tmp_path_factory) -> pathlib.Path:
    """Return the corpus as a SQuAD file and a RACE folder, one passage per document."""
    folder = tmp_path_factory.mktemp("sets")
    documents = corpus.read_text("utf-8").split("\n\n")
    contexts = [{"context": text.replace("\n", " "), "qas": []} for text in documents[:20]]
    data = {"data": [{"title": "Topics", "paragraphs": contexts}], "version": "1.1"}
    (folder / "squad.json").write_text(json.dumps(data), "utf-8")
    (folder / "race").mkdir()
    for number, text in enumerate(documents[20:]):
        (folder / "race" / f"{number}.txt").write_text(json.dumps({"article": text}), "utf-8")
    return folder


@pytest.fixture(scope="module")
def manifest(corpus, model_file, tmp_path_factory) -> dict:
    """Of training data with unusual settings."""
    options = PretrainingDataOptions(
        input_file=(str(corpus),),
        output_file=(str(tmp_path_factory.mktemp("training data") / "train.tfrecord"),),
        spm_model_file=str(model_file),
        dupe_factor=2,
        **SETTINGS,
    )
    return create(options)[0]


@pytest.fixture
def manifests(manifest) -> dict:
    """Return a copy, which a test may change."""
    return {"train.manifest.json": copy.deepcopy(manifest)}


@pytest.fixture
def training_options(passages, tmp_path) -> PretrainingOptions:
    (tmp_path / "out").mkdir(exist_ok=True)
    return PretrainingOptions(
        albert_config_file="",
        output_dir=str(tmp_path / "out"),
        eval_reading_set=(str(passages / "squad.json"), str(passages / "race")),
        max_seq_length=SETTINGS["max_seq_length"],
        max_predictions_per_seq=SETTINGS["max_predictions_per_seq"],
    )


def folders(options: PretrainingOptions) -> list[pathlib.Path]:
    """Return the content of the output folder, hidden files included, but no TFRecords."""
    found = pathlib.Path(options.output_dir).iterdir()
    return sorted(path for path in found if not path.name.startswith("train."))


def test_the_examples_are_those_of_the_commands(
    training_options, manifests, model_file, passages, tmp_path
):
    records = make_reading_set(training_options, manifests)
    text = tmp_path / "by_hand.txt"
    extract(
        ExtractionOptions(
            format="reading_sets",
            input_file=(str(passages),),
            output_file=str(text),
        )
    )
    by_hand = PretrainingDataOptions(
        input_file=(str(text),),
        output_file=(str(tmp_path / "by_hand.tfrecord"),),
        spm_model_file=str(model_file),
        dupe_factor=1,
        **SETTINGS,
    )
    _, examples = create(by_hand)
    assert len(examples["input_ids"]) > 20
    assert pathlib.Path(records).read_bytes() == (tmp_path / "by_hand.tfrecord").read_bytes()
    (folder,) = folders(training_options)
    manifest = json.loads((folder / "examples.manifest.json").read_text("utf-8"))
    assert manifest["settings"]["output_file"] == [records]
    for path in folder.glob("*.json"):
        assert ".partial" not in path.read_text("utf-8")


def test_a_reading_set_is_created_once(training_options, manifests, capsys):
    first = pathlib.Path(make_reading_set(training_options, manifests))
    before, content = first.stat(), first.read_bytes()
    # Another model, seed or batch does not matter.
    more = dataclasses.replace(training_options, random_seed=7, eval_batch_size=3)
    assert pathlib.Path(make_reading_set(more, manifests)) == first
    assert first.stat().st_mtime_ns == before.st_mtime_ns
    with first.open("r+b") as file:
        file.seek(100)
        file.write(b"damage")
    assert pathlib.Path(make_reading_set(training_options, manifests)) == first
    assert "is damaged; creating it again" in capsys.readouterr().err
    assert first.read_bytes() == content
    assert folders(training_options) == [first.parent]


def test_other_text_or_settings_give_another_folder(
    training_options, manifests, passages, tmp_path
):
    copy = tmp_path / "squad.json"
    copy.write_bytes((passages / "squad.json").read_bytes())
    training_options = dataclasses.replace(training_options, eval_reading_set=(str(copy),))
    made = {make_reading_set(training_options, manifests)}
    manifest = manifests["train.manifest.json"]
    for name, value in {"ngram": 1, "one_segment_chunks": "drop", "pair_objective": "sop"}.items():
        other = {**manifest, "settings": {**manifest["settings"], name: value}}
        made.add(make_reading_set(training_options, {"train.manifest.json": other}))
    made.add(make_reading_set(dataclasses.replace(training_options, language="de"), manifests))
    copy.write_text(copy.read_text("utf-8") + " ", "utf-8")
    made.add(make_reading_set(training_options, manifests))
    assert len(made) == 6 == len(folders(training_options))


def test_without_manifests_the_options_decide(training_options, model_file):
    with pytest.raises(InputError, match=r"`spm_model_file`: no manifest .* names the vocabulary"):
        make_reading_set(training_options, {})
    flags = {
        "do_whole_word_mask": False,
        "masked_lm_prob": 0.1,
        "ngram": 1,
        "do_lower_case": False,
    }
    training_options = dataclasses.replace(
        training_options, spm_model_file=str(model_file), **flags
    )
    make_reading_set(training_options, {})
    (folder,) = folders(training_options)
    made = json.loads((folder / "examples.manifest.json").read_text("utf-8"))["settings"]
    defaults = dataclasses.asdict(PretrainingDataOptions(input_file=(), output_file=()))
    assert {name: made[name] for name in flags} == flags
    for name in ("short_seq_prob", "favor_shorter_ngram", "random_seed"):
        assert made[name] == defaults[name]
    assert made["pair_objective"] == "sop"


def test_the_language_is_that_of_the_corpora(training_options, manifests):
    def made(**corpora: str) -> str:
        manifest = manifests["train.manifest.json"]
        found = {name: {"settings": {"language": code}} for name, code in corpora.items()}
        make_reading_set(training_options, {"train.manifest.json": {**manifest, "corpora": found}})
        newest = max(folders(training_options), key=lambda folder: folder.stat().st_mtime_ns)
        summary = json.loads((newest / "passages.corpus.json").read_text("utf-8"))
        return summary["settings"]["language"]

    assert made(a="de", b="de") == "de"
    assert made() == "en"
    with pytest.raises(InputError, match="`language`: the training data is in several, de, en;"):
        made(a="de", b="en")
    training_options = dataclasses.replace(training_options, language="fr")
    assert made(a="de", b="en") == "fr"


def test_the_number_of_dynamic_masks_is_an_option(training_options, manifests):
    manifest = manifests["train.manifest.json"]
    dynamic = {**manifest, "settings": {**manifest["settings"], "masking": "dynamic"}}
    make_reading_set(
        dataclasses.replace(training_options, max_predictions_per_seq=9), {"a": dynamic}
    )
    (folder,) = folders(training_options)
    made = json.loads((folder / "examples.manifest.json").read_text("utf-8"))["settings"]
    assert (made["max_predictions_per_seq"], made["masking"]) == (9, "static")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"eval_reading_set": ("nowhere",)}, "`eval_reading_set`: no file matches 'nowhere'"),
        ({"eval_reading_set": (__file__,)}, "test_reading_set.py: neither SQuAD .* nor RACE"),
        (
            {"spm_model_file": "nowhere.model"},
            "`spm_model_file`=nowhere.model: the file",
        ),
        ({"vocab_file": __file__}, "`vocab_file`=.*: not the vocabulary of the training data"),
        ({"max_seq_length": 64}, r"`max_seq_length`=64: .* with 48 \(train.manifest.json\)"),
        ({"max_predictions_per_seq": 9}, "`max_predictions_per_seq`=9: .* with 6"),
        ({"ngram": 3}, "`ngram`=3: the training data was created with 2"),
        ({"do_lower_case": True}, "`do_lower_case`=True: the training data was created with False"),
        ({"language": "x"}, "`language`=x: no such language"),
    ],
)
def test_invalid_input_is_reported_and_leaves_nothing(
    training_options, manifests, changes, message
):
    with pytest.raises(InputError, match=message) as error:
        make_reading_set(dataclasses.replace(training_options, **changes), manifests)
    assert "\n" not in str(error.value)
    assert folders(training_options) == []


def test_manifests_must_agree(training_options, manifests):
    manifest = manifests["train.manifest.json"]
    other = {**manifest, "settings": {**manifest["settings"], "ngram": 3}}
    with pytest.raises(InputError, match="ngram is 2 in a, but 3 in b; create the examples with"):
        make_reading_set(training_options, {"a": manifest, "b": other})


def test_an_interruption_leaves_nothing(training_options, manifests, monkeypatch):
    def stopped(*arguments, **named):
        raise KeyboardInterrupt

    for name in ("extract", "create_pretraining_data", "files.write_text"):
        with monkeypatch.context() as patch:
            patch.setattr(f"{reading_set.__name__}.{name}", stopped)
            with pytest.raises(KeyboardInterrupt):
                make_reading_set(training_options, manifests)
        assert folders(training_options) == []


def test_another_process_may_be_first(training_options, manifests, monkeypatch):
    real = reading_set.extract

    def slower(options):
        with monkeypatch.context() as patch:
            patch.setattr("albert_tf.files.writing.temporary_name", lambda path: f"{path}.other")
            patch.setattr(reading_set, "extract", real)
            make_reading_set(training_options, manifests)
        return real(options)

    monkeypatch.setattr(reading_set, "extract", slower)
    first = pathlib.Path(make_reading_set(training_options, manifests))
    assert folders(training_options) == [first.parent]


def test_the_published_sets(training_options, manifests, shared):
    sets = (str(shared("data/squad")), str(shared("data/race/dev")))
    make_reading_set(dataclasses.replace(training_options, eval_reading_set=sets), manifests)
    (folder,) = folders(training_options)
    made = json.loads((folder / "examples.manifest.json").read_text("utf-8"))
    assert made["documents"] > 200
    assert made["examples"] >= made["documents"]
    assert 0.4 < made["positive_label_share"] < 0.6
