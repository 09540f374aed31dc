"""Flags of run_sentences.py, and the settings of its models; loads no TensorFlow.

sentence-transformers, whose files are also read and written, calls these settings otherwise.
"""

import dataclasses
import json
import os
from typing import Any, ClassVar, Literal

from albert_tf.config import AlbertConfig
from albert_tf.errors import InputError
from albert_tf.files import exists, read_json
from albert_tf.finetuning.finetuning_options import FineTuningOptions, inherited_option
from albert_tf.finetuning.trained_settings import TaskSettings, read_settings
from albert_tf.options import option
from albert_tf.tasks.sentences import KIND
from albert_tf.tokenizers.normalization import read_normalization

TASKS = ("table", "sts-b")

# What only `task_name`=table reads.
_OF_TABLES = ("train_file", "eval_file", "predict_file", "negative_column", "score_column")


@dataclasses.dataclass(frozen=True)
class SentenceSettings(TaskSettings):
    """How a model turns a text into a vector.

    Attributes:
        pooling: "mean", of the outputs at all tokens, or "cls", the output at `[CLS]`.
    """

    pooling: Literal["mean", "cls"] = "mean"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SentenceOptions(FineTuningOptions):
    """Flags of run_sentences.py."""

    settings_file: ClassVar[str] = KIND.settings_file

    task_name: str = inherited_option(
        "table", "table for your own files, or sts-b", choices=TASKS, group="Data", common=True
    )
    data_dir: str | None = option(
        None,
        "With --task_name=sts-b: folder of GLUE, as published or as on the Hugging Face Hub, from "
        "which it is taken by default.",
    )
    train_file: str | None = option(
        None,
        "Table of pairs of texts that belong together, or of scored pairs, to train on: .tsv, "
        ".csv, .jsonl, .parquet, .xlsx; may be hf://datasets/ORGANIZATION/NAME/FILE.",
        common=True,
    )
    eval_file: str | None = option(
        None, "Table to evaluate on, with the same columns.", common=True
    )
    predict_file: str | None = option(
        None, "Table of pairs whose similarities to compute.", common=True
    )
    text_column: str = inherited_option(
        "text", "Column of the first text, such as a question", common=True
    )
    text_pair_column: str = inherited_option(
        "text_pair", "Column of the text that belongs to it, such as the answer", common=True
    )
    negative_column: str | None = option(
        None,
        "Column of a text that is similar but does not belong to the first one (a hard negative); "
        "for training.",
        common=True,
    )
    score_column: str | None = inherited_option(
        None,
        "Column of the similarity of the pair, a number, which training then fits",
        common=True,
    )
    pooling: str = inherited_option(
        SentenceSettings.pooling,
        "What the vector of a text is: mean, of the outputs at all tokens, or cls, the output at "
        "[CLS]",
        choices=("mean", "cls"),
        group="Model",
        common=True,
    )
    temperature: float = option(
        0.05,
        "Without scores: what cosines are divided by before the softmax over the texts of a batch; "
        "on several devices, over those of the device's share.",
        above=0,
        group="Training",
        common=True,
    )

    @property
    def is_sts_b(self) -> bool:
        """Whether the data set is STS-B."""
        return self.task_name == "sts-b"

    @property
    def scored(self) -> bool:
        """Whether pairs have scores."""
        return self.is_sts_b or bool(self.score_column)

    def check(self) -> None:
        """Raise InputError for values out of range or options that exclude each other."""
        super().check()
        for name in _OF_TABLES:
            if self.is_sts_b and getattr(self, name):
                raise InputError(f"`{name}`: needs `task_name`=table; sts-b reads `data_dir`")
        if self.data_dir and not self.is_sts_b:
            raise InputError(f"`data_dir`={self.data_dir}: needs `task_name`=sts-b")
        if self.scored and self.negative_column:
            raise InputError("`negative_column` and `score_column` exclude each other")
        if self.do_train and not self.scored:
            self._check_batches()

    def check_files(self) -> None:
        """Raise InputError if a split has no file."""
        for split in self.splits():
            if not self.is_sts_b and not getattr(self, self.files[split]):
                raise InputError(f"`{self.files[split]}`: a table is required")

    def _check_batches(self) -> None:
        if self.micro_batch_size:
            raise InputError(
                f"`micro_batch_size`={self.micro_batch_size}: must be 0, since pairs are compared "
                "with all others of their batch"
            )
        for variant in self.variants():
            if variant.train_batch_size < 2:
                raise InputError(
                    f"`train_batch_size`={variant.train_batch_size}: must be at least 2, since "
                    "pairs are compared with the others of their batch"
                )


