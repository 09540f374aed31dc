"""What runs read: config, vocabulary and examples, with what is kept and said of them."""

import dataclasses
import json
import re
import shutil

import numpy as np
import pytest

from albert_tf.checkpoints import TensorFlowFolder
from albert_tf.errors import InputError
from albert_tf.finetuning.context import find_config, find_tokenizer, read_sets, with_hub_module
from albert_tf.finetuning.task import cached_arrays
from albert_tf.interop.adjacent_files import tokenizer_files
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.task import QuestionAnsweringTask
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.folder import check_trained_folder
from tests.conftest import refusal
from tests.support.clue_files import write_json, write_lines
from tests.support.finetuning import options_of, write_files
from tests.training.test_records import manifest_of


@pytest.fixture
def files(tmp_path):
    write_files(tmp_path)
    return tmp_path


def folder_of_weights(files, name: str, **changes):
    """Return a folder with weights, config and vocabulary."""
    folder = files / name
    folder.mkdir()
    config = json.loads((files / "config.json").read_text())
    (folder / "albert_config.json").write_text(json.dumps({**config, **changes}))
    shutil.copy(files / "vocab.txt", folder / "vocab.txt")
    TensorFlowFolder(str(folder)).write(1, {"a": np.zeros(1, "float32")})
    return folder


def test_config_and_vocabulary_come_from_flags_then_output_then_weights(files):
    weights = folder_of_weights(files, "weights", hidden_size=32)
    trained = folder_of_weights(files, "trained", hidden_size=64)
    options = options_of(files, files / "none", init_checkpoint=str(weights))
    assert find_config(options).hidden_size == 16
    assert find_tokenizer(options).path == str(files / "vocab.txt")
    options = dataclasses.replace(options, albert_config_file=None, vocab_file=None)
    assert find_config(options).hidden_size == 32
    assert find_tokenizer(options).path == str(weights / "vocab.txt")
    options = dataclasses.replace(options, output_dir=str(trained))
    assert find_config(options).hidden_size == 64
    assert find_tokenizer(options).path == str(trained / "vocab.txt")
    both = dataclasses.replace(options, spm_model_file=str(files / "vocab.txt"), vocab_file="other")
    assert find_tokenizer(both).path == str(files / "vocab.txt")


def test_dropout_of_the_model_is_replaced(files):
    options = options_of(files, files / "none")
    usual = find_config(options)
    assert usual.hidden_dropout_prob == 0.1
    for rate in (0.0, 0.3):
        config = find_config(dataclasses.replace(options, albert_dropout=rate))
        rates = {"hidden_dropout_prob": rate, "attention_probs_dropout_prob": rate}
        assert config == dataclasses.replace(usual, **rates)


def test_what_is_written_beside_a_model_is_read_again(files, caplog):
    for lower in (True, False):
        folder = files / f"out-{lower}"
        folder.mkdir()
        tokenizer = Tokenizer.load(str(files / "vocab.txt"), lower)
        for name, content in tokenizer_files(tokenizer).items():
            (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        options = dataclasses.replace(options_of(files, folder), vocab_file=None)
        found = find_tokenizer(options)
        assert (found.path, found.do_lower_case) == (str(folder / "vocab.txt"), lower)
        assert not caplog.messages
        words = (files / "vocab.txt").read_text()
        other, same = files / "other.txt", files / "same.txt"
        other.write_text(f"{words}lion\n")
        same.write_text(words.replace("\n", "\r\n"))
        start = {"output_dir": str(files / "new"), "init_checkpoint": str(folder)}
        for model in ({}, start):  # trained before, and where training starts
            given = dataclasses.replace(options, vocab_file=str(other), **model)
            if not model:
                assert find_tokenizer(given).path == str(other), "nothing is trained yet"
                (folder / "model.ckpt-1.index").touch()
            message = f"`vocab_file`={other}: is not the vocabulary of the weights in {folder} "
            with pytest.raises(InputError, match=f"^{re.escape(message)}.{folder}/vocab.txt.; use"):
                find_tokenizer(given)
            given = dataclasses.replace(given, vocab_file=str(same), do_lower_case=not lower)
            chosen = find_tokenizer(given)
            assert (chosen.path, chosen.do_lower_case) == (str(same), not lower)
            line = f"do_lower_case={not lower}: the model in {folder} was trained with {lower}"
            assert caplog.messages == [line]
            caplog.clear()


def test_weights_whose_data_names_another_vocabulary_are_refused(files):
    weights = folder_of_weights(files, "pretrained")
    (weights / "vocab.txt").unlink()
    manifest = manifest_of("other\n")
    (weights / "training_data.json").write_text(json.dumps({"x.manifest.json": manifest}))
    options = options_of(files, files / "none", init_checkpoint=str(weights))
    with pytest.raises(InputError, match=r"^`vocab_file`=.* weights in .*pretrained \(training_da"):
        find_tokenizer(options)


def test_a_hub_module_is_where_training_starts(files):
    module = folder_of_weights(files, "module")
    # Also as in the README of the original: --albert_hub_module_handle==https://...
    for handle in (str(module), f"={module}"):
        options = options_of(files, files / "none", albert_hub_module_handle=handle)
        assert with_hub_module(options).init_checkpoint == str(module)


def test_what_is_missing_is_named(files):
    empty = folder_of_weights(files, "empty")
    for name in ("vocab.txt", "albert_config.json"):
        (empty / name).unlink()

    def message(find, **changes) -> str:
        return refusal(find, options_of(files, files / "none", **changes))

    nothing = {"albert_config_file": None, "vocab_file": None}
    weights = {**nothing, "init_checkpoint": str(empty)}
    assert message(find_config, **nothing).startswith("`albert_config_file`: ")
    fresh = message(check_trained_folder, **nothing, do_train=False)
    assert "contains no trained model; without `do_train`, name" in fresh
    assert f"no albert_config.json next to {empty}" in message(find_config, **weights)
    assert message(find_tokenizer, **weights).startswith("`spm_model_file`: ")
    assert f"next to {empty}" in message(find_tokenizer, **weights)
    for changes, expected in (
        ({"spm_model_file": "from_tf_hub"}, "`spm_model_file`=from_tf_hub: needs `albert_hub"),
        ({"albert_hub_module_handle": "nothing"}, "a handle such as https://tfhub.dev/google/"),
        ({"albert_hub_module_handle": str(empty), "init_checkpoint": "x"}, "not both"),
    ):
        assert expected in message(with_hub_module, **changes)
    hub = {**nothing, "albert_hub_module_handle": str(empty), "init_checkpoint": str(empty)}
    assert "contains no" in message(find_tokenizer, **hub)


def test_arrays_are_kept_by_content(tmp_path, capsys):
    source = tmp_path / "source.txt"
    source.write_text("one")
    folder = tmp_path / "cache"
    made = []

    def get(settings=None, text="one", sources=()):
        source.write_text(text)

        def make():
            made.append(1)
            return {"a": np.arange(1000), "b": np.array([text])}

        return cached_arrays(str(folder), [str(source), *sources], settings or {}, make)

    first = get()
    again = get()
    assert len(made) == 1
    assert again.keys() == first.keys()
    np.testing.assert_array_equal(again["a"], np.arange(1000))
    for other in ({"settings": {"length": 2}}, {"text": "two"}, {"sources": [b"more"]}):
        get(**other)
        get(**other)
    assert len(made) == 4
    assert len(list(folder.iterdir())) == 4
    capsys.readouterr()

    get()
    for file in folder.iterdir():
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)
    np.testing.assert_array_equal(get()["a"], np.arange(1000))
    assert len(made) == 5
    assert "is damaged and will be replaced" in capsys.readouterr().err
    get()
    assert len(made) == 5
    for file in folder.iterdir():
        file.write_bytes(file.read_bytes()[:100])
    get()
    assert len(made) == 6


