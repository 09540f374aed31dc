"""Tagged texts in every layout, and what is wrong with them."""

import dataclasses
import json

import pyarrow
import pytest
from pyarrow import parquet

from albert_tf.errors import InputError
from albert_tf.tasks.tagging.options import TaggingOptions
from albert_tf.tasks.tagging.readers import ReadOptions, read_tagged
from albert_tf.tasks.tagging.tags import Entity
from tests.conftest import refusal


def read(path, content, **options):
    path.write_text(content)
    return read_tagged(str(path), ReadOptions(**options))


def test_columns(tmp_path):
    content = (
        "\ufeff-DOCSTART- -X- O O\n\n# text = a comment\n#EU NNP I-NP B-ORG\nrejects VBZ I-VP O\n"
        "\n\nPeter NNP I-NP B-PER\r\n"
    )
    first, second = read(tmp_path / "a.txt", content)
    assert (first.text, first.tags) == ("#EU rejects", ("B-ORG", "O"))
    assert first.location == f"{tmp_path}/a.txt:4"
    assert (second.id, second.words, second.tags) == (1, ((0, 5),), ("B-PER",))
    (first, _) = read(tmp_path / "a.txt", content, word_column=2, tag_column=3)
    assert (first.text, first.tags) == ("NNP VBZ", ("I-NP", "I-VP"))
    (chinese,) = read(tmp_path / "msra_train_bio", "中\tB-LOC\n\u3000\tO\n国\tO\n")
    assert (chinese.text, len(chinese.words)) == ("中 \u3000 国", 3)
    (untagged,) = read(tmp_path / "b.txt", "EU\nrejects\n", labeled=False)
    assert untagged.tags is None


@pytest.mark.parametrize(
    ("content", "words", "tags"),
    [
        ("# newdoc\nAnna NOUN\n\n# id=0\n# newpar\nOslo NOUN\n", "Anna Oslo", "NOUN NOUN"),
        ("# newdoc\nAnna n\nleft v\n", "Anna left", "n v"),
        ("# chapter\nAnna NOUN\n", "Anna", "NOUN"),
        ("# text = Anna\nAnna x y NOUN\n", "Anna", "NOUN"),
        ("#end document\nAnna NOUN\n", "Anna", "NOUN"),
        ("# SYM\n1 NUM\n", "# 1", "SYM NUM"),
        ("# #\n1 NUM\n", "# 1", "# NUM"),
        ("Anna NOUN\n# newdoc\n", "Anna #", "NOUN newdoc"),  # within a sentence
        ("#fail B-x\na O\n", "#fail a", "B-x O"),
        ("# newdoc\n\nnewdoc newdoc\n", "# newdoc", "newdoc newdoc"),  # other words' tag
        ("#\tsym\na\tNOUN\n", "# a", "sym NOUN"),
        ("\ufeffa NOUN\n\ufeff NOUN\n\ufeff\nb NOUN\n", "a \ufeff b", "NOUN NOUN NOUN"),
    ],
)
def test_comments_begin_sentences_and_have_no_tag(tmp_path, content, words, tags):
    texts = read(tmp_path / "a.txt", content)
    assert " ".join(text.text for text in texts) == words
    assert [tag for text in texts for tag in text.tags] == tags.split()


CONLLU = """# newdoc id = a comment of ten words here
1-2\tdu\t_\t_\t_\t_\t_\t_\t_\t_
1\tde\tde\tADP\t_\t_\t3\tcase\t_\t_
2\tle\tle\tDET\t_\t_\t3\tdet\t_\t_
3\t10\u00a0000 francs\tfranc\tNOUN\t_\t_\t0\troot\t_\t_
3.1\tpayés\tpayer\tVERB\t_\t_\t_\t_\t3:acl\tCopyOf=-1

# text = #5
0.1\tC'est\têtre\tVERB\t_\t_\t_\t_\t0:root\t_
1\t#5\t#\tSYM\t_\t_\t0\troot\t_\t_
2\t2-3\t2\tNUM\t_\t_\t1\tnmod\t_\t_
"""


def test_conllu_has_lines_that_are_no_words(tmp_path):
    first, second = read(tmp_path / "a.conllu", CONLLU, word_column=2, tag_column=4)
    assert first.text == "de le 10\u00a0000 francs"
    assert len(first.words) == 3
    assert first.tags == ("ADP", "DET", "NOUN")
    assert (second.text, second.tags) == ("#5 2-3", ("SYM", "NUM"))
    assert second.location == f"{tmp_path}/a.conllu:9"
    relations = read(tmp_path / "a.conllu", CONLLU, word_column=-9, tag_column=8)
    assert relations[0].tags == ("case", "det", "root")
    with pytest.raises(InputError, match="`word_column`=1: in .*:2, as in CoNLL-U, this column"):
        read(tmp_path / "a.conllu", CONLLU)


