"""Multiple-choice questions as they are read from RACE folders and JSON lines."""

import dataclasses
import itertools
import json

import pytest

from albert_tf.errors import InputError
from albert_tf.tasks.multiple_choice.choices import fill
from albert_tf.tasks.multiple_choice.options import MultipleChoiceOptions
from albert_tf.tasks.multiple_choice.readers import read_questions
from tests.conftest import parsed, refusal
from tests.support.clue_files import C3, C3_TEST, write_c3, write_json, write_lines

ARTICLE = {
    "article": "A cat sat.",
    "questions": ["Who sat?", "It sat ____ .", "_ and _"],
    "options": [["cat", "dog", "hen", "fox"], ["down", "up", "by"], ["a", "b", "c", "d"]],
    "answers": ["A", "C", "D"],
}


def read(split="train", **options):
    return read_questions(MultipleChoiceOptions(output_dir="out", **options), split)


def race(folder, article, split="train", level="middle", number=7):
    """Put an article among those of RACE, after an empty line, and give the file's path."""
    path = folder / f"RACE/{split}/{level}/{number}.txt"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n" + json.dumps({**article, "id": f"{level}{number}.txt"}) + "\n")
    return path


def test_race_as_published(tmp_path):
    for level, number in itertools.product(("high", "middle"), (7, 10)):
        race(tmp_path, ARTICLE, level=level, number=number)
    for data_dir in (tmp_path, tmp_path / "RACE"):
        questions = read(data_dir=str(data_dir))
        assert [question.group for question in questions] == ["middle"] * 6 + ["high"] * 6
        assert len({question.id for question in questions}) == 12
        seven = [question for question in questions if question.id.startswith("middle7.txt-")]
        assert [question.id for question in seven] == [f"middle7.txt-{n}" for n in (1, 2, 3)]
        assert [question.answer for question in seven] == [0, 2, 3]
        assert seven[0].candidates == tuple(f"Who sat? {one}" for one in ARTICLE["options"][0])
        assert seven[1].candidates == ("It sat down .", "It sat up .", "It sat by .")
        assert seven[2].candidates == ("a and a", "b and b", "c and c", "d and d")
        assert {question.context for question in questions} == {"A cat sat."}
    for level in ("high", "middle"):
        only = read(data_dir=str(tmp_path), **{f"{level}_only": True})
        assert {question.group for question in only} == {level}


def test_answers_of_the_test_set_may_be_hidden(tmp_path):
    hidden = {name: value for name, value in ARTICLE.items() if name != "answers"}
    options = {"data_dir": str(tmp_path), "middle_only": True}
    race(tmp_path, hidden, split="test")
    assert [question.answer for question in read("predict", **options)] == [None] * 3
    path = race(tmp_path, hidden, split="dev")
    assert refusal(read, "eval", **options) == f"{path}:2: lacks 'answers'"


@pytest.mark.parametrize(
    ("question", "filled"),
    [
        ("What?", "What? x y"),
        ("  ", "x y"),
        ("He ____.", "He x y."),
        ("_", "x y"),
        ("my_name", "my_name x y"),
        ("a __init__ b", "a __init__ b x y"),
        ("(_)", "(x y)"),
    ],
)
def test_blanks_outside_of_race_touch_no_letter(question, filled):
    assert fill(question.strip(), " x y ") == filled
    assert fill("_", r"\1 \g<0>") == r"\1 \g<0>"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"answers": ["A", "C"]}, "3 questions, 3 options and 2 answers"),
        ({"answers": ["A", "D", "D"]}, 'question 2: answer "D" must be a letter from A to C'),
        ({"answers": ["A", "AB", "D"]}, 'question 2: answer "AB" must be a letter'),
        ({"answers": [0, "A", "D"]}, "question 1: answer 0 must be a letter"),
        ({"options": [["a", "b"], ["c"], ["d", "e"]]}, "question 2: 1 choices; a question must"),
    ],
)
def test_faults_of_an_article_are_named(tmp_path, change, message):
    path = race(tmp_path, {**ARTICLE, **change})
    error = refusal(read, data_dir=str(tmp_path), middle_only=True)
    assert error.startswith(f"{path}:2: {message}")


