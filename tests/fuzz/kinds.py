"""Every kind of file that the programs read: how to make one, and how it is read."""

import bz2
import functools
import gzip
import importlib.util
import json
import pathlib
import shutil
import tempfile
import types
from collections.abc import Callable
from typing import Any, NamedTuple

from albert_tf.checkpoints import OrbaxFolder, TensorFlowFolder
from albert_tf.config import AlbertConfig
from albert_tf.files import read_rows as read_table
from albert_tf.finetuning import run_report, single_run
from albert_tf.finetuning.run_report import read_results
from albert_tf.finetuning.trained_settings import read_settings, with_trained_settings
from albert_tf.hub.archives import unpack
from albert_tf.hub.names import Origin, source_of
from albert_tf.input.features import pretraining_features
from albert_tf.input.manifest import check_manifests, dynamic_masks, find_manifests, pair_objective
from albert_tf.input.record_batches import RecordStream
from albert_tf.input.record_index import RecordIndex, find_indexes, index_records, write_indexes
from albert_tf.input.record_reader import check_files
from albert_tf.interop.adjacent_files import find_adjacent_files
from albert_tf.interop.file_names import read_export
from albert_tf.interop.loading import open_weights
from albert_tf.task_kinds import TaskKind, task_kinds
from albert_tf.tasks.classification.benchmarks import GLUE
from albert_tf.tasks.classification.datasets import read_examples
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import read_questions
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.readers import read_squad
from albert_tf.tasks.tagging.readers import ReadOptions, read_tagged
from albert_tf.tokenizers import Tokenizer
from albert_tf.training.evaluation import BestCheckpoint
from albert_tf.training.folder import start_file, warn_of_changes
from albert_tf.training.health import Workload
from albert_tf.training.log import TrainingLog
from albert_tf.training.options import PretrainingOptions
from albert_tf.training.rows import read_rows
from tests.data_prep.corpora.test_wikipedia import dump, page
from tests.input.test_manifest import changed as manifest_of
from tests.support.clue_files import C3_TEST
from tests.support.hub import write_parquet
from tests.support.layouts import rewrite_weights
from tests.support.models import CONFIGS, keras_file, random_model, values_of, write_trained
from tests.support.references import OWN_VOCABULARY
from tests.support.texts import read_corpus
from tests.support.tiny import LENGTH, PREDICTIONS, VOCAB, batch, write_records
from tests.support.workbooks import FILMS, write_xls, write_xlsx
from tests.tasks.tagging.test_readers import CONLLU

CONFIG = CONFIGS["shared"]
_SIZES = {"max_seq_length": LENGTH, "max_predictions_per_seq": PREDICTIONS}
_MANIFEST = manifest_of(**_SIZES, masking="dynamic", do_lower_case=True) | {
    "vocab_size": VOCAB,
    "files": {"a.tfrecord": 8},
    "corpora": {"a.txt": {"settings": {"language": "en"}, "sources": [{"format": "books"}]}},
    "documents": 3,
    "swapped_in_training": True,
}
_QUESTIONS = [
    {"id": "1", "question": "Who sat?", "answers": [{"text": "The cat", "answer_start": 0}]},
    {"id": "2", "question": "Why?", "answers": [], "is_impossible": True},
]
_PARAGRAPH = {"context": "The cat sat on the mat.", "qas": _QUESTIONS}
SQUAD = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [_PARAGRAPH]}]}
RACE = {
    "id": "high1.txt",
    "article": "The cat sat on the mat.",
    "questions": ["Who sat?"],
    "options": [["the cat", "the mat", "a dog", "no one"]],
    "answers": ["A"],
}
CHOICE = {"id": 1, "context": "a", "question": "b _", "choices": ["c", "d"], "answer": 1}
CMRC_ENTRY = {"query_id": "1", "query_text": "谁坐着？", "answers": ["猫"]}
CMRC = [{"context_id": "1", "context_text": "猫坐在垫子上。", "qas": [CMRC_ENTRY]}]
_HUB_RACE = {
    "example_id": "high1.txt", "article": "The cat sat.", "answer": "A", "question": "Who _ ?",
    "options": ["sat", "ran"],
}  # fmt: skip
_RACE = {"task_name": "race", "high_only": True}
TAGGED = [
    {"id": 1, "text": "李雷去北京。", "label": {"name": {"李雷": [[0, 1]]}}},
    {"id": "b", "text": "Anna left.", "entities": [{"start": 0, "end": 4, "label": "PER"}]},
]
ROWS = [{"text": f"The cat {n}.", "label": str(n % 2)} for n in range(5)]
# A row of the Hub's data set, and of files of lines.
QUESTION = {
    "id": "1", "title": "T", "context": "The cat sat.", "question": "Who sat?",
    "answers": {"text": ["cat"], "answer_start": [4]},
}  # fmt: skip


