"""Answers questions with spans of a text, or with none (SQuAD 1.1 and 2.0)."""

import dataclasses
import itertools
import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, cast

import keras
import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, read_json
from albert_tf.finetuning.task import Baseline, ExampleSet, FineTuningTask, Outputs
from albert_tf.input.examples import Features
from albert_tf.interop.adjacent_files import find_adjacent_files
from albert_tf.logs import counted
from albert_tf.report.sections import Section
from albert_tf.tasks.question_answering import KIND
from albert_tf.tasks.question_answering.metrics import (
    METRICS,
    AnswerMetric,
    best_threshold,
    choose_metric,
    evaluate,
    overlapping_sentence,
    question_scores,
)
from albert_tf.tasks.question_answering.options import THRESHOLD, QuestionAnsweringOptions
from albert_tf.tasks.question_answering.readers import SquadFile, SquadQuestion, read_squad
from albert_tf.tasks.question_answering.report import answered_section, squad_sections
from albert_tf.tasks.question_answering.spans import (
    ANSWER_HEADS,
    AnswerHead,
    Prediction,
    write_answers,
)
from albert_tf.tasks.question_answering.windows import Windows, make_windows
from albert_tf.tokenizers import Tokenizer

logger = logging.getLogger(__name__)

_MOST_LISTED = 20  # of the questions that are skipped


@dataclasses.dataclass(frozen=True)
class _TrainedHead:
    """What `question_answering.json` says about the head of a trained model."""

    squad_head: Literal["span", "conditional"] | None = None
    version_2_with_negative: bool | None = None
    answer_metric: Literal["squad", "cmrc", "characters"] | None = None


