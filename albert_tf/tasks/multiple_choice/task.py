"""Multiple choice: chooses the text that fits a context best (RACE, C3)."""

import functools
import itertools
import json
import logging
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy.special import log_softmax, softmax

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_text
from albert_tf.finetuning.task import (
    Baseline,
    ExampleSet,
    FineTuningTask,
    Outputs,
    mean_log_probabilities,
)
from albert_tf.flops import classification_flops
from albert_tf.input.examples import Features
from albert_tf.logs import counted
from albert_tf.modeling.heads import AlbertForMultipleChoice
from albert_tf.modeling.losses import MISSING_CHOICE, NO_LABEL, MultipleChoiceObjective
from albert_tf.report.breakdowns import by_group, by_label, by_length, calibration, predictions
from albert_tf.report.intervals import bootstrap_mean, wilson
from albert_tf.report.sections import (
    MARKED,
    MOST_ERRORS,
    Card,
    Part,
    Section,
    counted_errors,
    excerpt,
)
from albert_tf.tasks.multiple_choice.choices import LETTERS, ChoiceQuestion
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import (
    FOLDERS,
    groups_of,
    read_questions,
    submission,
)
from albert_tf.tokenizers import Tokenizer, packing

logger = logging.getLogger(__name__)


class ChoiceFeatures(Features):
    """Features of questions.

    There is `choice_mask` `[questions, choices]`, float32, 0 for choices that pad a question with
    fewer choices than others; `tokens_cut` is that of the choice whose sequence lost most.

    Attributes:
        candidates_cut: number of texts of question and choice that lost tokens.
    """

    extras = ("candidates_cut",)
    candidates_cut = 0


def featurize(
    questions: Sequence[ChoiceQuestion],
    tokenizer: Tokenizer,
    max_seq_length: int,
    max_qa_length: int,
) -> ChoiceFeatures:
    """Encode questions, one sequence per choice: `[CLS] context [SEP] question with choice [SEP]`.

    Question and choice keep their last `max_qa_length` tokens, and the context is truncated until
    all fit into `max_seq_length`, as in the original's `race_utils.convert_single_example`. There
    must be a question.
    """
    if max_qa_length < 1:
        raise InputError(f"`max_qa_length`={max_qa_length}: must be at least 1")
    if max_qa_length > max_seq_length - 3:
        raise InputError(
            f"`max_qa_length`={max_qa_length}: must be at most {max_seq_length - 3}, which is "
            f"`max_seq_length`={max_seq_length} minus three special tokens"
        )
    # Several questions share an article.
    contexts = sorted({question.context for question in questions})
    ids = tokenizer.encode_batch(contexts)
    encoded = {text: np.array(i, np.int32) for text, i in zip(contexts, ids, strict=True)}
    texts = [text for question in questions for text in question.candidates]
    candidates = iter(tokenizer.encode_batch(texts))
    most = max(len(question.choices) for question in questions)
    mask = np.zeros((len(questions), most), np.float32)
    sequences: list[tuple[np.ndarray, np.ndarray]] = []
    tokens_cut = np.zeros(len(questions), np.int32)
    candidates_cut = 0
    for row, question in enumerate(questions):
        context = encoded[question.context]
        for candidate in itertools.islice(candidates, len(question.choices)):
            kept = candidate[-max_qa_length:]
            room = max_seq_length - 3 - len(kept)
            sequences.append(packing.sequence(tokenizer, context[:room], kept))
            candidates_cut += len(kept) < len(candidate)
            lost = len(candidate) - len(kept) + max(len(context) - room, 0)
            tokens_cut[row] = max(tokens_cut[row], lost)
        padding = packing.sequence(tokenizer, context[:0], context[:0])
        sequences += [padding] * (most - len(question.choices))
        mask[row, : len(question.choices)] = 1
    arrays = {"choice_mask": mask}
    features = ChoiceFeatures(sequences, tokenizer.pad_id, most, arrays, tokens_cut)  # type: ignore[arg-type]
    features.candidates_cut = candidates_cut
    return features


