"""What one kind of fine-tuning supplies; everything else is in this package."""

import abc
import dataclasses
import hashlib
import io
import json
import logging
import os
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import keras
import numpy as np
from scipy.special import log_expit, log_softmax, logsumexp

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, make_folder, read_bytes, sha256_of, write_bytes, write_text
from albert_tf.finetuning.finetuning_options import FineTuningOptions
from albert_tf.flops import TRAINING, encoder_flops
from albert_tf.input.examples import Features
from albert_tf.interop.file_names import SUBMISSION_FOLDER
from albert_tf.modeling.losses import Objective
from albert_tf.report.sections import Section
from albert_tf.tokenizers import Tokenizer

logger = logging.getLogger(__name__)

Outputs = dict[str, np.ndarray]
# Numbers of the rows to train on, and of those to predict.
Fold = tuple[np.ndarray, np.ndarray]
FeaturesOfKind = TypeVar("FeaturesOfKind", bound=Features)

# Of cached arrays; must be raised when the same text is encoded differently.
_CACHE_VERSION = 1


@dataclasses.dataclass(frozen=True)
class ExampleSet:
    """Examples that are scored, or predicted, together.

    Attributes:
        split: "train", "eval" or "predict".
        name: distinguishes the sets of a split, such as "matched"; "" for a single one.
        examples: as the task reads them; scores, predictions and the report need them.
        features: what the model reads; a row per example, unless the task decides otherwise.
        taught: probabilities that a teacher predicts for each example; () without one.
    """

    split: str
    name: str
    examples: Sequence[Any]
    features: Features
    taught: Sequence[np.ndarray] = ()


