"""Attention maps of every layer and head, and statistics of them (arXiv 1906.04341).

The page of all maps is one HTML file with its data and its script inside.
"""

import base64
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np

from albert_tf.analysis.analysis_options import AttentionOptions
from albert_tf.analysis.models import create_encoder, open_model
from albert_tf.errors import InputError
from albert_tf.logs import counted
from albert_tf.report.sections import Shade, html_template, text_table
from albert_tf.tokenizers import Tokenizer

# A map is nearly uniform if its tokens attend to at least this share of all tokens: the perplexity
# of the weights, exp(entropy), is the number of tokens among which equal weights are as spread.
_NEARLY_UNIFORM = 0.9

# Weights are stored in the page as whole numbers of 16 bits, in units of 1 / 65535.
_SCALE = 65535


class AttentionMaps(NamedTuple):
    """The attention weights of one sequence.

    Attributes:
        tokens: the pieces of the sequence, `[CLS]` and `[SEP]` included.
        weights: float32 `[layers, heads, seq, seq]`; row i holds what position i attends to, and
            sums to 1.
        is_cls, is_sep: bool `[seq]`.
    """

    tokens: list[str]
    weights: np.ndarray
    is_cls: np.ndarray
    is_sep: np.ndarray


def attention_maps(
    encoder: keras.Model, tokenizer: Tokenizer, text: str, text_pair: str | None = None
) -> AttentionMaps:
    """Compute the attention weights of an `AlbertEncoder` for a text, or for a pair of texts.

    Special symbols in them, such as `[MASK]`, are read.

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


# Key in attention.json -> title in tables. All are means over the positions that attend.
STATISTICS = {
    "entropy": "entropy (nats)",
    "cls": "attention to [CLS]",
    "sep": "attention to [SEP]",
    "same": "attention to the token itself",
    "previous": "attention to the previous token",
    "next": "attention to the next token",
}


def attention_statistics(maps: AttentionMaps) -> dict[str, np.ndarray]:
    """Return all `STATISTICS` of some maps, float64 `[layers, heads]` each."""
    weights = maps.weights.astype(np.float64)
    logarithms = np.log(weights, out=np.zeros_like(weights), where=weights > 0)

    def share_at(offset: int) -> np.ndarray:
        # Without the first or the last position, which has no neighbor on that side.
        return np.diagonal(weights, offset, axis1=-2, axis2=-1).mean(-1)

    return {
        "entropy": -(weights * logarithms).sum(-1).mean(-1),
        "cls": weights[..., maps.is_cls].sum(-1).mean(-1),
        "sep": weights[..., maps.is_sep].sum(-1).mean(-1),
        "same": share_at(0),
        "previous": share_at(-1),
        "next": share_at(1),
    }


def uniform_statistics(maps: AttentionMaps) -> dict[str, float]:
    """Return `STATISTICS` of a map in which every token attends equally to all tokens."""
    count = len(maps.tokens)
    uniform = maps._replace(weights=np.full((1, 1, count, count), 1 / count))
    return {name: values.item() for name, values in attention_statistics(uniform).items()}


def run(options: AttentionOptions) -> dict[str, Any]:
    """Print the statistics, and return `attention.json` and the page `attention.html`."""
    preset = open_model(options.model, options)
    texts = options.text, options.text_pair
    maps = attention_maps(create_encoder(preset), preset.tokenizer, *texts)
    statistics, uniform = attention_statistics(maps), uniform_statistics(maps)
    layers, heads = maps.weights.shape[:2]
    print(f"{counted(len(maps.tokens), 'token')}: {' '.join(maps.tokens)}")
    columns = ("mean over heads", *STATISTICS)
    print(text_table(columns, _rows(statistics, uniform), range(1, len(columns))))
    for name in STATISTICS:
        layer, head = divmod(int(statistics[name].argmax()), heads)
        value = statistics[name].max()
        print(f"highest {STATISTICS[name]}: layer {layer + 1}, head {head + 1} ({value:.3f})")
    spread = np.exp(statistics["entropy"])
    nearly = int((spread >= _NEARLY_UNIFORM * len(maps.tokens)).sum())
    if nearly:
        print(
            f"nearly uniform: {nearly} of {counted(layers * heads, 'map')}, where a token attends "
            f"to at least {_NEARLY_UNIFORM:.0%} of all tokens about equally"
        )
    if options.output_dir is None:
        print("--output_dir=FOLDER writes a page with all maps")
        return {}
    values = {name: statistics[name].tolist() for name in STATISTICS}
    content = {"model": options.model, "tokens": maps.tokens, "layers": layers, "heads": heads}
    tables = {
        f"{STATISTICS[name]}; {uniform[name]:.3f} if uniform": statistics[name]
        for name in STATISTICS
    }
    notes = [_note(value, len(maps.tokens)) for value in spread.flat]
    page = attention_page(options.model, maps.tokens, maps.weights, tables, notes)
    return {"attention.json": {**content, "statistics": values}, "attention.html": page}


def _note(spread: float, tokens: int) -> str:
    text = f"As spread out as equal weights on {spread:.1f} of {counted(tokens, 'token')}."
    return f"Nearly uniform. {text}" if spread >= _NEARLY_UNIFORM * tokens else text


def _rows(
    statistics: Mapping[str, np.ndarray], uniform: Mapping[str, float]
) -> Sequence[Sequence[str]]:
    means = np.stack([statistics[name].mean(1) for name in STATISTICS], axis=1)
    rows = {f"layer {number}": row for number, row in enumerate(means, start=1)}
    rows["if uniform"] = np.array([uniform[name] for name in STATISTICS])
    return [(name, *(f"{value:.3f}" for value in row)) for name, row in rows.items()]


def attention_page(
    model: str,
    tokens: Sequence[str],
    weights: np.ndarray,
    tables: Mapping[str, np.ndarray],
    notes: Sequence[str],
) -> str:
    """Return the HTML text of a page.

    `weights` are `[layers, heads, seq, seq]`; `tables`, title -> values `[layers, heads]`, are
    shown shaded; `notes` are a sentence about each map, layer by layer.
    """
    numbers = np.rint(weights * _SCALE).astype("<u2")
    layers, heads = weights.shape[:2]
    data = {
        "tokens": list(tokens),
        "layers": layers,
        "heads": heads,
        "scale": _SCALE,
        "notes": list(notes),
        "weights": base64.b64encode(numbers.tobytes()).decode(),
    }
    shaded = {title: _shaded(values) for title, values in tables.items()}
    template = html_template("albert_tf.analysis", "attention.html.j2")
    return template.render(model=model, tables=shaded, data=data, **data)


def _shaded(values: np.ndarray) -> list[list[Shade]]:
    """Return cells whose shade ranges from 0 to the highest value of the table."""
    shares = values / (values.max() or 1)
    return [
        [Shade(f"{value:.3f}", float(share)) for value, share in zip(*rows, strict=True)]
        for rows in zip(values, shares, strict=True)
    ]
