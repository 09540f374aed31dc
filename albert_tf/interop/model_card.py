"""The model card of a Hugging Face folder: what is known of a model, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from albert_tf.interop.convert import Converted

# Head -> task at the hub and class to load it with; there is no task for choices.
_TASKS = {
    "pretraining": ("fill-mask", "AutoModelForMaskedLM"),
    "span": ("question-answering", "AutoModelForQuestionAnswering"),
    "classifier": ("text-classification", "AutoModelForSequenceClassification"),
    "choice": (None, "AutoModelForMultipleChoice"),
    "encoder": ("feature-extraction", "AutoModel"),
}

# Keys of a data manifest -> what the card calls them.
_DATA = {
    "documents": "documents",
    "sentences": "sentences",
    "text_bytes": "bytes of text",
    "tokens": "tokens",
    "examples": "examples",
}
_SETTINGS = ("max_seq_length", "dupe_factor", "masking", "pair_objective", "do_lower_case")


def model_card(name: str, model: Converted) -> str:
    """The text of a `README.md`.

    Args:
        name: what the model is called.
        model: its weights, and what stood beside them.
    """
    task, auto_class = _TASKS[model.head]
    header = ["---", "library_name: transformers", "tags:", "- albert", "- albert_tf"]
    if task:
        header.append(f"pipeline_tag: {task}")
    parts = [
        "\n".join([*header, "---", "", f"# {name}"]),
        f"An ALBERT ({model.config.num_hidden_layers} layers, hidden size "
        f"{model.config.hidden_size}) in the format of Hugging Face, converted from "
        f"{model.source.format} weights by albert_tf. Parameters: "
        f"{sum(value.size for value in model.values.values()):,}.",
        _loading(name, auto_class, with_tokenizer=model.tokenizer is not None),
        _table("Model", model.config.to_dict()),
    ]
    if model.step:
        parts.append(f"## Training\n\nTraining steps: {model.step:,}.")
    parts += [
        _table(f"Data: {file}", _data(manifest)) for file, manifest in model.companions.data.items()
    ]
    if model.companions.labels:
        parts.append("## Labels\n\n" + ", ".join(map(str, model.companions.labels)))
    if model.companions.results:
        parts.append(_table("Evaluation", model.companions.results))
    return "\n\n".join(parts) + "\n"


def _loading(name: str, auto_class: str, with_tokenizer: bool) -> str:
    lines = [
        f"from transformers import {auto_class}",
        "",
        f'model = {auto_class}.from_pretrained("{name}")',
    ]
    if with_tokenizer:
        lines[0] += ", AutoTokenizer"
        lines.append(f'tokenizer = AutoTokenizer.from_pretrained("{name}")')
    return "\n".join(["```python", *lines, "```"])


def _table(title: str, rows: dict[str, Any]) -> str:
    lines = (f"| {name} | {value} |" for name, value in rows.items())
    return "\n".join([f"## {title}", "", "| | |", "|---|---|", *lines])


def _data(manifest: dict[str, Any]) -> dict[str, Any]:
    """The figures of a manifest that say what a model has seen."""
    rows = {text: f"{manifest[key]:,}" for key, text in _DATA.items() if key in manifest}
    settings = manifest.get("settings", {})
    rows |= {key: settings[key] for key in _SETTINGS if key in settings}
    if vocabulary := manifest.get("vocabulary"):
        rows["vocabulary, sha256"] = vocabulary["sha256"]
    for corpus, summary in manifest.get("corpora", {}).items():
        rows[f"corpus {corpus}"] = ", ".join(s["format"] for s in summary.get("sources", []))
    return rows
