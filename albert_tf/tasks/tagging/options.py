"""Flags of run_tagger.py, and the data sets that it knows by name; loads no framework."""

import dataclasses
from typing import ClassVar, Literal

from albert_tf.errors import InputError
from albert_tf.finetuning.finetuning_options import STANDARD_STREAM, TaughtOptions, inherited_option
from albert_tf.finetuning.trained_settings import TaskSettings
from albert_tf.hub.huggingface import LANGUAGE, PREFIX, PublishedSet
from albert_tf.options import option
from albert_tf.tasks.tagging import KIND
from albert_tf.tasks.tagging.tags import PLAIN_TAGS, SCHEMES


@dataclasses.dataclass(frozen=True, kw_only=True)
class TagSet(PublishedSet):
    """A published data set.

    Attributes:
        tag_names: what numbers in its files stand for.
        columns: `word_column` and `tag_column` of its files; None for those of the options.
        submission: file for a server that scores predictions; "" if there is none.
    """

    tag_names: tuple[str, ...] = ()
    columns: tuple[int, int] | None = None
    submission: str = ""


def _iob2_names(*types: str) -> tuple[str, ...]:
    return ("O", *(f"{prefix}-{type_}" for type_ in types for prefix in "BI"))


TAG_SETS = {
    "conll2003": TagSet(
        {
            "train": ("train/*.parquet", "eng.train", "train.txt"),
            "eval": ("validation/*.parquet", "eng.testa", "valid.txt", "dev.txt"),
            "predict": ("test/*.parquet", "eng.testb", "test.txt"),
        },
        f"{PREFIX}eriktks/conll2003@refs/convert/parquet/conll2003",
        ("conll2003", "CoNLL-2003"),
        tag_names=_iob2_names("PER", "ORG", "LOC", "MISC"),
    ),
    "cluener": TagSet(
        {"train": ("train.json",), "eval": ("dev.json",), "predict": ("test.json",)},
        folders=("cluener", "cluener_public", "CLUENER"),
        submission="cluener_predict.json",
    ),
    # There is no development set; the test set is also evaluated on.
    "msra_ner": TagSet(
        {
            "train": ("train/*.parquet", "msra_train_bio*"),
            "eval": ("test/*.parquet", "msra_dev_bio*", "msra_test_bio*"),
            "predict": ("test/*.parquet", "msra_test_bio*"),
        },
        f"{PREFIX}levow/msra_ner@refs/convert/parquet/msra_ner",
        ("msra_ner", "msra", "MSRA"),
        tag_names=_iob2_names("PER", "ORG", "LOC"),
    ),
    "wikiann": TagSet(
        {
            "train": (f"{LANGUAGE}/train-*.parquet", f"{LANGUAGE}/train"),
            "eval": (f"{LANGUAGE}/validation-*.parquet", f"{LANGUAGE}/dev"),
            "predict": (f"{LANGUAGE}/test-*.parquet", f"{LANGUAGE}/test"),
        },
        f"{PREFIX}unimelb-nlp/wikiann",
        ("wikiann", "panx"),
        languages="de",
        tag_names=_iob2_names("PER", "ORG", "LOC"),
    ),
    # A language is a treebank: its code, and the name of the treebank.
    "ud_pos": TagSet(
        {
            split: (f"{LANGUAGE}-ud-{name}.conllu", f"UD_*/{LANGUAGE}-ud-{name}.conllu")
            for split, name in (("train", "train"), ("eval", "dev"), ("predict", "test"))
        },
        folders=("ud-treebanks-v2*",),
        languages="de_gsd",
        columns=(2, 4),
    ),
}


