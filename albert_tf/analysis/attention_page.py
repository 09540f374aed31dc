"""The page of all attention maps: one HTML file with its data and its script inside."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence

import jinja2
import numpy as np

from albert_tf.report.sections import Shade

# Weights are stored as whole numbers of 16 bits, in units of 1 / 65535.
_SCALE = 65535


def attention_page(
    model: str, tokens: Sequence[str], weights: np.ndarray, tables: Mapping[str, np.ndarray]
) -> str:
    """Returns the HTML text of a page.

    Args:
        model: its name.
        tokens: of the sequence.
        weights: `[layers, heads, seq, seq]`.
        tables: title -> values `[layers, heads]`, shown as shaded tables.
    """
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("albert_tf.analysis", "."),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    numbers = np.rint(weights * _SCALE).astype("<u2")
    layers, heads = weights.shape[:2]
    data = {
        "tokens": list(tokens),
        "layers": layers,
        "heads": heads,
        "scale": _SCALE,
        "weights": base64.b64encode(numbers.tobytes()).decode(),
    }
    return environment.get_template("attention.html.j2").render(
        model=model,
        tokens=tokens,
        layers=layers,
        heads=heads,
        highest_entropy=math.log(len(tokens)),
        data=data,
        tables={title: _shaded(values) for title, values in tables.items()},
    )


def _shaded(values: np.ndarray) -> list[list[Shade]]:
    """Cells whose shade ranges from the lowest to the highest value of the table."""
    low, high = values.min(), values.max()
    shares = (values - low) / (high - low) if high > low else np.zeros_like(values)
    return [
        [Shade(f"{value:.2f}", float(share)) for value, share in zip(*rows, strict=True)]
        for rows in zip(values, shares, strict=True)
    ]
