"""Where parameters, operations and memory of models are, by formula: tables and a picture.

Parameters are those of `AlbertForPreTraining`: the encoder with its pooler, and the two heads of
pretraining. Operations are counted as in `albert_tf.flops`. Loads no framework.
"""

import dataclasses
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from albert_tf import configs
from albert_tf.analysis.analysis_options import ParametersOptions, labeled_models
from albert_tf.config import CONFIG_FILE, AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists
from albert_tf.hub.names import local_weights
from albert_tf.interop.file_names import folder_of
from albert_tf.report.charts import GRID, styled_figure, svg_text
from albert_tf.report.sections import text_table
from albert_tf.weights import adjacent_config

# Config files in folders of models: ours and the original's, Hugging Face's, those of exports.
_IN_FOLDERS = (CONFIG_FILE, "config.json", f"assets/{CONFIG_FILE}", f"encoder/assets/{CONFIG_FILE}")

# Parts in the picture -> color. Small parts are drawn together.
_PICTURED = {
    "token embeddings": "#2563eb",
    "projection": "#93c5fd",
    "attention": "#d97706",
    "feed-forward": "#047857",
    "others": "#9aa5b1",
}

# Bytes per parameter in float32 training: weight, gradient, and the two moments of LAMB and AdamW.
MEMORY = {"weights": 4, "gradients": 4, "optimizer": 8}
# Parts between a token id and the first layer.
_BEFORE_LAYERS = ("token embeddings", "projection")
# Parts that are heads; the others are counted by `AlbertConfig.parameter_count`.
HEADS = ("masked-LM head", "sentence-order head")


