"""Answers questions with spans of raw contexts."""

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import keras

from albert_tf.errors import InputError, arguments_renamed
from albert_tf.interop.adjacent_files import results_text
from albert_tf.interop.file_names import RESULTS_FILE
from albert_tf.interop.heads import HEADS
from albert_tf.tasks.question_answering import KIND
from albert_tf.tasks.question_answering.metrics import choose_metric
from albert_tf.tasks.question_answering.options import THRESHOLD, QuestionAnsweringOptions
from albert_tf.tasks.question_answering.readers import Answer as GivenAnswer
from albert_tf.tasks.question_answering.readers import SquadQuestion
from albert_tf.tasks.question_answering.spans import Prediction
from albert_tf.tasks.question_answering.task import QuestionAnsweringTask
from albert_tf.text_models.fitting import SEED
from albert_tf.text_models.inputs import (
    as_list,
    as_texts,
    check_any,
    check_same_length,
    check_whole_number,
    shown_value,
)
from albert_tf.text_models.task_model import TaskModel


class Answer(NamedTuple):
    """An answer: `context[start:end] == text`.

    Attributes:
        text: part of the context; "" for no answer.
        start: index of its first character in the context; 0 for no answer.
        end: index after its last character.
        score: probability among the best answers to the question (`nbest_predictions.json`); 0 for
            no answer.
    """

    text: str
    start: int
    end: int
    score: float


