"""The output of `inspect` matches the content of the files."""

import json
import pathlib
import re
from collections import Counter

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.input.features import pretraining_features
from albert_tf.tokenizers import Tokenizer
from albert_tf.tokenizers.normalization import Normalization
from data_prep.inspect import __main__ as inspect
from data_prep.inspect import examples
from data_prep.inspect.__main__ import InspectOptions
from data_prep.inspect.examples import Names
from data_prep.inspect.statistics import Statistics
from data_prep.pretraining_data import create_pretraining_data
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.tfrecords import read_examples, write_records
from data_prep.vocabulary_types import prepare_wordpiece, train_wordpiece
from tests.support import references


@pytest.fixture(scope="module")
def vocabulary(corpus, tmp_path_factory) -> pathlib.Path:
    path = tmp_path_factory.mktemp("vocabulary") / "words.txt"
    lines = corpus.read_text("utf-8").splitlines()
    words = [prepare_wordpiece(line, Normalization()) for line in lines]
    (content,) = train_wordpiece(words, 900)
    path.write_bytes(content)
    return path


@pytest.fixture(scope="module")
def made(corpus, model_file, vocabulary, tmp_path_factory):
    """Return files with static masks, without masks, and with a WordPiece vocabulary."""
    folder = tmp_path_factory.mktemp("made")
    for name, flags in {
        "static": {"spm_model_file": str(model_file)},
        "dynamic": {"spm_model_file": str(model_file), "masking": "dynamic"},
        "words": {"vocab_file": str(vocabulary)},
    }.items():
        create_pretraining_data(
            PretrainingDataOptions(
                input_file=(str(corpus),),
                output_file=(
                    str(folder / f"{name}-a.tfrecord"),
                    str(folder / f"{name}-b.tfrecord"),
                ),
                max_seq_length=48,
                max_predictions_per_seq=9,
                dupe_factor=1,
                num_processes=1,
                **flags,
            )
        )
    return folder


def run(*paths, **flags) -> None:
    inspect.run(InspectOptions(input_file=tuple(map(str, paths)), **flags))


def predictions(example) -> dict[int, int]:
    """Return the predictions of an example, by position."""
    names = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")
    rows = zip(*(example[name] for name in names), strict=True)
    return {int(position): int(id) for position, id, weight in rows if weight}


def pieces_shown(block: str) -> list[str]:
    """Return the pieces in the printed segments of an example."""
    return [piece for line in block.splitlines()[1:] for piece in line[5:].split(" ")]


@pytest.mark.parametrize("name", ["static", "words"])
def test_printed_examples_show_masks_and_replacements(made, capsys, monkeypatch, name):
    monkeypatch.setattr(examples, "_EXAMPLES_AT_ONCE", 5)
    path = made / f"{name}-a.tfrecord"
    run(path, num_examples=20, first=8)
    legend, *blocks = capsys.readouterr().out.strip("\n").split("\n\n")
    assert legend == examples.LEGEND
    arrays = read_examples(str(path), pretraining_features(48, 9))
    tokenizer = Tokenizer.load(
        json.loads((made / f"{name}-a.manifest.json").read_text())["settings"][
            "spm_model_file" if name == "static" else "vocab_file"
        ]
    )
    assert len(blocks) == 20
    kinds = Counter()
    for number, block in enumerate(blocks, start=8):
        ids = arrays["input_ids"][number]
        length = int(arrays["input_mask"][number].sum())
        masked = predictions({name: values[number] for name, values in arrays.items()})
        label = ["in order (label 0)", "swapped (label 1)"][
            arrays["next_sentence_labels"][number, 0]
        ]
        assert block.splitlines()[0] == (
            f"example {number}: {length} tokens, {48 - length} padding; "
            f"{len(masked)} masked; {label}"
        )
        expected = []
        for position, id in enumerate(ids[:length]):
            piece = tokenizer.pieces[id]
            if position in masked:
                kind = "replaced"
                if id == tokenizer.mask_id:
                    kind = piece = "MASK"
                elif id == masked[position]:
                    kind = piece = "KEPT"
                kinds[kind] += 1
                piece = f"[{piece}→{tokenizer.pieces[masked[position]]}]"
            expected.append(piece)
        assert pieces_shown(block) == expected
        second = int(arrays["segment_ids"][number].sum())
        places = [line[2:3] for line in block.splitlines()[1:] if line[2:3] != " "]
        assert places == ["A", "B"]
        assert len(pieces_shown("\n" + block[block.index("\n  B  ") :].lstrip("\n"))) == second
    assert set(kinds) == {"MASK", "KEPT", "replaced"}


