"""How far each layer moves the tokens (arXiv 1909.11942, figure 1)."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from matplotlib.ticker import MaxNLocator

from albert_tf.analysis.analysis_options import LayersOptions, labeled_models
from albert_tf.analysis.models import create_encoder, open_model
from albert_tf.errors import InputError
from albert_tf.files import exists, read_lines
from albert_tf.report.charts import COLORS, styled_figure, svg_text
from albert_tf.report.sections import text_table
from albert_tf.terminal import ProgressLine
from albert_tf.tokenizers import Tokenizer

_BATCH = 16  # texts that are computed at a time
# Texts are padded to a multiple of it, as JAX compiles every operation for every shape.
_LENGTH_STEP = 32


class LayerDistances(NamedTuple):
    """Distances between the input and the output of every layer, means over so many tokens.

    These are Euclidean distances, cosine similarities and angles, float64 `[layers]`.
    """

    l2: np.ndarray
    cosine: np.ndarray
    degrees: np.ndarray
    tokens: int


def layer_distances(
    encoder: keras.Model, tokenizer: Tokenizer, texts: Sequence[str]
) -> LayerDistances:
    """Compare the input and the output of every layer of an `AlbertEncoder`, token by token.

    Every text is read as `[CLS] text [SEP]`, up to the longest sequence of the model. These two
    symbols count as tokens, padding does not.
    """
    length = encoder.config.max_position_embeddings
    sums, tokens = np.zeros((len(encoder.depth_blocks), 3)), 0
    progress = ProgressLine()
    for start in range(0, len(texts), _BATCH):
        features = tokenizer(list(texts[start : start + _BATCH]), max_length=length)
        features = _padded(features, length, tokenizer.pad_id)
        outputs = encoder(features, output_hidden_states=True)
        is_token = features["input_mask"] > 0
        hidden = [
            keras.ops.convert_to_numpy(keras.ops.cast(each, "float32"))[is_token]
            for each in outputs["hidden_states"]
        ]
        sums += np.stack([_sums(*pair) for pair in zip(hidden[:-1], hidden[1:], strict=True)])
        tokens += int(is_token.sum())
        if len(texts) > _BATCH:
            progress.update(f"{min(start + _BATCH, len(texts)):,} of {len(texts):,} texts")
    progress.close()
    l2, cosine, degrees = (sums / tokens).T
    return LayerDistances(l2, cosine, degrees, tokens)


def _sums(before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Sum over tokens of the L2 distance, the cosine and the angle, float64 `[3]`."""
    before, after = before.astype(np.float64), after.astype(np.float64)
    norms = np.linalg.norm(before, axis=-1) * np.linalg.norm(after, axis=-1)
    # Rounding takes the cosine of equal vectors above 1; a zero vector has no direction.
    cosine = np.clip((before * after).sum(-1) / np.maximum(norms, 1e-30), -1, 1)
    l2 = np.linalg.norm(after - before, axis=-1)
    return np.array([l2.sum(), cosine.sum(), np.degrees(np.arccos(cosine)).sum()])


def _padded(features: dict, length: int, pad_id: int) -> dict[str, np.ndarray]:
    """Pad sequences to one of few lengths, at most `length`."""
    columns = features["input_ids"].shape[1]
    more = min(-(-columns // _LENGTH_STEP) * _LENGTH_STEP, length) - columns
    fill = {"input_ids": pad_id}
    return {
        name: np.pad(values, [(0, 0), (0, more)], constant_values=fill.get(name, 0))
        for name, values in features.items()
    }


def read_texts(options: LayersOptions) -> list[str]:
    """Return the texts of the flags.

    Raises:
        InputError: If the file is missing, is no text file, or has no text.
    """
    if options.text is not None:
        return [options.text]
    path = options.input_file or ""
    if not exists(path):
        raise InputError(f"`input_file`={path}: no such file")
    texts = [line for line in read_lines(path) if line.strip()]
    if not texts:
        raise InputError(f"`input_file`={path}: contains no text")
    return texts


def run(options: LayersOptions) -> dict[str, Any]:
    """Print the distances of all models, and return `layers.json` and the picture."""
    models = labeled_models(options.model)
    texts = read_texts(options)
    presets = {label: open_model(name, options) for label, name in models.items()}
    results = {
        label: layer_distances(create_encoder(preset), preset.tokenizer, texts)
        for label, preset in presets.items()
    }
    for label, distances in results.items():
        print(f"{label}: means over {distances.tokens:,} tokens")
        columns = ("layer", "L2 distance", "cosine", "degrees")
        print(text_table(columns, list(_rows(distances)), {1, 2, 3}))
    if options.output_dir is None:
        return {}
    written: dict[str, Any] = {"layers.json": _as_json(models, results)}
    if all(len(distances.l2) == 1 for distances in results.values()):
        print("no picture is drawn: with one layer, there is no curve")
    else:
        written["layers.svg"] = picture(results)
    return written


def picture(results: dict[str, LayerDistances]) -> str:
    """Draw figure 1 as SVG: L2 distances on top, angles below, a curve per model."""
    with styled_figure((5.0, 5.6), rows=2) as (figure, all_axes):
        upper, lower = all_axes[:, 0]
        for number, (label, distances) in enumerate(results.items()):
            layers = np.arange(1, len(distances.l2) + 1)
            style: dict[str, Any] = {
                "color": COLORS[number % len(COLORS)],
                "linestyle": ("-", "--", ":")[number // len(COLORS) % 3],
                "marker": "o",
                "markersize": 4,
                "label": label,
            }
            upper.plot(layers, distances.l2, **style)
            lower.plot(layers, distances.degrees, **style)
        for axes, title, unit in [(upper, "L2 distance", ""), (lower, "Angle", " (degrees)")]:
            axes.set_title(f"{title} of input and output{unit}", loc="left", fontsize=12)
            axes.set_xlabel("layer")
            axes.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
            axes.set_ylim(bottom=0)
        handles = upper.get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower left", ncols=3, frameon=False)
        return svg_text(figure)


def _rows(distances: LayerDistances) -> Iterator[tuple[str, str, str, str]]:
    columns = (distances.l2, distances.cosine, distances.degrees)
    for number, (l2, cosine, degrees) in enumerate(zip(*columns, strict=True), start=1):
        yield str(number), f"{l2:.4f}", f"{cosine:.4f}", f"{degrees:.2f}"


def _as_json(models: dict[str, str], results: dict[str, LayerDistances]) -> dict:
    found = []
    for label, (l2, cosine, degrees, tokens) in results.items():
        values = {"l2": l2.tolist(), "cosine": cosine.tolist(), "degrees": degrees.tolist()}
        found.append({"label": label, "model": models[label], "tokens": tokens, **values})
    return {"models": found}
