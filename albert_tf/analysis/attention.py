"""Attention maps of every layer and head, and statistics of them (arXiv 1906.04341).

The page of all maps is one HTML file with its data and its script inside.
"""

from __future__ import annotations

import base64
import math
import os
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import keras
import numpy as np

from albert_tf.analysis.analysis_options import AttentionOptions
from albert_tf.analysis.models import create_encoder, open_model
from albert_tf.analysis.pictures import write_json
from albert_tf.errors import InputError
from albert_tf.files import write_text
from albert_tf.report.page import html_template
from albert_tf.report.sections import Shade, text_table
from albert_tf.tokenizers import Tokenizer

# Weights are stored in the page as whole numbers of 16 bits, in units of 1 / 65535.
_SCALE = 65535


class AttentionMaps(NamedTuple):
    """The attention weights of one sequence.

    Attributes:
        tokens: the pieces of the sequence, `[CLS]` and `[SEP]` included.
        weights: float32 `[layers, heads, seq, seq]`; row i holds what position i attends to, and
            sums to 1.
        is_cls: bool `[seq]`.
        is_sep: bool `[seq]`.
    """

    tokens: list[str]
    weights: np.ndarray
    is_cls: np.ndarray
    is_sep: np.ndarray


def attention_maps(
    encoder: keras.Model, tokenizer: Tokenizer, text: str, text_pair: str | None = None
) -> AttentionMaps:
    """Compute the attention weights of a text, or of a pair of texts.

    Args:
        encoder: an `AlbertEncoder`.
        tokenizer: of the model.
        text: in which special symbols such as `[MASK]` are read.
        text_pair: the second text of a pair.

    Raises:
        InputError: If the text is too long for the model.
    """
    features = tokenizer(text, text_pair, special_symbols=True)
    ids, longest = features["input_ids"][0], encoder.config.max_position_embeddings
    if len(ids) > longest:
        raise InputError(f"`text`: {len(ids):,} tokens; the model reads at most {longest:,}")
    layers = encoder(features, output_attentions=True)["attentions"]
    weights = [keras.ops.convert_to_numpy(keras.ops.cast(each, "float32"))[0] for each in layers]
    tokens = tokenizer.convert_ids_to_tokens(ids)
    return AttentionMaps(
        tokens, np.stack(weights), ids == tokenizer.cls_id, ids == tokenizer.sep_id
    )


def _entropy(maps: AttentionMaps) -> np.ndarray:
    weights = maps.weights.astype(np.float64)
    logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)
    return -(weights * logarithms).sum(-1).mean(-1)


def _share_of(columns: str) -> Callable[[AttentionMaps], np.ndarray]:
    def share(maps: AttentionMaps) -> np.ndarray:
        chosen = getattr(maps, columns)
        return maps.weights.astype(np.float64)[..., chosen].sum(-1).mean(-1)

    return share


def _share_at(offset: int) -> Callable[[AttentionMaps], np.ndarray]:
    def share(maps: AttentionMaps) -> np.ndarray:
        # Without the first or the last position, which has no neighbor on that side.
        diagonal = np.diagonal(maps.weights.astype(np.float64), offset, axis1=-2, axis2=-1)
        return diagonal.mean(-1)

    return share


class Statistic(NamedTuple):
    """A number per layer and head.

    Attributes:
        title: for tables.
        compute: function(maps) -> float64 `[layers, heads]`.
    """

    title: str
    compute: Callable[[AttentionMaps], np.ndarray]


# Key in attention.json -> statistic. All are means over the positions that attend.
STATISTICS = {
    "entropy": Statistic("entropy (nats)", _entropy),
    "cls": Statistic("attention to [CLS]", _share_of("is_cls")),
    "sep": Statistic("attention to [SEP]", _share_of("is_sep")),
    "same": Statistic("attention to the token itself", _share_at(0)),
    "previous": Statistic("attention to the previous token", _share_at(-1)),
    "next": Statistic("attention to the next token", _share_at(1)),
}


def attention_statistics(maps: AttentionMaps) -> dict[str, np.ndarray]:
    """Return all `STATISTICS` of some maps, float64 `[layers, heads]` each."""
    return {name: statistic.compute(maps) for name, statistic in STATISTICS.items()}


def run(options: AttentionOptions) -> None:
    """Print the statistics, and write `attention.json` and the page `attention.html`.

    Raises:
        InputError: If a flag, the model or the text is invalid.
    """
    preset = open_model(options.model, options)
    encoder = create_encoder(preset)
    maps = attention_maps(encoder, preset.tokenizer, options.text, options.text_pair)
    statistics = attention_statistics(maps)
    layers, heads = maps.weights.shape[:2]
    print(f"{len(maps.tokens)} tokens: {' '.join(maps.tokens)}")
    columns = ("mean over heads", *STATISTICS)
    print(text_table(columns, _rows(statistics), range(1, len(columns))))
    for name in STATISTICS:
        layer, head = divmod(int(statistics[name].argmax()), heads)
        value = statistics[name].max()
        print(f"highest {STATISTICS[name].title}: layer {layer + 1}, head {head + 1} ({value:.3f})")
    if options.output_dir is None:
        print("--output_dir=FOLDER writes a page with all maps")
        return
    values = {name: statistics[name].tolist() for name in STATISTICS}
    content = {"model": options.model, "tokens": maps.tokens, "layers": layers, "heads": heads}
    write_json(options.output_dir, "attention.json", {**content, "statistics": values})
    tables = {STATISTICS[name].title: statistics[name] for name in STATISTICS}
    page = attention_page(options.model, maps.tokens, maps.weights, tables)
    write_text(os.path.join(options.output_dir, "attention.html"), page)
    print(f"wrote attention.json, attention.html to {options.output_dir}")


def _rows(statistics: dict[str, np.ndarray]) -> Sequence[Sequence[str]]:
    means = np.stack([statistics[name].mean(1) for name in STATISTICS], axis=1)
    return [
        (f"layer {number}", *(f"{value:.3f}" for value in row))
        for number, row in enumerate(means, start=1)
    ]


def attention_page(
    model: str, tokens: Sequence[str], weights: np.ndarray, tables: Mapping[str, np.ndarray]
) -> str:
    """Return the HTML text of a page.

    Args:
        model: its name.
        tokens: of the sequence.
        weights: `[layers, heads, seq, seq]`.
        tables: title -> values `[layers, heads]`, shown as shaded tables.
    """
    numbers = np.rint(weights * _SCALE).astype("<u2")
    layers, heads = weights.shape[:2]
    data = {
        "tokens": list(tokens),
        "layers": layers,
        "heads": heads,
        "scale": _SCALE,
        "weights": base64.b64encode(numbers.tobytes()).decode(),
    }
    return html_template("albert_tf.analysis", "attention.html.j2").render(
        model=model,
        tokens=tokens,
        layers=layers,
        heads=heads,
        highest_entropy=math.log(len(tokens)),
        data=data,
        tables={title: _shaded(values) for title, values in tables.items()},
    )


def _shaded(values: np.ndarray) -> list[list[Shade]]:
    """Return cells whose shade ranges from the lowest to the highest value of the table."""
    low, high = values.min(), values.max()
    shares = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return [
        [Shade(f"{value:.2f}", float(share)) for value, share in zip(*rows, strict=True)]
        for rows in zip(values, shares, strict=True)
    ]
