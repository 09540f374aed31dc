"""Records read without TensorFlow: damage, memory, and files that do not fit."""

import io
import itertools
import struct

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.input.features import Feature, limited, pretraining_features
from albert_tf.input.record_index import RecordIndex, masked_crc
from albert_tf.input.record_reader import (
    check_files,
    iter_examples,
    iter_records,
    read_block,
    read_records,
)
from data_prep.tfrecords import frame
from data_prep.tfrecords import write_records as write
from tests.support.tiny import LENGTH, PREDICTIONS, VOCAB, batch

FEATURES = pretraining_features(LENGTH, PREDICTIONS)


@pytest.fixture
def numbered(tmp_path):
    """Return three files of records that contain their number, one of the files empty."""
    paths, begin = [], 0
    for count in (70, 0, 200):
        path = tmp_path / f"{count}.tfrecord"
        numbers = range(begin, begin + count)
        path.write_bytes(b"".join(frame(b"%d" % n + b" " * (n % 50)) for n in numbers))
        paths.append(str(path))
        begin += count
    return paths


def test_any_records_are_read(numbered):
    index = RecordIndex.create(numbered)
    numbers = np.random.default_rng(0).integers(0, 270, 400)
    assert list(map(int, read_records(index, numbers))) == numbers.tolist()
    assert read_records(index, numbers[:0]) == []
    in_order = itertools.chain.from_iterable(map(iter_records, numbered))
    assert list(map(int, in_order)) == list(range(270))


def one_line(problem: BaseException, path) -> str:
    assert "\n" not in str(problem)
    assert str(path) in str(problem)
    return str(problem)


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
            with pytest.raises(InputError) as error:
                read()
            problem = one_line(error.value, path)
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
        with pytest.raises(InputError, match="truncated") as error:
            read()
        one_line(error.value, path)


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
