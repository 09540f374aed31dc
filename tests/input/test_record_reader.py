"""Records, where they are, and how they are read: damage, memory, files that do not fit."""

import io
import itertools
import json
import os
import struct

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.input import record_index
from albert_tf.input.features import Feature, limited, pretraining_features
from albert_tf.input.record_index import (
    BLOCK,
    RecordIndex,
    find_indexes,
    fingerprint,
    index_file,
    index_records,
    masked_crc,
    write_indexes,
)
from albert_tf.input.record_reader import (
    check_files,
    iter_examples,
    iter_records,
    read_block,
    read_records,
)
from data_prep.tfrecords import frame
from data_prep.tfrecords import write_records as write
from tests.conftest import refusal
from tests.support.batches import write_numbers
from tests.support.tiny import LENGTH, PREDICTIONS, VOCAB, batch

FEATURES = pretraining_features(LENGTH, PREDICTIONS)


def test_any_records_are_read(tmp_path):
    parts = (range(70), range(0), range(70, 270))
    paths = [write_numbers(tmp_path / f"{len(part)}.tfrecord", part) for part in parts]
    index = RecordIndex.create(paths)
    numbers = np.random.default_rng(0).integers(0, 270, 400)
    assert list(map(int, read_records(index, numbers))) == numbers.tolist()
    assert read_records(index, numbers[:0]) == []
    in_order = itertools.chain.from_iterable(map(iter_records, paths))
    assert list(map(int, in_order)) == list(range(270))


@pytest.mark.integration
@pytest.mark.parametrize("change", [1, 0x80, 0xFF])
def test_no_damaged_byte_gets_through(tmp_path, change):
    path, features = tmp_path / "a.tfrecord", {"ids": Feature((4,), "int64")}
    written = io.BytesIO()
    write(written, {"ids": 200 + 90 * np.arange(12).reshape(3, 4)})
    whole = written.getvalue()
    path.write_bytes(whole)
    index = RecordIndex.create([str(path)])
    for place in range(len(whole)):
        content = bytearray(whole)
        content[place] ^= change
        path.write_bytes(content)
        for read in (
            lambda: list(iter_examples(str(path), features)),
            lambda: read_block(RecordIndex.create([str(path)]), 0),
            lambda: read_block(index, 0),  # with an index that was written before the damage
        ):
            problem = refusal(read)
            assert str(path) in problem
        number = place // (len(whole) // 3)
        assert problem == f"{path}: example {number} is damaged: its checksum is wrong"


@pytest.mark.parametrize("end", [1, 11, 12, 40, -1])
def test_truncated_files_are_named(tmp_path, end):
    path = tmp_path / "a.tfrecord"
    with open(path, "wb") as file:
        write(file, batch(3))
    index = RecordIndex.create([str(path)])
    path.write_bytes(path.read_bytes()[:end])
    number = 2 if end < 0 else 0
    for read in (lambda: list(iter_records(str(path))), lambda: read_block(index, 0)):
        with pytest.raises(InputError, match=rf"a.tfrecord: example {number} is damaged: it is tr"):
            read()


def test_a_length_beyond_the_file_takes_no_memory(tmp_path):
    path = tmp_path / "a.tfrecord"
    header = struct.pack("<Q", 2**60)
    path.write_bytes(header + masked_crc(header) + bytes(100))
    block = RecordIndex((str(path),), *(np.array([n]) for n in (0, 0, 112, 1)))
    for read in (
        lambda: list(iter_records(str(path))),
        lambda: read_block(block, 0),
        lambda: RecordIndex.create([str(path)]),
        lambda: check_files([str(path)], FEATURES),
    ):
        problem = refusal(read)
        assert "truncated" in problem
        assert str(path) in problem


def test_files_that_do_not_fit_are_named(tmp_path):
    files = [str(tmp_path / f"{count}.tfrecord") for count in (7, 10)]
    for path in files:
        with open(path, "wb") as file:
            write(file, batch(7))
    check_files(files, limited(FEATURES, VOCAB, 2))
    with pytest.raises(InputError, match=r"7.tfrecord: .*`max_seq_length` must be 16"):
        check_files(files, pretraining_features(32, PREDICTIONS))
    with pytest.raises(InputError, match=r"`max_predictions_per_seq` must be 4"):
        check_files(files, pretraining_features(LENGTH, 5))
    with pytest.raises(InputError, match=r"7.tfrecord: token id \d+ is beyond the vocab_size 40"):
        check_files(files, limited(FEATURES, 40, 2))
    with pytest.raises(InputError, match=r"no values of masked_lm_other.*need their manifest"):
        check_files(files, FEATURES | {"masked_lm_other": Feature((1,), "int64")})
    damaged = tmp_path / "damaged.tfrecord"
    damaged.write_bytes(b"certainly not a record" * 10)
    with pytest.raises(InputError, match=r"damaged.tfrecord: not a readable TFRecord"):
        check_files([str(damaged)], FEATURES)
    with pytest.raises(InputError, match=r"none.tfrecord: not a readable .*no such file"):
        check_files([str(tmp_path / "none.tfrecord")], FEATURES)


