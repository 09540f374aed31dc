"""Documents in other languages and near duplicates are left out and counted."""

import dataclasses
import json
import pathlib
import random
import re
import string

import numpy as np
import py3langid
import pytest

from albert_tf.errors import InputError
from data_prep import parallel
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from data_prep.languages import language_share
from data_prep.near_duplicates import PERMUTATIONS, find_near_duplicates, signature
from tests.support.texts import corpus_options, documents

TEXTS = {
    "en": "The river rises in the mountains and flows through several old towns before it reaches "
    "the sea, where fishermen have lived for more than five hundred years.",
    "de": "Der Fluss entspringt in den Bergen und fließt durch mehrere alte Städte, bevor er das "
    "Meer erreicht, wo seit mehr als fünfhundert Jahren Fischer leben.",
    "ru": "Река берёт начало в горах и течёт через несколько старых городов, прежде чем достигает "
    "моря, где уже более пятисот лет живут рыбаки.",
    "th": "แม่น้ำสายนี้มีต้นกำเนิดในภูเขาและไหลผ่านเมืองเก่าหลายแห่งก่อนถึงทะเลซึ่งชาวประมงอาศัยอยู่มานานกว่าห้าร้อยปี",
    "zh": "这条河发源于山区，流经几座古老的城镇，然后流入大海，渔民在那里生活了五百多年。",
    "hr": "Rijeka izvire u planinama i teče kroz nekoliko starih gradova prije nego što dođe do "
    "mora, gdje ribari žive više od petsto godina.",
    "id": "Sungai ini berhulu di pegunungan dan mengalir melalui beberapa kota tua sebelum "
    "mencapai laut, tempat para nelayan tinggal selama lebih dari lima ratus tahun.",
}  # fmt: skip


@pytest.mark.integration
@pytest.mark.parametrize("language", TEXTS)
def test_a_text_is_in_its_language_alone(language):
    shares = {other: language_share([TEXTS[other]], language) for other in TEXTS}
    assert shares == {other: float(other == language) for other in TEXTS}


@pytest.mark.parametrize(
    ("language", "like"), [("bs", "hr"), ("sr", "hr"), ("ms", "id"), ("yue", "zh")]
)
def test_languages_that_are_taken_for_one_another_count_as_one(language, like):
    assert language_share([TEXTS[like]], language) == 1


def test_characters_decide():
    long, short = " ".join([TEXTS["en"]] * 9), " ".join([TEXTS["de"]] * 3)
    share = len(long) / (len(long) + len(short))
    assert language_share([long, short], "en") == pytest.approx(share)
    assert language_share([short, long], "en") == pytest.approx(share)
    # Lines that are too short to identify count with the others.
    words = TEXTS["de"].split()
    assert language_share(words, "de") == 1


def test_a_long_document_is_sampled(monkeypatch):
    pieces = []
    classify = py3langid.classify
    monkeypatch.setattr(
        py3langid, "classify", lambda text: (pieces.append(text), classify(text))[1]
    )
    long = [TEXTS["de"] * 3, TEXTS["ru"] * 3] * 500
    share = language_share(long, "de")
    assert len(pieces) <= 100
    assert share == pytest.approx(len(TEXTS["de"]) / len(TEXTS["de"] + TEXTS["ru"]), abs=0.12)
    assert language_share(long, "de") == share


def test_what_is_in_no_language_does_not_count():
    assert language_share(["12.5 | 13.5 | 99 % " * 30, TEXTS["de"] * 3], "de") == 1
    assert language_share([], "de") == 1
    assert language_share(["Ops for pfor, for_loop, jacobian."], "de") == 1, "too short to tell"
    assert language_share([TEXTS["zh"]], "de") == 0, "long enough, although of 40 characters"
    chakma = "".join(chr(code) for code in range(0x11103, 0x11130))
    assert language_share([chakma * 9], "de") == 0, "letters of a script that is unknown"
    assert language_share(["\ud800"], "de") in (0, 1)


@pytest.fixture
def in_languages(tmp_path) -> ExtractionOptions:
    (tmp_path / "in.txt").write_text(
        "\n\n".join(f"{text}\n{text}" for text in TEXTS.values()), "utf-8"
    )
    output = f"{tmp_path}/out/train.txt"
    return corpus_options(tmp_path, "text", language="de", language_share=0.8, output_file=output)


