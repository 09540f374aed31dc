"""The weights of a BERT as the start of an ALBERT with layers of the same width.

A group of layers gets the mean of the layers that it stands for. The embeddings become a truncated
singular value decomposition. Layers read the normalized sum of three tables, without the mean of
its H columns, so rows are centered first. With the E largest directions D `[H, E]` of such sums:

- the tables are their centered rows times D R, and normalization scales by sqrt(H / E);
- the projection is `(D R)^T diag(scale)` plus offset, of the normalization of the BERT;
- R `[E, E]` turns the last direction to the mean of the E columns, which the normalization of the
  ALBERT removes. It then leaves the others as they are, so that layers read what they did, as far
  as E - 1 directions hold it.

The hidden layer of the masked-LM head, whose width is E, is left out and starts at random.
"""

import dataclasses
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from albert_tf.config import AlbertConfig
from albert_tf.logs import counted
from albert_tf.weights import Shape, Tensor, Weights

_EMBEDDINGS = "bert/embeddings/"
_WORDS = f"{_EMBEDDINGS}word_embeddings"
_PROJECTION = "bert/encoder/embedding_hidden_mapping_in"
_TABLES = (_WORDS, f"{_EMBEDDINGS}position_embeddings", f"{_EMBEDDINGS}token_type_embeddings")
_SCALE_AND_OFFSET = (f"{_EMBEDDINGS}LayerNorm/gamma", f"{_EMBEDDINGS}LayerNorm/beta")
_TRANSFORM = "cls/predictions/transform/"
# The paths of a variable in each group of layers have the same ends.
_OF_GROUP = re.compile(r"(?P<scope>.*/group_)(?P<number>\d+)(?P<rest>/.*)")


def as_albert(
    weights: Weights, config: AlbertConfig, shapes: Mapping[str, Shape], average: bool = True
) -> Weights:
    """Return the weights of a BERT in the shapes of an ALBERT, and others unchanged.

    Args:
        weights: become those of an ALBERT if their embeddings have the width of its layers, and its
            own are narrower or its layers share.
        config, shapes: of the ALBERT, and of its variables by path.
        average: whether each group of layers gets the mean of the layers that it stands for;
            otherwise, layers keep their names.

    Raises:
        InputError: If the embeddings of a BERT are not finite, as of `Weights.read`.
    """
    size, width = config.embedding_size, config.hidden_size
    found = [weights.tensors.get(path) for path in (*_TABLES, *_SCALE_AND_OFFSET)]
    is_wide = all(tensor and tensor.shape[-1:] == (width,) for tensor in found)
    is_other = f"{_PROJECTION}/kernel" in weights.tensors or not is_wide
    if weights.config is not None:
        is_other |= not weights.config.is_bert  # as a model of albert_zh, whose config is another
    layers, groups = (
        max(map(len, _by_layer(paths).values()), default=0) for paths in (weights.tensors, shapes)
    )
    # As wide and without sharing, it is the same network with fewer layers: the first of them.
    is_shared = config.num_hidden_groups < config.num_hidden_layers
    average &= size < width or (is_shared and groups < layers)
    if size > width or is_other or not (average or size < width):
        return weights
    tensors, notes = dict(weights.tensors), []
    if average:
        notes.append(f"the mean of {counted(layers, 'layer')} in {counted(groups, 'group')}")
        tensors = _averaged(tensors, shapes)
    if size < width:
        factors, kept = _factorized(weights, size)
        tensors = {path: tensor for path, tensor in tensors.items() if _TRANSFORM not in path}
        for path, value in factors.items():
            read = functools.partial(np.array, value)
            tensors[path] = Tensor(path, value.shape, value.shape, read)
        notes.append(
            f"embeddings from the {size} largest of {width} directions, {kept:.0%} of their "
            "variance"
        )
    note = f"{weights.path}: the start of a smaller model: {', '.join(notes)}"
    fields = ("embedding_size", "num_hidden_layers", "num_hidden_groups", "parameter_sharing")
    known = weights.config and dataclasses.replace(
        weights.config, **{name: getattr(config, name) for name in fields}
    )
    return dataclasses.replace(weights, tensors=tensors, config=known, notes=(*weights.notes, note))


def _factorized(weights: Weights, size: int) -> tuple[dict[str, np.ndarray], float]:
    """Return the embeddings and their projection by path, and the share of the variance kept."""
    tables = {path: _centered(weights.read(path)) for path in _TABLES}
    # As good as the decomposition of the rows, which would take minutes and more memory.
    variances, directions = np.linalg.eigh(_products(tables))
    largest = directions[:, : -size - 1 : -1]
    # Columns of an orthonormal matrix, of which the first, here the last, are all the same.
    ones_first = np.column_stack([np.ones(size), np.eye(size)[:, : size - 1]])
    basis = largest @ np.roll(np.linalg.qr(ones_first)[0], -1, axis=1).T
    scale, offset = map(weights.read, _SCALE_AND_OFFSET)
    of_norm = np.full(size, np.sqrt(len(basis) / size)), np.zeros(size)
    factors = {
        **{path: table @ basis for path, table in tables.items()},
        **dict(zip(_SCALE_AND_OFFSET, of_norm, strict=True)),
        f"{_PROJECTION}/kernel": basis.T * scale,
        f"{_PROJECTION}/bias": offset,
    }
    return factors, variances[-size:].sum() / variances.sum()


def _products(tables: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return the mean products `[H, H]` of two columns of the sum of a row of each table.

    Rows are drawn independently, tokens by the law of Zipf: vocabularies are sorted by frequency.
    """
    width = tables[_WORDS].shape[1]
    mean, total = np.zeros(width), np.zeros((width, width))
    for path, table in tables.items():
        shares = 1 / np.arange(1, len(table) + 1) if path == _WORDS else np.ones(len(table))
        weighted = table * (shares / shares.sum())[:, None]
        own = weighted.sum(axis=0)
        total += weighted.T @ table - np.outer(own, own)
        mean += own
    return total + np.outer(mean, mean)


def _centered(table: np.ndarray) -> np.ndarray:
    return table - table.mean(axis=1, keepdims=True, dtype=np.float64)


def _averaged(tensors: Mapping[str, Tensor], shapes: Mapping[str, Shape]) -> dict[str, Tensor]:
    """Return the tensors of each group that `shapes` have as the mean of those of its layers."""
    layers, groups = _by_layer(tensors), _by_layer(shapes)
    averaged = {path: each for path, each in tensors.items() if not _OF_GROUP.fullmatch(path)}
    for variable, paths in groups.items():
        found = [tensors[path] for path in layers[variable]]
        for number, path in enumerate(paths):
            first, end = (len(found) * each // len(paths) for each in (number, number + 1))
            if part := found[first:end]:
                averaged[path] = part[0]._replace(read=functools.partial(_mean, part))
    return averaged


def _by_layer(paths: Iterable[str]) -> Mapping[tuple[str, str], list[str]]:
    """Return the paths of variables in groups of layers: those of one variable, in order."""
    found = defaultdict(list)
    matches = [match for path in paths if (match := _OF_GROUP.fullmatch(path))]
    for match in sorted(matches, key=lambda match: int(match["number"])):
        found[match["scope"], match["rest"]].append(match[0])
    return found


def _mean(tensors: Sequence[Tensor]) -> np.ndarray:
    return np.stack([tensor.read() for tensor in tensors]).mean(axis=0, dtype=np.float64)