def test_files_without_masks_show_whole_text(made, capsys, tokenizer):
    run(made / "dynamic-a.tfrecord", num_examples=2, statistics=True)
    _, first, second, table = capsys.readouterr().out.strip("\n").split("\n\n")
    assert "not masked yet" in first
    assert "→" not in first + second
    ids = [tokenizer.pieces.index(piece) for piece in pieces_shown(first)]
    assert tokenizer.cls_id == ids[0]
    assert "none; drawn during training" in table


def test_statistics_match_the_arrays(made, tokenizer, monkeypatch, tmp_path):
    monkeypatch.setattr(examples, "_EXAMPLES_AT_ONCE", 50)
    paths = [str(made / "static-a.tfrecord"), str(made / "static-b.tfrecord")]
    empty = tmp_path / "empty.tfrecord"
    empty.touch()
    features = examples.find_features([str(empty), *paths])
    assert features == pretraining_features(48, 9)
    found = Statistics(features)
    names = Names.find(paths, None)
    for batch in examples.batches([str(empty), *paths, str(empty)], features):
        found.add(batch, names)

    # The same, counted one by one.
    lengths, labels, masked, kinds, runs = Counter(), Counter(), Counter(), Counter(), Counter()
    words, first_segment, restored = Counter(), 0, []
    for path in paths:
        arrays = read_examples(path, features)
        for row in range(len(arrays["input_ids"])):
            example = {name: values[row].tolist() for name, values in arrays.items()}
            lengths[sum(example["input_mask"])] += 1
            labels[example["next_sentence_labels"][0]] += 1
            first_segment += example["segment_ids"][: sum(example["input_mask"])].count(0)
            predicted = predictions(example)
            masked[len(predicted)] += 1
            restored += [
                predicted.get(position, id) for position, id in enumerate(example["input_ids"])
            ]
            run_words: list[list[int]] = []
            for position in range(49):
                if position in predicted:
                    seen, id = example["input_ids"][position], predicted[position]
                    kinds[0 if seen == tokenizer.mask_id else 1 if seen == id else 2] += 1
                    if not run_words or example["token_boundary"][position]:
                        run_words.append([])
                    run_words[-1].append(id)
                elif run_words:
                    runs[min(len(run_words), 8)] += 1
                    words.update(map(tuple, run_words))
                    run_words = []

    assert found.examples == sum(lengths.values()) > 300
    assert dict(enumerate(found.lengths)) == {n: lengths[n] for n in range(49)}
    assert found.labels.tolist() == [labels[0], labels[1]]
    assert dict(enumerate(found.masked)) == {n: masked[n] for n in range(10)}
    assert found.outcomes.tolist() == [kinds[kind] for kind in range(3)]
    assert found.runs.tolist() == [runs[n] for n in range(9)]
    assert found.words == words
    assert found.first_segment_tokens == first_segment
    assert max(len(word) for word in words) > 2

    restored = np.array(restored)
    assert found.unknown == (restored == tokenizer.unk_id).sum() > 0
    table = " ".join(found.table(2, names).split())
    manifest = json.loads((made / "static-a.manifest.json").read_text())
    assert f"{manifest['examples']:,} in 2 files" in table
    assert f"padding {manifest['padding_share']:.1%}" in table
    assert f"{manifest['masked_tokens']:,} tokens, {manifest['masked_share']:.1%} of all" in table
    assert f"swapped {manifest['positive_label_share']:.1%}" in table
    word, count = words.most_common(1)[0]
    assert f"{tokenizer.decode(word)} {count:,}" in table


@pytest.mark.integration
@pytest.mark.parametrize("name", references.NAMES)
def test_a_file_of_the_original(name, shared, capsys):
    reference = references.records_reference(name, shared)
    path = reference.records
    tables = []
    for flags in ({}, {"spm_model_file": str(reference.vocabulary)}):
        run(path, num_examples=1, statistics=True, **flags)
        shown = capsys.readouterr()
        table = shown.out.split("\n\n")[2].split("top masked words")[0]
        tables.append([line for line in table.splitlines() if not line.startswith("unknown")])
        assert ("showing ids" in shown.err) == (not flags)
    # The id of [MASK] was inferred correctly.
    assert tables[0] == tables[1]
    features = pretraining_features(reference.max_seq_length, reference.max_predictions_per_seq)
    arrays = read_examples(str(path), features)
    assert f"{len(arrays['input_ids'])} in 1 file\n" in table
    masked = int(arrays["masked_lm_weights"].sum())
    assert f"{masked:,} tokens, {masked / arrays['input_mask'].sum():.1%} of all" in table
    assert f"swapped {arrays['next_sentence_labels'].mean():.1%}" in table


