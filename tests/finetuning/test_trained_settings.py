"""What a trained folder records: options, finished runs, variables that stay as they are."""

import dataclasses
import json
import logging
import math
import pathlib
from types import SimpleNamespace

import keras
import numpy as np
import pytest

from albert_tf.engines.workers import Workers
from albert_tf.errors import InputError
from albert_tf.finetuning.command import fine_tune
from albert_tf.finetuning.context import find_metric
from albert_tf.finetuning.single_run import finish, finished_record, freeze_variables, frozen_file
from albert_tf.finetuning.trained_settings import with_trained_settings
from albert_tf.interop.loading import open_weights
from albert_tf.modeling.heads import AlbertForSequenceClassification
from albert_tf.tasks.classification.options import ClassificationOptions
from albert_tf.tasks.classification.tables import find_dataset
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from tests.support.finetuning import options_of
from tests.support.kinds_of_tasks import write_weights
from tests.support.tiny import CONFIG


def record(folder, options_class, **values) -> str:
    (folder / options_class.settings_file).write_text(json.dumps(values))
    return str(folder)


@pytest.mark.parametrize(
    ("options_class", "recorded"),
    [
        (ClassificationOptions, {"label_separator": ";"}),
        (MultipleChoiceOptions, {"task_name": "json", "max_qa_length": 40}),
        (QuestionAnsweringOptions, {"max_query_length": 20, "doc_stride": 32, "start_n_top": 2}),
        (QuestionAnsweringOptions, {"max_answer_length": 7, "end_n_top": 3}),
    ],
)
def test_options_that_are_not_given_are_those_of_training(options_class, recorded, tmp_path):
    recorded = {**recorded, "max_seq_length": 96}
    folder = record(tmp_path, options_class, **recorded, another_key=1)
    options = with_trained_settings(options_class(output_dir=folder))
    assert {name: getattr(options, name) for name in recorded} == recorded


def test_a_given_length_wins_with_a_warning(tmp_path, caplog):
    folder = record(tmp_path, MultipleChoiceOptions, max_seq_length=96, max_qa_length=40)
    options = MultipleChoiceOptions(output_dir=folder, max_seq_length=64, max_qa_length=40)
    with caplog.at_level(logging.WARNING):
        options = with_trained_settings(options)
    assert (options.max_seq_length, options.max_qa_length) == (64, 40)
    (warning,) = caplog.messages
    assert warning == f"max_seq_length=64: the model in {folder} was trained with 96"


def test_defaults_are_limited_by_the_model():
    options = ClassificationOptions(output_dir="none")
    assert options.with_defaults().max_seq_length == 512
    assert options.with_defaults(128).max_seq_length == 128
    given = dataclasses.replace(options, max_seq_length=256)
    assert given.with_defaults(128).max_seq_length == 256, "which is refused later"


def test_files_are_read_like_those_of_training(tmp_path):
    files = {"do_train": True, "class_files": ("a.xls", "b.xls"), "test_size": 0.5}
    trained = find_dataset(ClassificationOptions(output_dir="none", **files))
    folder = record(tmp_path, ClassificationOptions, kind="classification", **trained.record)
    options = ClassificationOptions(output_dir=folder, do_predict=True, predict_file="new.xls")
    ((rows,),) = (find_dataset(with_trained_settings(options)).sets["predict"],)
    assert (rows.files[0].columns.text, rows.files[0].header) == ("1", ())
    options = dataclasses.replace(options, header=True, text_column="body")
    ((rows,),) = (find_dataset(with_trained_settings(options)).sets["predict"],)
    assert (rows.files[0].columns.text, rows.files[0].header) == ("body", None)


@pytest.mark.parametrize("kind", ["regression", "multi_label"])
def test_the_kind_of_labels_need_not_be_repeated(kind, tmp_path):
    columns = {"text_column": "a", "text_pair_column": "b", "label_column": "c"}
    folder = record(tmp_path, ClassificationOptions, kind=kind, task_name="table", **columns)
    options = ClassificationOptions(output_dir=folder, do_eval=True, eval_file="dev.tsv")
    dataset = find_dataset(with_trained_settings(options))
    assert (dataset.target, dataset.pairs) == (kind, True)


def test_a_model_of_glue_predicts_its_task_or_a_table(tmp_path):
    folder = record(tmp_path, ClassificationOptions, kind="regression", task_name="STS-B")
    options = ClassificationOptions(output_dir=folder, do_predict=True)
    assert with_trained_settings(options).task_name == "STS-B"
    lines = with_trained_settings(dataclasses.replace(options, predict_file="-"))
    assert find_dataset(lines).pairs, "nothing but the folder is needed"
    table = dataclasses.replace(options, predict_file="new.tsv", text_pair_column="text_2")
    assert find_dataset(with_trained_settings(table)).target == "regression"


def test_a_damaged_record_is_named(tmp_path):
    folder = record(tmp_path, ClassificationOptions, max_seq_length="long")
    with pytest.raises(InputError, match=r'target.json: max_seq_length="long": must be int'):
        with_trained_settings(ClassificationOptions(output_dir=folder))


@pytest.mark.parametrize(
    ("options_class", "of_both"),
    [
        (ClassificationOptions, (31, 3)),
        (MultipleChoiceOptions, (31, 3)),
        (QuestionAnsweringOptions, (7, 0)),
    ],
)
def test_epochs_become_steps_for_each_batch_size(options_class, of_both):
    settings = {"num_train_epochs": 2.5, "warmup_proportion": 0.1, "do_eval": True}
    options = options_class(output_dir="out", train_batch_sizes=("8", "16"), **settings)
    steps = [variant.resolved(100) for variant in options.variants()]
    assert [(each.train_step, each.warmup_step) for each in steps] == [(31, 3), (15, 1)]
    both = dataclasses.replace(options.variants()[0], train_step=7, warmup_step=0).resolved(100)
    assert (both.train_step, both.warmup_step) == of_both
    assert options.resolved(1).train_step == 1
    with pytest.raises(InputError, match="`num_train_epochs`=-1"):
        dataclasses.replace(options, num_train_epochs=-1.0).check()