class QuestionAnswerer(TaskModel[QuestionAnsweringTask]):
    """Finds the answers to questions in their contexts, however long these are.

        answerer = albert_tf.QuestionAnswerer.from_preset("out/squad")
        answerer.predict(["Who sat?"], ["The cat sat on the mat."])

    Wherever a method takes `questions` and `contexts`, it takes texts, or lists, tuples, NumPy
    arrays or pandas Series of texts, of the same length. A single context is that of all questions.

    Weights without a head of question answering get a new one, which `fit` creates: it depends on
    whether some questions have no answer. `version_2_with_negative` or `squad_head` say it before.
    `from_preset` also takes the `seed` of a new head, and options of run_squad.py:
    `max_seq_length`, `doc_stride`, `max_query_length`, `max_answer_length`, `n_best_size`,
    `squad_head`, `version_2_with_negative`, `null_score_diff_threshold`, ...

    Methods raise `InputError` if an argument is invalid, or if there is no head yet.

    Attributes:
        task: the `QuestionAnsweringTask` behind it; None until the head is known.

    Example:
        >>> answerer = albert_tf.QuestionAnswerer.from_preset(
        ...     "albert/albert-base-v2", squad_head="span", max_seq_length=128, doc_stride=64
        ... )
        >>> context = "The cat sat on the mat."
        >>> answer = answerer.predict(["Who sat?"], [context])[0]
        >>> context[answer.start : answer.end] == answer.text
        True
    """

    kind = KIND
    settings = (
        *("max_seq_length", "max_query_length", "doc_stride", "max_answer_length"),
        *("start_n_top", "end_n_top", "n_best_size", "null_score_diff_threshold"),
        *("squad_head", "version_2_with_negative", "albert_dropout", "classifier_dropout"),
    )
    _options: QuestionAnsweringOptions

    @classmethod
    def _from_preset(cls, preset, dtype, *, seed=SEED, **settings):
        answerer = cls(preset, cls._options_of(preset, settings), dtype, seed)
        options = answerer._options
        if cls._has_head(preset):
            head = HEADS[preset.head].settings["squad_head"]
            if options.squad_head not in ("auto", head):
                raise InputError(f"`squad_head`={options.squad_head}: {preset.name} has {head}")
            answerer._use(squad_head=head)
        elif options.squad_head != "auto" or options.version_2_with_negative is not None:
            answerer._use()
        return answerer

    def _use(self, **changes: Any) -> None:
        """Use the task of the options, with changes that stay."""
        self._options = dataclasses.replace(self._options, **changes)
        self._use_task(QuestionAnsweringTask(self._options, self.tokenizer))

    @property
    def null_threshold(self) -> float | None:
        """The null score above which a question has no answer; None if every question has one.

        `evaluate` computes the best as `null_score_diff_threshold`; assign it to use it.
        """
        return self._known_task().threshold()

    @null_threshold.setter
    def null_threshold(self, value: float) -> None:
        if not isinstance(value, int | float):
            raise InputError(f"`null_threshold`={value!r}: must be a number")
        self._use(null_score_diff_threshold=float(value))

    def _adjacent_files(self) -> dict[str, str | bytes]:
        threshold = self.null_threshold
        results = {} if threshold is None else {RESULTS_FILE: results_text({THRESHOLD: threshold})}
        return super()._adjacent_files() | results

    def predict(self, questions: Any, contexts: Any, batch_size: int = 32) -> list[Answer]:
        """Answer questions, one answer each; `batch_size` windows are computed at a time."""
        task, asked = self._known_task(), _questions(questions, contexts)
        if not asked:
            return []
        encoded = self._set("predict", asked)
        predictions = task.predictions(encoded, self._outputs(encoded, batch_size))
        return [_answer(predictions[question.id], task.threshold()) for question in asked]

    def _predict_rows(self, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
        answers = self.predict(columns["question"], columns["context"], batch_size=batch_size)
        return [_result(*each) for each in answers]

    @staticmethod
    def _predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
        # In an export, no answer is at -1; in `Answer`, at 0.
        return [
            _result(text.decode(), max(int(start), 0), max(int(end), 0), score)
            for outputs in export("serving_default", columns)
            for text, start, end, score in zip(
                *(outputs[name] for name in ("answer", "start", "end", "score")), strict=True
            )
        ]

    def evaluate(
        self, questions: Any, contexts: Any, answers: Any, batch_size: int = 32
    ) -> dict[str, float]:
        """Compare answers with the truth, as `--do_eval` of run_squad.py does.

        Arguments are those of `fit` and `predict`.

        Returns:
            Results by name, such as `f1` and `exact_match`, as in `eval_results.txt`.
        """
        task, asked = self._known_task(), _questions(questions, contexts, answers)
        check_any(asked)
        metric, _ = choose_metric([each.text for question in asked for each in question.answers])
        options = dataclasses.replace(task.options, answer_metric=metric.name)
        encoded = self._set("eval", asked)
        scoring = QuestionAnsweringTask(options, self.tokenizer)
        return scoring.score(encoded, self._outputs(encoded, batch_size))

    def fit(
        self,
        questions: Any,
        contexts: Any,
        answers: Any,
        validation_data: tuple[Any, Any, Any] | None = None,
        **arguments: Any,
    ) -> keras.callbacks.History:
        """Train the model, as run_squad.py does, with the `fit` of Keras.

        Args:
            questions, contexts: at least one of each.
            answers: of each question: a text, which is searched for in the context; a tuple of text
                and index of its first character; or "" or None for no answer. Several correct
                answers are a list; training uses the first that the context contains.
            validation_data: questions, contexts and answers; their loss is computed after every
                epoch.
            **arguments: `epochs`, `batch_size`, ..., as described in `FitArguments`.

        Returns:
            Keras' `History`, with the loss of every epoch.
        """
        columns = {"questions": questions, "contexts": contexts, "answers": answers}
        asked, held_out = self._given(_questions, columns, validation_data, arguments)
        unanswered = next((each for each in asked if not each.answers), None)
        if self.task is None:
            self._use(version_2_with_negative=unanswered is not None)
        elif unanswered is not None and self.null_threshold is None:
            raise InputError(
                f"`answers`[{unanswered.id}]: is empty, but the model answers every question"
            )
        metric, _ = choose_metric([each.text for question in asked for each in question.answers])
        self._use(answer_metric=metric.name)
        with arguments_renamed(train_file="answers"):
            return self._fit(asked, held_out, arguments)


def _questions(questions: Any, contexts: Any, answers: Any = None) -> list[SquadQuestion]:
    asked = as_texts(questions, "questions")
    about = [contexts] * len(asked) if isinstance(contexts, str) else as_texts(contexts, "contexts")
    check_same_length(asked, about, "contexts", "questions")
    given: list[Any] = [None] * len(asked)
    if answers is not None:
        given = [answers] if isinstance(questions, str) else as_list(answers, "answers")
        check_same_length(asked, given, "answers", "questions")
    return [
        SquadQuestion(str(number), question, context, _given_answers(answer, number))
        for number, (question, context, answer) in enumerate(zip(asked, about, given, strict=True))
    ]


def _given_answers(value: Any, number: int) -> tuple[GivenAnswer, ...]:
    if value is None or value == "":
        return ()
    answers = []
    for each in value if isinstance(value, list) else [value]:
        text, start = each if isinstance(each, tuple) and len(each) == 2 else (each, -1)
        if not isinstance(text, str):
            raise InputError(
                f"`answers`[{number}]: must be a text, (text, start) or a list of these, not "
                f"{shown_value(value)}"
            )
        if start != -1:
            check_whole_number("answers", start, 0)
        answers.append(GivenAnswer(text, start))
    return tuple(answers)


def _answer(prediction: Prediction, threshold: float | None) -> Answer:
    text = prediction.answer(threshold)
    if not text:
        return Answer("", 0, 0, 0.0)
    start = prediction.candidates[0].start
    return Answer(text, start, start + len(text), float(prediction.nbest()[0]["probability"]))


def _result(text: str, start: int, end: int, score: float) -> dict[str, Any]:
    return {"prediction": text, "start": start, "end": end, "score": score}
