"""Flags of albert-predict."""

import dataclasses

from albert_tf.engines.device_options import DTYPE_POLICIES
from albert_tf.engines.registry import ENGINES
from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM
from albert_tf.options import WithPaths, check_limits, option
from albert_tf.task_kinds import task_kinds

TASKS = (*(kind.predict_task for kind in task_kinds() if kind.text_model), "fill_mask")

# The texts that tasks read, each a flag and the name of a column.
INPUTS = ("text", "text_pair", "question", "context", "options")


@dataclasses.dataclass(frozen=True)
class PredictOptions(WithPaths):
    """Flags of albert-predict."""

    model: str = option(
        help="A training folder, a converted folder, an export, or the name of published weights, "
        "such as albert/albert-base-v2.",
        path="weights",
    )
    task: str = option(
        "auto",
        "What to predict; auto chooses by the head of the model: a pretraining model fills masks, "
        "a model without a head computes vectors (embed).",
        choices=("auto", *TASKS),
        group="Data",
        common=True,
    )
    text: str | None = option(None, "A text, instead of --input_file.", common=True)
    text_pair: str | None = option(
        None, "The second text of a pair, for a classifier of pairs.", common=True
    )
    question: str | None = option(None, "A question, instead of --input_file.", common=True)
    context: str | None = option(None, "The text that --question is about.", common=True)
    options: tuple[str, ...] = option(
        (), "The options of --question, separated by commas.", common=True
    )
    input_file: str | None = option(
        None,
        "What to predict: a table (.tsv, .csv, .jsonl, .parquet, .xlsx) with a row per example, a "
        ".txt file with a text per line, or - for lines of standard input as they arrive. Also "
        "remote.",
        common=True,
    )
    output_file: str = option(
        STANDARD_STREAM,
        "Where results go: .jsonl, .tsv or .parquet, with the columns of the input first; - for "
        "JSON lines on standard output.",
        common=True,
        path="file",
    )
    text_column: str = option("text", "Column of the texts.")
    text_pair_column: str | None = option(None, "Column of the second texts of pairs.")
    question_column: str = option("question", "Column of the questions.")
    context_column: str = option("context", "Column of the texts that questions are about.")
    options_column: str = option("options", "Column of the options, lists of texts.")
    batch_size: int = option(
        32, "Examples that are computed at a time.", minimum=1, group="Prediction", common=True
    )
    top_k: int = option(5, "fill_mask: number of candidates per mask.", minimum=1, common=True)
    targets: tuple[str, ...] = option(
        (), "fill_mask: the only candidates to consider, separated by commas."
    )
    pooling: str | None = option(
        None,
        "embed: mean over all tokens, the hidden state at [CLS], or the output of the pooler; by "
        "default as the model was trained, else mean.",
        choices=("mean", "cls", "pooler"),
    )
    layer: int = option(-1, "embed: which hidden states are pooled; 0 for the first layer's input.")
    normalize: bool = option(False, "embed: whether to scale vectors to length 1.")
    max_length: int | None = option(
        None,
        "embed: maximum length of a text in tokens; by default as the model was trained, else as "
        "long as it reads.",
    )
    spm_model_file: str | None = option(
        None,
        "Vocabulary (.model or vocab.txt); by default the one next to the weights.",
        group="Model",
    )
    do_lower_case: bool | None = option(
        None, "Whether to lower-case text; by default as recorded next to the weights."
    )
    dtype: str = option(
        "float32", "Precision of matrix products.", choices=DTYPE_POLICIES, group="Devices"
    )
    engine: str | None = option(
        None,
        "tensorflow or jax; by default the one that is installed.",
        tuple(ENGINES),
        common=True,
    )

    def __post_init__(self):
        super().__post_init__()
        check_limits(self)
        given = self.given_inputs()
        if self.input_file and given:
            raise InputError(f"`input_file` and `{next(iter(given))}` exclude each other")
        if not self.input_file and not given:
            raise InputError("`input_file`: required, or `text`, or `question` and `context`")

    def given_inputs(self) -> dict[str, str | tuple[str, ...]]:
        """Return the texts that are flags, by the name of the input."""
        values = {name: getattr(self, name) for name in INPUTS}
        return {name: value for name, value in values.items() if value not in (None, ())}

    def columns(self) -> dict[str, str | None]:
        """Return the column of each input; None if there is none."""
        return {name: getattr(self, f"{name}_column") for name in INPUTS}