class Part(NamedTuple):
    """A part of a model.

    Attributes:
        parameters: number of its parameters, shared ones counted once.
        flops: operations of the forward pass of a sequence, shared parameters at every use.
    """

    name: str
    parameters: int
    flops: int

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of what training keeps per parameter; activations are not counted."""
        return {name: bytes * self.parameters for name, bytes in MEMORY.items()}


def parts_of(config: AlbertConfig, length: int, predictions: int) -> list[Part]:
    """Divide a model into parts.

    Of a sequence, the encoder computes all positions, and the masked-LM head predicts tokens at
    `predictions` of them.
    """
    e, h = config.embedding_size, config.hidden_size
    i, v = config.intermediate_size, config.vocab_size
    inner = config.inner_group_num
    blocks = inner * config.num_hidden_layers
    attentions = inner * _own(config, "attention")
    feed_forwards = inner * _own(config, "ffn")
    has_projection = e != h
    positions = config.max_position_embeddings + config.type_vocab_size
    return [
        Part("token embeddings", v * e, 0),
        Part("position and segment embeddings", positions * e, 0),
        Part("projection", has_projection * (e * h + h), has_projection * 2 * length * e * h),
        Part(
            "attention",
            attentions * 4 * (h * h + h),
            blocks * (4 * 2 * length * h * h + 2 * 2 * length * length * h),
        ),
        Part(
            "feed-forward", feed_forwards * (h * i + i + i * h + h), blocks * 2 * 2 * length * h * i
        ),
        Part("layer norms", 2 * e + (attentions + feed_forwards) * 2 * h, 0),
        Part("pooler", h * h + h, 2 * h * h),
        Part("masked-LM head", h * e + e + 2 * e + v, predictions * (2 * h * e + 2 * e * v)),
        Part("sentence-order head", 2 * h + 2, 2 * 2 * h),
    ]


def _own(config: AlbertConfig, half: str) -> int:
    """Return how many layers have parameters of their own for one half of a layer."""
    return 1 if config.parameter_sharing == half else config.num_hidden_groups


def bert_of(config: AlbertConfig) -> AlbertConfig:
    """Return the BERT of the same shape: embeddings of width H, parameters of each layer."""
    return dataclasses.replace(
        config,
        embedding_size=config.hidden_size,
        num_hidden_groups=config.num_hidden_layers,
        parameter_sharing="none",
    )


def find_config(name: str) -> AlbertConfig:
    """Return the config of a name, without reading weights.

    Args:
        name: a config shipped with the package, a JSON file, a folder that contains one, weights
            in such a folder, or the name of published weights, which are fetched.

    Raises:
        InputError: If there is no such config, or it is invalid.
    """
    known = configs.model_configs()
    if not exists(name) and name in known:
        return AlbertConfig.from_json_file(name)
    path = local_weights(name, argument="model")
    if path.endswith(".json") and exists(path):
        return AlbertConfig.from_json_file(path)
    # Of TensorFlow's checkpoints, the name is a prefix of those of its files.
    if not exists(path) and not exists(f"{path}.index"):
        raise InputError(
            f"`model`={name}: no such file, folder or name; names are {', '.join(known)}"
        )
    folder = folder_of(path)
    inside = [path for file in _IN_FOLDERS if exists(path := os.path.join(folder, file))]
    config = AlbertConfig.from_json_file(inside[0]) if inside else adjacent_config(f"{folder}/")
    if config is None and name in known:
        return AlbertConfig.from_json_file(name)
    if config is None:
        raise InputError(f"`model`={name}: there is no {CONFIG_FILE} or config.json in {folder}")
    return config


def run(options: ParametersOptions) -> dict[str, Any]:
    """Print a table per shape, and return `parameters.json` and the picture."""
    shapes: dict[str, AlbertConfig] = {}
    for label, name in labeled_models(options.model).items():
        shapes[label] = find_config(name)
        if options.bert:
            shapes[f"BERT as {label}"] = bert_of(shapes[label])
    arguments = (options.max_seq_length, options.max_predictions_per_seq)
    parts = {label: parts_of(config, *arguments) for label, config in shapes.items()}
    for label in shapes:
        print(f"{label}\n{part_table(parts[label])}\n")
    print(comparison_table(shapes, parts))
    print(
        f"GFLOP: forward pass of a sequence of {arguments[0]} tokens, {arguments[1]} of them "
        "predicted. Training memory: float32 weights, gradients and two moments per parameter, "
        "without activations."
    )
    if options.output_dir is None:
        return {}
    return {"parameters.json": _as_json(shapes, parts, options), "parameters.svg": picture(parts)}


def part_table(parts: Sequence[Part]) -> str:
    """Return the parts of one model as text, with their shares."""
    parameters = sum(part.parameters for part in parts)
    flops = sum(part.flops for part in parts)
    rows = [
        (
            part.name,
            f"{part.parameters:,}",
            f"{100 * part.parameters / parameters:.1f}%",
            f"{part.flops / 1e9:,.2f}",
            f"{100 * part.flops / flops:.1f}%",
            f"{sum(part.memory.values()) / 2**20:,.1f}",
        )
        for part in [*parts, Part("all", parameters, flops)]
    ]
    columns = ("part", "parameters", "share", "GFLOP", "share", "training MiB")
    return text_table(columns, rows, range(1, len(columns)))


def comparison_table(
    shapes: Mapping[str, AlbertConfig], parts: Mapping[str, Sequence[Part]]
) -> str:
    """Return all models as text, a row each."""
    rows = []
    for label, config in shapes.items():
        total = sum(part.parameters for part in parts[label])
        rows.append(
            (
                label,
                f"{config.parameter_count():,}",
                f"{total:,}",
                f"{sum(p.parameters for p in parts[label] if p.name in _BEFORE_LAYERS):,}",
                f"{sum(part.flops for part in parts[label]) / 1e9:,.1f}",
                f"{total * sum(MEMORY.values()) / 2**20:,.0f}",
            )
        )
    columns = ("model", "encoder", "with heads", "token table + projection", "GFLOP", "MiB")
    return text_table(columns, rows, range(1, len(columns)))


def picture(parts: Mapping[str, Sequence[Part]]) -> str:
    """Draw stacked bars as SVG: parameters on top, operations below, a bar per model."""
    with styled_figure((5.0, 2.2 + 0.84 * len(parts)), rows=2) as (figure, all_axes):
        panels = all_axes[:, 0]
        for axes, field, unit, title in [
            (panels[0], "parameters", 1e6, "Parameters (millions)"),
            (panels[1], "flops", 1e9, "GFLOP of a sequence"),
        ]:
            grouped = {label: _pictured(each, field) for label, each in parts.items()}
            ends = dict.fromkeys(parts, 0.0)
            for name, color in _PICTURED.items():
                widths = [grouped[label][name] / unit for label in parts]
                lefts = list(ends.values())
                axes.barh(list(parts), widths, left=lefts, color=color, height=0.7, label=name)
                ends = {
                    label: end + width
                    for (label, end), width in zip(ends.items(), widths, strict=True)
                }
            for label, end in ends.items():
                axes.annotate(f" {end:,.1f}", (end, label), va="center", fontsize=11)
            axes.margins(x=0.2)
            axes.set_title(title, loc="left", fontsize=12)
            axes.invert_yaxis()
            axes.grid(visible=False, axis="y")
            axes.grid(visible=True, axis="x", color=GRID)
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower left", ncols=3, frameon=False, fontsize=11)
        return svg_text(figure)


def _pictured(parts: Sequence[Part], field: str) -> dict[str, int]:
    """Return sums of a field by the parts of the picture."""
    sums = dict.fromkeys(_PICTURED, 0)
    for part in parts:
        sums[part.name if part.name in sums else "others"] += getattr(part, field)
    return sums


def _as_json(
    shapes: Mapping[str, AlbertConfig],
    parts: Mapping[str, Sequence[Part]],
    options: ParametersOptions,
) -> dict:
    return {
        "max_seq_length": options.max_seq_length,
        "max_predictions_per_seq": options.max_predictions_per_seq,
        "models": [
            {
                "name": label,
                "config": config.to_dict(),
                "encoder_parameters": config.parameter_count(),
                "parameters": sum(part.parameters for part in parts[label]),
                "flops": sum(part.flops for part in parts[label]),
                "parts": [
                    {**part._asdict(), "is_head": part.name in HEADS, "memory_bytes": part.memory}
                    for part in parts[label]
                ],
            }
            for label, config in shapes.items()
        ],
    }