class MultipleChoiceTask(FineTuningTask):
    """Chooses an answer to each question.

    Predictions are `test_results.tsv` (a row of probabilities per question, 0 for choices that it
    does not have) and `predictions.tsv` (id and letter); if the answers are known,
    `predict_results.txt` contains the accuracy. For C3, `submission/` contains the file that the
    CLUE server accepts, if the options ask for it.
    """

    options: MultipleChoiceOptions
    title = "Multiple choice"
    metric = "eval_accuracy"

    def __init__(self, options: MultipleChoiceOptions, tokenizer: Tokenizer):
        super().__init__(options, tokenizer)
        self.objective = MultipleChoiceObjective()
        self._choices = 0  # most of any question

    @property
    def metric_names(self) -> tuple[str, ...]:
        groups = groups_of(self.options)
        return ("eval_accuracy", *(f"eval_accuracy_{group}" for group in groups), "eval_loss")

    def read(self, split: str) -> dict[str, list[ChoiceQuestion]]:
        return {"": read_questions(self.options, split)}

    def encode(self, split: str, examples: Sequence[ChoiceQuestion]) -> Features:
        lengths = self.options.max_seq_length, self.options.max_qa_length
        texts = [(question.context, question.candidates) for question in examples]
        make = functools.partial(featurize, examples, self.tokenizer, *lengths)
        features = self.cached(split, "multiple choice", texts, ChoiceFeatures, make)
        if split != "predict":
            answers = [NO_LABEL if each.answer is None else each.answer for each in examples]
            features.arrays["label_ids"] = np.array(answers, np.int32)
        if features.candidates_cut:
            cut = counted(int(features.candidates_cut), "text")
            form = "%s: %s of question and choice truncated to %d tokens"
            logger.info(form, split, cut, self.options.max_qa_length)
        self._choices = max(self._choices, features.choices)
        return features

    def taught_labels(self) -> Sequence[str]:
        return ()

    def log_probabilities(self, examples: ExampleSet, outputs: Outputs) -> list[np.ndarray]:
        rows = zip(examples.examples, outputs["logits"].astype(np.float64), strict=True)
        return [log_softmax(row[None, : len(question.choices)]) for question, row in rows]

    def teacher_feature(
        self, features: Features, probabilities: Sequence[np.ndarray]
    ) -> np.ndarray:
        padded = np.zeros_like(features.arrays["choice_mask"])
        for row, values in zip(padded, probabilities, strict=True):
            row[: values.shape[1]] = values
        return padded

    def texts(self, examples: Sequence[ChoiceQuestion]) -> Iterator[str]:
        for context, questions in itertools.groupby(examples, lambda question: question.context):
            yield context
            yield from (text for question in questions for text in question.candidates)

    def build_model(self, config: AlbertConfig, dtype: str) -> AlbertForMultipleChoice:
        return AlbertForMultipleChoice(config, self.options.classifier_dropout, dtype=dtype)

    def flops_per_example(self, config: AlbertConfig) -> float:
        return self._choices * classification_flops(config, self.options.max_seq_length, 1)

    def data_name(self, examples: ExampleSet) -> str:
        options = self.options
        if options.data_set == "json":
            return super().data_name(examples)
        groups = " and ".join(groups_of(options))
        name = " ".join(filter(None, (options.data_set.upper(), options.language)))
        return f"{name}, {FOLDERS[examples.split]}{groups and f' ({groups})'}"

    def recorded_options(self) -> dict[str, Any]:
        return super().recorded_options() | {"task_name": self.options.data_set}

    def score(self, examples: ExampleSet, outputs: Outputs) -> dict[str, float]:
        scores = _scores(examples, outputs, range(len(examples.examples)))
        return {f"eval_{name}": value for name, value in scores.items()}

    def baseline(self, examples: ExampleSet) -> Baseline:
        answers = np.array([question.answer for question in examples.examples])
        letter = np.bincount(answers).argmax()
        choices = examples.features.arrays["choice_mask"].shape[-1]
        logits = np.tile(np.eye(choices, dtype=np.float32)[letter], (len(answers), 1))
        return Baseline(f"always {LETTERS[letter]}", self.score(examples, {"logits": logits}))

    def average(self, examples: ExampleSet, outputs: Sequence[Outputs]) -> Outputs:
        return {"logits": mean_log_probabilities([_masked(examples, each) for each in outputs])}

    def decode(self, examples: ExampleSet, outputs: Outputs) -> list[str]:
        """Return the question's id and the letter of its answer."""
        predicted = probabilities(examples, outputs).argmax(axis=-1)
        return [
            f"{question.id}\t{LETTERS[choice]}"
            for question, choice in zip(examples.examples, predicted, strict=True)
        ]

    def write_predictions(self, folder: str, examples: ExampleSet, outputs: Outputs) -> None:
        values = probabilities(examples, outputs)
        rows = ("\t".join(f"{value:.8g}" for value in row) for row in values)
        write_text(f"{folder}/test_results.tsv", "".join(f"{row}\n" for row in rows))
        lines = self.decode(examples, outputs)
        write_text(f"{folder}/predictions.tsv", "\n".join(["id\tanswer", *lines]) + "\n")
        logger.info("%s predictions in %s/predictions.tsv", f"{len(lines):,}", folder)
        if self.options.submission:
            chosen = values.argmax(axis=-1).tolist()
            name, objects = submission(self.options, examples.examples, chosen)
            content = "".join(f"{json.dumps(each)}\n" for each in objects)
            self.write_submission(folder, name, content)

    def answered(self, examples: ExampleSet) -> list[int]:
        return [n for n, each in enumerate(examples.examples) if each.answer is not None]

    def score_at(self, examples: ExampleSet, outputs: Outputs, rows: list[int]) -> dict[str, float]:
        return _scores(examples, outputs, rows)

    def collapse(self, examples: ExampleSet, outputs: Outputs) -> str | None:
        """Describe a model that answers every question with the same letter."""
        predicted = set(outputs["logits"].argmax(axis=-1).tolist())
        if len(predicted) > 1 or len({question.answer for question in examples.examples}) < 2:
            return None
        return f"every answer is {LETTERS[predicted.pop()]}"

    def report_sections(self, examples: ExampleSet, outputs: Outputs) -> list[Section]:
        """Return results by group and length, the predicted letters, and the worst errors."""
        questions: Sequence[ChoiceQuestion] = examples.examples
        values = probabilities(examples, outputs)
        predicted = values.argmax(axis=-1)
        if any(question.answer is None for question in questions):
            found = {LETTERS[n]: p[predicted == n] for n, p in enumerate(values.T)}
            section = predictions("letter", found, len(questions))
            return [section._replace(title=f"Predictions ({examples.split})")]
        answers = np.array([question.answer for question in questions])
        correct, groups = predicted == answers, np.array([question.group for question in questions])
        answer_probabilities = values[np.arange(len(answers)), answers]
        intervals = {"eval_accuracy": wilson(correct.sum(), len(correct))}
        for group in sorted(set(groups) - {""}):
            of = correct[groups == group]
            intervals[f"eval_accuracy_{group}"] = wilson(of.sum(), len(of))
        intervals["eval_loss"] = bootstrap_mean(-np.log(answer_probabilities.clip(1e-15)))
        order = [n for n in np.argsort(answer_probabilities, kind="stable") if not correct[n]]
        cards = [_card(questions[n], values[n]) for n in order[:MOST_ERRORS]]
        size, right = values.shape[1], answers[correct]
        counts = (np.bincount(each, minlength=size) for each in (answers, predicted, right))
        letters = by_label("letter", "questions", zip(LETTERS, *counts, strict=False))
        sections = [
            *by_group("By set", groups, correct, "set"),
            *by_length(examples.features.example_lengths, correct),
            Section("Letters", tables=[letters], intervals=intervals),
            calibration(values.max(axis=-1), correct),
            counted_errors(len(order), len(questions), "questions", MARKED, cards=cards),
        ]
        if examples.split == "eval":
            return sections
        return [
            each._replace(title=f"{each.title} ({examples.split})", intervals={})
            for each in sections
        ]


