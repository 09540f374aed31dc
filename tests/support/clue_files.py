"""Small files in the layouts in which CLUE's tasks are published, with sentences of our own."""

import json
import pathlib
from collections.abc import Iterable
from typing import Any

# Task -> split -> lines. Labels are texts in some published files and numbers in others.
CLASSIFICATION: dict[str, dict[str, list[dict[str, Any]]]] = {
    "afqmc": {
        "train": [
            {"sentence1": "这张卡怎么还款", "sentence2": "如何给这张卡还款", "label": "1"},
            {"sentence1": "账单什么时候出", "sentence2": "怎么修改手机号", "label": "0"},
            {"sentence1": "能不能提前还清", "sentence2": "可以提前还清吗", "label": 1},
            {"sentence1": "额度为什么降了", "sentence2": "怎么注销账户", "label": 0},
        ],
        "test": [
            {"id": 0, "sentence1": "还款日是哪天", "sentence2": "哪天还款"},
            {"id": 1, "sentence1": "怎么注销", "sentence2": "还款日能改吗"},
        ],
    },
    "tnews": {
        "train": [
            {"label": "103", "label_desc": "sports", "sentence": "主队取胜", "keywords": ""},
            {"label": "109", "label_desc": "tech", "sentence": "新手机上市", "keywords": ""},
            {"label": "103", "label_desc": "sports", "sentence": "小将破纪录", "keywords": ""},
            {"label": "109", "label_desc": "tech", "sentence": "芯片产量增加", "keywords": ""},
        ],
        "test": [
            {"id": 0, "keywords": "", "sentence": "女排今晚迎战对手"},
            {"id": 1, "keywords": "", "sentence": "新芯片发布"},
            {"id": 2, "keywords": "", "sentence": "“测试”，A\u2028B"},
        ],
    },
    "iflytek": {
        "train": [
            {"label": "0", "label_des": "打车", "sentence": "随时随地叫车，" * 60},
            {"label": "118", "label_des": "其他", "sentence": "记录每天的心情。"},
        ],
        "test": [{"id": 0, "sentence": "一键叫车"}],
    },
    "cmnli": {
        "train": [
            {"sentence1": "他在图书馆看书", "sentence2": "他在看书", "label": "entailment"},
            {"sentence1": "他在图书馆看书", "sentence2": "他在游泳", "label": "contradiction"},
            {"sentence1": "他在图书馆看书", "sentence2": "他是学生", "label": "neutral"},
            {"sentence1": "他在图书馆看书", "sentence2": "天气不错", "label": "-"},
        ],
        "test": [{"id": 0, "sentence1": "雨下得很大", "sentence2": "下雨了"}],
    },
    "ocnli": {
        "train": [
            {
                "level": "easy", "sentence1": "店里只剩两把伞", "sentence2": "店里有伞",
                "label": "entailment", "label0": "entailment", "label1": None, "label2": None,
                "label3": None, "label4": None, "genre": "lit", "prem_id": "lit_1", "id": 0,
            },
            {
                "level": "hard", "sentence1": "店里只剩两把伞", "sentence2": "店主很忙",
                "label": "-", "label0": "neutral", "label1": "entailment", "label2": None,
                "label3": None, "label4": None, "genre": "lit", "prem_id": "lit_1", "id": 1,
            },
        ],
        "test": [{"sentence1": "门开着", "sentence2": "门没关", "id": 0}],
    },
    "csl": {
        "train": [
            {"id": 7, "abst": "研究水下声呐的成像方法.", "keyword": ["声呐", "成像"], "label": "1"},
            {"id": 9, "abst": "本文分析城市用水的变化.", "keyword": ["用水", "卫星"], "label": "0"},
        ],
        "test": [{"id": 2415, "abst": "本文提出一种算法.", "keyword": ["算法"]}],
    },
}  # fmt: skip

LCQMC = {
    "train": 'text_a\ttext_b\tlabel\n喜欢打"球\t爱打球\t1\n天气如何\t几点了\t0\n',
    "dev": "text_a\ttext_b\tlabel\n在哪里\t在什么地方\t1\n",
    "test": "text_a\ttext_b\tlabel\n多少钱\t什么价\t1\n吃了吗\t去哪儿\t0\n",
}

C3 = {
    "d": [
        [
            ["女：雨这么大，带伞了吗？", "男：带了，就在包里。"],
            [{"question": "伞在哪儿？", "choice": ["家里", "包里", "车上"], "answer": "包里"}],
            "1-2",
        ]
    ],
    "m": [
        [
            ["小明每天六点起床，先跑步，再吃早饭。"],
            [
                {"question": "小明起床后先做什么？", "choice": ["跑步", "吃饭"], "answer": "跑步"},
                {"question": "文中__处应填：", "choice": ["早", "晚", "早", "中"], "answer": "早"},
            ],
            "1-2",
        ]
    ],
}
C3_TEST = [
    [
        ["男：票买到了吗？", "女：只剩站票了。"],
        [
            {"id": 0, "question": "他们在说什么？", "choice": ["票", "饭", "书", "伞"]},
            {"id": 1, "question": "还有什么票？", "choice": ["站票", "座票"], "answer": ""},
        ],
        "5-6",
    ]
]

CMRC_CONTEXT = "这座桥建于1937年，全长1453米，是钢铁桥梁。"


def cmrc(*answers: tuple[str, int], context: str = CMRC_CONTEXT) -> dict[str, Any]:
    """Return a file of CMRC 2018 with a question per answer."""
    questions = [
        {
            "id": f"TRAIN_0_QUERY_{number}",
            "question": "这座桥是哪年建的？",
            "answers": [{"text": text, "answer_start": start}],
        }
        for number, (text, start) in enumerate(answers)
    ]
    paragraph = {"id": "TRAIN_0", "context": context, "qas": questions}
    return {
        "version": "v1.0",
        "data": [{"paragraphs": [paragraph], "id": "TRAIN_0", "title": "桥"}],
    }


def write_json(path: pathlib.Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, ensure_ascii=False), "utf-8")


def write_lines(path: pathlib.Path, rows: Iterable[dict[str, Any]]) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    path.write_text("".join(lines), "utf-8")
    return path


def write_classification(folder: pathlib.Path, task: str) -> None:
    """Write the files of a task; the development rows are the training rows."""
    splits = CLASSIFICATION[task]
    for name, split in (("train", "train"), ("dev", "train"), ("test", "test")):
        write_lines(folder / task / f"{name}.json", splits[split])


def write_c3(folder: pathlib.Path) -> None:
    for letter, documents in C3.items():
        for split in ("train", "dev"):
            write_json(folder / f"c3/{letter}-{split}.json", documents)
    write_json(folder / "c3/test1.1.json", C3_TEST)