def test_token_ids_are_read_again_instead_of_made(files, monkeypatch):
    from albert_tf.tasks.classification.datasets import Example

    tokenizer = Tokenizer.load(str(files / "vocab.txt"))
    examples = [Example("", "cat dog " * n, "saw", None) for n in range(1, 9)]

    def encoded(examples=examples, length=12, **changes):
        cached = {"max_seq_length": length, "cached_dir": str(files / "cache")}
        options = options_of(files, files / "out", do_predict=True, **cached, **changes)
        return ClassificationTask(options, tokenizer).encode("predict", examples)

    first = encoded()
    assert first.tokens_cut.tolist() == [max(2 * n + 1 - 9, 0) for n in range(1, 9)]
    monkeypatch.setattr(type(tokenizer), "encode_batch", None)
    again = encoded()
    np.testing.assert_equal(again.to_arrays(), first.to_arrays())
    # Texts of standard input differ every time.
    for other in ({"length": 13}, {"examples": examples[1:]}, {"predict_file": "-"}):
        with pytest.raises(TypeError):
            encoded(**other)


@pytest.fixture
def tokenizer(tmp_path):
    return write_files(tmp_path)


def test_each_set_has_a_line_if_its_share_is_notable(tokenizer, tmp_path, caplog):
    train = "".join(f"cat dog\t{label}\n" for label in ["animal", "tool"] * 600)
    (tmp_path / "train.tsv").write_text(f"text\tlabel\n{train}cat “dog”\tanimal\n")
    (tmp_path / "eval.tsv").write_text("text\tlabel\ncat “saw” “\tanimal\n")
    options = options_of(tmp_path, tmp_path / "out", max_seq_length=8)
    with caplog.at_level("INFO"):
        read_sets(ClassificationTask(options, tokenizer))
    lines = [line for line in caplog.messages if "unknown" in line]
    assert lines == [
        "eval: 60.00% of the tokens (3 of 5) are unknown to the vocabulary, and with them 27.27% "
        "of the characters, most often because of “ ”"
    ]


def test_questions_and_choices(tokenizer, tmp_path, caplog):
    answers = [{"text": "dog", "answer_start": 0}]
    rows = [
        {"id": n, "question": f"cat {letter}", "context": "dog 中", "answers": answers}
        for n, letter in enumerate("国国京")
    ]
    choices = {"choices": ["saw", "drill 京", "file", "bird"], "answer": 0}
    options = {"output_dir": str(tmp_path), "train_file": str(tmp_path / "rows.json")}
    with caplog.at_level("INFO"):
        write_json(tmp_path / "rows.json", rows)
        squad = QuestionAnsweringOptions(**options, do_train=True)
        read_sets(QuestionAnsweringTask(squad, tokenizer))
        write_lines(tmp_path / "rows.json", [{**rows[0], **choices}])
        race = MultipleChoiceOptions(**options, task_name="json", do_eval=False)
        read_sets(MultipleChoiceTask(race, tokenizer))
    lines = [line for line in caplog.messages if "unknown" in line]
    assert [line.rpartition(" of ")[2] for line in lines] == ["国 中 京", "国 中 京"]
    assert "(6 of 12)" in lines[0]
