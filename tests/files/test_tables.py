"""Tables of every kind hold the same rows, and what is wrong with them is named."""

import csv
import json

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from albert_tf.errors import InputError
from albert_tf.files import TABLE_FORMATS, read_rows, read_tsv
from tests.conftest import refusal
from tests.support.workbooks import FILMS, MERGED, write_xls, write_xlsx

ROWS = [
    {"text": 'a "fine", film', "label": "good"},
    {"text": "nicht\u2028schön 电影", "label": "3"},
]


def write(path, rows) -> str:
    """Write rows as what the ending says."""
    columns = list(rows[0])
    table = [columns, *([row[name] for name in columns] for row in rows)]
    if path.suffix == ".tsv":
        path.write_text("".join("\t".join(row) + "\n" for row in table), "utf-8")
    elif path.suffix == ".csv":
        with open(path, "w", newline="", encoding="utf-8") as file:
            csv.writer(file).writerows(table)
    elif path.suffix in (".jsonl", ".json"):
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    elif path.suffix == ".parquet":
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    else:
        write_xlsx(path, table)
    return str(path)


def values(path, header=None):
    return [row.values for row in read_rows(str(path), header)]


@pytest.mark.parametrize("ending", [ending for ending in TABLE_FORMATS if ending != ".xls"])
def test_every_kind_holds_the_same_rows(ending, tmp_path):
    assert values(write(tmp_path / f"table{ending}", ROWS)) == ROWS


def test_numbers_are_texts_as_they_would_be_typed(tmp_path):
    write_xlsx(tmp_path / "a.xlsx", [["text", "label"], [12.0, 0.5], [], ["x", 3]])
    assert values(tmp_path / "a.xlsx") == [
        {"text": "12", "label": "0.5"},
        {"text": "x", "label": "3"},
    ]
    (tmp_path / "a.jsonl").write_text(
        '{"text": "x", "label": 3}\n\n{"text": null, "label": true}\n'
    )
    assert values(tmp_path / "a.jsonl") == [
        {"text": "x", "label": "3"},
        {"text": "", "label": "true"},
    ]


@pytest.mark.parametrize("text", ["x" * 200_000, 'a "b", c\n' * 30_000])
def test_long_texts_are_read_and_only_quotation_marks_blamed(tmp_path, text):
    rows = [{"text": text, "label": "a"}]
    assert values(write(tmp_path / "a.csv", rows)) == rows
    (tmp_path / "b.csv").write_text(f'text,label\n{"x" * 200_000},a\n"{"y" * 200_000}\n')
    with pytest.raises(InputError, match=r"b\.csv:3: the quotation mark that opens here is not"):
        values(tmp_path / "b.csv")


def test_lists_stay_lists(tmp_path):
    rows = [{"text": "x", "label": ["a", "b"]}, {"text": "y", "label": []}]
    assert values(write(tmp_path / "a.jsonl", rows)) == rows
    assert values(write(tmp_path / "a.parquet", rows)) == rows


def test_old_workbooks_and_files_without_names(tmp_path):
    write_xls(tmp_path / "films.xls", FILMS)
    films = [{"1": "a grand film"}, {"1": "a warm film"}, {"1": "3"}]
    assert values(tmp_path / "films.xls", ()) == films
    (tmp_path / "films.tsv").write_text("a grand film\na warm film\n3\n")
    assert values(tmp_path / "films.tsv", ()) == films
    assert [row.location for row in read_rows(str(tmp_path / "films.xls"), ())] == [
        f"{tmp_path}/films.xls:{number}" for number in (1, 2, 3)
    ]
    assert values(tmp_path / "films.tsv", ("name",))[1] == {"name": "a warm film"}