def data_key(sets: Iterable[ExampleSet]) -> str:
    """Return a hash of everything that the model reads of some examples, labels included."""
    digest = hashlib.sha256()
    for examples in sets:
        for name, value in sorted(examples.features.inputs().items()):
            digest.update(f"{examples.split} {examples.name} {name} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
    return digest.hexdigest()


class Baseline(NamedTuple):
    """The results of answers without a model.

    Attributes:
        answer: what is predicted, such as "always 'neutral'".
        results: as of `FineTuningTask.score`.
    """

    answer: str
    results: dict[str, float]


class FineTuningTask(abc.ABC):
    """One kind of fine-tuning: reads examples, builds the model, interprets its outputs.

    A subclass must define `objective`, `metric`, `read`, `encode`, `build_model`, `score` and
    `decode`; the other methods have defaults. `fine_tune(options, MyTask)` trains, evaluates and
    predicts with it.

    What methods get as `examples` is a set of the split "eval" or "predict", which may lack labels
    in the latter; and as `outputs` those of the model for it, `[rows of features, ...]` by name.

    Args:
        options: of the program. A task may complete them (steps computed from epochs); the runner
            continues with the `options` attribute.
        tokenizer: of the model.

    Attributes:
        objective: what training minimises.
        metric: the result by which checkpoints and runs are compared. Higher is better, except
            for losses and MSE.
        outputs: names of the model outputs that `score` and `decode` need.
    """

    objective: Objective
    metric: str
    outputs: tuple[str, ...] = ("logits",)
    # Whether the models of an ensemble must read the same tokens, as outputs are about tokens.
    averages_tokens: ClassVar[bool] = False
    # Whether --predict_file=- works, which needs `parse_lines`.
    reads_standard_input: ClassVar[bool] = False
    # Whether scores are in percent, as those of SQuAD, and not shares.
    percent: ClassVar[bool] = False

    def __init__(self, options: FineTuningOptions, tokenizer: Tokenizer):
        self.options = options.with_defaults()
        self.tokenizer = tokenizer

    @property
    def title(self) -> str:
        """What a report calls this kind of task."""
        return "Fine-tuning"

    @property
    def metric_names(self) -> tuple[str, ...]:
        """The values of `--metric_for_best`: results that `score` computes."""
        return (self.metric,)

    @abc.abstractmethod
    def read(self, split: str) -> Mapping[str, Sequence[Any]]:
        """Read and check the examples of a split; "train" is read first.

        Returns:
            Set name -> examples; `{"": examples}` for a single set.

        Raises:
            InputError: If a file or an argument is invalid.
        """

    @abc.abstractmethod
    def encode(self, split: str, examples: Sequence[Any]) -> Features:
        """Tokenize examples, with their labels unless the split is "predict"."""

    def cached(
        self,
        split: str,
        name: str,
        texts: Sequence[Any],
        features_class: type[FeaturesOfKind],
        make: Callable[[], FeaturesOfKind],
    ) -> FeaturesOfKind:
        """Return the features of texts, or their copy in `cached_dir`, if there is one.

        Args:
            split: as for `encode`; only those of files are cached.
            name: of the way to encode.
            texts: what is encoded, serializable as JSON.
            make: encodes the texts; depends on them, on the tokenizer and on `options.lengths`.
        """
        options, tokenizer = self.options, self.tokenizer
        if not options.cached_dir or split not in options.splits():
            return make()
        lengths = {option: getattr(options, option) for option in options.lengths}
        settings = {"features": name, **lengths, **tokenizer.normalization.to_dict()}
        arrays = cached_arrays(
            options.cached_dir,
            [json.dumps(texts).encode(), tokenizer.path],
            settings,
            lambda: make().to_arrays(),
        )
        return features_class.from_arrays(arrays)

    def texts(self, examples: Sequence[Any]) -> Iterable[str]:
        """Return the texts of examples, in which the runner looks for unknown characters."""
        return ()

    @abc.abstractmethod
    def build_model(self, config: AlbertConfig, dtype: str) -> keras.Model:
        """Return the model with initial weights; `dtype` is the name of a Keras policy."""

    @abc.abstractmethod
    def score(self, examples: ExampleSet, outputs: Outputs) -> dict[str, float]:
        """Compute the results of a set of the split "eval" by name, such as `eval_accuracy`."""

    @abc.abstractmethod
    def decode(self, examples: ExampleSet, outputs: Outputs) -> list[str]:
        """Return predictions as text, one line per example."""

    def folds(self, examples: Sequence[Any]) -> Sequence[Fold]:
        """Return the folds of the training rows, for cross-validation; () for a run on all rows.

        Raises:
            InputError: If there are too few rows.
        """
        return ()

    def taught_labels(self) -> Sequence[str]:
        """Return the labels whose probabilities a model teaches or learns, in their order.

        () if the classes of an example have no names, such as choices.

        Raises:
            InputError: If it predicts something else than classes.
        """
        raise InputError(f"`teacher`: {self.title} cannot be taught")

    def log_probabilities(self, examples: ExampleSet, outputs: Outputs) -> list[np.ndarray]:
        """Return what a student learns, for each example `[predictions, classes]`."""
        raise NotImplementedError

    def teacher_feature(
        self, features: Features, probabilities: Sequence[np.ndarray]
    ) -> np.ndarray:
        """Return probabilities as a feature of examples to train on, as `ClassesObjective` has it.

        Those of each example have the shape of its `log_probabilities`.
        """
        raise NotImplementedError

    def epoch_size(self, examples: ExampleSet) -> int:
        """Return how many examples an epoch of a training set has; by default those of `read`."""
        return len(examples.examples)

    def per_example(self, examples: ExampleSet, outputs: Outputs) -> Outputs:
        """Return what `score` and `decode` get, of the model's outputs for all features.

        By default the same. A task may combine the outputs for parts of an example.
        """
        return outputs

    def flops_per_example(self, config: AlbertConfig) -> float:
        """Return operations of a training step per example of the full length."""
        return TRAINING * encoder_flops(config, self.options.max_seq_length)

    def data_name(self, examples: ExampleSet) -> str:
        """Return what an "eval" set is, for model cards; by default the name of its file."""
        path = getattr(self.options, "eval_file", None) or getattr(self.options, "data_dir", None)
        return os.path.basename((path or "").rstrip("/"))

    def adjacent_files(self) -> dict[str, str]:
        """Return file name -> text of what prediction and exports need next to the checkpoints.

        By default, the options that a trained folder records.
        """
        return {self.options.settings_file: json.dumps(self.recorded_options()) + "\n"}

    def recorded_options(self) -> dict[str, Any]:
        """Return option -> value that a trained folder is used with unless it is given."""
        return {name: getattr(self.options, name) for name in self.options.inherited}

    def write_predictions(self, folder: str, examples: ExampleSet, outputs: Outputs) -> None:
        """Write the files of `--do_predict`; by default `predictions.tsv`, from `decode`."""
        lines = self.decode(examples, outputs)
        name = f"predictions_{examples.name}" if examples.name else "predictions"
        write_text(f"{folder}/{name}.tsv", "".join(f"{line}\n" for line in lines))

    def answered(self, examples: ExampleSet) -> list[int]:
        """Return the rows of a set of the split "predict" whose answers are known."""
        return []

    def score_at(self, examples: ExampleSet, outputs: Outputs, rows: list[int]) -> dict[str, float]:
        """Compute the results of some `answered` rows by name, such as `accuracy`."""
        return {}

    def write_submission(self, folder: str, name: str, content: str) -> None:
        """Write the file of `--submission` that a server accepts."""
        make_folder(f"{folder}/{SUBMISSION_FOLDER}", "output_dir")
        path = f"{folder}/{SUBMISSION_FOLDER}/{name}"
        write_text(path, content)
        logger.info("to submit: %s", path)

    def report_sections(self, examples: ExampleSet, outputs: Outputs) -> list[Section]:
        """Return what the report shows about a set besides its results."""
        return []

    def collapse(self, examples: ExampleSet, outputs: Outputs) -> str | None:
        """Describe a model that learned nothing ("every prediction is 'a'"); None if it learned.

        A set of the split "eval" with the same answer throughout tells nothing.
        """
        return None

    def baseline(self, examples: ExampleSet) -> Baseline | None:
        """Return the results of answers without a model for a set of the split "eval", if any."""
        return None

    def ensemble_settings(self) -> dict[str, Any]:
        """Return what all models of an ensemble must have in common, by name, for errors."""
        return {}

    def average(self, examples: ExampleSet, outputs: Sequence[Outputs]) -> Outputs:
        """Return the outputs of an ensemble, which `score` and `decode` read like those of a model.

        They are those of each model. By default, the mean of each output; tasks with probabilities
        average these instead.
        """
        return mean_of_outputs(outputs)

    def parse_lines(self, lines: Sequence[str], first: int) -> Sequence[Any]:
        """Return an example for each line of standard input; they are counted from `first`.

        Raises:
            InputError: If a line is invalid.
        """
        raise InputError("`predict_file`=-: this program reads files only")


def mean_of_outputs(outputs: Sequence[Outputs]) -> Outputs:
    """Return the mean of every output, in float64."""
    return {
        name: np.asarray(np.mean([each[name] for each in outputs], axis=0, dtype=np.float64))
        for name in outputs[0]
    }


def mean_log_probabilities(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Return logits `[..., classes]` whose softmax is the mean of the models' probabilities."""
    each = [log_softmax(values.astype(np.float64), axis=-1) for values in logits]
    return logsumexp(np.stack(each), axis=0) - np.log(len(each))


def mean_log_odds(logits: Sequence[np.ndarray]) -> np.ndarray:
    """Return logits whose sigmoid is the mean of the models' probabilities."""
    stacked = np.stack(logits).astype(np.float64)
    return logsumexp(log_expit(stacked), axis=0) - logsumexp(log_expit(-stacked), axis=0)


def cached_arrays(
    folder: str,
    sources: Sequence[str | bytes],
    settings: Mapping[str, Any],
    make: Callable[[], Outputs],
    name: str = "examples",
) -> Outputs:
    """Return what `make` returns, or its cached copy in `folder`, the file of `cached_file`.

    Files are written completely or not at all; a damaged one is reported and replaced. Arrays may
    have any dtype except objects.

    Raises:
        InputError: If the folder cannot be written.
    """
    path = cached_file(folder, sources, settings, name)
    if exists(path):
        try:
            kept = io.BytesIO(read_bytes(path))
            with np.load(kept, allow_pickle=False) as arrays:  # which checks their checksums
                return {name: arrays[name] for name in arrays.files}
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile) as error:
            logger.warning("%s is damaged and will be replaced: %s", path, error)
    make_folder(folder, "cached_dir")
    made = make()
    content = io.BytesIO()
    np.savez(content, **made)  # type: ignore[arg-type]
    write_bytes(path, content.getvalue())
    return made


def cached_file(
    folder: str, sources: Sequence[str | bytes], settings: Mapping[str, Any], name: str
) -> str:
    """Return the path of the copy of `cached_arrays`, which may not exist.

    Its name is a hash of everything that the content depends on, so it is never out of date: of the
    sources, which are paths of files or bytes, and of settings, serializable as JSON.
    """
    digest = hashlib.sha256(json.dumps([_CACHE_VERSION, settings], sort_keys=True).encode())
    for source in sources:
        if isinstance(source, str):
            digest.update(bytes.fromhex(sha256_of(source)))
        else:
            digest.update(hashlib.sha256(source).digest())
    return f"{folder}/{name}-{digest.hexdigest()[:32]}.npz"