class Kind(NamedTuple):
    """A kind of file.

    Attributes:
        file: its name in the folder.
        make: writes it, and what belongs to it, into a folder.
        read: reads the folder as the programs do.
    """

    file: str
    make: Callable[[pathlib.Path], Any]
    read: Callable[[pathlib.Path], Any]


def _beside(name: str, content: Any, read: Callable[[str], Any] = find_adjacent_files) -> Kind:
    """Return a kind that belongs to a folder, whose path `read` gets.

    The content is bytes, a text, a function that writes the file, or anything else, as JSON.
    """

    def make(folder: pathlib.Path) -> None:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if callable(content):
            content(path)
        elif isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))

    return Kind(name, make, lambda folder: read(str(folder)))


def _file(name: str, content: Any, read: Callable[[str], Any]) -> Kind:
    """Return a kind whose file stands alone; `read` gets its path."""
    return _beside(name, content, lambda folder: read(f"{folder}/{name}"))


def _parquet(rows: list[dict[str, Any]]) -> Callable[[pathlib.Path], None]:
    return lambda path: write_parquet(path, rows)


def _corpus(format: str, name: str, content: Any) -> Kind:
    def read(path: str) -> None:
        for document in read_corpus(format, path)[0]:
            "".join(document.paragraphs).encode()

    return _file(name, content, read)


def _table(name: str, content: Any) -> Kind:
    return _file(name, content, lambda path: list(read_table(path)))


def _settings(kind: TaskKind, content: dict[str, Any]) -> Kind:
    """Return the kind of what training notes for exports and later runs."""
    form, options = kind.load("export").settings_class, kind.load("options")

    def read(folder: str) -> None:
        read_settings(form, folder, kind.settings_file, {})
        with_trained_settings(options(output_dir=folder))

    return _beside(kind.settings_file, content, read)


# What a kind of task notes, besides the length.
_SETTINGS = {
    "target.json": {"kind": "regression", "spread": 0.5},
    "question_answering.json": {"squad_head": "span", "doc_stride": 9},
    "multiple_choice.json": {"task_name": "race", "max_qa_length": 9},
    "tagging.json": {"unit": "text", "tags": "entities", "tag_column": 2},
    "sentences.json": {"pooling": "mean"},
}


def _read_choices(split: str, **options: Any) -> Callable[[str], Any]:
    def read(place: str) -> None:
        where = "data_dir" if split == "predict" else f"{split}_file"
        options[where] = place
        read_questions(MultipleChoiceOptions(output_dir="x", **options), split)

    return read


def _weights(name: str) -> Callable[[pathlib.Path], Any]:
    def read(folder: pathlib.Path) -> None:
        weights = open_weights(str(folder / name))
        for tensor in weights.tensors:
            weights.read(tensor)

    return read


@functools.cache
def _model():
    return random_model("pretraining", CONFIG)


def _make_huggingface(folder: pathlib.Path) -> None:
    from albert_tf.interop.huggingface import write_weights

    fields = {"architectures": ["AlbertForPreTraining"], "id2label": {"0": "a", "1": "b"}}
    write_weights(str(folder), values_of(_model()), CONFIG, fields)
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": true}')


def _make_parts(folder: pathlib.Path) -> None:
    _make_huggingface(folder)
    rewrite_weights(folder, "model.safetensors", parts=2)


def _make_pickle(folder: pathlib.Path) -> None:
    _make_huggingface(folder)
    rewrite_weights(folder, "pytorch_model.bin")


def _read_checkpoint(folder: pathlib.Path) -> None:
    checkpoints = TensorFlowFolder(str(folder))
    path = checkpoints.latest()
    assert path is None or checkpoints.damage_of(path) is None


def _make_jax_checkpoint(folder: pathlib.Path) -> None:
    (folder / "albert_config.json").write_text(CONFIG.to_json())
    values = values_of(_model())
    moments = {f"lamb/{path}_m": value for path, value in values.items()}
    OrbaxFolder(str(folder)).write(7, values, moments)


def _read_jax_checkpoint(folder: pathlib.Path) -> None:
    if path := OrbaxFolder(str(folder)).latest():
        _weights("")(pathlib.Path(path))


def _write_records(path: pathlib.Path) -> None:
    write_records(path, batch(8))


def _read_records(path: str) -> None:
    features = pretraining_features(LENGTH, PREDICTIONS)
    check_files([path], features)
    index = RecordIndex.create([path])
    batches = RecordStream(index, features, 4, 1, shuffle_buffer_size=8).batches()
    assert batches[1]["input_ids"].shape == (4, LENGTH)


def _make_index(folder: pathlib.Path) -> None:
    path = folder / "a.tfrecord"
    _write_records(path)
    write_indexes([str(path)], [index_records(str(path))])


