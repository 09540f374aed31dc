"""Small files of GLUE's formats, column by column as they are published, and as on the Hub."""

import pathlib

import pyarrow

from tests.support.hub import write_parquet

_MNLI = (
    "index", "promptID", "pairID", "genre", "sentence1_binary_parse", "sentence2_binary_parse",
    "sentence1_parse", "sentence2_parse", "sentence1", "sentence2",
)  # fmt: skip
_MNLI_DEV = (*_MNLI, *(f"label{number}" for number in range(1, 6)), "gold_label")
_STS = (
    "index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1",
    "sentence2",
)  # fmt: skip
_MRPC = ("#1 ID", "#2 ID", "#1 String", "#2 String")
_QQP = ("id", "qid1", "qid2", "question1", "question2", "is_duplicate")
_QNLI = ("index", "question", "sentence")
_NLI = ("index", "sentence1", "sentence2")

# Task and files -> the header, if it has one, and the columns of first text, second text and label.
_FORMATS: dict[str, tuple[tuple[str, ...], bool, tuple[int | None, int | None, int | None]]] = {
    "CoLA/train dev": (("", "", "", ""), False, (3, None, 1)),
    "CoLA/test": (("index", "sentence"), True, (1, None, None)),
    "SST-2/train dev": (("sentence", "label"), True, (0, None, 1)),
    "SST-2/test": (("index", "sentence"), True, (1, None, None)),
    "MRPC/train dev": (("Quality", *_MRPC), True, (3, 4, 0)),
    "MRPC/test": (("index", *_MRPC), True, (3, 4, None)),
    "STS-B/train dev": ((*_STS, "score"), True, (7, 8, 9)),
    "STS-B/test": (_STS, True, (7, 8, None)),
    "QQP/train dev": (_QQP, True, (3, 4, 5)),
    "QQP/test": (("id", "question1", "question2"), True, (1, 2, None)),
    "MNLI/train": ((*_MNLI, "label1", "gold_label"), True, (8, 9, 11)),
    "MNLI/dev_matched dev_mismatched": (_MNLI_DEV, True, (8, 9, 15)),
    "MNLI/test_matched test_mismatched": (_MNLI, True, (8, 9, None)),
    "QNLI/train dev": ((*_QNLI, "label"), True, (1, 2, 3)),
    "QNLI/test": (_QNLI, True, (1, 2, None)),
    "RTE/train dev": ((*_NLI, "label"), True, (1, 2, 3)),
    "RTE/test": (_NLI, True, (1, 2, None)),
    "WNLI/train dev": ((*_NLI, "label"), True, (1, 2, 3)),
    "WNLI/test": (_NLI, True, (1, 2, None)),
    "AX/diagnostic": (_NLI, True, (1, 2, None)),
}

LABELS = {
    "STS-B": ("0.000", "5.000", "2.500"),
    "MNLI": ("contradiction", "entailment", "neutral"),
    "QNLI": ("entailment", "not_entailment"),
    "RTE": ("entailment", "not_entailment"),
}


def texts(row: int) -> tuple[str, str]:
    """Return two texts of a row, with the stray quotes and characters that the real ones have."""
    return f'"Row {row}, it said', f"he's in\u2028 row {row}\" é"


def label(task: str, row: int) -> str:
    labels = LABELS.get(task, ("0", "1"))
    return labels[row % len(labels)]


def write_task(folder: pathlib.Path, task: str, rows: int = 6) -> None:
    """Write all files of a task below `folder`; ids of test rows are 100, 101, ..."""
    for name, (columns, header, (first, second, of_label)) in _FORMATS.items():
        of_task, _, files = name.partition("/")
        if of_task != task:
            continue
        lines = ["\t".join(columns)] if header else []
        for row in range(rows):
            fields = [f"{column}-{row}" for column in columns]
            if columns[0] in ("index", "id"):
                fields[0] = str(100 + row)
            fields[first], other = texts(row)
            if second is not None:
                fields[second] = other
            if of_label is not None:
                fields[of_label] = label(task, row)
            lines.append("\t".join(fields))
        (folder / task).mkdir(parents=True, exist_ok=True)
        for file in files.split():
            path = folder / task / f"{file}.tsv"
            path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


# Task -> folder, columns of its texts, and names of the labels 0, 1, ... in the Hub's data card.
_CARD = {
    "CoLA": ("cola", ("sentence",), "unacceptable acceptable"),
    "SST-2": ("sst2", ("sentence",), "negative positive"),
    "MRPC": ("mrpc", ("sentence1", "sentence2"), "not_equivalent equivalent"),
    "STS-B": ("stsb", ("sentence1", "sentence2"), ""),
    "QQP": ("qqp", ("question1", "question2"), "not_duplicate duplicate"),
    "MNLI": ("mnli", ("premise", "hypothesis"), "entailment neutral contradiction"),
    "QNLI": ("qnli", ("question", "sentence"), "entailment not_entailment"),
    "RTE": ("rte", ("sentence1", "sentence2"), "entailment not_entailment"),
    "WNLI": ("wnli", ("sentence1", "sentence2"), "not_entailment entailment"),
    "AX": ("ax", ("premise", "hypothesis"), "entailment neutral contradiction"),
}
# Labels that GLUE's files write as a number, 0 or 1, and the Hub's card as a word.
_NUMBERED = {"CoLA", "SST-2", "MRPC", "QQP", "WNLI"}


def write_hub_task(folder: pathlib.Path, task: str, rows: int = 6) -> None:
    """Write the rows of `write_task` as the Hub has them."""
    config, columns, names = _CARD[task]

    def number(row: int, split: str) -> float | int:
        if split == "test":
            return -1
        if task == "STS-B":
            return float(label(task, row))
        given = label(task, row)
        return int(given) if task in _NUMBERED else names.split().index(given)

    for split in ("test",) if task == "AX" else ("train", "validation", "test"):
        parts = ("_matched", "_mismatched") if task == "MNLI" and split != "train" else ("",)
        records = [
            {
                **dict(zip(columns, texts(row), strict=False)),
                "label": number(row, split),
                "idx": 100 + row,
            }
            for row in range(rows)
        ]
        types = {
            "label": pyarrow.float32() if task == "STS-B" else pyarrow.int64(),
            "idx": pyarrow.int32(),
        }
        for part in parts:
            path = folder / config / f"{split}{part}-00000-of-00001.parquet"
            write_parquet(path, records, **types)
