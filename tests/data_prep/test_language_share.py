"""Documents in other languages are left out and counted."""

import dataclasses
import json
import pathlib

import py3langid
import pytest

from albert_tf.errors import InputError
from data_prep.extraction import extract
from data_prep.extraction_options import ExtractionOptions
from data_prep.languages import language_share
from tests.support.texts import corpus_options

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
def options(tmp_path) -> ExtractionOptions:
    (tmp_path / "in.txt").write_text(
        "\n\n".join(f"{text}\n{text}" for text in TEXTS.values()), "utf-8"
    )
    output = f"{tmp_path}/out/train.txt"
    return corpus_options(tmp_path, "text", language="de", language_share=0.8, output_file=output)


def test_documents_in_other_languages_are_counted(options):
    summary = extract(options)
    written = pathlib.Path(options.output_file).read_text("utf-8")
    assert written == f"{TEXTS['de']}\n{TEXTS['de']}\n"
    recorded = json.loads(pathlib.Path(options.output_file[:-4] + ".corpus.json").read_text())
    count = {"documents in other languages": len(TEXTS) - 1}
    assert summary["left_out"] == recorded["left_out"] == count
    assert recorded["versions"]["py3langid"]


def test_an_output_that_would_be_empty_says_why(options):
    with pytest.raises(
        InputError, match=r"no text found in .*\(left out: 7 documents in other lan"
    ):
        extract(dataclasses.replace(options, language="sv"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"language": "bo"}, "`language_share`: `language`=bo cannot be identified; .* af, am, "),
        ({"language": "zxx"}, "`language`=zxx cannot be identified"),
    ],
)
def test_invalid_options(options, changes, message):
    with pytest.raises(InputError, match=message):
        extract(dataclasses.replace(options, **changes))
    assert not pathlib.Path(options.output_file).parent.exists()
