"""ALBERT (A Lite BERT, arXiv 1909.11942) for TensorFlow and Keras 3.

Public names are loaded on first use: `import albert_tf` alone loads neither TensorFlow nor Keras.
It sets `TF_ENABLE_ONEDNN_OPTS=1` for a TensorFlow that is loaded later, unless the variable is set.
"""

# First of all, so that Ctrl-C ends a command whose modules are loading.
from albert_tf import environment

environment.exit_when_interrupted()

import importlib.abc  # noqa: E402
import sys  # noqa: E402
from typing import Any  # noqa: E402

# Public name -> module that defines it.
_PUBLIC = {
    "AlbertConfig": "albert_tf.config",
    "InputError": "albert_tf.errors",
    # Models
    "AlbertEncoder": "albert_tf.modeling.encoder",
    "AlbertForPreTraining": "albert_tf.modeling.heads",
    "AlbertForSequenceClassification": "albert_tf.modeling.heads",
    "AlbertForQuestionAnswering": "albert_tf.modeling.question_answering",
    "AlbertForConditionalQuestionAnswering": "albert_tf.modeling.question_answering",
    "AlbertForMultipleChoice": "albert_tf.modeling.heads",
    "AlbertForTokenClassification": "albert_tf.modeling.heads",
    # Objectives
    "Objective": "albert_tf.modeling.losses",
    "PretrainingObjective": "albert_tf.modeling.losses",
    "ClassificationObjective": "albert_tf.modeling.losses",
    "MultiLabelObjective": "albert_tf.modeling.losses",
    "RegressionObjective": "albert_tf.modeling.losses",
    "SpanObjective": "albert_tf.modeling.question_answering",
    "ConditionalSpanObjective": "albert_tf.modeling.question_answering",
    "MultipleChoiceObjective": "albert_tf.modeling.losses",
    "PretrainingTask": "albert_tf.training.pretraining_tasks",
    "register_pretraining_task": "albert_tf.training.pretraining_tasks",
    # Optimizers and learning-rate schedules
    "Lamb": "albert_tf.optimization.optimizers",
    "AdamW": "albert_tf.optimization.optimizers",
    "Muon": "albert_tf.optimization.optimizers",
    "create_optimizer": "albert_tf.optimization",
    "create_schedule": "albert_tf.optimization",
    "layer_decay_scales": "albert_tf.optimization.variables",
    "freeze": "albert_tf.modeling.model",
    "WarmupPolynomialDecay": "albert_tf.optimization.schedules",
    "WarmupStableDecay": "albert_tf.optimization.schedules",
    "WarmupCosineDecay": "albert_tf.optimization.schedules",
    # Text and weights
    "Tokenizer": "albert_tf.tokenizers",
    "load_weights": "albert_tf.interop.loading",
    "from_preset": "albert_tf.interop.loading",
    # Strings in, results out
    "MaskedLM": "albert_tf.text_models.masked_lm",
    "SentenceEncoder": "albert_tf.tasks.sentences.text_model",
    "Preprocessor": "albert_tf.text_models.preprocessor",
    "MultipleChoice": "albert_tf.tasks.multiple_choice.text_model",
    "QuestionAnswerer": "albert_tf.tasks.question_answering.text_model",
    "TextClassifier": "albert_tf.tasks.classification.text_model",
    "TokenClassifier": "albert_tf.tasks.tagging.text_model",
}

__all__ = sorted(_PUBLIC)

# `keras.models.load_model` finds the classes in these modules only once they are imported, which
# happens as soon as Keras is, before or after this package: `import albert_tf` must not import it.
_REGISTERED = (
    "albert_tf.modeling",
    "albert_tf.optimization.optimizers",
    "albert_tf.optimization.schedules",
    "albert_tf.text_models.preprocessor",
)


def __getattr__(name: str) -> Any:
    if name in _PUBLIC:
        return getattr(importlib.import_module(_PUBLIC[name]), name)
    if name == "__version__":
        return environment.version()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__


def _import_registered() -> None:
    for name in _REGISTERED:
        # One that is being imported, and imports Keras itself, is complete soon.
        if name not in sys.modules:
            importlib.import_module(name)


class _KerasFinder(importlib.abc.MetaPathFinder):
    """Finds Keras as all other finders do, and adds to what its import executes."""

    def find_spec(self, fullname, path=None, target=None):
        if fullname != "keras":
            return None
        others = [finder for finder in sys.meta_path if finder is not self]
        specs = (finder.find_spec(fullname, path, target) for finder in others)
        spec = next(filter(None, specs), None)
        if spec is None or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        # Keras may also be looked for without being imported, as TensorFlow does.
        def execute_and_register(module) -> None:
            execute(module)
            _import_registered()
            # Not before: an import that fails within that of TensorFlow is tried again.
            sys.meta_path[:] = [finder for finder in sys.meta_path if finder is not self]

        spec.loader.exec_module = execute_and_register  # type: ignore[method-assign]
        return spec


environment.enable_onednn()
if "keras" in sys.modules:
    _import_registered()
else:
    sys.meta_path.insert(0, _KerasFinder())
