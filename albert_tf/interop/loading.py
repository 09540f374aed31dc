"""Weights in any format: detected from a path, opened, and loaded into a model.

A `Preset` is opened together with what is next to the weights: config, vocabulary, labels, results.
"""

import inspect
import logging
import os
import sys
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

import keras

from albert_tf.checkpoints import (
    OrbaxFolder,
    TensorFlowFolder,
    conversion_command,
    engines_in,
    tensorflow,
)
from albert_tf.config import BERT_CONFIG_FILE, CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.files import exists
from albert_tf.hub.names import PICKLES, SAFETENSORS, local_weights
from albert_tf.interop import huggingface
from albert_tf.interop.adjacent_files import (
    AdjacentFiles,
    check_tokenizer,
    find_adjacent_files,
    load_tokenizer,
)
from albert_tf.interop.file_names import (
    BEST_FOLDER,
    ENCODER,
    SAVED_MODEL,
    encoder_folder,
    folder_of,
)
from albert_tf.interop.from_bert import as_albert
from albert_tf.interop.heads import HEADS, class_name, possible_heads, warn_of_random
from albert_tf.interop.tensor_files import PICKLE_ENDINGS, check_names
from albert_tf.logs import counted
from albert_tf.modeling.encoder import AlbertEncoder
from albert_tf.task_kinds import TaskKind
from albert_tf.tokenizers import Tokenizer
from albert_tf.weights import (
    MatchedWeights,
    Weights,
    adjacent_config,
    check_encoder,
    check_layers,
    config_differences,
    match,
)

logger = logging.getLogger(__name__)

Model = TypeVar("Model", bound=keras.Model)

_CONFIGS = f"{CONFIG_FILE} or {BERT_CONFIG_FILE}"
_SAVED_MODELS = (SAVED_MODEL, f"{ENCODER}/{SAVED_MODEL}")


def _contains(path: str, *names: str) -> bool:
    return any(exists(os.path.join(path, name)) for name in names)


def _check_tensorflow(path: str) -> None:
    """Check that TensorFlow can read `path` in this process.

    It cannot on JAX: two frameworks in one process compete for the memory of its devices.
    """
    # A program that has already loaded TensorFlow, such as the conversion, may use it.
    if keras.backend.backend() == "jax" and "tensorflow" not in sys.modules:
        # Its list of checkpoints is read by TensorFlow, too.
        if not _contains(path, *_SAVED_MODELS, TensorFlowFolder.list_file):
            TensorFlowFolder(path).find()
        raise InputError(
            f"`path`={path}: is read by TensorFlow, which does not run in a process on JAX; "
            f"convert it first: {conversion_command(path, 'jax')}"
        )
    try:
        import tensorflow  # noqa: F401
    except ImportError:
        raise InputError(
            f"`path`={path}: TensorFlow is not installed; without it, weights are read from a "
            "Hugging Face folder, a checkpoint of engine jax or a .weights.h5 file, which "
            "convert_checkpoint.py writes"
        ) from None


def _is_of_orbax(path: str) -> bool:
    return OrbaxFolder.is_checkpoint(path) or OrbaxFolder.engine in engines_in(path)


def find_format(path: str) -> str:
    """Return the format of the weights at `path`: a value of `--from`.

    Raises:
        InputError: If `path` contains no weights in a known format.
    """
    if path.endswith(".h5"):
        return "albert_tf"
    if path.endswith((".safetensors", *PICKLE_ENDINGS)) or _contains(path, *SAFETENSORS):
        return "huggingface"
    if _contains(path, *_SAVED_MODELS):
        return "saved_model"
    if _contains(path, *PICKLES):
        return "huggingface"
    if _is_of_orbax(path):
        return "albert_tf"
    check_names(path)
    _check_tensorflow(path)
    _, names = tensorflow.open_checkpoint(TensorFlowFolder(path).find())
    if any(name.startswith("params/") for name in names):
        return "albert_tf"
    return "saved_model" if tensorflow.OBJECT_GRAPH in names else "google"


def open_weights(path: str, format: str = "auto", config: AlbertConfig | None = None) -> Weights:
    """Open the weights at `path`; values are read on demand.

    Args:
        path: a training folder of any engine or a checkpoint in it, a checkpoint of the original
            project or its folder, a Hugging Face folder, a TF-Hub SavedModel, an export, or a
            `.weights.h5` file.
        format: as `find_format` returns it, or "auto" to detect it.
        config: the model's config, for files that do not come with one.

    Raises:
        InputError: If `path` does not exist, cannot be read, or is not an ALBERT model.
    """
    if not path:
        raise InputError("`path`: must not be empty")
    if format == "auto":
        format = find_format(path)
    if format == "huggingface":
        return huggingface.read_huggingface(path)
    if format == "albert_tf" and path.endswith(".h5"):
        from albert_tf.interop.keras_weights import read_keras_weights

        return read_keras_weights(path, config or adjacent_config(path))
    if format == "albert_tf" and _is_of_orbax(path):
        orbax = OrbaxFolder(path)
        return orbax.read(orbax.find())
    _check_tensorflow(path)
    from albert_tf.interop import google, saved_model

    if format == "saved_model" and exists(f"{encoder_folder(path)}/{SAVED_MODEL}"):
        return saved_model.read_saved_model(encoder_folder(path))
    folder = TensorFlowFolder(path)
    read = {
        "albert_tf": folder.read,
        "google": google.read_google_checkpoint,
        "saved_model": saved_model.read_object_checkpoint,
    }
    return read[format](folder.find())


