"""The stages of the demo: the commands that a user would type, in order."""

from typing import NamedTuple


class Stage(NamedTuple):
    """One block of the demo.

    Attributes:
        name: key in `stages.json`.
        title, purpose: heading, and what the stage does.
        commands: what follows `python`; `{out}` is replaced by the folder of the demo, `{source}`
            and `{language}` by the text and its language, `{vocab_size}` and
            `{eval_pairs}` by a flag or nothing.
        made: the files it writes to that folder.
        resumes: whether its commands resume after an interruption.
    """

    name: str
    title: str
    purpose: str
    commands: tuple[str, ...]
    made: tuple[str, ...]
    resumes: bool = False


_FLAGS = "--flagfile=configs/demo/"
_MODEL = "--albert_config_file=configs/demo/albert_config.json"
_VOCABULARY = "--spm_model_file={out}/vocabulary.model"
_RECORDS = f"-m data_prep.create_pretraining_data {_VOCABULARY}"
_PRETRAIN = f"run_pretraining.py {_FLAGS}pretrain.cfg {_MODEL} --output_dir={{out}}/pretrained"
_CLASSIFY = (
    f"run_classifier.py {_FLAGS}classify.cfg {_MODEL} {_VOCABULARY} "
    "--train_file={out}/passages/train.tsv --eval_file={out}/passages/eval.tsv"
)

DOCS = Stage(
    "docs",
    "Text",
    "Collects the docstrings of installed packages, a table for each.",
    (
        "-m examples.demo.package_docs --package_list=configs/demo/packages.txt "
        "--output_dir={out}/docs",
    ),
    ("docs",),
)
STAGES = (
    DOCS,
    Stage(
        "corpus",
        "Corpus",
        "Reads text, splits it into sentences and holds out documents for evaluation.",
        (
            f"-m data_prep.extract_corpus {_FLAGS}extract_corpus.cfg --source={{source}} "
            "--language={language} --output_file={out}/corpus/train.txt "
            "--eval_output_file={out}/corpus/eval.txt",
        ),
        ("corpus/train.txt", "corpus/eval.txt"),
    ),
    Stage(
        "vocabulary",
        "Vocabulary",
        "Trains a SentencePiece unigram model on the training documents.",
        (
            f"-m data_prep.train_vocabulary {_FLAGS}train_vocabulary.cfg "
            "--input_file={out}/corpus/train.txt --output_prefix={out}/vocabulary {vocab_size}",
        ),
        ("vocabulary.model", "vocabulary.vocab"),
    ),
    Stage(
        "records",
        "Training examples",
        "Combines sentences into pairs, swaps half of them, and masks whole words.",
        (
            f"{_RECORDS} {_FLAGS}create_pretraining_data.cfg --input_file={{out}}/corpus/train.txt "
            "--output_file={out}/records/train.tfrecord",
            f"{_RECORDS} {_FLAGS}create_eval_data.cfg --input_file={{out}}/corpus/eval.txt "
            "--output_file={out}/records/eval.tfrecord",
        ),
        ("records/train.tfrecord", "records/eval.tfrecord"),
    ),
    Stage(
        "pretraining",
        "Pretraining",
        "Learns to predict masked tokens and to detect swapped pairs, with Muon.",
        (f"{_PRETRAIN} --do_train --input_file={{out}}/records/train.tfrecord",),
        ("pretrained",),
        resumes=True,
    ),
    Stage(
        "evaluation",
        "Evaluation",
        "Measures both objectives on the held-out documents, in float32.",
        (
            f"{_PRETRAIN} --do_eval --dtype=float32 "
            "--eval_input_file={out}/records/eval.tfrecord {eval_pairs}",
        ),
        ("pretrained/eval_results.txt",),
    ),
    Stage(
        "passages",
        "A task with real labels",
        "Collects passages to classify by their source, with the name of the source removed.",
        (
            f"-m examples.demo.passages {_FLAGS}passages.cfg --corpus_dir={{out}}/corpus "
            "--output_dir={out}/passages",
        ),
        ("passages/train.tsv", "passages/eval.tsv"),
    ),
    Stage(
        "finetuning",
        "Fine-tuning",
        "Trains a classifier from the pretrained weights.",
        (
            f"{_CLASSIFY} {_FLAGS}finetune.cfg --init_checkpoint={{out}}/pretrained "
            "--output_dir={out}/finetuned",
        ),
        ("finetuned",),
        resumes=True,
    ),
    Stage(
        "scratch",
        "The same from scratch",
        "Trains the same classifier from random weights, for comparison.",
        (f"{_CLASSIFY} {_FLAGS}from_scratch.cfg --output_dir={{out}}/from_scratch",),
        ("from_scratch",),
        resumes=True,
    ),
    Stage(
        "export",
        "Export",
        "Writes a SavedModel with the vocabulary inside.",
        (
            f"export_saved_model.py {_VOCABULARY} --init_checkpoint={{out}}/pretrained "
            "--export_path={out}/export",
        ),
        ("export",),
    ),
    Stage(
        "check",
        "Reload",
        "Loads the export in a process without this project and repeats the evaluation.",
        (
            "-m examples.demo.check_export {out}/export/encoder {out}/records/eval.tfrecord "
            "{out}/export_check.json",
        ),
        ("export_check.json",),
    ),
    Stage(
        "report",
        "Report",
        "Writes down the results.",
        ("-m examples.demo.write_report --output_dir={out}",),
        ("report.html",),
    ),
)
