"""Documents that break rules of quality are left out, counted by rule, and shown before."""

import json
import pathlib
import random

import pytest

from albert_tf.errors import InputError
from data_prep import extract_corpus, parallel
from data_prep.corpora import text
from data_prep.extraction import extract
from data_prep.quality import measure, read_quality
from tests.support.texts import corpus_options, documents

_DRAW = random.Random(0)
_WORDS = ["".join(_DRAW.choices("abcdefghijklm", k=_DRAW.randrange(2, 9))) for _ in range(3000)]
DEFAULT = read_quality("default", "en")
GOOD = [f"{' '.join(_WORDS[n * 12 : n * 12 + 12])}." for n in range(12)]


def repeated(words: int, times: int) -> list[str]:
    """Return a text in which a sequence of words occurs several times, after different words."""
    same = " ".join(_WORDS[-words:])
    return [f"{' '.join(_WORDS[n * 20 : n * 20 + 20])} {same} so{n}." for n in range(times)]


BROKEN = {
    "min_words": GOOD[:3],
    "min_word_length": ["a b c d e f g h i j k l m n o p q r s t u v w x y z" * 3 + "."],
    "max_word_length": [f"{word * 4}internationalization." for word in _WORDS[:60]],
    "max_symbols": [line.replace(" ", " #", 2) for line in GOOD],
    "max_bullets": [f"- {line}" for line in GOOD],
    "max_ellipses": [f"{line[:-1]}..." if n % 2 else line for n, line in enumerate(GOOD)],
    "min_letters": [line.replace(" ", " 12 ", 4) for line in GOOD],
    "min_punctuation": [line[:-1] for line in GOOD],
    "max_short_lines": GOOD[:6] + [f"Home {word}." for word in _WORDS[900:920]],
    "max_repeated_lines": GOOD + [f"So {word}." for word in _WORDS[90:95]] * 3,
    "max_repeated_line_characters": GOOD + GOOD[:4],
    "max_top_2_words": [f"{line} {_WORDS[-1] * 4} {_WORDS[-2] * 4}" for line in GOOD],
    "max_repeated_5_words": repeated(5, 12),
    "max_repeated_10_words": repeated(10, 12),
}


@pytest.mark.parametrize("rule", BROKEN)
def test_each_rule_is_broken_by_what_it_means(rule):
    assert rule in DEFAULT.broken(BROKEN[rule])
    assert not DEFAULT.broken(GOOD)


def test_measures_are_those_of_the_papers():
    found = measure(["one two one two.", "one two 3 • …", "one two one two."])
    assert found["words"] == 4 + 3 + 4
    assert found["word_length"] == pytest.approx((10 * 3 + 1) / 11)
    assert found["symbols"] == 1 / 11
    assert found["ellipses"] == found["repeated_lines"] == 1 / 3
    assert found["repeated_line_characters"] == pytest.approx(16 / 45)
    assert found["letters"] == 10 / 13
    assert found["punctuation"] == 1
    assert found["short_lines"] == 1
    assert found["top_2_words"] == pytest.approx(5 * 6 / 31)
    again = measure(["a b c d e x a b c d e y a b c d e"])
    assert again["repeated_5_words"] == pytest.approx(10 / 17)
    assert again["repeated_6_words"] == 0
    assert measure([])["words"] == measure(["a b c d e f"])["top_2_words"] == 0


_LONG = ["".join(_WORDS[n : n + 3]) for n in range(0, 600, 3)]
OF_OTHERS = {
    "fi": GOOD[:4],
    "ko": [" ".join(word[:3] if n % 4 else word[:2] for n, word in enumerate(_WORDS[:200])) + "."],
    "kl": [" ".join(_LONG[n : n + 9]) + "." for n in range(0, 180, 9)],
    "th": BROKEN["min_punctuation"],
}


@pytest.mark.parametrize("language", OF_OTHERS)
def test_limits_of_english_empty_no_other_language(language):
    assert len(DEFAULT.broken(OF_OTHERS[language])) == 1
    assert not read_quality("default", language).broken(OF_OTHERS[language])


@pytest.fixture
def options(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "_UNIT_BYTES", 3000)
    found = [GOOD, *BROKEN.values(), *([f"No. {n}.", "x"] for n in range(30))]
    (tmp_path / "in.txt").write_text("\n\n".join("\n".join(lines) for lines in found))
    return corpus_options(tmp_path, "text", quality="default")


@pytest.mark.integration
def test_documents_are_counted_by_the_first_rule(options, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 1)
    summary = extract(options)
    assert documents(options.output_file) == ["\n".join(GOOD)]
    counts = summary["left_out"]
    assert sum(counts.values()) == len(BROKEN) + 30
    assert counts["documents by min_words"] == 31
    assert counts["documents by max_bullets"] == 1
    recorded = json.loads((tmp_path / "out.corpus.json").read_text())
    assert recorded["left_out"] == counts
    assert recorded["quality"] == DEFAULT.limits
    options = corpus_options(tmp_path, "text", quality="default", num_processes=2)
    assert extract(options)["left_out"] == counts
    extract_corpus.run(options)
    assert "1 documents by max_bullets" in capsys.readouterr().out