def test_what_is_missing_is_named(tmp_path):
    data_dir = str(tmp_path)
    assert "no .txt file in train/middle;" in refusal(read, data_dir=data_dir)
    race(tmp_path, ARTICLE)
    assert "no .txt file in train/high;" in refusal(read, data_dir=data_dir)
    assert "no .txt file in dev/middle;" in refusal(read, "eval", data_dir=data_dir)
    race(tmp_path, {**ARTICLE, "questions": [], "options": [], "answers": []})
    nothing = refusal(read, data_dir=data_dir, middle_only=True)
    assert nothing == f"{tmp_path}: contains no question"
    assert "`task_name`=rase: must be one of race, c3, copa, " in refusal(read, task_name="rase")
    assert "`train_file`: a file of JSON lines is required" in refusal(read, task_name="json")
    assert "`eval_file`: a file of JSON lines" in refusal(read, "eval", task_name="json")


QUESTION = {"context": "", "question": "2 + 2 = __", "choices": ["three", "four"], "answer": 1}


def test_json_lines(tmp_path):
    rows = [
        QUESTION,
        {**QUESTION, "answer": "B", "id": "b"},
        {**QUESTION, "answer": " four ", "id": 17},
        # What is a choice's text is no letter, whatever it looks like.
        {**QUESTION, "choices": ["B", "A", "x"], "answer": "A"},
        {"context": "It rains.", "question": "", "choices": ["Dry.", "Wet."], "answer": 0},
    ]
    path = write_lines(tmp_path / "questions.jsonl", rows)
    path.write_text("\n" + path.read_text())
    questions = read(task_name="JSON", train_file=str(path))
    assert [question.answer for question in questions] == [1, 1, 1, 1, 0]
    assert [question.id for question in questions] == ["1", "b", "17", "4", "5"]
    assert [question.location for question in questions] == [f"{path}:{n}" for n in range(2, 7)]
    assert questions[0].candidates == ("2 + 2 = three", "2 + 2 = four")
    assert questions[4].candidates == ("Dry.", "Wet.")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({**QUESTION, "question": " "}, "has neither context nor question"),
        ({"context": "", "question": "q", "choices": ["a", "b"]}, "lacks 'answer'"),
        ({**QUESTION, "choices": ["a"]}, "1 choices; a question must have 2 to 26"),
        ({**QUESTION, "choices": list(map(str, range(27)))}, "27 choices"),
        ({**QUESTION, "choices": ["a", " "]}, "a choice is empty"),
        ({**QUESTION, "answer": 2}, "answer 2 must be 0 to 1"),
        ({**QUESTION, "answer": True}, "answer true must be the number"),
        ({**QUESTION, "answer": None}, "lacks 'answer'"),
        ({**QUESTION, "answer": "C"}, 'answer "C" must be the number of a choice'),
        ({**QUESTION, "answer": "five"}, 'answer "five" must be the number of a choice'),
        ({**QUESTION, "choices": ["a", "a "], "answer": "a"}, 'answer "a" matches 2 choices'),
    ],
)
def test_faults_of_a_line_are_named(tmp_path, line, message):
    path = write_lines(tmp_path / "questions.jsonl", [QUESTION, line])
    error = refusal(read, "eval", task_name="json", eval_file=str(path))
    assert error.startswith(f"{path}:2: {message}")


def test_answers_are_not_needed_for_predictions(tmp_path):
    without = {name: value for name, value in QUESTION.items() if name != "answer"}
    rows = [without, {**QUESTION, "answer": None}, QUESTION]
    path = write_lines(tmp_path / "questions.jsonl", rows)
    questions = read("predict", task_name="json", predict_file=str(path))
    assert [question.answer for question in questions] == [None, None, 1]


