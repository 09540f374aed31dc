"""What the masked-LM head predicts after every layer (a "logit lens")."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import keras
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from scipy.special import log_softmax

from albert_tf.analysis.analysis_options import ProbeOptions
from albert_tf.analysis.models import weights_of
from albert_tf.analysis.pictures import picture, write_json
from albert_tf.errors import InputError, arguments_renamed
from albert_tf.report.sections import text_table
from albert_tf.text_models.masked_lm import MaskedLM

_COLORS = LinearSegmentedColormap.from_list("probability", ["#ffffff", "#93c5fd"])


class Prediction(NamedTuple):
    """What is predicted for a mask after a layer.

    Attributes:
        tokens: the most probable pieces, best first.
        probabilities: theirs.
        target_probability: of the target; None without one.
        target_rank: 1 if the target is the most probable token; None without a target.
    """

    tokens: list[str]
    probabilities: list[float]
    target_probability: float | None = None
    target_rank: int | None = None


def probe(
    masked_lm: MaskedLM, text: str, top_k: int = 5, target: str | None = None
) -> list[list[Prediction]]:
    """Apply the masked-LM head to the hidden states of every layer at the masks.

    The head was trained on the output of the last layer, whose prediction is that of
    `MaskedLM.fill_mask`.

    Args:
        masked_lm: a pretraining model.
        text: with one or more `[MASK]`.
        top_k: number of candidates.
        target: a word that is one token of the vocabulary.

    Returns:
        For the input of the first layer and the output of every layer, a prediction per mask.

    Raises:
        InputError: If the text has no mask or is too long, or the target is not one token.
    """
    tokenizer = masked_lm.tokenizer
    features = tokenizer(text, special_symbols=True)
    ids, longest = features["input_ids"][0], masked_lm.model.config.max_position_embeddings
    if len(ids) > longest:
        raise InputError(f"`text`: {len(ids):,} tokens; the model reads at most {longest:,}")
    masks = np.flatnonzero(ids == tokenizer.mask_id)
    if not len(masks):
        raise InputError(f"`text`: contains no {tokenizer.pieces[tokenizer.mask_id]}")
    target_id = None if target is None else _target_id(masked_lm, target)
    encoder = masked_lm.model.encoder
    hidden_states = encoder(features, output_hidden_states=True)["hidden_states"]
    predictions = []
    for hidden in hidden_states:
        logits = masked_lm.model.masked_lm(
            keras.ops.take(hidden, masks, axis=1), encoder.embeddings.word_embeddings
        )
        rows = log_softmax(keras.ops.convert_to_numpy(logits)[0].astype(np.float64), axis=-1)
        predictions.append([_prediction(row, tokenizer.pieces, top_k, target_id) for row in rows])
    return predictions


def _target_id(masked_lm: MaskedLM, target: str) -> int:
    tokenizer = masked_lm.tokenizer
    encoded = tokenizer.encode(target)
    if len(encoded) == 1 and encoded != [tokenizer.unk_id]:
        return encoded[0]
    if target in tokenizer.pieces:
        return tokenizer.pieces.index(target)
    tokens = " ".join(tokenizer.tokenize(target)) or "nothing"
    raise InputError(f"`target`={target}: must be one token of the vocabulary, but is {tokens}")


def _prediction(
    log_probabilities: np.ndarray, pieces: Sequence[str], top_k: int, target_id: int | None
) -> Prediction:
    order = np.argsort(-log_probabilities, kind="stable")
    best = order[:top_k]
    tokens = [pieces[id] for id in best]
    probabilities = np.exp(log_probabilities[best]).tolist()
    if target_id is None:
        return Prediction(tokens, probabilities)
    rank = 1 + int(np.flatnonzero(order == target_id)[0])
    return Prediction(tokens, probabilities, float(np.exp(log_probabilities[target_id])), rank)


def run(options: ProbeOptions) -> None:
    """Print a table per mask, and write `probe.json` and the picture.

    Raises:
        InputError: If a flag, the model or the text is invalid.
    """
    with arguments_renamed(name="model", vocabulary="spm_model_file"):
        masked_lm = MaskedLM.from_preset(
            weights_of(options.model),
            vocabulary=options.spm_model_file,
            do_lower_case=options.do_lower_case,
        )
    predictions = probe(masked_lm, options.text, options.top_k, options.target)
    for mask in range(len(predictions[0])):
        rows = [_row(layer, each[mask], options.target) for layer, each in enumerate(predictions)]
        columns = ["layer"] + (["rank", "probability"] if options.target else []) + ["predictions"]
        print(f"[MASK] {mask + 1}\n{text_table(columns, rows)}\n")
    print("Layer 0 is the input of the first layer; the head was trained on the last one.")
    if options.output_dir is not None:
        layers = [[each._asdict() for each in masks] for masks in predictions]
        content = {"model": options.model, "text": options.text, "target": options.target}
        write_json(options.output_dir, "probe.json", {**content, "layers": layers})
        draw(options.output_dir, predictions, options)
        files = ", ".join(f"probe.{ending}" for ending in ("json", *options.formats))
        print(f"wrote {files} to {options.output_dir}")


def _row(layer: int, prediction: Prediction, target: str | None) -> list[str]:
    pairs = zip(prediction.tokens, prediction.probabilities, strict=True)
    found = "  ".join(f"{token} {probability:.3f}" for token, probability in pairs)
    shown = (
        [f"{prediction.target_rank:,}", f"{prediction.target_probability:.4f}"] if target else []
    )
    return [str(layer), *shown, found]


def draw(folder: str, predictions: list[list[Prediction]], options: ProbeOptions) -> None:
    """Write a heat map: a row per layer, a column per mask, the best token in each cell."""
    values = np.array([[each.probabilities[0] for each in masks] for masks in predictions])
    layers, masks = values.shape
    size = (max(3.6, 1.2 + 1.7 * masks), 1.0 + 0.32 * layers)
    with picture(folder, "probe", options.formats, size) as (axes,):
        axes.imshow(values, cmap=_COLORS, vmin=0, vmax=1, aspect="auto", origin="lower")
        for layer, row in enumerate(predictions):
            for mask, each in enumerate(row):
                text = f"{each.tokens[0]}  {each.probabilities[0]:.2f}"
                # Another color than that of all text: cells stay light in dark mode.
                style: dict[str, Any] = {"ha": "center", "va": "center", "color": "#111827"}
                axes.text(mask, layer, text, fontsize=11, **style)
        axes.grid(visible=False)
        axes.set_xticks(range(masks), [f"[MASK] {mask + 1}" for mask in range(masks)])
        axes.set_yticks(range(layers))
        axes.set_ylabel("layer")