@pytest.mark.integration
def test_a_report_shows_what_would_go(options, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(parallel, "_MIN_BYTES_PER_PROCESS", 1)
    shown = []
    for processes in (1, 2):
        more = {"quality_report": True, "quality": "default", "num_processes": processes}
        extract_corpus.run(corpus_options(tmp_path, "text", **more))
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]
    lines = shown[0].splitlines()
    count = len(BROKEN) + 31
    assert lines[0] == f"{count - 1} of {count} documents break a rule; nothing is written"
    start = next(n for n, line in enumerate(lines) if line.startswith("min_words: 31 "))
    examples = lines[start + 1 : start + 11]
    assert all(line.startswith("    ") for line in examples)
    assert not lines[start + 11].startswith("    "), "ten"
    numbers = {int(line.split("No. ")[-1].split(".")[0]) for line in examples if "No. " in line}
    assert len(numbers) >= 9
    assert max(numbers) > 12, "not the first ones"
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]
    extract_corpus.run(corpus_options(tmp_path, "text", sample_documents=1, **more))
    assert " of 1 documents " in capsys.readouterr().out
    (tmp_path / "in.txt").write_text("\n \n")
    with pytest.raises(InputError, match="no text found in "):
        extract(corpus_options(tmp_path, "text", **more))
    assert [path.name for path in tmp_path.iterdir()] == ["in.txt"]


def test_a_file_changes_the_packaged_limits(tmp_path):
    file = tmp_path / "rules.toml"
    file.write_text(
        '[default]\nmin_words = 7\nmax_words = 9\n[language.de]\nmin_words = "off"\n'
        "[script.Cyrl]\nmax_bullets = 0.5\n[other]\nmin_words = 8\n"
    )
    limits = {code: read_quality(str(file), code).limits for code in ("de-AT", "bg", "hi")}
    packaged = {code: read_quality("default", code).limits for code in limits}
    assert limits["de-AT"] == {
        rule: limit for rule, limit in (packaged["de-AT"] | {"max_words": 9}).items()
        if rule != "min_words"
    }  # fmt: skip
    assert limits["bg"] == packaged["bg"] | {"min_words": 7, "max_words": 9, "max_bullets": 0.5}
    assert limits["hi"] == packaged["hi"] | {"min_words": 8, "max_words": 9}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, r"`quality`=.*rules\.toml: no such file; name a TOML file, or default$"),
        ("", r"`quality`=.*rules\.toml: is a folder; name a TOML file, or default$"),
        ("[default", r"`quality`=.*rules\.toml: not TOML \("),
        ("[rules]\n", r"rules\.toml: \[rules\] is unknown; the sections are default, "),
        ("[default]\nmin_lines = 1\n", r"'min_lines' is no rule; the rules are min_words, max_w"),
        ("[language]\nmin_words = 1\n", r"'min_words'|1 is no rule"),
        ("[language.de]\nx = 1\n", r"'x' is no rule"),
        ('[default]\nmin_words = "no"\n', r"min_words='no': must be a number, or 'off'"),
        ("[default]\nmin_words = true\n", r"min_words=True: must be a number, or 'off'"),
        ("[default]\nmin_words = [1]\n", r"min_words=\[1\]: must be a number, or 'off'"),
        ("[default]\nmin_words = -1\n", r"min_words=-1: must be a number, or 'off'"),
        ("[default]\nmin_words = nan\n", r"min_words=nan: must be a number, or 'off'"),
        ("[default]\nmax_symbols = 10\n", r"max_symbols=10: must be a number of at most 1, or"),
        ("[default]\nmin_words = 5\nmax_words = 4\n", r"min_words=5: is above the maximum, 4$"),
        ("[language.german]\n", r"rules\.toml: german is no language or script"),
        ("[default]\nmin_words = 9999\n", r"no text found in .*\(left out: .* documents by min_w"),
        ("".join(["[default]\n", *(f'{rule} = "off"\n' for rule in DEFAULT.limits)]),
         r"`quality`=.*rules\.toml: turns all rules off"),
    ],
)  # fmt: skip
def test_bad_rules_are_one_line(tmp_path, content, message):
    (tmp_path / "in.txt").write_text("\n".join(GOOD))
    file = tmp_path / "rules.toml"
    if content == "":
        file.mkdir()
    elif content is not None:
        file.write_text(content)
    with pytest.raises(InputError, match=message) as caught:
        extract(corpus_options(tmp_path, "text", quality=str(file)))
    assert "\n" not in str(caught.value)
    assert not pathlib.Path(f"{tmp_path}/out.txt").exists()