def test_documents_in_other_languages_are_counted(in_languages):
    summary = extract(in_languages)
    written = pathlib.Path(in_languages.output_file).read_text("utf-8")
    assert written == f"{TEXTS['de']}\n{TEXTS['de']}\n"
    recorded = json.loads(pathlib.Path(in_languages.output_file[:-4] + ".corpus.json").read_text())
    count = {"documents in other languages": len(TEXTS) - 1}
    assert summary["left_out"] == recorded["left_out"] == count
    assert recorded["versions"]["py3langid"]


def test_an_output_that_would_be_empty_says_why(in_languages):
    with pytest.raises(
        InputError, match=r"no text found in .*\(left out: 7 documents in other lan"
    ):
        extract(dataclasses.replace(in_languages, language="sv"))


@pytest.mark.parametrize("language", ["bo", "zxx"])
def test_a_language_that_cannot_be_identified(in_languages, language):
    message = f"^`language_share`: `language`={language} cannot be identified; .* af, am, "
    with pytest.raises(InputError, match=message):
        extract(dataclasses.replace(in_languages, language=language))
    assert not pathlib.Path(in_languages.output_file).parent.exists()


THRESHOLD = 0.8


def shingles(text: str) -> set[tuple[str, ...]]:
    """Return the shingles of an ASCII text, found by other means."""
    words = re.sub(r"\W+", " ", re.sub(r"\d[\d\W]*", " 0 ", text.lower())).split()
    return {tuple(words[n : n + 5]) for n in range(max(1, len(words) - 4))}


def similarities(texts: list[str], others: list[str]) -> np.ndarray:
    """Return the exact similarities, `[texts, others]`."""
    rows, columns = [shingles(text) for text in texts], [shingles(text) for text in others]
    return np.array([[len(a & b) / len(a | b) for b in columns] for a in rows])


def planted(count: int, variants: int, seed: int = 0) -> list[str]:
    """Return texts and variants of them in which a known share of the words are others."""
    draw = random.Random(seed)
    words = ["".join(draw.choices("abcdefgh", k=4)) for _ in range(2000)]
    found = []
    for number in range(count):
        base = draw.choices(words, k=150)
        for _ in range(variants):
            changed = draw.choice([0, 0.005, 0.01, 0.02, 0.05])
            variant = [draw.choice(words) if draw.random() < changed else word for word in base]
            found.append(f"No. {draw.randrange(10**6):,} of {number}: {' '.join(variant)}.")
    draw.shuffle(found)
    return found


def found_in(texts: list[str], threshold: float = THRESHOLD) -> list[bool]:
    rows = np.frombuffer(b"".join(map(signature, texts)), "<u2").reshape(-1, PERMUTATIONS)
    return find_near_duplicates(rows, threshold).tolist()


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("The village has 1,234 people (2001).", "THE VILLAGE has 7 people - 1999", True),
        ("Founded in 1900-1910 by monks", "founded in 12 by monks", True),
        ("one two three four five six", "one two three four five seven", False),
        ("one two", "one three", False),
        ("", "\n", True),
        # Numbers and symbols rather than words
        ("1.5 2.5 | 3.5", "1.5  2.5\n| 3.5", True),
        ("१२ ३४ ५६", "१२ ३४ ५७", False),
        ("It costs $5 ± 1 in C++ shops", "it costs $7 ± 2 in c++ shops", True),
        ("2001", "...", False),
        ("a + b = c", "a +  b\n= c", True),
        ("One = two: three, four", "one = two, three; four", True),
        ("one and/or two - three", "one and or two three", True),
        ("Rest\n====\nHere it is, then", "rest\n====\nhere it is then", True),
        ("e\u0301te\u0301", "ete", False),  # accents are letters
        ("กรุงเทพมหานครเป็นเมืองหลวง 12", "กรุงเทพมหานครเป็นเมืองหลวง 7", True),
        ("北京是中国的首都。", "北京是中国的首都", True),
        ("北京是中国的首都", "上海是中国的城市", False),
    ],
)
def test_what_counts_as_a_difference(one, other, expected):
    assert (signature(one) == signature(other)) == expected


@pytest.mark.parametrize("alphabet", ["+-*/=", "ab+-*/= ", "xyz=+-*/12()", string.punctuation])
def test_formulas_are_the_same_only_if_their_characters_are(alphabet):
    draw = random.Random(0)
    texts = {" ".join(draw.choices(alphabet, k=draw.randrange(3, 12))) for _ in range(300)}
    assert len(set(map(signature, texts))) == len({" ".join(text.split()) for text in texts})


