"""Multiple choice: the text that fits best among several about the same context."""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from sklearn import metrics

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import write_text
from albert_tf.finetuning.cache import cached_arrays
from albert_tf.finetuning.finetuning_options import RaceOptions
from albert_tf.finetuning.metrics import softmax
from albert_tf.finetuning.race.choice_report import choice_sections
from albert_tf.finetuning.race.choices import LETTERS, Question, read_questions
from albert_tf.finetuning.task import ExampleSet, Problem
from albert_tf.flops import classification_flops
from albert_tf.input.examples import Features
from albert_tf.interop.companions import CHOICE_FILE
from albert_tf.modeling.heads import AlbertForMultipleChoice
from albert_tf.modeling.losses import MISSING_CHOICE, MultipleChoiceObjective
from albert_tf.report.sections import Section
from albert_tf.tokenizers import Tokenizer

PREDICT_RESULTS_FILE = "predict_results.txt"


class Featurized(NamedTuple):
    """Features of questions, and how many texts of question and choice were cut.

    Attributes:
        features: with `choice_mask` `[questions, choices]`, float32, 0 for choices that only fill
            up a question which has fewer than others; `tokens_cut` is that of the choice whose
            sequence lost most.
        candidates_cut: texts of question and choice that lost tokens.
    """

    features: Features
    candidates_cut: int


def featurize(
    questions: Sequence[Question],
    tokenizer: Tokenizer,
    max_seq_length: int,
    max_qa_length: int,
    cached_dir: str | None = None,
) -> Featurized:
    """Encodes questions, a sequence a choice: `[CLS] context [SEP] question with choice [SEP]`.

    Of question and choice the last `max_qa_length` tokens are kept, and the context loses its end
    until all fits, as in the original's `race_utils.convert_single_example`.

    Args:
        questions: one at least.
        tokenizer: of the model.
        max_seq_length: tokens of a sequence at most, special symbols included.
        max_qa_length: tokens of question and choice at most.
        cached_dir: where they are kept for the next time; None for nowhere.

    Raises:
        InputError: the lengths leave no room.
    """
    if max_qa_length < 1:
        raise InputError(f"--max_qa_length={max_qa_length}: must be at least 1")
    if max_qa_length > max_seq_length - 3:
        raise InputError(
            f"--max_qa_length={max_qa_length}: must be at most {max_seq_length - 3}, what "
            f"--max_seq_length={max_seq_length} leaves beside three special tokens"
        )
    sources, settings = [], {}
    if cached_dir:
        texts = [(question.context, question.candidates) for question in questions]
        sources = [json.dumps(texts).encode(), tokenizer.path]
        settings = {
            "features": "multiple choice",
            "max_seq_length": max_seq_length,
            "max_qa_length": max_qa_length,
            "do_lower_case": tokenizer.do_lower_case,
        }
    arrays = cached_arrays(
        cached_dir,
        sources,
        settings,
        lambda: _encode(questions, tokenizer, max_seq_length, max_qa_length),
    )
    return Featurized(Features.from_arrays(arrays), int(arrays["candidates_cut"]))


def _encode(
    questions: Sequence[Question], tokenizer: Tokenizer, max_seq_length: int, max_qa_length: int
) -> dict[str, np.ndarray]:
    """The arrays of `Features`, and `candidates_cut`."""
    # An article is shared by several questions.
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
            sequences.append(_sequence(tokenizer, context[:room], kept))
            candidates_cut += len(kept) < len(candidate)
            lost = len(candidate) - len(kept) + max(len(context) - room, 0)
            tokens_cut[row] = max(tokens_cut[row], lost)
        missing = most - len(question.choices)
        sequences += [_sequence(tokenizer, context[:0], [])] * missing
        mask[row, : len(question.choices)] = 1
    arrays = {"choice_mask": mask}
    features = Features(sequences, tokenizer.pad_id, most, arrays, tokens_cut)
    return {**features.to_arrays(), "candidates_cut": np.array(candidates_cut)}


def _sequence(tokenizer: Tokenizer, context, candidate) -> tuple[np.ndarray, np.ndarray]:
    special = [[tokenizer.cls_id], [tokenizer.sep_id]]
    ids = np.concatenate([special[0], context, special[1], candidate, special[1]])
    segments = np.zeros(len(ids), np.int8)
    segments[len(context) + 2 :] = 1
    return ids.astype(np.int32), segments


