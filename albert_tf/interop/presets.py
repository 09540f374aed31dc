"""Opens weights together with everything next to them: config, vocabulary, labels, results."""

import os
from collections.abc import Sequence
from typing import NamedTuple

from albert_tf.checkpoints import engines_in
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.hub.names import local_weights
from albert_tf.interop.adjacent_files import AdjacentFiles, find_adjacent_files, load_tokenizer
from albert_tf.interop.file_names import BEST_FOLDER, encoder_folder, folder_of
from albert_tf.interop.heads import HEADS, possible_heads
from albert_tf.interop.loading import open_weights
from albert_tf.tokenizers import Tokenizer
from albert_tf.weights import Weights


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

    def labels_of_outputs(self, given: Sequence[str] | None) -> list[str]:
        """Return the labels of the outputs: as given, else as recorded, else numbered.

        Raises:
            InputError: If another number of labels is given than there are outputs.
        """
        if given is not None and len(given) != self.outputs:
            raise InputError(f"`labels`={given}: {self.name} has {self.outputs} outputs")
        return list(given or self.adjacent.labels_of(self.outputs))


def open_preset(
    name: str, vocabulary: str | None = None, do_lower_case: bool | None = None
) -> Preset:
    """Open weights by name, with the config and the vocabulary next to them.

    Of a training folder, these are the weights that `--do_predict` uses: those in `best/` if there
    are any, else the latest checkpoint.

    Args:
        name: as for `albert_tf.from_preset`.
        vocabulary: path of the vocabulary, instead of the one next to the weights.
        do_lower_case: whether to lower-case text, instead of what is recorded.

    Raises:
        InputError: If the weights cannot be fetched or read, or come without config or vocabulary.
    """
    path = encoder_folder(local_weights(name, argument="name"))
    folder, best = folder_of(path), os.path.join(path, BEST_FOLDER)
    path = best if engines_in(best) else path
    return open_with_files(name, path, folder, vocabulary, do_lower_case)


def open_with_files(
    name: str,
    path: str,
    folder: str,
    vocabulary: str | None = None,
    do_lower_case: bool | None = None,
    config: AlbertConfig | None = None,
) -> Preset:
    """Open local weights, with a config and a vocabulary; as `open_preset` otherwise.

    What is given as `vocabulary`, `do_lower_case` or `config` replaces what is in `folder`; `name`
    is for errors.
    """
    with arguments_renamed(path="name"):
        weights = open_weights(path, config=config)
    config = config or weights.config
    if config is None:
        raise InputError(f"`name`={name}: there is no {CONFIG_FILE} next to the weights")
    adjacent = find_adjacent_files(folder).about(weights.step)
    vocabulary = vocabulary or adjacent.vocabulary
    if not vocabulary:
        raise InputError(f"`vocabulary`: required, as there is none next to the weights of {name}")
    with arguments_renamed(path="vocabulary"):
        tokenizer = load_tokenizer(vocabulary, do_lower_case, [adjacent])
    config.check_vocabulary(tokenizer.vocab_size, tokenizer.path)
    return Preset(name, folder, path, weights, config, tokenizer, adjacent)