def test_an_unknown_metric_is_refused():
    def metric(name):
        names = ("eval_accuracy", "eval_loss")
        options = ClassificationOptions(output_dir="out", metric_for_best=name)
        return find_metric(SimpleNamespace(options=options, metric="f1", metric_names=names))

    assert (metric(None), metric("eval_loss")) == ("f1", "eval_loss")
    message = "`metric_for_best`=accuracy: must be one of eval_accuracy, eval_loss"
    with pytest.raises(InputError, match=message):
        metric("accuracy")


def test_finished_runs_of_earlier_versions_are_recognized(tmp_path):
    options = ClassificationOptions(output_dir=f"{tmp_path}/seed-1", text_column="body")
    (tmp_path / "seed-1").mkdir()
    scored = SimpleNamespace(results={"f1": 0.5, "pearson": math.nan}, collapsed=None)
    place = f"{tmp_path}/seed-1/model.ckpt-7"
    finish(options, "data", SimpleNamespace(step=7, checkpoint=place, evaluation=scored))
    path = tmp_path / "seed-1" / "finished.json"
    record = json.loads(path.read_text(), parse_constant=pytest.fail)
    assert math.isnan(finished_record(options, "data")["results"]["pearson"])
    record["results"]["pearson"] = math.nan  # as earlier versions wrote it
    for name in ("metric_for_best", "num_train_epochs", "warmup_proportion"):
        del record["options"][name]
    path.write_text(json.dumps(record | {"options": {**record["options"], "text_column": None}}))
    assert finished_record(options, "data"), "columns are in the hash of the data"
    for changes in ({"num_train_epochs": 2.0}, {"learning_rate": 0.5}):
        assert finished_record(dataclasses.replace(options, **changes), "data") is None
    assert finished_record(options, "other data") is None


FREEZE = ("bert/embeddings/*", "bert/encoder/embedding_hidden_mapping_in/bias")


def is_frozen(path: str) -> bool:
    return path.startswith("bert/embeddings/") or path == FREEZE[1]


def values(folder: pathlib.Path | str) -> dict[str, np.ndarray]:
    return {name: tensor.read() for name, tensor in open_weights(str(folder)).tensors.items()}


@pytest.mark.slow
def test_frozen_variables_stay_as_they_are(tmp_path, capsys):
    """Train, and resume an interrupted run."""
    weights = write_weights(tmp_path)
    settings = {"engine": keras.backend.backend(), "do_eval": False, "optimizer": "adamw"}
    settings |= {"init_checkpoint": weights, "freeze": FREEZE, "layer_decay": 0.5}
    settings |= {"warmup_step": 0, "schedule": "wsd"}
    start = values(weights)

    def train(name: str, steps: int) -> pathlib.Path:
        options = options_of(tmp_path, tmp_path / name, train_step=steps, **settings)
        fine_tune(options, ClassificationTask)
        return tmp_path / name

    trained = train("whole", 4)
    weights_after = values(trained)
    for path, before in start.items():
        assert np.array_equal(weights_after[path], before) == is_frozen(path), path
    moments = open_weights(str(trained)).optimizer
    assert len(moments) == 2 * sum(not is_frozen(path) for path in weights_after)
    assert not [path for path in moments if "word_embeddings" in path]
    train("parts", 2)
    np.testing.assert_equal(values(train("parts", 4)), values(trained))
    assert "; frozen: 6 variables" in capsys.readouterr().out


@pytest.fixture
def engine():
    """Return what `freeze_variables` needs of an engine, with one checkpoint."""
    checkpoints = ["model.ckpt-5"]
    folder = SimpleNamespace(all=lambda: checkpoints)
    return SimpleNamespace(workers=Workers(), checkpoints_in=lambda path: folder)


def test_a_run_that_resumes_must_freeze_the_same(tmp_path, engine):
    first = options_of(tmp_path, tmp_path, freeze=("classifier/*", "*/pooler/*/bias"))
    for name, content in frozen_file(first).items():
        (tmp_path / name).write_text(content)
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)
    for freeze in ((), ("classifier/*",), ("classifier/*", "bert/embeddings/*")):
        options = options_of(tmp_path, tmp_path, freeze=freeze)
        with pytest.raises(InputError, match=r"trained with \*/pooler/\*/bias,classifier/\*; use"):
            freeze_variables(engine, model, options)
    assert len(model.trainable_weights) == len(model.weights)
    same = options_of(tmp_path, tmp_path, freeze=first.freeze[::-1])
    freeze_variables(engine, model, same)
    kept = {weight.path for weight in model.weights if not weight.trainable}
    assert kept == {"bert/pooler/dense/bias", "classifier/output_bias", "classifier/output_weights"}


def test_a_run_without_checkpoints_may_freeze_anything(tmp_path, engine):
    engine.checkpoints_in = lambda folder: SimpleNamespace(all=list)
    (tmp_path / "frozen.json").write_text('["classifier/*"]')
    model = AlbertForSequenceClassification(CONFIG, num_labels=2)
    freeze_variables(engine, model, options_of(tmp_path, tmp_path))
    assert not (tmp_path / "frozen.json").exists()
    with pytest.raises(InputError, match="`freeze`=no/such: matches no variable"):
        freeze_variables(engine, model, options_of(tmp_path, tmp_path, freeze=("no/such",)))