@dataclasses.dataclass(frozen=True)
class TaggingSettings(TaskSettings):
    """How a tagger reads texts, and what its tags mean.

    Attributes:
        unit: "words" if it was trained on words, and reads those of a raw text joined by single
            spaces; "text" if it was trained on raw texts, and reads them as they are.
        tags: "entities" if tags have prefixes and types; "plain" if each word has a label; None if
            unknown, so that the tags themselves tell.
    """

    unit: Literal["words", "text"] = "words"
    tags: Literal["entities", "plain"] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class TaggingOptions(TaughtOptions):
    """Flags of run_tagger.py."""

    settings_file: ClassVar[str] = KIND.settings_file

    task_name: str | None = option(
        None,
        "conll2003, msra_ner, cluener, WikiANN or UD-POS: provides the files that --train_file, "
        "--eval_file and --predict_file do not name, from --data_dir or the Hugging Face Hub.",
        group="Data",
        common=True,
    )
    data_dir: str | None = option(
        None,
        "With --task_name: folder of the data set, or the one that contains it; may be "
        "hf://datasets/ORGANIZATION/NAME.",
        common=True,
        needs=("task_name",),
    )
    train_file: str | None = option(
        None,
        "File to train on: columns with a word and its tag (CoNLL), JSON lines (.json, .jsonl) "
        "with tokens and tags or a text and its entities, or .parquet; also "
        "hf://datasets/ORGANIZATION/NAME/FILE.",
        common=True,
    )
    eval_file: str | None = option(None, "File to evaluate on, in one of these forms.", common=True)
    predict_file: str | None = option(
        None,
        "File to predict, for which tags are optional; - for raw texts on standard input, one a "
        "line.",
        common=True,
    )
    word_column: int = inherited_option(
        1, "Number of the column that contains the word, from 1; -1 is the last"
    )
    tag_column: int = inherited_option(-1, "Number of the column that contains the tag")
    tag_scheme: str = option(
        "auto",
        "What the tags of --train_file mean: plain: each is a label of its own; the others: "
        "entities, in this scheme; auto: entities if all tags have the form of one.",
        choices=("auto", PLAIN_TAGS, *SCHEMES),
    )
    tag_names: tuple[str, ...] = option(
        (), "The tags that numbers in JSON lines stand for, in their order, such as O,B-PER,I-PER."
    )
    submission: bool = option(
        False,
        "With --task_name=cluener: whether --do_predict also writes the file for its server.",
        group="Evaluation",
    )

    def check(self) -> None:
        """Raise InputError for values out of range or options that exclude each other."""
        super().check()
        for name in ("word_column", "tag_column"):
            if getattr(self, name) == 0:
                raise InputError(f"`{name}`=0: columns are counted from 1, or from -1, the last")
        if self.task_name is not None and self._key not in TAG_SETS:
            raise InputError(f"`task_name`={self.task_name}: must be one of {', '.join(TAG_SETS)}")
        if self.submission and not (self.task_name and TAG_SETS[self._key].submission):
            names = (name for name, tag_set in TAG_SETS.items() if tag_set.submission)
            raise InputError(f"`submission`: needs `task_name`={' or '.join(names)}")
        if self.submission and not self.do_predict:
            raise InputError("`submission`: needs `do_predict`")
        for split in self.splits():
            if getattr(self, f"{split}_file"):
                continue
            if self.tag_set is None:
                raise InputError(
                    f"`{split}_file`: a file is required, or `task_name`={' or '.join(TAG_SETS)}"
                )
            if not (self.data_dir or self.tag_set.hub):
                raise InputError(f"`data_dir`: `task_name`={self.task_name} needs its folder")

    def input_files(self) -> dict[str, str | None]:
        """As of the base class."""
        return super().input_files() | {"data_dir": self.data_dir}

    @property
    def _key(self) -> str:
        return (self.task_name or "").lower().replace("-", "_")

    @property
    def tag_set(self) -> TagSet | None:
        """The published data set of `task_name`; None without a name."""
        return TAG_SETS.get(self._key)

    def split_files(self, split: str) -> list[str]:
        """Return the files of a split: the one that is named, else those of `task_name`.

        Raises:
            InputError: If the data set lacks them, or they cannot be fetched.
        """
        path = getattr(self, f"{split}_file")
        if path and path != STANDARD_STREAM:
            return [path]
        assert self.tag_set is not None, "checked"
        return self.tag_set.find(split, self.data_dir, self.language)
