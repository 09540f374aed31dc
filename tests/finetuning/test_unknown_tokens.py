"""What fine-tuning prints about characters that the vocabulary lacks."""

import json

import pytest

from albert_tf.finetuning.context import read_sets
from albert_tf.tasks.classification.task import ClassificationTask
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.task import MultipleChoiceTask
from albert_tf.tasks.question_answering.options import QuestionAnsweringOptions
from albert_tf.tasks.question_answering.task import QuestionAnsweringTask
from albert_tf.tokenizers import Tokenizer
from tests.support import finetuning


@pytest.fixture
def tokenizer(tmp_path):
    finetuning.write_files(tmp_path)
    return Tokenizer.load(str(tmp_path / "vocab.txt"))


def test_each_set_has_a_line_if_its_share_is_notable(tokenizer, tmp_path, caplog):
    train = "".join(f"cat dog\t{label}\n" for label in ["animal", "tool"] * 600)
    (tmp_path / "train.tsv").write_text(f"text\tlabel\n{train}cat “dog”\tanimal\n")
    (tmp_path / "eval.tsv").write_text("text\tlabel\ncat “saw” “\tanimal\n")
    options = finetuning.options_of(tmp_path, tmp_path / "out", max_seq_length=8)
    with caplog.at_level("INFO"):
        read_sets(ClassificationTask(options, tokenizer))
    lines = [line for line in caplog.messages if "unknown" in line]
    assert lines == [
        "eval: 60.00% of the tokens (3 of 5) are unknown to the vocabulary, and with them 27.27% "
        "of the characters, most often because of “ ”"
    ]


def test_questions_and_choices(tokenizer, tmp_path, caplog):
    qas = [{"id": str(n), "question": f"cat {c}", "answers": []} for n, c in enumerate("国国京")]
    for question in qas:
        question["answers"] = [{"text": "dog", "answer_start": 0}]
    content = {"data": [{"paragraphs": [{"context": "dog 中", "qas": qas}]}]}
    (tmp_path / "squad.json").write_text(json.dumps(content))
    squad = QuestionAnsweringOptions(
        output_dir=str(tmp_path), train_file=str(tmp_path / "squad.json"), do_train=True
    )
    article = {"id": "1", "article": "dog 中", "questions": ["cat 国"], "answers": ["A"]}
    article["options"] = [["saw", "drill 京", "file", "bird"]]
    folder = tmp_path / "train" / "high"
    folder.mkdir(parents=True)
    (folder / "1.txt").write_text(json.dumps(article))
    race = MultipleChoiceOptions(
        output_dir=str(tmp_path),
        data_dir=str(tmp_path),
        do_train=True,
        do_eval=False,
        high_only=True,
    )
    with caplog.at_level("INFO"):
        read_sets(QuestionAnsweringTask(squad, tokenizer))
        read_sets(MultipleChoiceTask(race, tokenizer))
    lines = [line for line in caplog.messages if "unknown" in line]
    assert [line.rpartition(" of ")[2] for line in lines] == ["国 中 京", "国 中 京"]
    assert "(6 of 12)" in lines[0]
