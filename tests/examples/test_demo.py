"""The parts of the demo that are its own: the passages, its state, and what the report reckons."""

import json

import pytest

from albert_tf.errors import InputError
from examples.demo import __main__ as demo
from examples.demo import package_docs, passages
from examples.demo.stages import STAGES
from examples.demo.update_docs import MARK, PAGES, RECORD, ROOT, filled, outputs
from examples.demo.write_report import Results, headlines
from tests.conftest import run_python


@pytest.fixture
def corpus(tmp_path):
    """Return two sources with documents on both sides, and one that is only in training."""
    words = {"apple.txt": "sweet fruit", "bolt": "steel screw", "crow": "black bird"}
    for split, sources in (("train", list(words)), ("eval", ["apple.txt", "bolt"])):
        documents, table = [], []
        for source in sources:
            name = source.split(".")[0]
            for number in range(3):
                sentences = [f"The {name} and its {words[source]} number {n}." for n in range(8)]
                documents.append("\n".join(sentences))
                table.append(f"{source}\t{split}-{source}-{number}")
        (tmp_path / f"{split}.txt").write_text("\n\n".join(documents) + "\n")
        (tmp_path / f"{split}.sources.tsv").write_text("\n".join(table) + "\n")
    return tmp_path


def test_docstrings_are_collected_as_text(tmp_path, monkeypatch):
    """Tables of the packages in a list, which the format table reads."""
    package = tmp_path / "made_up"
    (package / "tests").mkdir(parents=True)
    (package / "__init__.py").write_text(
        '"""The first line of the *module*, with ``code`` in it.\n\n'
        ">>> this is the code of a doctest\n\n"
        "Args:\n    x (int): what it is about, on two\n      lines of text.\n    y: short.\n"
        '"""\ndef f():\n    """Returns the :class:`~a.Name` that it has."""\n'
    )
    (package / "bad.py").write_text("def f(:\n")
    (package / "tests" / "a.py").write_text('"""The text of a test is not to be read at all."""')
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "list").write_text("# packages\nmade_up  # one\n")
    options = package_docs.PackageDocsOptions(str(tmp_path / "list"), str(tmp_path / "out"))
    package_docs.run(options)
    (row,) = (tmp_path / "out" / "made_up.jsonl").read_text().splitlines()
    assert json.loads(row)["text"].splitlines() == [
        "The first line of the module, with code in it.",
        "what it is about, on two lines of text.",
        "Returns the a.Name that it has.",
    ]
    (tmp_path / "list").write_text("not_there_at_all\n")
    with pytest.raises(InputError, match=r"`package_list`=.*: not_there_at_all is not installed"):
        package_docs.run(options)


def test_passages_come_from_sources_on_both_sides_and_do_not_name_them(corpus, tmp_path):
    options = passages.PassageOptions(
        corpus_dir=str(corpus), output_dir=str(tmp_path / "out"), min_words=10, max_train_passages=5
    )
    passages.run(options)
    for split, most in (("train", 5), ("eval", 80)):
        lines = (tmp_path / "out" / f"{split}.tsv").read_text().splitlines()
        assert lines[0] == "text\tlabel"
        rows = [line.split("\t") for line in lines[1:]]
        assert {label for _, label in rows} == {"apple", "bolt"}
        for text, label in rows:
            assert label not in text.lower()
            assert len(text.split()) >= 10
        for label in ("apple", "bolt"):
            assert 0 < sum(row[1] == label for row in rows) <= most


def test_a_run_on_another_corpus_is_moved_aside(tmp_path):
    folder = str(tmp_path / "demo")
    state = demo.opened(folder, "one")
    state["done"]["corpus"] = {"seconds": 1.0, "key": "key"}
    demo.save(folder, state)
    assert demo.opened(folder, "one") == state
    assert demo.opened(folder, "two")["done"] == {}
    moved = json.loads((tmp_path / "demo.1" / "stages.json").read_text())
    assert moved["corpus"] == "one"