def _read_manifest(folder: str) -> None:
    manifests = find_manifests([f"{folder}/a.tfrecord"])
    dynamic_masks(manifests, PREDICTIONS)
    check_manifests(manifests, LENGTH, PREDICTIONS, VOCAB)
    pair_objective(manifests)


def _read_best(folder: str) -> None:
    checkpoints = types.SimpleNamespace(listed=lambda: f"{folder}/best/model.ckpt-7")
    engine = types.SimpleNamespace(checkpoints_in=lambda folder: checkpoints)
    BestCheckpoint(engine, folder, "loss").is_better(0.5)


def _make_start(folder: pathlib.Path) -> None:
    for name, content in start_file(PretrainingOptions(output_dir=str(folder)), "data").items():
        (folder / name).write_text(content)


def _read_start(folder: pathlib.Path) -> None:
    warn_of_changes(PretrainingOptions(output_dir=str(folder), learning_rate=0.5), "other", 50)


def _read_log(folder: str) -> None:
    log = TrainingLog(folder, 100, 50, Workload(8, float))
    log.close()
    shutil.rmtree(f"{folder}/train")
    run_report._learning(folder, ["accuracy"], False)


def _read_finished(folder: pathlib.Path) -> None:
    single_run.finished_record(QuestionAnsweringOptions(output_dir=str(folder)), "data")


def _make_finished(folder: pathlib.Path) -> None:
    options = QuestionAnsweringOptions(output_dir=str(folder / "run"))
    (folder / "run").mkdir()
    scored = types.SimpleNamespace(results={"f1": 0.5}, collapsed=None)
    run = {"step": 7, "checkpoint": f"{folder}/model.ckpt-7", "evaluation": scored}
    single_run.finish(options, "data", types.SimpleNamespace(**run))
    (folder / "run" / "finished.json").rename(folder / "finished.json")
    (folder / "run").rmdir()


def _read_vocabulary(path: str) -> None:
    Tokenizer.load(path).encode("The cat sat on the mat, 1,234 times.")


def _archive(name: str, format: str) -> Kind:
    """Return the kind of archives of published weights."""

    def make(folder: pathlib.Path) -> None:
        with tempfile.TemporaryDirectory() as packed:
            write_trained(pathlib.Path(packed, "albert_base"))
            shutil.make_archive(str(folder / "a"), format, packed)

    def read(folder: pathlib.Path) -> None:
        with tempfile.TemporaryDirectory() as place:
            unpack(str(folder / name), f"{place}/out")

    return Kind(name, make, read)


def _read_hub_glue(folder: str) -> None:
    dataset = GLUE["MRPC"].located(folder, ("train",))
    read_examples(dataset, dataset.sets["train"][0], labeled=True)


def _lines(rows: list[Any]) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


EVALUATIONS = _lines([{"step": n, "loss": 1 / n, "eval_loss": 2.0} for n in range(1, 6)])
CSV = "text,label\n" + "".join(f'"{row["text"]}",{row["label"]}\n' for row in ROWS)
DUMP = dump([page(f"t{n}", f"Article {n} is a sentence. [[a|b]] <ref>") for n in range(9)])
BOOK = "A book.\n\nIts first sentence is here. And another one.\n\nAnd an end.\n" * 20