def load_weights(
    model: keras.Model, path: str | os.PathLike[str], *, init_from_group0: bool = False
) -> MatchedWeights:
    """Load the weights that a file, in any format, and a model have in common.

    A model with narrower embeddings than layers, or with fewer groups of layers, starts from a BERT
    with layers of this width: from the mean of the layers that fall on each group, and a truncated
    singular value decomposition of the embeddings. A note in the result says so.

    Args:
        model: any model of this package.
        path: as for `open_weights`, or the name of published weights, such as
            "albert/albert-base-v2" or "albert_base_v2", which are fetched.
        init_from_group0: whether every group of layers is loaded from the file's first group, as
            the paper initializes its deeper models from shallower ones.

    Returns:
        Which variables were loaded, and which were not.

    Raises:
        InputError: If `path` contains no weights, shapes or attention heads differ, or weights of
            the encoder are missing.

    Example:
        >>> encoder = albert_tf.from_preset("albert/albert-base-v2", load_weights=False)
        >>> matched = albert_tf.load_weights(encoder, "albert/albert-base-v2")
        >>> len(matched.loaded) == len(encoder.weights), matched.missing
        (True, [])
    """
    path = local_weights(path, argument="path")
    weights = open_weights(path, config=adjacent_config(path) or model.config)
    shapes = {weight.path: tuple(weight.shape) for weight in model.weights}
    with arguments_renamed(weights="path"):
        check_layers(weights)
        weights = as_albert(weights, model.config, shapes, average=not init_from_group0)
        notes = config_differences(model.config, weights)
        matched = match(shapes, weights, init_from_group0=init_from_group0)
        check_encoder(matched, weights)
    if unknown := sorted(weights.unknown):
        count, names = counted(len(unknown), "weight"), ", ".join(unknown[:3])
        more = ", ..." * (len(unknown) > 3)
        logger.warning(
            "%s: %s not used, unknown in an ALBERT or BERT: %s%s", path, count, names, more
        )
    for weight in model.weights:
        if name := matched.loaded.get(weight.path):
            weight.assign(weights.read(name))
    return matched._replace(notes=notes)


_load = load_weights  # whose name an argument has below


def from_preset(
    name: str | os.PathLike[str],
    model_class: type[Model] = AlbertEncoder,  # type: ignore[assignment]
    *,
    load_weights: bool = True,
    **arguments,
) -> Model:
    """Create a model with the config and the weights of published ones.

    Variables that the weights lack, such as those of a new head, keep their initial values, and a
    warning names them. All model classes have it as a method: `AlbertEncoder.from_preset(name)`.

    Args:
        name: `ORGANIZATION/NAME[@REVISION]` of the Hugging Face Hub, a name such as
            "albert_base_v2", a TF-Hub or Kaggle handle, the address of an archive, or a local path.
        model_class: any model of this package.
        load_weights: whether to load the weights; otherwise, the model has random ones.
        **arguments: of `model_class`, besides the config: `dtype`, `attention`, ..., and
            `num_labels`, by default that of the head in the weights.

    Raises:
        InputError: If the weights cannot be fetched or read, or come without a config.

    Example:
        >>> encoder = albert_tf.from_preset("albert/albert-base-v2")
        >>> tokenizer = albert_tf.Tokenizer.load("albert/albert-base-v2")
        >>> tuple(encoder(tokenizer("The model reads text."))["pooled_output"].shape)
        (1, 768)
        >>> classifier = albert_tf.from_preset(
        ...     "albert/albert-base-v2", albert_tf.AlbertForSequenceClassification, num_labels=3
        ... )
        >>> tuple(classifier(tokenizer("The model reads text."))["logits"].shape)
        (1, 3)
    """
    path = local_weights(name, argument="name")
    with arguments_renamed(path="name"):
        weights = open_weights(path)
    if (config := weights.config) is None:
        raise InputError(f"`name`={name}: there is no {_CONFIGS} next to the weights")
    if "num_labels" in inspect.signature(model_class).parameters.keys() - arguments:
        head = HEADS[possible_heads(weights, path)[0]]
        if head.model != class_name(model_class):
            raise InputError("`num_labels`: required, since the weights have no such head")
        arguments["num_labels"] = weights.tensors[f"{head.scope}output_bias"].shape[0]
    model = model_class(config, **arguments)
    if load_weights:
        with arguments_renamed(path="name"):
            matched = _load(model, path)
        warn_of_random(name, model, matched)
    return model


