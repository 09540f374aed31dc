"""Answers to questions that are spans of a text, or that there is none (SQuAD 1.1 and 2.0)."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, read_text
from albert_tf.finetuning.run import fine_tune
from albert_tf.finetuning.squad.answers import (
    NullScore,
    Prediction,
    null_of_class,
    null_of_logits,
    predict_answers,
    write_answers,
)
from albert_tf.finetuning.squad.spans import SpanFinder, conditional_spans, independent_spans
from albert_tf.finetuning.squad.squad_files import Question, SquadFile, read_squad
from albert_tf.finetuning.squad.squad_metrics import best_threshold, evaluate, question_scores
from albert_tf.finetuning.squad.squad_options import SquadOptions
from albert_tf.finetuning.squad.squad_report import answered_section, squad_sections
from albert_tf.finetuning.squad.windows import Windows, make_windows
from albert_tf.finetuning.task import ExampleSet, Problem
from albert_tf.flops import conditional_span_flops, span_flops
from albert_tf.interop.companions import QUESTION_ANSWERING_FILE as SETTINGS_FILE
from albert_tf.interop.companions import find_companions
from albert_tf.modeling.heads import AlbertForQuestionAnswering
from albert_tf.modeling.losses import ConditionalSpanObjective, Objective, SpanObjective
from albert_tf.modeling.question_answering import AlbertForConditionalQuestionAnswering
from albert_tf.report.sections import Section
from albert_tf.tokenizers import Tokenizer

THRESHOLD = "null_score_diff_threshold"
# Options that exports answer questions with.
_FOR_EXPORTS = (
    "max_seq_length",
    "max_query_length",
    "doc_stride",
    "max_answer_length",
    "start_n_top",
    "end_n_top",
)
# Ids of the questions that are named where something is wrong with them.
_NAMED = 20


class Head(NamedTuple):
    """A way of finding answers.

    Attributes:
        create: the model, of the options, a config and the name of a Keras policy.
        objective: what its training minimises.
        outputs: of the model that answers are found in.
        find: the best spans in the outputs of a window.
        null: how sure it is of a window, given its outputs and the best span of the question, that
            there is no answer.
        flops: operations of training on an example of a length.
    """

    create: Callable[[SquadOptions, AlbertConfig, str], keras.Model]
    objective: type[Objective]
    outputs: tuple[str, ...]
    find: SpanFinder
    null: NullScore
    flops: Callable[[AlbertConfig, int], float]


def _span_model(options: SquadOptions, config: AlbertConfig, dtype: str) -> keras.Model:
    return AlbertForQuestionAnswering(config, dtype=dtype)


def _conditional_model(options: SquadOptions, config: AlbertConfig, dtype: str) -> keras.Model:
    return AlbertForConditionalQuestionAnswering(
        config, options.start_n_top, options.end_n_top, options.classifier_dropout, dtype=dtype
    )


HEADS = {
    "span": Head(
        _span_model,
        SpanObjective,
        ("start_logits", "end_logits"),
        independent_spans,
        null_of_logits,
        span_flops,
    ),
    "conditional": Head(
        _conditional_model,
        ConditionalSpanObjective,
        (
            "start_top_log_probs",
            "start_top_index",
            "end_top_log_probs",
            "end_top_index",
            "cls_logits",
        ),
        conditional_spans,
        null_of_class,
        conditional_span_flops,
    ),
}


def answer_questions(options: SquadOptions) -> None:
    """Trains, evaluates and predicts as the options say; see `fine_tune`.

    Raises:
        InputError: a flag or file is not what it should be.
    """
    read = functools.cache(read_squad)  # the same file serves evaluation and prediction
    files = {split: _read(options, split, read) for split in options.splits()}
    train = files.get("train")
    options = options.resolved(len(train.questions) if train else 0)

    def create(options: SquadOptions, tokenizer: Tokenizer) -> QuestionAnswering:
        return QuestionAnswering(options, tokenizer, files)

    fine_tune(options, create)


def _read(options: SquadOptions, split: str, read: Callable[[str], SquadFile]) -> SquadFile:
    flag = "train_file" if split == "train" else "predict_file"
    path = getattr(options, flag)
    if not path:
        raise InputError(f"--{flag}: a file is needed for --do_{split}")
    file = read(path)
    if split != "predict" and not file.labelled:
        raise InputError(f"--{flag}={path}: holds no answers, which --do_{split} needs")
    without = file.without_answer() if file.labelled else 0
    if without and options.version_2_with_negative is False:
        raise InputError(
            f"--{flag}={path}: {without} of {len(file.questions)} questions have no answer; leave "
            "--version_2_with_negative out, or set it"
        )
    return file


class QuestionAnswering(Problem):
    """Finds the answers to questions in their contexts.

    Predictions are `predictions.json` (question id -> answer, "" for none),
    `nbest_predictions.json` and, where questions may have no answer, `null_odds.json`.

    Args:
        options: of run_squad.py, with numbers of steps.
        tokenizer: of the model.
        files: split -> what its file holds.

    Raises:
        InputError: files and options do not go together.
    """

    metric = "f1"

    def __init__(self, options: SquadOptions, tokenizer: Tokenizer, files: dict[str, SquadFile]):
        self._options = options
        self._version_2, self._head_name = self._settings(files)
        self._head = HEADS[self._head_name]
        self.objective = self._head.objective()
        self.outputs = self._head.outputs
        self.sets = {}
        made: dict[str, ExampleSet] = {}
        for split, file in files.items():
            if split == "train":
                self.sets[split] = [self._train_set(file, tokenizer)]
                continue
            if file.path not in made:
                made[file.path] = self._set(split, file, tokenizer)
            self.sets[split] = [made[file.path]]

    def _settings(self, files: dict[str, SquadFile]) -> tuple[bool, str]:
        """Whether questions may have no answer, and the name of the head."""
        options = self._options
        path = f"{options.output_dir}/{SETTINGS_FILE}"
        there = json.loads(read_text(path)) if exists(path) else {}
        version_2 = options.version_2_with_negative
        if version_2 is None:
            said = [file.version_2 for file in files.values()]
            version_2 = there.get("version_2_with_negative", any(said))
            if any(said) and not version_2 and "train" not in files:
                version_2 = True
        head = options.squad_head
        if head == "auto":
            head = there.get("squad_head", "conditional" if version_2 else "span")
        for name, value in (("squad_head", head), ("version_2_with_negative", version_2)):
            if "train" in files and there.get(name, value) != value:
                raise InputError(
                    f"--{name}={value}: --output_dir={options.output_dir} holds a model that was "
                    f"trained with {there[name]}"
                )
        if there.get("squad_head", head) != head:
            raise InputError(
                f"--squad_head={head}: --output_dir={options.output_dir} holds a model that was "
                f"trained with {there['squad_head']}"
            )
        return version_2, head

    def _train_set(self, file: SquadFile, tokenizer: Tokenizer) -> ExampleSet:
        """The windows of the questions that can be learnt from; others are named."""
        placed = {question: question.placed_answer() for question in file.questions}
        misplaced = [q for q, answer in placed.items() if q.answers and answer is None]
        for question in misplaced:
            del placed[question]
        windows = self._windows("train", list(placed), tokenizer, list(placed.values()))
        _name_left_out(file, misplaced, "the answer is not in the context at answer_start")
        _name_left_out(file, windows.left_out, "no token stands for any of the answer")
        if not windows.windows:
            total = len(file.questions)
            raise InputError(f"--train_file={file.path}: none of its {total} questions is left")
        impossible = windows.features.arrays["is_impossible"]
        print(f"train: {impossible.sum()} windows without the answer")
        if windows.answers_in_no_window:
            print(f"train: {windows.answers_in_no_window} answers fit whole into no window")
        return ExampleSet("", windows.features, windows.windows)

    def _set(self, split: str, file: SquadFile, tokenizer: Tokenizer) -> ExampleSet:
        windows = self._windows(split, file.questions, tokenizer)
        return ExampleSet("", windows.features, windows.windows)

    def _windows(
        self, split: str, questions: list[Question], tokenizer: Tokenizer, answers=None
    ) -> Windows:
        length, query = self._options.max_seq_length, self._options.max_query_length
        stride = self._options.doc_stride
        windows = make_windows(questions, tokenizer, length, query, stride, answers)
        cut = windows.cut_questions
        shortened = f", {cut} cut to {query} tokens" if cut else ""
        print(f"{split}: {len(questions)} questions{shortened}, {len(windows.windows)} windows")
        return windows

    def create_model(self, config: AlbertConfig, dtype: str) -> keras.Model:
        return self._head.create(self._options, config, dtype)

    def flops_per_example(self, config: AlbertConfig) -> float:
        return self._head.flops(config, self._options.max_seq_length)

    def description(self) -> dict[str, str]:
        settings = {"squad_head": self._head_name, "version_2_with_negative": self._version_2}
        settings |= {name: getattr(self._options, name) for name in _FOR_EXPORTS}
        return {SETTINGS_FILE: json.dumps(settings) + "\n"}

    def score(self, examples: ExampleSet, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        """Results as in `squad_metrics.evaluate`; in 2.0 with the best thresholds as well.

        The threshold with the best F1 is taken, unless `--null_score_diff_threshold` gives another.
        """
        predictions = self._predict(examples, outputs)
        questions = _questions_of(examples)
        if not self._version_2:
            answers = {id: each.answer() for id, each in predictions.items()}
            return evaluate(questions, answers, version_2=False)
        scores = np.array([question_scores(q, predictions[q.id].answer(), True) for q in questions])
        nulls = np.array([predictions[question.id].null_score for question in questions])
        has_answer = np.array([bool(question.answers) for question in questions])
        thresholds = {}
        for column, name in enumerate(("exact", "f1")):
            best, threshold = best_threshold(scores[:, column], has_answer, nulls)
            thresholds |= {f"best_{name}": best, f"best_{name}_thresh": threshold}
        threshold = self._options.null_score_diff_threshold
        thresholds[THRESHOLD] = thresholds["best_f1_thresh"] if threshold is None else threshold
        answers = {id: each.answer(thresholds[THRESHOLD]) for id, each in predictions.items()}
        return {**evaluate(questions, answers, version_2=True), **thresholds}

    def _predict(
        self, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> dict[str, Prediction]:
        options = self._options
        limits = options.max_answer_length, options.n_best_size
        return predict_answers(
            examples.examples, outputs, self._head.find, self._head.null, *limits
        )

    def write_predictions(
        self, folder: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> None:
        threshold = self._prediction_threshold(folder) if self._version_2 else None
        write_answers(folder, self._predict(examples, outputs), threshold)

    def report(
        self, split: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> list[Section]:
        predictions = self._predict(examples, outputs)
        threshold = (
            self._prediction_threshold(self._options.output_dir) if self._version_2 else None
        )
        if split == "predict":
            return [answered_section([each.answer(threshold) for each in predictions.values()])]
        questions = _questions_of(examples)
        return squad_sections(questions, predictions, threshold, self._version_2)

    def _prediction_threshold(self, folder: str) -> float:
        """That of the flag, of the last evaluation in the folder, or else 0."""
        if self._options.null_score_diff_threshold is not None:
            return self._options.null_score_diff_threshold
        return float(find_companions(folder).results.get(THRESHOLD, 0.0))


def _questions_of(examples: ExampleSet) -> list[Question]:
    """The questions that a set's windows belong to, each once."""
    questions = [window.question for window in examples.examples]
    return list({question.id: question for question in questions}.values())


def _name_left_out(file: SquadFile, questions: list[Question], reason: str) -> None:
    """Says which questions are not trained on, and why."""
    if not questions:
        return
    print(f"{file.path}: {len(questions)} of {len(file.questions)} questions left out, {reason}:")
    for question in questions[:_NAMED]:
        print(f"  {question.id}: {question.answers[0].text[:60]!r} at {question.answers[0].start}")
    if len(questions) > _NAMED:
        print(f"  and {len(questions) - _NAMED} more")