@pytest.mark.integration
@pytest.mark.parametrize("name", ["static", "dynamic"])
def test_plots(made, tmp_path, name):
    picture = tmp_path / "new" / "data.png"
    run(made / f"{name}-*.tfrecord", num_examples=0, plot=str(picture))
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in picture.parent.iterdir()] == ["data.png"]


def test_ids_are_shown_without_a_vocabulary(made, tmp_path, capsys):
    path = tmp_path / "x.tfrecord"
    path.write_bytes((made / "static-a.tfrecord").read_bytes())
    manifest = json.loads((made / "static-a.manifest.json").read_text())
    manifest["settings"]["spm_model_file"] = "gone.model"
    manifest["files"] = {"x.tfrecord": 1}
    (tmp_path / "y.manifest.json").write_text(json.dumps(manifest))
    run(path, num_examples=1)
    shown = capsys.readouterr()
    assert shown.err.count("\n") == 1
    assert re.search(r"gone\.model, named in .*y\.manifest\.json, does not exist", shown.err)
    assert all(
        re.fullmatch(r"\d+|\[(\d+|MASK|KEPT)→\d+\]", p) for p in pieces_shown(shown.out[90:])
    )


@pytest.mark.integration
def test_invalid_input_is_one_line(made, tmp_path, model_file):
    def written(name: str, **arrays) -> pathlib.Path:
        with (tmp_path / name).open("wb") as file:
            write_records(file, {name: np.array([values]) for name, values in arrays.items()})
        return tmp_path / name

    good = made / "static-a.tfrecord"
    encoder = {"input_ids": [2, 9, 3], "input_mask": [1, 1, 1], "segment_ids": [0, 0, 0]}
    cut = tmp_path / "cut.tfrecord"
    cut.write_bytes(good.read_bytes()[:-5])
    text = tmp_path / "text.tfrecord"
    text.write_text("the cat sat on the mat\n" * 50)
    empty = tmp_path / "empty.tfrecord"
    empty.write_bytes(b"")
    masks = {"masked_lm_positions": [7], "masked_lm_ids": [1], "masked_lm_weights": [1.0]}
    beyond = written("e", **encoder | {"input_ids": [2, 5000, 3]})
    cases = [
        ((cut,), {"statistics": True}, r"cut\.tfrecord: example \d+ is damaged: it is truncated"),
        ((text,), {}, r"text\.tfrecord: .* is damaged: .*; is it a TFRecord file"),
        ((empty, empty), {}, r"empty\.tfrecord: contains no example, nor does any other"),
        ((), {}, "`input_file`: name at least one"),
        ((tmp_path / "none*",), {}, "`input_file`: no file matches"),
        ((good,), {"first": 100_000}, r"`first`=100000: the files contain only \d+ examples"),
        ((good,), {"num_examples": -1}, "`num_examples`=-1"),
        ((good,), {"plot": "a.jpg"}, r"`plot`=a\.jpg: must end in \.png"),
        ((good, made / "dynamic-a.tfrecord"), {}, "the features differ from those of "),
        ((good,), {"spm_model_file": "none.model"}, "`spm_model_file`=none.model: no such vocabul"),
        ((written("a", input_ids=[1], label_ids=[2]),), {}, "no feature 'input_mask', but "),
        ((written("b", **encoder | {"input_ids": [1]}),), {}, "have different lengths"),
        ((written("c", **encoder, **masks),), {}, "masked_lm_positions exceed the 3"),
        ((written("d", **encoder, masked_lm_ids=[1]),), {}, "are incomplete or differ in length"),
        (
            (beyond,),
            {"spm_model_file": str(model_file)},
            "has 1,000 pieces, but .* contain id 5000",
        ),
    ]
    for paths, flags, message in cases:
        with pytest.raises(InputError, match=message) as error:
            run(*paths, **flags)
        assert "\n" not in str(error.value)