KINDS: dict[str, Kind] = {
    "compressed archive": _archive("a.tar.gz", "gztar"),
    "zip archive": _archive("a.zip", "zip"),
    "source of weights": _beside(
        "albert_tf_source.json", Origin("a", "https://a", "SHA-256 1").to_json(), source_of
    ),
    "albert_config.json": _file(
        "albert_config.json", CONFIG.to_json(), AlbertConfig.from_json_file
    ),
    "config.json of Hugging Face": Kind(
        "config.json", _make_huggingface, _weights("model.safetensors")
    ),
    "tokenizer_config.json": Kind(
        "tokenizer_config.json", _make_huggingface, lambda folder: find_adjacent_files(str(folder))
    ),
    "id2label": Kind(
        "config.json", _make_huggingface, lambda folder: find_adjacent_files(str(folder))
    ),
    "safetensors": Kind("model.safetensors", _make_huggingface, _weights("model.safetensors")),
    "safetensors index": Kind("model.safetensors.index.json", _make_parts, _weights("")),
    "labels.json": _beside("labels.json", ["a", "b"]),
    "eval_results.txt": _beside(
        "eval_results.txt",
        "eval_f1 = 0.5\nglobal_step = 7\n",
        lambda folder: (find_adjacent_files(folder), read_results(folder)),
    ),
    "evaluation_data.json": _beside(
        "evaluation_data.json", [{"name": "", "data": "dev.tsv", "examples": 9}]
    ),
    "training_data.json": _beside("training_data.json", {"a.manifest.json": _MANIFEST}),
    **{
        kind.settings_file: _settings(kind, _SETTINGS[kind.settings_file] | {"max_seq_length": 9})
        for kind in task_kinds()
    },
    "evaluations.jsonl": _file("evaluations.jsonl", EVALUATIONS, read_rows),
    "metrics.jsonl": _beside("metrics.jsonl", EVALUATIONS, _read_log),
    "best": _beside(
        "best/model.ckpt-7.json", {"metric": "loss", "value": 0.5, "step": 7}, _read_best
    ),
    "last_start.json": Kind("last_start.json", _make_start, _read_start),
    "finished.json": Kind("finished.json", _make_finished, _read_finished),
    "seeds.json": _beside(
        "seeds.json",
        {"best": "a", "settings": [{"runs": 3}], "runs": [{"f1": 0.5}]},
        run_report._runs,
    ),
    "export.json": _beside("export.json", {"made_from": {"labels": ["a"]}}, read_export),
    "manifest.json": _beside("a.manifest.json", _MANIFEST, _read_manifest),
    "index.json": Kind(
        "a.index.json", _make_index, lambda folder: find_indexes([str(folder / "a.tfrecord")])
    ),
    "list of checkpoints": Kind("checkpoint", write_trained, _read_checkpoint),
    "checkpoint": Kind("model.ckpt-7.data-00000-of-00001", write_trained, _read_checkpoint),
    "checkpoint index": Kind("model.ckpt-7.index", write_trained, _read_checkpoint),
    "keras weights": Kind(
        "model.weights.h5",
        lambda folder: keras_file(folder, _model()),
        _weights("model.weights.h5"),
    ),
    "spiece.model": _file("a.model", OWN_VOCABULARY.read_bytes(), _read_vocabulary),
    "vocab.txt": _file(
        "vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\n##a", _read_vocabulary
    ),
    "tsv": _table("a.tsv", CSV.replace(",", "\t")),
    "csv": _table("a.csv", CSV),
    "jsonl": _table("a.jsonl", _lines(ROWS)),
    "parquet": _table("a.parquet", _parquet(ROWS * 50)),
    "xlsx": _table("a.xlsx", lambda path: write_xlsx(path, [["text", "label"], ["a", 1.0]])),
    "xls": _table("a.xls", lambda path: write_xls(path, FILMS)),
    "hub glue": _beside(
        "mrpc/train-0.parquet",
        _parquet([{"sentence1": "a", "sentence2": "b", "label": 1, "idx": 0}]),
        _read_hub_glue,
    ),
    "hub squad": _file("squad_v2/train-0.parquet", _parquet([QUESTION]), read_squad),
    "hub race": _beside(
        "high/test-0.parquet", _parquet([_HUB_RACE]), _read_choices("predict", **_RACE)
    ),
    "race": _beside("RACE/test/high/1.txt", RACE, _read_choices("predict", **_RACE)),
    "choices": _file("a.jsonl", _lines([CHOICE] * 3), _read_choices("train", task_name="json")),
    "c3": _beside("test.json", C3_TEST, _read_choices("predict", task_name="c3")),
    "conll": _file(
        "a.txt",
        "Anna\tB-PER\nleft\tO\n\n# a comment\nOslo\tB-LOC\n",
        lambda path: read_tagged(path, ReadOptions()),
    ),
    "tagged texts": _file("a.jsonl", _lines(TAGGED), lambda path: read_tagged(path, ReadOptions())),
    "conllu": _file(
        "a.txt", CONLLU, lambda path: read_tagged(path, ReadOptions(word_column=2, tag_column=4))
    ),
    "squad": _file("a.json", SQUAD, read_squad),
    "cmrc": _file("a.json", CMRC, read_squad),
    "TFRecord": _file("a.tfrecord", _write_records, _read_records),
    "dump": _corpus("wikipedia", "a.xml", DUMP),
    "dump, compressed": _corpus("wikipedia", "a.xml.bz2", bz2.compress(DUMP)),
    "book": _corpus("books", "a.txt", BOOK),
    "text": _corpus("text", "a.txt", BOOK),
    "wikitext": _corpus("wikitext", "a.tokens", " = Title = \n\n A text .\n"),
    "parquet corpus": _corpus("table", "a.parquet", _parquet(ROWS * 50)),
    "jsonl corpus, compressed": _corpus(
        "table", "a.jsonl.gz", gzip.compress(_lines(ROWS).encode())
    ),
}
if importlib.util.find_spec("torch"):
    KINDS["pickle"] = Kind("pytorch_model.bin", _make_pickle, _weights(""))
if importlib.util.find_spec("orbax"):
    KINDS |= {
        name: Kind(file, _make_jax_checkpoint, _read_jax_checkpoint)
        for name, file in (
            ("list of checkpoints of jax", "checkpoints.json"),
            ("checkpoint of jax", "model.ckpt-7/manifest.ocdbt"),
        )
    }
