"""The model card of an export: how to load each folder, and how exact its TFLite files are."""

from __future__ import annotations

from collections.abc import Mapping

from albert_tf import files
from albert_tf.export.tflite import Differences
from albert_tf.interop import model_card

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


def write_card(
    folder: str,
    facts: model_card.ModelFacts,
    tasks: Mapping[str, str],
    lite_files: Mapping[str, Differences],
) -> None:
    """Write the `README.md` of an export, whose other files must already be in place.

    Args:
        folder: folder of the export.
        facts: facts about the model.
        tasks: folder of a task -> example arguments of its signature, as Python code.
        lite_files: name of a TFLite file in the export -> how accurate it is.
    """
    with_preprocess = any(path.startswith("preprocess/") for path in files.sizes(folder))
    loading = [(_ENCODER if with_preprocess else _ENCODER_ALONE).format(name=facts.name)]
    loading += [
        _TASK.format(name=facts.name, folder=task, inputs=inputs) for task, inputs in tasks.items()
    ]
    if lite_files:
        loading.append(_LITE.format(name=facts.name, file=next(iter(lite_files))))
    rows = {
        f"{file}, {output}": (f"{difference:.2g}", f"{largest:.3g}")
        for file, differences in lite_files.items()
        for output, (difference, largest) in differences.items()
    }
    columns = ("TFLite file, output", "largest difference from the model", "largest value")
    measured = [model_card.table("Outputs of TFLite files", rows, columns)] if rows else []
    model_card.write_card(facts, folder, loading, measured)