_TRANSFORMER = "sentence_bert_config.json"
_MODULES, _POOLING = "modules.json", "1_Pooling"
# Normalize changes no cosine; `SentenceEncoder.encode` has an argument for it.
_KINDS = ("Transformer", "Pooling", "Normalize")
_MODES = {"mean": "pooling_mode_mean_tokens", "cls": "pooling_mode_cls_token"}


@dataclasses.dataclass(frozen=True)
class _Module:
    path: str
    type: str


def files_of(path: str, config: AlbertConfig) -> dict[str, str]:
    """Return file name -> text, besides the weights, their config and the tokenizer.

    One is for this package, which then reads the folder as one of sentence vectors. The settings
    are next to the original weights, at `path`.
    """
    settings = read_settings(SentenceSettings, path, KIND.settings_file, {})
    length = settings.max_seq_length or config.max_position_embeddings
    modules = [("", "models.Transformer"), (_POOLING, "models.Pooling")]
    contents: dict[str, Any] = {
        _MODULES: [
            {"idx": n, "name": str(n), "path": folder, "type": f"sentence_transformers.{kind}"}
            for n, (folder, kind) in enumerate(modules)
        ],
        _TRANSFORMER: {"max_seq_length": length, "do_lower_case": False},
        f"{_POOLING}/config.json": {
            "word_embedding_dimension": config.hidden_size,
            **{mode: name == settings.pooling for name, mode in _MODES.items()},
        },
        KIND.settings_file: {"max_seq_length": length, "pooling": settings.pooling},
    }
    return {name: json.dumps(content, indent=2) + "\n" for name, content in contents.items()}


def read_settings_in(folder: str) -> dict[str, Any]:
    """Return the settings of a folder of sentence-transformers, of any version; {} if it is none.

    Raises:
        InputError: If its vectors are made in another way.
    """
    modules, path = {"Pooling": _POOLING}, os.path.join(folder, _MODULES)
    if exists(path):
        modules = {
            each.type.rpartition(".")[2]: each.path for each in read_json(path, tuple[_Module, ...])
        }
    if unknown := modules.keys() - _KINDS:
        raise InputError(f"{path}: module {min(unknown)}: must be one of {', '.join(_KINDS)}")
    path = os.path.join(folder, modules.get("Pooling", _POOLING), "config.json")
    if not exists(path):
        return {}
    values = read_json(path, dict[str, Any])
    # Since version 6 it is named.
    named = [mode for mode in [values.get("pooling_mode")] if mode]
    named += [name for name in values if name.startswith("pooling_mode_") and values[name] is True]
    names = {**{mode: name for name, mode in _MODES.items()}, **{name: name for name in _MODES}}
    if len(named) != 1 or named[0] not in names:
        raise InputError(
            f"{path}: pools by {', '.join(named) or 'nothing'}; must be {' or '.join(_MODES)}"
        )
    settings: dict[str, Any] = {"pooling": names[named[0]]}
    places = ((_TRANSFORMER, "max_seq_length"), ("tokenizer_config.json", "model_max_length"))
    for file, name in places:
        path = os.path.join(folder, file)
        length = read_json(path, dict[str, Any]).get(name) if exists(path) else None
        if isinstance(length, int) and "max_seq_length" not in settings:
            settings["max_seq_length"] = length
    path = os.path.join(folder, _TRANSFORMER)
    lowers = exists(path) and read_json(path, dict[str, Any]).get("do_lower_case")
    if lowers and read_normalization(folder).do_lower_case is False:
        raise InputError(f"{path}: do_lower_case=true: must be false, as in tokenizer_config.json")
    return settings