@pytest.fixture
def lengths():
    return np.random.default_rng(1).integers(0, 300, 3 * BLOCK + 5).tolist()


@pytest.fixture
def records(tmp_path, lengths):
    path = tmp_path / "x.tfrecord-00000-of-00001"
    path.write_bytes(b"".join(frame(bytes(length)) for length in lengths))
    return path


@pytest.fixture
def found(monkeypatch) -> list[str]:
    """Return the files that are read for want of an index."""
    found, index = [], record_index.index_records
    monkeypatch.setattr(
        record_index, "index_records", lambda path: found.append(path) or index(path)
    )
    return found


def test_blocks_are_found_in_pieces_of_any_size(records, lengths, monkeypatch):
    begins = np.cumsum([0, *(16 + length for length in lengths)])
    expected = {
        "bytes": records.stat().st_size,
        "examples": len(lengths),
        "offsets": begins[:-1:BLOCK].tolist(),
    }
    for chunk in (16, 100, 4096, 1 << 24):
        monkeypatch.setattr(record_index, "_CHUNK_BYTES", chunk)
        assert index_records(str(records)) == expected
    index = RecordIndex.create([str(records)] * 2)
    assert index.records.tolist() == [BLOCK, BLOCK, BLOCK, 5] * 2
    assert index.file.tolist() == [0] * 4 + [1] * 4
    assert (index.offset + index.bytes).tolist() == [*expected["offsets"][1:], begins[-1]] * 2
    assert index.examples == 2 * len(lengths)


@pytest.mark.parametrize("counts", list(itertools.product((0, 1, BLOCK + 1), repeat=3)))
def test_records_are_named_among_files_of_any_length(tmp_path, counts):
    paths = [str(tmp_path / str(number)) for number in range(len(counts))]
    for path, count in zip(paths, counts, strict=True):
        with open(path, "wb") as file:
            file.write(frame(b"record") * count)
    if not any(counts):
        with pytest.raises(InputError, match=f"^{paths[0]}: contains no example"):
            RecordIndex.create(paths)
        return
    index = RecordIndex.create(paths)
    names = [
        f"{path}: example {n}" for path, c in zip(paths, counts, strict=True) for n in range(c)
    ]
    assert list(map(index.name_of, range(index.examples))) == names


def test_what_was_written_down_is_used_as_long_as_it_fits(records, found):
    expected = find_indexes([str(records)])
    write_indexes([str(records)], expected)
    sidecar = index_file(str(records))
    assert sidecar == str(records.with_name("x.index.json"))
    found.clear()
    assert find_indexes([str(records)]) == expected
    assert not found
    with open(sidecar) as file:
        whole = json.load(file)
    entry = whole["files"][records.name]
    for damaged in (
        "{",
        "[]",
        json.dumps(whole | {"files": [1]}),
        json.dumps(whole | {"block": 32}),
        json.dumps(whole | {"files": {records.name: entry | {"offsets": [0, 5, 3, 9]}}}),
        json.dumps(whole | {"files": {records.name: entry | {"examples": 10**6}}}),
    ):
        with open(sidecar, "w") as file:
            file.write(damaged)
        assert find_indexes([str(records)]) == expected
    assert len(found) == 6
    write_indexes([str(records)], expected)
    with open(records, "ab") as file:  # replaced by another file since
        file.write(frame(b"one more"))
    find_indexes([str(records)])
    assert len(found) == 7


def test_an_index_that_was_not_checked_is_not_believed(records, found, caplog):
    path = str(records)
    expected = find_indexes([path])
    write_indexes([path], expected)
    assert find_indexes([path], {}) == expected
    assert not caplog.records
    checked = {path: fingerprint(path, expected[0])}
    found.clear()
    assert find_indexes([path], checked) == expected
    assert not found
    # An index with other positions, another file of the same size, and a check of another file.
    wrong = [{**expected[0], "offsets": [n + (n > 0) for n in expected[0]["offsets"]]}]
    write_indexes([path], wrong)
    assert find_indexes([path], checked) == expected
    assert caplog.messages == [f"{path}: {index_file(path)} is wrong about it and is not used"]
    write_indexes([path], expected)
    assert find_indexes([path], {"other": checked[path]}) == expected
    os.utime(path, ns=(0, 0))
    assert find_indexes([path], checked) == expected
    assert len(found) == 3


def test_other_files_are_refused(records):
    content = records.read_bytes()
    for other in (content[:-1], content + b"\0", b"No TFRecord file, but long enough for one."):
        records.write_bytes(other)
        with pytest.raises(InputError, match=f"{records}: truncated, or not a TFRecord file"):
            index_records(str(records))