def labels_in(folder: str, kind: TaskKind) -> tuple[str, ...]:
    """Return the labels of a model, numbered if it has no names for them.

    Returns () if there is no head of the kind in the folder.
    """
    weights, heads = open_weights(folder), {head.name: head for head in kind.heads}
    found = next((heads[name] for name in possible_heads(weights, folder) if name in heads), None)
    if not (found and found.labeled):
        return ()
    outputs = weights.tensors[f"{found.scope}output_bias"].shape[0]
    return find_adjacent_files(folder).labels_of(outputs)


class Preset(NamedTuple):
    """Weights by name, opened but not read.

    Attributes:
        name: as the user gave it, for errors.
        folder: with the files next to the weights; of a training folder, the folder itself, even if
            its weights are those in `best/`.
        path: of the weights.
        adjacent: content of the files next to the weights.
    """

    name: str
    folder: str
    path: str
    weights: Weights
    config: AlbertConfig
    tokenizer: Tokenizer
    adjacent: AdjacentFiles

    @property
    def heads(self) -> list[str]:
        """The heads that the weights may have; several if nothing tells which."""
        return possible_heads(self.weights, self.folder)

    @property
    def head(self) -> str:
        """The first of them."""
        return self.heads[0]

    @property
    def outputs(self) -> int:
        """The number of outputs of a head with labels."""
        return self.weights.tensors[f"{HEADS[self.head].scope}output_bias"].shape[0]

    def target(self, kind: TaskKind) -> str | None:
        """As `AdjacentFiles.target`; None if the kind's own file says it.

        Raises:
            InputError: If the outputs are several numbers, which no model here predicts.
        """
        if exists(os.path.join(self.folder, kind.settings_file)):
            return None
        outputs = self.weights.tensors[f"{kind.heads[0].scope}output_bias"].shape[0]
        found = self.adjacent.target(kind, outputs)
        if found == "regression" and outputs > 1:
            raise InputError(f"`name`={self.name}: predicts {outputs} numbers; must be one")
        return found

    def labels_of_outputs(self, given: Sequence[str] | None) -> list[str]:
        """Return the labels of the outputs: as recorded, else as given, else numbered.

        Raises:
            InputError: If other labels are given, or another number of them than there are outputs.
        """
        if given is not None and len(given) != self.outputs:
            raise InputError(f"`labels`={given}: {self.name} has {self.outputs} outputs")
        recorded = self.adjacent.labels_of(self.outputs)
        numbered = all(label.removeprefix("LABEL_").isdecimal() for label in recorded)
        if not numbered and given is not None and tuple(given) != recorded:
            raise InputError(f"`labels`={given}: {self.name} was trained with {recorded}")
        return list(given or recorded)


def open_preset(
    name: str | os.PathLike[str],
    vocabulary: str | os.PathLike[str] | None = None,
    do_lower_case: bool | None = None,
) -> Preset:
    """Open weights by name, with the config and the vocabulary next to them.

    Of a training folder, these are the weights that `--do_predict` uses: those in `best/` if there
    are any, else the latest checkpoint.

    Args:
        name: as for `albert_tf.from_preset`.
        vocabulary: path of the vocabulary, instead of the one next to the weights.
        do_lower_case: whether to lower-case text, instead of what is recorded.

    Raises:
        InputError: If the weights cannot be fetched or read, come without config or vocabulary, or
            are known to be of another vocabulary.
    """
    path = encoder_folder(local_weights(name, argument="name"))
    folder, best = folder_of(path), os.path.join(path, BEST_FOLDER)
    path = best if engines_in(best) else path
    return open_with_files(os.fspath(name), path, folder, vocabulary, do_lower_case)


def open_with_files(
    name: str,
    path: str,
    folder: str,
    vocabulary: str | os.PathLike[str] | None = None,
    do_lower_case: bool | None = None,
    config: AlbertConfig | None = None,
) -> Preset:
    """Open local weights, with a config and a vocabulary; as `open_preset` otherwise.

    `vocabulary`, `do_lower_case` and `config` replace what is in `folder`; `name` is for errors.
    """
    with arguments_renamed(path="name"):
        weights = open_weights(path, config=config)
    config = config or weights.config
    if config is None:
        raise InputError(f"`name`={name}: there is no {_CONFIGS} next to the weights")
    adjacent = find_adjacent_files(folder).about(weights.step)
    path_of_vocabulary = vocabulary or adjacent.vocabulary
    if not path_of_vocabulary:
        raise InputError(f"`vocabulary`: required, as there is none next to the weights of {name}")
    with arguments_renamed(path="vocabulary"):
        tokenizer = load_tokenizer(path_of_vocabulary, do_lower_case, [adjacent])
        if vocabulary:
            check_tokenizer(tokenizer, name, adjacent)
    config.check_vocabulary(tokenizer.vocab_size, tokenizer.path)
    return Preset(name, folder, path, weights, config, tokenizer, adjacent)