class QuestionAnsweringTask(FineTuningTask):
    """Finds the answers to questions in their contexts.

    Predictions are `predictions.json` (question id -> answer, "" for none),
    `nbest_predictions.json` and, if questions may have no answer, `null_odds.json`.
    """

    options: QuestionAnsweringOptions
    averages_tokens = True
    percent = True
    title = "Question answering"

    def __init__(self, options: QuestionAnsweringOptions, tokenizer: Tokenizer):
        self._files = _read_files(options)
        super().__init__(options, tokenizer)
        self._version_2, self._head_name = self._settings()
        metric, self._metric_reason = self._choose_metric()
        self._metric_name = metric.name
        self.metric = f"{self._answer_metric.prefix}f1"
        self.objective = self._head.objective()
        self.outputs = self._head.outputs
        self._windows_by_path: dict[str, Windows] = {}
        length, query = self.options.max_seq_length, self.options.max_query_length
        if (room := length - query - 3) < 1:
            raise InputError(
                f"`max_seq_length`={length}: must exceed `max_query_length`={query} + 3, or no "
                "token of the context fits"
            )
        if (stride := self.options.doc_stride) >= room:
            text = "windows of long contexts do not overlap if the question is long"
            logger.warning("doc_stride=%d: %s; below %d, they do", stride, text, room)

    # By name, as a task is part of pickles.
    @property
    def _head(self) -> AnswerHead:
        return ANSWER_HEADS[self._head_name]

    @property
    def _answer_metric(self) -> AnswerMetric:
        return METRICS[self._metric_name]

    def _trained(self) -> _TrainedHead:
        folder = self.options.output_dir
        path = f"{folder}/{KIND.settings_file}"
        return read_json(path, _TrainedHead) if folder and exists(path) else _TrainedHead()

    def _choose_metric(self) -> tuple[AnswerMetric, str]:
        """Return the metric and why: the flag, else the answers, else the model's own."""
        name = self.options.answer_metric
        if name != "auto":
            return METRICS[name], ""
        trained = self._trained().answer_metric
        for split in ("eval", "train") if trained else ("eval", "train", "predict"):
            if (file := self._files.get(split)) and file.labeled:
                answers = [a.text for question in file.questions for a in question.answers]
                metric, reason = choose_metric(answers)
                if reason:
                    logger.info("%s: answer_metric=%s, because %s", file.path, metric.name, reason)
                return metric, reason
        return METRICS[trained or "squad"], ""

    @property
    def metric_names(self) -> tuple[str, ...]:
        exact, f1 = (f"{self._answer_metric.prefix}{name}" for name in ("exact", "f1"))
        groups = ("HasAns", "NoAns", "best") if self._version_2 else ()
        return (f1, f"{exact}_match", *(f"{of}_{name}" for of in groups for name in (exact, f1)))

    def _settings(self) -> tuple[bool, str]:
        """Return whether questions may have no answer, and the name of the head."""
        options, files, trained = self.options, self._files, self._trained()
        version_2 = options.version_2_with_negative
        if version_2 is None:
            version_2 = trained.version_2_with_negative
            if version_2 is None:
                learned = [files["train"]] if "train" in files else files.values()
                version_2 = any(file.version_2 for file in learned)
            if not version_2 and any(file.version_2 for file in files.values()):
                logger.warning(
                    "every question gets an answer, as in the data that the model learns from, "
                    "though some here have none"
                )
        head = options.squad_head
        if head == "auto":
            head = trained.squad_head or ("conditional" if version_2 else "span")
        for name, value in (("squad_head", head), ("version_2_with_negative", version_2)):
            if name == "version_2_with_negative" and "train" not in files:
                continue
            before = getattr(trained, name)
            if before not in (None, value):
                raise InputError(
                    f"`{name}`={value}: `output_dir`={options.output_dir} contains a model that "
                    f"was trained with {before}"
                )
        return version_2, head

    def read(self, split: str) -> dict[str, list[SquadQuestion]]:
        return {"": self._files[split].questions}

    def encode(self, split: str, examples: Sequence[SquadQuestion]) -> Features:
        file = self._files.get(split)
        if split == "train":
            return self._train_windows(examples, file.path if file else split)
        if file is None:
            return self._windows(split, examples)
        # The same file can serve evaluation and prediction.
        if file.path not in self._windows_by_path:
            self._windows_by_path[file.path] = self._windows(split, examples)
        return self._windows_by_path[file.path]

    def texts(self, examples: Sequence[SquadQuestion]) -> Iterator[str]:
        # Questions on the same context are next to each other.
        for context, questions in itertools.groupby(examples, lambda question: question.context):
            yield context
            yield from (question.text for question in questions)

    def _train_windows(self, questions: Sequence[SquadQuestion], source: str) -> Windows:
        """Return the windows of the questions with usable answers; others are listed."""
        placed = {question: question.placed_answer() for question in questions}
        misplaced = [q for q, answer in placed.items() if q.answers and answer is None]
        for question in misplaced:
            del placed[question]
        windows = self._windows("train", list(placed), list(placed.values()))
        if moved := sum(bool(a) and a not in q.answers for q, a in placed.items()):
            text = "found in the context, but not at answer_start"
            logger.info("%s: %s: %s", source, text, counted(moved, "answer"))
        reasons = {
            "the context does not contain the answer at answer_start": misplaced,
            "no token covers any of the answer": windows.skipped,
        }
        for reason, skipped in reasons.items():
            if not skipped:
                continue
            counts = f"{len(skipped):,} of {len(questions):,}"
            logger.info("%s: skipped %s questions, because %s:", source, counts, reason)
            for question in skipped[:_MOST_LISTED]:
                answer = question.answers[0]
                logger.info("  %s: %r at %d", question.id, answer.text[:60], answer.start)
            if len(skipped) > _MOST_LISTED:
                logger.info("  and %d more", len(skipped) - _MOST_LISTED)
        if not windows.windows:
            why = "; ".join(f"{reason} ({len(of)})" for reason, of in reasons.items() if of)
            count = counted(len(questions), "question")
            raise InputError(f"`train_file`={source}: none of its {count} is usable: {why}")
        impossible = windows.arrays["is_impossible"].sum()
        logger.info("train: %s without the answer", counted(impossible, "window"))
        if windows.answers_in_no_window:
            count = counted(windows.answers_in_no_window, "answer")
            logger.info("train: too long for any window: %s", count)
        return windows

    def _windows(
        self, split: str, questions: Sequence[SquadQuestion], answers: Sequence | None = None
    ) -> Windows:
        options, query = self.options, self.options.max_query_length
        lengths = options.max_seq_length, query, options.doc_stride
        windows = make_windows(questions, self.tokenizer, *lengths, answers)
        if windows.questions_truncated:
            truncated = counted(windows.questions_truncated, "question")
            logger.info("%s: %s truncated to %d tokens", split, truncated, query)
        return windows

    def build_model(self, config: AlbertConfig, dtype: str) -> keras.Model:
        return self._head.build(self.options, config, dtype)

    def flops_per_example(self, config: AlbertConfig) -> float:
        return self._head.flops(config, self.options.max_seq_length)

    def data_name(self, examples: ExampleSet) -> str:
        return os.path.basename(self._files[examples.split].path)

    def recorded_options(self) -> dict[str, Any]:
        own = {**self.ensemble_settings(), "answer_metric": self._answer_metric.name}
        return own | super().recorded_options()

    def score(self, examples: ExampleSet, outputs: Outputs) -> dict[str, float]:
        """Return results as in `evaluate`; for 2.0 also the best thresholds.

        The threshold with the best F1 is used, unless `null_score_diff_threshold` gives another.
        """
        chosen = self.options.null_score_diff_threshold
        results = self._results(examples.examples, self.predictions(examples, outputs), chosen)
        if self._version_2:  # for later predictions
            results[THRESHOLD] = results[f"best_{self._answer_metric.prefix}f1_thresh"]
        return results

    def answered(self, examples: ExampleSet) -> list[int]:
        file = self._files[examples.split]
        rows = enumerate(examples.examples if file.labeled else ())
        return [row for row, each in rows if each.id not in file.unlabeled]

    def score_at(self, examples: ExampleSet, outputs: Outputs, rows: list[int]) -> dict[str, float]:
        questions = [examples.examples[row] for row in rows]
        return self._results(questions, self.predictions(examples, outputs), self.threshold())

    def _results(self, questions: Sequence, predictions: Mapping, threshold: float | None) -> dict:
        """As `score`; without a threshold, that with the best F1 is used."""
        metric, best = self._answer_metric, dict[str, float]()
        answers = {id: each.answer() for id, each in predictions.items()}
        if self._version_2:
            scores = np.array([question_scores(q, answers[q.id], True, metric) for q in questions])
            nulls = np.array([predictions[question.id].null_score for question in questions])
            has_answer = np.array([bool(question.answers) for question in questions])
            for column, name in enumerate(("exact", "f1")):
                name = f"best_{metric.prefix}{name}"
                found = best_threshold(scores[:, column], has_answer, nulls)
                best |= {name: found[0], f"{name}_thresh": found[1]}
            threshold = found[1] if threshold is None else threshold
            answers = {id: each.answer(threshold) for id, each in predictions.items()}
        return {**evaluate(questions, answers, self._version_2, metric), **best}

    def baseline(self, examples: ExampleSet) -> Baseline:
        """Return the results of no answer, or, where all have one, of word overlap.

        The SQuAD paper (arXiv 1606.05250) has a baseline of the same idea, on the constituents of
        a parser: the part of the context around which most words of the question are.
        """
        questions, metric = examples.examples, self._answer_metric
        name = "never an answer"
        answers = {question.id: "" for question in questions}
        if not self._version_2:
            name = "the sentence with the most words of the question"
            answers = {each.id: overlapping_sentence(each, metric) for each in questions}
        return Baseline(name, evaluate(questions, answers, self._version_2, metric))

    def predictions(self, examples: ExampleSet, outputs: Outputs) -> dict[str, Prediction]:
        """Return the answers by the ids of their questions, with all candidates."""
        windows, options = cast(Windows, examples.features).windows, self.options
        return self._head.predict(windows, outputs, options.max_answer_length, options.n_best_size)

    def ensemble_settings(self) -> dict[str, Any]:
        return {"squad_head": self._head_name, "version_2_with_negative": self._version_2}

    def average(self, examples: ExampleSet, outputs: Sequence[Outputs]) -> Outputs:
        return self._head.average(outputs)

    def decode(self, examples: ExampleSet, outputs: Outputs) -> list[str]:
        """Return the question's id and its answer."""
        predictions, threshold = self.predictions(examples, outputs), self.threshold()
        return [f"{id}\t{each.answer(threshold)}" for id, each in predictions.items()]

    def write_predictions(self, folder: str, examples: ExampleSet, outputs: Outputs) -> None:
        write_answers(folder, self.predictions(examples, outputs), self.threshold())

    def report_sections(self, examples: ExampleSet, outputs: Outputs) -> list[Section]:
        predictions, threshold = self.predictions(examples, outputs), self.threshold()
        if examples.split == "predict":
            return [answered_section([each.answer(threshold) for each in predictions.values()])]
        questions, metric = examples.examples, self._answer_metric
        return squad_sections(
            questions, predictions, threshold, self._version_2, metric, self._metric_reason
        )

    def threshold(self) -> float | None:
        """Return the null threshold from the flag, else from the last evaluation, else 0.

        None if every question has an answer.
        """
        if not self._version_2:
            return None
        if self.options.null_score_diff_threshold is not None:
            return self.options.null_score_diff_threshold
        folder = self.options.output_dir
        return float(find_adjacent_files(folder).results.get(THRESHOLD, 0.0)) if folder else 0.0


def _read_files(options: QuestionAnsweringOptions) -> dict[str, SquadFile]:
    """Split -> its file; evaluation and prediction share theirs."""
    by_path: dict[str, SquadFile] = {}
    files = {}
    for split in options.splits():
        name, path = options.files[split], options.split_file(split)
        if path not in by_path:
            by_path[path] = read_squad(path)
        file = files[split] = by_path[path]
        if split != "predict" and not file.labeled:
            raise InputError(f"`{name}`={path}: contains no answers, which `do_{split}` needs")
        if split != "predict" and file.unlabeled:
            place = next(iter(file.unlabeled.values()))
            raise InputError(f"{path}: {place}: lacks 'answers', which other questions have")
        without = sum(not question.answers for question in file.questions)
        if split != "predict" and without and options.version_2_with_negative is False:
            raise InputError(
                f"`{name}`={path}: {without:,} of {len(file.questions):,} questions have no "
                "answer; omit or set `version_2_with_negative`"
            )
    return files