@pytest.mark.parametrize(
    "lines",
    [
        ["1-2 NUM", "5.1 NUM"],  # words that look like numbers of CoNLL-U
        ["1 x NUM", "1-2 x NUM", "3 x NUM"],  # not numbered from 1 to the last
        ["4-5\tx\tNUM", "5-6\tx\tNUM"],
    ],
)
def test_other_columns_may_look_like_those_of_conllu(tmp_path, lines):
    for column in {1, len(lines[0].split()) - 1}:
        (text,) = read(tmp_path / "a.txt", "\n".join(lines), word_column=column)
        assert len(text.words) == len(text.tags) == len(lines)


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u3000", "\u2028", "\x1c"])
def test_only_ascii_white_space_separates_columns(tmp_path, space):
    word = f"5{space}kg"
    (text,) = read(tmp_path / "a.txt", f"{word} \t B-X\n")
    assert text.text.strip() == word
    (text,) = read(tmp_path / "b.txt", f"{word}  B-X{space}\n{word} O\n{space}\n")
    assert (text.text, text.tags) == (f"{word} {word}", ("B-X", "O"))


def test_json_lines_and_parquet(tmp_path):
    (row,) = read(
        tmp_path / "a.json", '{"tokens": ["a b", ""], "ner_tags": [1, 0]}', tag_names=("O", "B-X")
    )
    assert (row.text, row.words, row.tags) == ("a b ", ((0, 3), (4, 4)), ("B-X", "O"))
    (row,) = read(
        tmp_path / "a.jsonl",
        '{"id": "x", "text": "to Paris ", "entities": [{"start": 2, "end": 9, "label": "LOC"}]}',
    )
    assert (row.id, row.entities) == ("x", (Entity("LOC", 3, 8, "Paris"),))
    label = {"address": {"台湾": [[15, 16]]}, "name": {"彭小军": [[0, 2]]}}
    text = "彭小军认为，国内银行现在走的是台湾的发卡模式"
    (row,) = read(tmp_path / "train.json", json.dumps({"text": text, "label": label}))
    assert [each.text for each in row.entities] == ["彭小军", "台湾"]

    table = pyarrow.table({"tokens": [["中", "国"]], "ner_tags": [[5, 6]]})
    names = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
    info = {"info": {"features": {"ner_tags": {"feature": {"names": names}}}}}
    table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    parquet.write_table(table, tmp_path / "a.parquet")
    (row,) = read_tagged(str(tmp_path / "a.parquet"), ReadOptions())
    assert row.tags == ("B-LOC", "I-LOC")


def marked(text, start, end, label):
    return json.dumps({"text": text, "spans": [{"start": start, "end": end, "label": label}]})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", "a O\nb\n", 'a.txt:2: 1 columns in "b", but line 1 has 2'),
        ("a.txt", "a\n", 'a.txt:1: no tag after "a"'),
        ("a.txt", "\n\n", "a.txt: contains no text"),
        ("a.json", "{}", "a.json:1: must have 'tokens' or 'text'"),
        ("a.json", "[]", "a.json:1: must be object, not array"),
        ("a.json", '{"tokens": ["a"]}', "a.json:1: lacks 'ner_tags'"),
        ("a.json", '{"tokens": ["a"], "tags": ["O", "O"]}', "a.json:1: 1 token, but 2 tags"),
        ("a.json", '{"tokens": ["a"], "tags": [3]}', "a.json:1: tag 3: tags must be texts"),
        ("a.json", '{"text": "ab"}', "a.json:1: lacks 'entities'"),
        ("a.json", marked("ab", 1, 9, "X"), 'entity "X" from 1 to 9: must be characters of the'),
        ("a.json", marked("  a", 0, 2, "X"), 'a.json:1: entity "X" from 0 to 2: is white space'),
        ("a.json", marked("ab", 0, 2, " "), 'a.json:1: entity " " from 0 to 2: must have a label'),
        ("a.json", '{"text": "a", "label": {"X": {"a": 3}}}', "label: [...][...]: must be array"),
    ],
)
def test_invalid_files(tmp_path, name, content, message):
    assert message in refusal(read, tmp_path / name, content)


def test_published_data_is_found_by_name(tmp_path):
    (tmp_path / "cluener_public").mkdir()
    (tmp_path / "cluener_public/dev.json").touch()
    options = TaggingOptions(
        output_dir="out", task_name="cluener", data_dir=str(tmp_path), do_eval=True
    )
    assert options.split_files("eval") == [f"{tmp_path}/cluener_public/dev.json"]
    with pytest.raises(InputError, match="contains no .*/CLUENER/test.json"):
        options.split_files("predict")
    for changed, message in (
        ({"data_dir": None}, "`data_dir`: `task_name`=cluener needs its folder"),
        ({"task_name": None, "data_dir": None}, "`eval_file`: a file is required, or `task_name`"),
        ({"task_name": "ner"}, "`task_name`=ner: must be one of conll2003, cluener, msra_ner"),
        ({"task_name": "conll2003", "submission": True}, "`submission`: needs `task_name`=cluener"),
        ({"word_column": 0}, "`word_column`=0: columns are counted from 1"),
    ):
        with pytest.raises(InputError, match=message):
            dataclasses.replace(options, albert_config_file="c", **changed).check()