class MultipleChoice(Problem):
    """The right choice for each question.

    Predictions are `test_results.tsv` (a row of probabilities per question, 0 for choices that it
    does not have) and `predictions.tsv` (id and letter); where the answers are known,
    `predict_results.txt` says how many are right.

    Args:
        options: of run_race.py.
        tokenizer: of the model.

    Raises:
        InputError: a flag or file is not what it should be.
    """

    outputs = ("logits",)
    metric = "eval_accuracy"

    def __init__(self, options: RaceOptions, tokenizer: Tokenizer):
        self._options = options
        self.objective = MultipleChoiceObjective()
        self.sets = {
            split: [self._set(split, read_questions(options, split), tokenizer)]
            for split in options.splits()
        }
        self._choices = max(sets[0].features.choices for sets in self.sets.values())

    def _set(self, split: str, questions: list[Question], tokenizer: Tokenizer) -> ExampleSet:
        length, qa_length = self._options.max_seq_length, self._options.max_qa_length
        features, candidates_cut = featurize(
            questions, tokenizer, length, qa_length, self._options.cached_dir
        )
        if split != "predict":
            answers = [question.answer for question in questions]
            features.arrays["label_ids"] = np.array(answers, np.int32)
        if candidates_cut:
            print(f"{split}: {candidates_cut} times question and choice cut to {qa_length} tokens")
        return ExampleSet("", features, questions)

    def create_model(self, config: AlbertConfig, dtype: str) -> AlbertForMultipleChoice:
        return AlbertForMultipleChoice(config, self._options.classifier_dropout, dtype=dtype)

    def flops_per_example(self, config: AlbertConfig) -> float:
        return self._choices * classification_flops(config, self._options.max_seq_length, 1)

    def description(self) -> dict[str, str]:
        options = self._options
        settings = {
            "task_name": options.task_name.lower(),
            "max_seq_length": options.max_seq_length,
            "max_qa_length": options.max_qa_length,
        }
        return {CHOICE_FILE: json.dumps(settings) + "\n"}

    def score(self, examples: ExampleSet, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        return {f"eval_{name}": value for name, value in _scores(examples, outputs).items()}

    def write_predictions(
        self, folder: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> None:
        probabilities = _probabilities(examples, outputs)
        rows = ("\t".join(f"{value:.8g}" for value in row) for row in probabilities)
        write_text(f"{folder}/test_results.tsv", "".join(f"{row}\n" for row in rows))
        guesses = probabilities.argmax(axis=-1)
        lines = (
            f"{question.id}\t{LETTERS[guess]}"
            for question, guess in zip(examples.examples, guesses, strict=True)
        )
        write_text(f"{folder}/predictions.tsv", "\n".join(["id\tanswer", *lines]) + "\n")
        print(f"{len(guesses)} predictions in {folder}/predictions.tsv")
        if all(question.answer is not None for question in examples.examples):
            scores = sorted(_scores(examples, outputs).items())
            text = "".join(f"predict_{name} = {value:.8g}\n" for name, value in scores)
            write_text(f"{folder}/{PREDICT_RESULTS_FILE}", text)
            print(text, end="")

    def collapsed(self, outputs: dict[str, np.ndarray]) -> str | None:
        """Says so where every question gets the same letter; None where they differ."""
        guesses = set(outputs["logits"].argmax(axis=-1).tolist())
        if len(guesses) > 1:
            return None
        return f"every answer is {LETTERS[guesses.pop()]}"

    def report(
        self, split: str, examples: ExampleSet, outputs: dict[str, np.ndarray]
    ) -> list[Section]:
        return choice_sections(split, examples, _probabilities(examples, outputs))


def _masked(examples: ExampleSet, outputs: dict[str, np.ndarray]) -> np.ndarray:
    mask = examples.features.arrays["choice_mask"]
    return np.where(mask > 0, outputs["logits"], np.float32(MISSING_CHOICE))


def _probabilities(examples: ExampleSet, outputs: dict[str, np.ndarray]) -> np.ndarray:
    """`[questions, choices]`, 0 for choices that are not there."""
    return softmax(_masked(examples, outputs))


def _scores(examples: ExampleSet, outputs: dict[str, np.ndarray]) -> dict[str, float]:
    """Accuracy of all and of each group, and the mean cross-entropy."""
    answers = np.array([question.answer for question in examples.examples])
    groups = np.array([question.group for question in examples.examples])
    logits = _masked(examples, outputs)
    guesses = logits.argmax(axis=-1)
    scores = {"accuracy": float(metrics.accuracy_score(answers, guesses))}
    for group in sorted(set(groups) - {""}):
        of = groups == group
        scores[f"accuracy_{group}"] = float(metrics.accuracy_score(answers[of], guesses[of]))
    labels = np.arange(logits.shape[-1])
    scores["loss"] = float(metrics.log_loss(answers, softmax(logits), labels=labels))
    return scores
