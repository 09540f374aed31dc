"""`--pack_rows`: the examples of an unpacked run, in rows that are full and mixed."""

import dataclasses
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf.errors import InputError
from albert_tf.input.features import most_examples, pretraining_features, row_features
from albert_tf.input.masking import derive_seeds
from albert_tf.input.rows import Places, unpacked
from data_prep import example_maker
from data_prep.create_pretraining_data import run
from data_prep.inspect import __main__ as inspect
from data_prep.inspect.examples import find_features
from data_prep.row_plan import plan_rows
from data_prep.tfrecords import read_examples, write_records
from tests.conftest import random_inputs
from tests.support.texts import create

pytestmark = pytest.mark.integration


def first_fit(lengths, predictions, capacities) -> int:
    """Return the number of rows if each example goes to the first row that has room."""
    left: list[list[int]] = []
    for needs in zip(lengths, predictions, np.ones_like(lengths), strict=True):
        for row in left:
            if all(room >= need for room, need in zip(row, needs, strict=True)):
                break
        else:
            left.append(row := list(capacities))
        row[:] = [room - need for room, need in zip(row, needs, strict=True)]
    return len(left)


def plan(lengths, predictions, capacities):
    seeds = derive_seeds(0, np.arange(len(lengths)))
    order, rows = plan_rows(np.array(lengths), np.array(predictions), capacities, seeds)
    assert sorted(order) == list(range(len(lengths)))
    assert (np.diff(rows) >= 0).all()
    assert set(rows) == set(range(len(set(rows))))
    needs = lengths, predictions, np.ones(len(rows))
    for values, capacity in zip(needs, capacities, strict=True):
        assert np.bincount(rows, np.array(values)[order]).max() <= capacity
    return order, rows


@random_inputs(100)
@given(
    examples=st.lists(st.tuples(st.integers(1, 32), st.integers(1, 6)), min_size=1, max_size=60),
    most=st.integers(1, 5),
)
def test_no_row_is_too_full(examples, most):
    lengths, predictions = zip(*examples, strict=True)
    plan(lengths, predictions, (32, 6, most))