def test_only_the_first_sheet_is_read_and_the_others_are_named(tmp_path, capsys):
    write_xlsx(tmp_path / "a.xlsx", [["text"], ["x"]], [["text"], ["y"]])
    assert values(tmp_path / "a.xlsx") == [{"text": "x"}]
    assert "reads sheet 'S1', not 'S2'" in capsys.readouterr().out


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))),
        min_size=1,
    ),
    st.sampled_from(["\n", "\r\n", "\r"]),
)
def test_csv_is_what_python_s_writer_writes(tmp_path_factory, table, end):
    """Oracle: the writer of the standard library, on commas, quotes and line ends in fields."""
    table = [[*row, "x"] for row in table]  # a row is never blank
    width = max(map(len, table))
    table = [row + ["x"] * (width - len(row)) for row in table]
    path = tmp_path_factory.mktemp("csv") / "a.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file, quoting=csv.QUOTE_ALL, lineterminator=end).writerows(table)
    assert [list(row.values.values()) for row in read_rows(str(path), ())] == table


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\t\0"))))
def test_tsv_takes_every_character_but_tab_and_line_end_as_it_is(tmp_path_factory, texts):
    path = tmp_path_factory.mktemp("tsv") / "a.tsv"
    path.write_text("".join(f"{text}\tx\n" for text in ["name", *texts]), "utf-8")
    assert [row.values["name"] for row in read_tsv(str(path), ("name", "other"))] == [
        "name",
        *texts,
    ]


BAD = {
    "a.docx": (b"x", "a table must end in .tsv, .csv"),
    "a.tsv": (b"", "a.tsv: empty"),
    "b.tsv": (
        b"text\tlabel\nx\ty\nz\n",
        r"b.tsv:3: 1 fields instead of 2 \(text, label\)",
    ),
    "c.tsv": (b"text\ttext\nx\ty\n", "c.tsv:1: two columns are named 'text'"),
    "d.tsv": ("text\nschön\n".encode("latin-1"), "d.tsv: line 2 is not UTF-8"),
    "a.csv": (b'text,label\n"one\ntwo",x\n"an open one,y\nmore,z\n', "a.csv:4: the quotation mark"),
    "b.csv": (b'text,label\n"one" two,x\n', "b.csv:2: the quotation mark"),
    "c.csv": (b"text,label\none,two,x\n", "c.csv:2: 3 fields instead of 2"),
    "d.csv": ("text\nschön\n".encode("utf-16"), "d.csv: line 1 is not UTF-8"),
    "a.jsonl": (b'{"text": "x"}\n{"text": \n', "a.jsonl:2: not a JSON object on a line"),
    "b.jsonl": (b"[1, 2]\n", "b.jsonl:1: not a JSON object .* \\(must be object, not array\\)"),
    "c.jsonl": (b'{"text": [{"a": 1}]}\n', "c.jsonl:1: column 'text' contains {'a': 1}, not a"),
    "d.jsonl": (b"\n", "d.jsonl: empty"),
    "a.parquet": (b"PAR1 not really", "a.parquet: not a Parquet file"),
    "a.xlsx": (b"PK not really", "a.xlsx: not an Excel workbook"),
    "b.xls": (b"", "b.xls: empty"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_wrong_is_named(name, tmp_path):
    content, message = BAD[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        values(tmp_path / name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("ending", TABLE_FORMATS)
def test_missing_files_are_named(ending):
    with pytest.raises(InputError, match=f"^nowhere{ending}: no such file"):
        values(f"nowhere{ending}")


def test_merged_cells_are_named(tmp_path):
    rows = [["text", "label"], ["good", "p"], ["", "q"]]
    write_xlsx(tmp_path / "a.xlsx", rows, merged="A2:A3")
    write_xls(tmp_path / "b.xls", MERGED)
    for name, sheet in (("a.xlsx", "S1"), ("b.xls", "S")):
        message = f"{name}: the cells A2:A3 of sheet '{sheet}' are merged"
        assert message in refusal(values, tmp_path / name)


def test_a_sheet_s_wide_row_is_too_wide(tmp_path):
    write_xlsx(tmp_path / "a.xlsx", [["text", "label"], ["x", "y", "z"]])
    assert "a.xlsx:2: 3 fields instead of 2" in refusal(values, tmp_path / "a.xlsx")


def test_kinds_with_names_cannot_go_without(tmp_path):
    for ending in (".jsonl", ".parquet"):
        with pytest.raises(InputError, match="names its columns itself"):
            values(write(tmp_path / f"a{ending}", ROWS), ())