@pytest.mark.integration
@pytest.mark.parametrize("step", [3, 6, 10])
def test_a_document_is_left_out_only_for_one_that_is_kept(step):
    """Neighbors in a chain are similar, and others less so the farther apart they are."""
    draw = random.Random(step)
    words = ["".join(draw.choices("abcdefgh", k=6)) for _ in range(150 + 200 * step)]
    texts = [" ".join(words[step * n : step * n + 150]) for n in range(200)]
    draw.shuffle(texts)
    exact = similarities(texts, texts)
    found = np.array(found_in(texts))
    for number in range(200):
        best = exact[number, :number][~found[:number]].max(initial=0)
        # A standard deviation is 0.035.
        assert best > THRESHOLD - 0.12 if found[number] else best < THRESHOLD + 0.12
    rows = np.frombuffer(b"".join(map(signature, texts)), "<u2").reshape(-1, PERMUTATIONS)
    estimated = (rows[:, None] == rows).mean(2)
    for number in np.flatnonzero(found):
        assert estimated[number, :number][~found[:number]].max() >= THRESHOLD


@pytest.mark.parametrize(
    "script", ["北京是中国的首都也是一座历史名城", "ประเทศไทยมีเมืองหลวงคือกรุงเทพ"]
)
def test_characters_are_compared_where_no_spaces_separate_words(script):
    draw = random.Random(0)
    one = "".join(draw.choices(script, k=2000))
    other = one[:1000] + "".join(draw.choices(script, k=20)) + one[1000:]
    assert found_in([one, other], 0.9) == [False, True]


def test_a_signature_is_the_same_everywhere():
    """On any processor, and in any version that can resume a run of this one."""
    numbers = np.frombuffer(signature("The cat sat on the mat, and then it left. 猫"), "<u2")
    assert numbers[:4].tolist() == [7109, 20649, 4747, 19661]


@pytest.mark.parametrize("threshold", [0.1, 0.5, 0.8, 0.95])
def test_nearly_all_pairs_at_the_threshold_become_candidates(threshold):
    draw = np.random.default_rng(0)
    ones, others = draw.integers(0, 2**16, (2, 1000, PERMUTATIONS), np.uint16)
    is_same = draw.permuted(
        np.tile(np.arange(PERMUTATIONS) < np.ceil(threshold * PERMUTATIONS), (1000, 1)), axis=1
    )
    found = find_near_duplicates(np.concatenate([ones, np.where(is_same, ones, others)]), threshold)
    assert not found[:1000].any()
    assert found[1000:].mean() > 0.98


@pytest.fixture
def options(tmp_path, monkeypatch) -> ExtractionOptions:
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 1)
    for number, text in enumerate(planted(40, 5)):
        with open(tmp_path / f"in-{number // 25}.txt", "a") as file:
            file.write(f"{text}\nEnd.\n\n")
    return ExtractionOptions(
        source=(f"text:{tmp_path}/in-*.txt@2",),
        output_file=str(tmp_path / "out" / "train.txt"),
        eval_output_file=str(tmp_path / "out" / "eval.txt"),
        eval_fraction=0.3,
        near_duplicates=THRESHOLD,
        num_processes=1,
    )


def test_of_similar_documents_the_first_is_written(options, tmp_path):
    summary = extract(options)
    train, held_out = documents(options.output_file), documents(options.eval_output_file)
    texts = [text for n in range(8) for text in documents(str(tmp_path / f"in-{n}.txt"))]
    is_left_out = found_in(texts)
    kept = [text for text, left_out in zip(texts, is_left_out, strict=True) if not left_out]
    assert train[::2] == train[1::2], "each is written twice, according to the weight"
    assert sorted(train[::2] + held_out) == sorted(kept)
    assert summary["left_out"] == {"near duplicates": sum(is_left_out)}
    assert 50 < sum(is_left_out) < 160
    assert [text for text in kept if text in set(train)] == train[::2], "in the order of the corpus"
    assert similarities(train[::2], held_out).max() < THRESHOLD + 0.13
    everything = extract(dataclasses.replace(options, near_duplicates=0))
    assert everything["left_out"] == {}
    train, held_out = documents(options.output_file), documents(options.eval_output_file)
    leaks = similarities(train[::2], held_out) > THRESHOLD + 0.13
    assert leaks.sum() > 20, "what the flag prevents"


def test_a_sample_is_taken_of_what_is_left(options):
    whole = extract(options)
    sample = extract(dataclasses.replace(options, max_megabytes=0.03))
    assert sample["left_out"] == whole["left_out"]
    written = sum(output["bytes"] for output in sample["outputs"].values())
    assert 25_000 < written <= 30_000
