"""Model cards (README.md) of exported and converted models."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from albert_tf import files
from albert_tf.hub.names import source_of
from albert_tf.interop.converted_model import ConvertedModel
from albert_tf.interop.file_names import kept_results
from albert_tf.logs import counted
from albert_tf.task_kinds import heads

_FILE = "README.md"

# Class in Hugging Face transformers -> the one that loads it by name, if that is called otherwise.
_AUTO_CLASSES = {"AlbertModel": "AutoModel", "AlbertForPreTraining": "AutoModelForMaskedLM"}

_SENTENCES = """from sentence_transformers import SentenceTransformer

model = SentenceTransformer("{name}")
vectors = model.encode(["The cat sat on the mat.", "A cat is sitting there."])
model.similarity(vectors, vectors)
"""

_ENCODER = """import tensorflow as tf
import tensorflow_text  # the operations of the preprocessor

preprocess = tf.saved_model.load("{name}/preprocess")
encoder = tf.saved_model.load("{name}/encoder")
outputs = encoder(preprocess(tf.constant(["The cat sat."])))
outputs["pooled_output"]  # [batch, hidden]
outputs["sequence_output"]  # [batch, seq, hidden]
"""

_ENCODER_ALONE = """import tensorflow as tf

encoder = tf.saved_model.load("{name}/encoder")
# int32 [batch, seq]
inputs = {{"input_word_ids": ids, "input_mask": mask, "input_type_ids": types}}
encoder(inputs)["pooled_output"]  # [batch, hidden]
"""

_TASK = """import tensorflow as tf
import tensorflow_text  # the operations of its tokenizer

answer = tf.saved_model.load("{name}/{folder}").signatures["serving_default"]
answer({inputs})
"""

_LITE = """from ai_edge_litert.interpreter import Interpreter

