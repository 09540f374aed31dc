"""Chooses among raw options."""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras
import numpy as np

from albert_tf.files import exists, read_json
from albert_tf.tasks.multiple_choice import KIND
from albert_tf.tasks.multiple_choice.choices import (
    BLANK,
    RACE_BLANK,
    ChoiceQuestion,
    answer_number,
    checked_choices,
)
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.task import MultipleChoiceTask, probabilities
from albert_tf.text_models.inputs import as_list, as_texts, check_same_length
from albert_tf.text_models.task_model import TaskModel


class MultipleChoice(TaskModel[MultipleChoiceTask]):
    """Chooses the option that answers a question about a context.

        chooser = albert_tf.MultipleChoice.from_preset("out/race")
        chooser.predict(["Who sat?"], ["The cat sat on the mat."], [["the dog", "the cat"]])

    Wherever a method takes `questions`, `contexts` and `options`, it takes sequences of the same
    length: texts, texts, and lists of 2 to 26 texts. A question may contain blanks (`_`), which the
    options fill; question or context may be empty. Methods raise `InputError` if an argument is
    invalid.

    Weights without its head get a new one. `from_preset` also takes its `seed`, and options of
    run_race.py: `max_seq_length`, `max_qa_length`, `albert_dropout`, `classifier_dropout`.

    Attributes:
        task: the multiple-choice task of `albert_tf.tasks.multiple_choice` behind it.

    Example:
        >>> chooser = albert_tf.MultipleChoice.from_preset(
        ...     "albert/albert-base-v2", max_seq_length=32, max_qa_length=16
        ... )
        >>> question, context = "Who sat?", "The cat sat on the mat."
        >>> chooser.predict([question], [context], [["the dog", "the cat"]])[0] in (0, 1)
        True
    """

    kind = KIND
    settings = ("max_seq_length", "max_qa_length", "albert_dropout", "classifier_dropout")
    _options: MultipleChoiceOptions
    # The command's default, 1000 of 12000 steps, for any number of steps.
    warmup_proportion = 1 / 12

    @classmethod
    def _options_of(cls, preset, settings, **fixed):
        path = os.path.join(preset.folder, KIND.settings_file)
        has_record = exists(path) and cls._has_head(preset)
        recorded = read_json(path, dict[str, Any]) if has_record else {}
        name = None if "task_name" in recorded else "json"
        options: Any = super()._options_of(preset, settings, task_name=name, **fixed)
        if "max_qa_length" not in {**recorded, **settings}:  # a default has to fit
            fitting = min(options.max_qa_length, max(1, options.max_seq_length - 3))
            options = dataclasses.replace(options, max_qa_length=fitting)
        return options

    def predict(
        self, questions: Any, contexts: Any, options: Any, batch_size: int = 8
    ) -> list[int]:
        """Choose an option for every question, `batch_size` questions at a time.

        Returns:
            The number of the chosen option, from 0, per question.
        """
        found = self.predict_proba(questions, contexts, options, batch_size)
        return found.argmax(axis=-1).tolist() if len(found) else []

    def predict_proba(
        self, questions: Any, contexts: Any, options: Any, batch_size: int = 8
    ) -> np.ndarray:
        """Predict the probability of every option; arguments as for `predict`.

        Returns:
            float32 `[questions, options]`, where questions with fewer options than others have 0
            for the missing ones.
        """
        asked = self._questions(questions, contexts, options)
        if not asked:
            return np.zeros((0, 0), np.float32)
        encoded = self._set("predict", asked)
        return probabilities(encoded, self._outputs(encoded, batch_size)).astype(np.float32)

    def _predict_rows(self, columns: Mapping[str, list], batch_size: int) -> list[dict[str, Any]]:
        question, context, options = (columns[n] for n in ("question", "context", "options"))
        rows = self.predict_proba(question, context, options, batch_size)
        return list(map(_result, rows, options))

    @staticmethod
    def _predict_exported(export: Any, columns: Mapping[str, list]) -> list[dict[str, Any]]:
        asked = columns["options"]
        reads_race = export.settings.get("task_name") == "race"
        for number, options in enumerate(asked):
            checked_choices(f"`options`[{number}]", options, "options", empty=reads_race)
        # Questions with as many options at a time: for RACE, an empty one is an option too.
        found: dict[int, Sequence[float]] = {}
        for count in set(map(len, asked)):
            rows = [row for row, options in enumerate(asked) if len(options) == count]
            part = {name: [values[row] for row in rows] for name, values in columns.items()}
            batches = export("serving_default", part)
            probabilities = [each for outputs in batches for each in outputs["probabilities"]]
            found |= zip(rows, probabilities, strict=True)
        return [_result(found[row], options) for row, options in enumerate(asked)]

    def evaluate(
        self, questions: Any, contexts: Any, options: Any, answers: Any, batch_size: int = 8
    ) -> dict[str, float]:
        """Compare the choices with the truth; arguments as for `fit` and `predict`.

        Returns:
            Results by name, such as `eval_accuracy`, as in `eval_results.txt`.
        """
        return self._score(self._questions(questions, contexts, options, answers), batch_size)

    def fit(
        self,
        questions: Any,
        contexts: Any,
        options: Any,
        answers: Any,
        validation_data: tuple[Any, Any, Any, Any] | None = None,
        **arguments: Any,
    ) -> keras.callbacks.History:
        """Train the model, as run_race.py does, with the `fit` of Keras.

        Args:
            questions, contexts, options: at least one of each.
            answers: the correct option of each question: its number, from 0, its text or its
                letter, from A.
            validation_data: questions, contexts, options and answers; their loss is computed after
                every epoch.
            **arguments: `epochs`, `batch_size`, ..., as described in `FitArguments`.

        Returns:
            Keras' `History`, with the loss of every epoch.
        """
        columns = {
            "questions": questions,
            "contexts": contexts,
            "options": options,
            "answers": answers,
        }
        given = self._given(self._questions, columns, validation_data, arguments)
        return self._fit(*given, arguments)

    def _questions(
        self, questions: Any, contexts: Any, options: Any, answers: Any = None
    ) -> list[ChoiceQuestion]:
        asked, about = as_texts(questions, "questions"), as_texts(contexts, "contexts")
        of_each = as_list(options, "options")
        given = [None] * len(asked) if answers is None else as_list(answers, "answers")
        for name, values in (("contexts", about), ("options", of_each), ("answers", given)):
            check_same_length(asked, values, name, "questions")
        reads_race = self._known_task().options.data_set == "race"
        found = []
        for number, (question, context, choices, answer) in enumerate(
            zip(asked, about, of_each, given, strict=True)
        ):
            place = f"`options`[{number}]"
            if isinstance(choices, tuple | np.ndarray):
                choices = list(choices)
            texts = checked_choices(place, choices, "options", empty=reads_race)
            correct = None
            if answers is not None:
                correct = answer_number(f"`answers`[{number}]", answer, texts)
            blank = RACE_BLANK if reads_race else BLANK
            found.append(
                ChoiceQuestion(place, str(number), "", context, question, texts, correct, blank)
            )
        return found


def _result(probabilities: Sequence[float], options: Sequence[str]) -> dict[str, Any]:
    probabilities = list(probabilities[: len(options)])
    number = int(np.argmax(probabilities))
    return {"prediction": options[number], "option": number, "probabilities": probabilities}