def test_keys_follow_commands_settings_and_what_came_before(tmp_path):
    settings = tmp_path / "some.cfg"
    settings.write_text("--a=1\n")
    command = [["program.py", f"--flagfile={settings}"]]
    key = demo._key("", command)
    assert demo._key("", command) == key
    assert demo._key("before", command) != key
    settings.write_text("--a=2\n")
    assert demo._key("", command) != key


def test_flags_that_some_texts_have():
    """A small one has fewer pieces, and only English has minimal pairs."""
    for stage, options, without, flag in (
        ("vocabulary", {"vocab_size": 4000}, {}, "--vocab_size=4000"),
        ("evaluation", {}, {"language": "de"}, "--eval_pairs=demo/pairs.tsv"),
    ):
        command = next(each.commands[0] for each in STAGES if each.name == stage)
        words = demo._words(command, demo.DemoOptions(**without))
        assert demo._words(command, demo.DemoOptions(**options)) == [*words, flag]


CHECK = {
    "masked_lm_accuracy": 0.3,
    "masked_tokens": 2000,
    "most_frequent_token": "▁the",
    "most_frequent_token_accuracy": 0.05,
    "sentence_order_accuracy": 0.6,
    "most_frequent_order_accuracy": 0.52,
    "sentence_order_examples": 100,
}


SOURCES = ["numpy", "scipy"] * 4


def test_results_of_the_export_are_compared():
    held_out = {"masked_lm_accuracy": 0.3, "sentence_order_accuracy": 0.6}
    results = Results({}, held_out, CHECK, SOURCES, pretrained=0.75, scratch=0.5)
    passages, masked, order, export = headlines(results)
    assert passages.value == "50.0% → 75.0%"
    assert passages.notes[1] == "50.0% by always predicting the same source"
    assert (masked.value, order.value, export.value) == ("30.0%", "60.0%", "the same")
    assert order.notes[0] == "95% interval 50.2% to 69.1%, 100 pairs"  # Wilson
    held_out["sentence_order_accuracy"] = 0.62
    assert headlines(results)[3].value == "differs by 0.02"


def test_pages_have_the_figures_of_one_run():
    record, names = json.loads(RECORD.read_text()), set()
    for page in PAGES:
        text = (ROOT / page).read_text()
        assert filled(text, record, record) == text
        names |= {name for _, name in MARK.findall(text)}
    assert names == set(record)


def test_the_index_begins_as_the_readme_does():
    pages = ("README.md", "docs/index.md")
    readme, index = (" ".join((ROOT / page).read_text().split()) for page in pages)
    shared = readme[readme.index("![") : readme.index(" Then, in")]
    assert shared.replace("(docs/", "(").replace("(bench", "(../bench") in index


def test_what_follows_a_mark_is_replaced():
    page = "It takes <!-- demo: time -->1 minute.\n\n<!-- demo: check -->\n```\nold\n```\nEnd"
    old = {"time": "1 minute", "check": "```\nold\n```"}
    log = (
        "\n[1/2] Reload\n      What it does.\n      $ python -m examples.demo.check_export demo\n"
        f"first = 1\n{'word ' * 20}end\n      -> demo/check.json (1.0 kB)\n      1.0 s, at most\n"
    )
    new = filled(page, old, {"time": "2 minutes", "check": outputs(log)["check"]})
    assert new == (
        "It takes <!-- demo: time -->2 minutes.\n\n<!-- demo: check -->\n"
        f"```\nfirst = 1\n{' '.join(['word'] * 20)}\n    end\n```\nEnd"
    )
    with pytest.raises(InputError, match="demo: time -->: has '2 minutes.* in place of '1 minute'"):
        filled(new, old, old)


@pytest.mark.integration
def test_the_report_needs_no_engine():
    done = run_python("-c", "import sys, examples.demo.write_report; print('keras' in sys.modules)")
    assert done.stdout == "False\n", done.stderr