interpreter = Interpreter("{name}/tflite/{file}")
run = interpreter.get_signature_runner("serving_default")
run(input_word_ids=ids, input_mask=mask, input_type_ids=types)  # int32 [1, length]
"""

# Keys of a data manifest, some of which have another name on the card.
_DATA = ("documents", "sentences", "text_bytes", "tokens", "examples")
_NAMES = {"text_bytes": "bytes of text"}
_SETTINGS = ("max_seq_length", "dupe_factor", "masking", "pair_objective")


def write_huggingface_card(folder: str, name: str, model: ConvertedModel) -> None:
    """Write the card of a Hugging Face folder, which already contains all other files."""
    head = heads()[model.head]
    architecture = model.architecture
    classes = {
        "model": _AUTO_CLASSES.get(architecture, architecture.replace("Albert", "AutoModel"))
    }
    if model.tokenizer is not None:
        classes["tokenizer"] = "AutoTokenizer"
    lines = [f"from transformers import {', '.join(classes.values())}", ""]
    lines += [f'{what} = {each}.from_pretrained("{name}")' for what, each in classes.items()]
    loading = "\n".join(lines)
    if head.hub_library == "sentence-transformers":
        loading = _SENTENCES.format(name=name)
    _write(folder, name, model, [loading], library=head.hub_library)


def write_export_card(
    folder: str,
    name: str,
    model: ConvertedModel,
    tasks: Mapping[str, str],
    lite_files: Mapping[str, Mapping[str, tuple[float, float]]],
) -> None:
    """Write the `README.md` of an export, whose other files must already be in place.

    `tasks` are folder of a task -> example arguments of its signature, as Python code; `lite_files`
    name of a TFLite file -> output -> largest difference from the model, and largest value.
    """
    with_preprocess = any(path.startswith("preprocess/") for path in files.sizes(folder))
    loading = [(_ENCODER if with_preprocess else _ENCODER_ALONE).format(name=name)]
    loading += [
        _TASK.format(name=name, folder=task, inputs=inputs) for task, inputs in tasks.items()
    ]
    if lite_files:
        loading.append(_LITE.format(name=name, file=next(iter(lite_files))))
    rows = {
        f"{file}, {output}": (f"{difference:.2g}", f"{largest:.3g}")
        for file, differences in lite_files.items()
        for output, (difference, largest) in differences.items()
    }
    columns = ("TFLite file, output", "largest difference from the model", "largest value")
    measured = [_table("Outputs of TFLite files", rows, columns)] if rows else []
    _write(folder, name, model, loading, measured)


def _write(
    folder: str,
    name: str,
    model: ConvertedModel,
    loading: Iterable[str],
    measured: Iterable[str] = (),
    library: str | None = None,
) -> None:
    """Write a card: code that uses the files, tables of what is known, and sections `measured`.

    Without a library, which loads a Hugging Face folder, the folder has SavedModels.
    """
    config, adjacent, source = model.config, model.adjacent, model.source
    form = "in the Hugging Face format" if library else "as TensorFlow SavedModels"
    summary = (
        f"An ALBERT model ({counted(config.num_hidden_layers, 'layer')}, hidden size "
        f"{config.hidden_size}) {form}, created by albert_tf from {source.format} weights. "
        f"Parameters: {sum(value.size for value in model.values.values()):,}."
    )
    if origin := source_of(source.path):
        summary += f" The original weights are {origin.address}, {origin.revision}."
    parts = [
        _header(model, library),
        f"# {name}",
        summary,
        "## Use",
        *(f"```python\n{code.rstrip()}\n```" for code in loading),
        _table("Model", config.to_dict()),
    ]
    if model.tokenizer and (normalization := model.tokenizer.normalization.to_dict()):
        if added := model.tokenizer.added_tokens:
            normalization["added_tokens"] = " ".join(token.content for token in added.values())
        parts.append(_table("Normalization of text", normalization))
    if model.step:
        parts.append(f"## Training\n\nTraining steps: {model.step:,}.")
    parts += [_table(f"Data: {file}", _data(manifest)) for file, manifest in adjacent.data.items()]
    if adjacent.labels:
        parts.append("## Labels\n\n" + ", ".join(map(str, adjacent.labels)))
    if set(adjacent.results).difference(kept_results()):
        parts.append(_table("Evaluation", adjacent.results))
    if adjacent.results and adjacent.evaluated:
        lines = [
            f"- {f'{each.name}: ' if each.name else ''}{each.data}, "
            f"{counted(each.examples, 'example')}"
            for each in adjacent.evaluated
        ]
        parts.append("\n".join(["Evaluated on:", "", *lines]))
    parts += [_table("Size", _sizes(folder)), *measured]
    parts.append(f"## License\n\n{model.license or 'Not stated.'}")
    files.write_text(os.path.join(folder, _FILE), "\n\n".join(parts) + "\n")


def _header(model: ConvertedModel, library: str | None) -> str:
    task = "" if "NextSentence" in model.architecture else heads()[model.head].hub_task
    lines = ["---"]
    lines += [f"library_name: {library}"] if library else []
    lines += [f"license: {model.license}"] if model.license else []
    lines += ["tags:", "- albert", "- albert_tf"]
    lines += [] if library else ["- tensorflow"]
    lines += [f"pipeline_tag: {task}"] if task else []
    return "\n".join([*lines, "---"])


def _table(title: str, rows: Mapping[str, Any], columns: Sequence[str] = ("", "")) -> str:
    values = {name: v if isinstance(v, tuple) else (v,) for name, v in rows.items()}
    lines = ("| " + " | ".join(map(_cell, (name, *each))) + " |" for name, each in values.items())
    head = "| " + " | ".join(columns) + " |" if any(columns) else "|" + " |" * len(columns)
    return "\n".join([f"## {title}", "", head, "|" + "---|" * len(columns), *lines])


def _cell(value: Any) -> str:
    return str(value).replace("|", "\\|").replace("\n", " ")


def _sizes(folder: str) -> dict[str, str]:
    sizes = files.sizes(folder)
    rows = {name: f"{size:,} bytes" for name, size in sizes.items()}
    return {**rows, "all files": f"{sum(sizes.values()):,} bytes"}


def _data(manifest: dict[str, Any]) -> dict[str, Any]:
    rows = {_NAMES.get(key, key): f"{manifest[key]:,}" for key in _DATA if key in manifest}
    settings = manifest.get("settings", {})
    rows |= {key: settings[key] for key in _SETTINGS if key in settings}
    if vocabulary := manifest.get("vocabulary"):
        rows["vocabulary, sha256"] = vocabulary["sha256"]
    for corpus, summary in manifest.get("corpora", {}).items():
        rows[f"corpus {corpus}"] = ", ".join(s["format"] for s in summary.get("sources", []))
    return rows