def test_flags_are_the_originals():
    needed = ("--albert_config_file=c", "--spm_model_file=v", "--output_dir=o")
    words = ("run_race.py", *needed, "--dropout_prob=0.2", "--num_keep_checkpoint=7")
    options = dataclasses.asdict(parsed(MultipleChoiceOptions, *words).with_defaults())
    assert options.items() >= {
        "classifier_dropout": 0.2, "keep_checkpoint_max": 7, "do_train": True, "do_eval": True,
        "do_predict": False, "learning_rate": 1e-5, "train_step": 12000, "warmup_step": 1000,
        "max_seq_length": 512, "max_qa_length": 128, "train_batch_size": 32,
        "save_checkpoints_steps": 100,
    }.items()  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"high_only": True, "middle_only": True}, "exclude each other"),
        ({"task_name": "json", "high_only": True}, "`high_only`=True: needs `task_name`=race"),
        ({"task_name": "json", "data_dir": "x"}, "`data_dir`=x: needs `task_name`=race or c3"),
        ({"task_name": "c3", "train_file": "x"}, "`train_file`=x: needs `task_name`=json"),
        ({"submission": True}, "`submission`=True: needs `task_name`=c3"),
        ({"submission": True, "task_name": "c3"}, "`submission`: needs `do_predict`"),
    ],
)
def test_flags_that_do_not_go_together(changes, message):
    options = MultipleChoiceOptions(
        output_dir="out", albert_config_file="config", spm_model_file="model", **changes
    )
    with pytest.raises(InputError, match=message):
        options.check()


def test_the_real_articles(shared):
    data_dir = str(shared("data/race"))
    train, dev = (read(split, data_dir=data_dir) for split in ("train", "eval"))
    assert (len(train), len(dev)) == (247, 104)
    assert {len(question.choices) for question in train} == {3, 4}
    assert {len(question.choices) for question in dev} == {2, 4}
    assert not any("_" in text for question in train + dev for text in question.candidates)


def c3_questions(folder, split):
    return read(split, task_name="c3", data_dir=str(folder))


def test_c3_as_clue_and_as_its_authors_publish_it(tmp_path):
    write_c3(tmp_path)
    questions = c3_questions(tmp_path, "train")
    assert [each.id for each in questions] == ["d-1-2-1", "m-1-2-1", "m-1-2-2"]
    assert [each.group for each in questions] == ["dialogue", "mixed", "mixed"]
    assert [each.answer for each in questions] == [1, 0, 0]
    assert questions[0].context == "女：雨这么大，带伞了吗？\n男：带了，就在包里。"
    assert questions[0].candidates == ("伞在哪儿？ 家里", "伞在哪儿？ 包里", "伞在哪儿？ 车上")
    # As in the official baseline, no blank is filled.
    assert questions[2].candidates[1] == "文中__处应填： 晚"
    hidden = c3_questions(tmp_path, "predict")
    assert [each.answer for each in hidden] == [None, None]
    assert [len(each.choices) for each in hidden] == [4, 2]
    for letter, documents in C3.items():
        for split in ("train", "test"):
            write_json(tmp_path / f"theirs/c3-{letter}-{split}.json", documents)
    theirs = c3_questions(tmp_path / "theirs", "train")
    assert [each[1:] for each in theirs] == [each[1:] for each in questions]
    assert [each.answer for each in c3_questions(tmp_path / "theirs", "predict")] == [1, 0, 0]


def test_what_is_wrong_with_files_of_c3_is_named(tmp_path):
    with pytest.raises(InputError, match=r"contains d-train\.json and m-train\.json or c3-d-"):
        c3_questions(tmp_path, "train")
    write_c3(tmp_path)
    for content, message in (
        (C3_TEST, r'\[0\]\[1\]\[0\]: answer "" is none of the choices, '),
        ([[["text"]]], r"d-dev\.json: \[0\]: must be a list of sentences, "),
        ([[["text"], [{"question": "?"}], "1"]], r"d-dev\.json: \[0\]\[1\]: \[0\]: lacks 'choice'"),
    ):
        write_json(tmp_path / "c3/d-dev.json", content)
        with pytest.raises(InputError, match=message):
            c3_questions(tmp_path, "eval")