def _masked(examples: ExampleSet, outputs: Outputs) -> np.ndarray:
    mask = examples.features.arrays["choice_mask"]
    return np.where(mask > 0, outputs["logits"], np.float32(MISSING_CHOICE))


def probabilities(examples: ExampleSet, outputs: Outputs) -> np.ndarray:
    """`[questions, choices]`, 0 for choices that do not exist."""
    return softmax(_masked(examples, outputs).astype(np.float64), axis=-1)


def _scores(examples: ExampleSet, outputs: Outputs, rows: Sequence[int]) -> dict[str, float]:
    """Return accuracy over the questions in these rows, and per group; and the mean loss."""
    from sklearn import metrics  # slow to load, and needed after training

    answers = np.array([examples.examples[row].answer for row in rows])
    groups = np.array([examples.examples[row].group for row in rows])
    logits = _masked(examples, outputs)[rows]
    predicted = logits.argmax(axis=-1)
    scores = {"accuracy": float(metrics.accuracy_score(answers, predicted))}
    for group in sorted(set(groups) - {""}):
        of = groups == group
        scores[f"accuracy_{group}"] = float(metrics.accuracy_score(answers[of], predicted[of]))
    labels = np.arange(logits.shape[-1])
    probable = probabilities(examples, outputs)[rows]
    scores["loss"] = float(metrics.log_loss(answers, probable, labels=labels))
    return scores


def _card(question: ChoiceQuestion, probabilities: np.ndarray) -> Card:
    marks = {int(probabilities.argmax()): "prediction", question.answer: "truth"}
    choices = [
        (LETTERS[n], [Part(choice, marks.get(n, "")), Part(f" {probabilities[n]:.1%}")])
        for n, choice in enumerate(question.choices)
    ]
    facts = [*choices, ("id", [Part(question.id)])]
    return Card(question.question or "(no question)", facts, [Part(excerpt(question.context, 300))])