@pytest.mark.parametrize("longest", [64, 30])
@pytest.mark.parametrize("predictions", [10, 7])
def test_rows_are_fuller_than_by_first_fit_and_their_order_is_random(longest, predictions):
    lengths = np.random.default_rng(0).integers(5, longest + 1, 1000)
    wanted = np.maximum(lengths * predictions // 64, 1)
    capacities = 64, predictions, 4
    order, rows = plan(lengths, wanted, capacities)
    count = rows[-1] + 1
    # Of short examples, more than fit by their number, it is as good, give or take a row.
    assert count <= first_fit(lengths, wanted, capacities) + (1 if longest < 64 else -10)
    assert longest < 64 or lengths.sum() / count / 64 > 0.96
    for values in (np.bincount(rows), np.bincount(rows, lengths[order])):
        assert abs(np.corrcoef(np.arange(count), values)[0, 1]) < 0.1


def as_multiset(examples) -> Counter:
    names = sorted(examples)
    return Counter(
        b"".join(np.float64(examples[name][row]).tobytes() for name in names)
        for row in range(len(examples["input_ids"]))
    )


@pytest.mark.parametrize(
    "flags",
    [
        {},
        {"do_permutation": True, "max_predictions_per_seq": 20},
        {"pair_objective": "nsp"},
        {"pair_objective": "none"},
        {"masking": "dynamic"},
    ],
    ids=lambda flags: "-".join(map(str, flags.values())),
)
def test_rows_have_the_examples_of_an_unpacked_run(options, monkeypatch, flags):
    monkeypatch.setattr(example_maker, "_EXAMPLES_PACKED_AT_ONCE", 50)
    options = dataclasses.replace(options, max_seq_length=64, num_processes=1, **flags)
    unpacked_manifest, expected = create(options)
    manifest, rows = create(dataclasses.replace(options, pack_rows=True))
    assert as_multiset(unpacked(rows)) == as_multiset(expected)
    assert Places.find(rows["example_ids"]).number.max() < most_examples(64)
    assert manifest["settings"]["pack_rows"] is True
    assert manifest["rows"] == len(rows["input_ids"]) == sum(manifest["files"].values())
    assert manifest["fill"] == (rows["example_ids"] > 0).mean() > 0.9
    assert manifest["padding_share"] == pytest.approx(1 - manifest["fill"])
    assert not {"rows", "fill"} & set(unpacked_manifest)
    same = ("examples", "masked_share", "positive_label_share", "truncated_tokens", "ngrams_masked")
    for name in same:
        assert manifest.get(name) == unpacked_manifest.get(name), name


def test_the_examples_of_a_small_corpus_share_rows(options, tmp_path):
    text = tmp_path / "short.txt"
    text.write_text("\n\n".join(["Rows are filled with short examples.\n" * 3] * 60))
    long = dataclasses.replace(options, input_file=(str(text),), max_seq_length=512, pack_rows=True)
    manifest, _ = create(dataclasses.replace(long, max_predictions_per_seq=77))
    assert manifest["fill"] > 0.8


def test_few_predictions_are_shared_by_the_examples_of_a_row(options, caplog):
    few = dataclasses.replace(options, max_predictions_per_seq=4, pack_rows=True)
    with caplog.at_level("INFO"):
        create(dataclasses.replace(few, masking="dynamic"))
    assert "`max_predictions_per_seq`=4 masks at most 6.2%" in caplog.text
    manifest, rows = create(few)
    assert 0.04 < manifest["masked_share"] < 4 / 64
    examples = unpacked(rows)
    shares = examples["masked_lm_weights"].sum(1) / examples["input_mask"].sum(1)
    assert (shares > 0).all()


@pytest.mark.parametrize(("packing", "least"), [("original", "two tokens"), ("fit", "four words")])
def test_text_without_pairs(options, tmp_path, packing, least):
    text = tmp_path / "short.txt"
    text.write_text("the\n\nand\n")
    short = dataclasses.replace(options, input_file=(str(text),), packing=packing)
    with pytest.raises(InputError, match=f"a single sentence of less than {least}, so there are"):
        create(short)


def test_the_command_and_inspect_show_rows(options, capsys):
    run(dataclasses.replace(options, pack_rows=True, num_processes=1))
    printed = capsys.readouterr().out
    path = options.output_file[0]
    rows = read_examples(path, row_features(64, 10))
    filled = (rows["example_ids"] > 0).mean()
    assert f" MB/s); {len(rows['input_ids']):,} rows, {filled:.1%} filled, masked" in printed
    assert f"train.tfrecord: {len(rows['input_ids']):,} rows\n" in printed

    examples, places = unpacked(rows), Places.find(rows["example_ids"])
    found = inspect.InspectOptions(input_file=(path,), first=3, num_examples=4, statistics=True)
    inspect.run(found)
    printed = capsys.readouterr().out
    for number in range(3, 7):
        masked = int(examples["masked_lm_weights"][number].sum())
        said = (
            f"example {number}: {places.length[number]} tokens, number {places.number[number]} of "
            f"row {places.row[number]}; {masked} masked; "
        )
        (shown,) = (block for block in printed.split("\n\n") if block.startswith(said))
        assert len(re.findall(r"\[\S*→", shown)) == masked
        assert shown.count("[CLS]") == 1
    assert f"{len(places.row):,} in {len(rows['input_ids']):,} rows of 1 file\n" in printed
    tokens, positions = places.length.sum(), rows["input_ids"].size
    assert f"{tokens:,} in {positions:,} positions; {filled:.1%} filled\n" in printed


def test_rows_of_other_features_are_reported(options, tmp_path):
    _, rows = create(dataclasses.replace(options, pack_rows=True))
    path = str(tmp_path / "rows.tfrecord")
    for changed in (
        {"cls_positions": rows["cls_positions"][:, 1:]},
        {"input_mask": rows["input_ids"]},
    ):
        with open(path, "wb") as file:
            write_records(file, rows | changed)
        with pytest.raises(InputError, match="not as create_pretraining_data --pack_rows writes"):
            find_features([path])
    _, examples = create(options)
    with open(path, "wb") as file:
        write_records(file, examples)
    assert find_features([path]) == pretraining_features(64, 10)
