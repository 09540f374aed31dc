"""Manifests are found by the files they list, and checked against options."""

import copy
import json
import pathlib

import numpy as np
import pytest

from albert_tf.errors import InputError
from albert_tf.input.manifest import (
    check_manifests,
    dynamic_masks,
    find_manifests,
    manifest_file,
    packed_rows,
    pair_objective,
    read_manifest,
    record_files,
)

MANIFEST = {
    "settings": {
        "max_seq_length": 64,
        "max_predictions_per_seq": 10,
        "masked_lm_prob": 0.15,
        "ngram": 3,
        "favor_shorter_ngram": True,
        "do_permutation": False,
        "do_whole_word_mask": True,
        "masking": "static",
        "pair_objective": "sop",
    },
    "vocabulary": {"special_ids": [2, 3], "mask_id": 4, "replacement_ids": [[5, 8], [9, 12]]},
    "vocab_size": 1000,
    "files": {"a-00000-of-00002": 3, "a-00001-of-00002": 4},
}


def changed(**settings) -> dict:
    manifest = copy.deepcopy(MANIFEST)
    manifest["settings"].update(settings)
    return manifest


@pytest.mark.parametrize(
    ("output", "manifest"),
    [
        ("d/train.tfrecord", "d/train.manifest.json"),
        ("d/train.tfrecord-00003-of-00008", "d/train.manifest.json"),
        ("d/train-00003-of-00008", "d/train.manifest.json"),
        ("gs://b/train.v2.tfrecord", "gs://b/train.v2.manifest.json"),
    ],
)
def test_names(output, manifest):
    assert manifest_file(output) == manifest


def test_only_manifests_that_list_a_file_are_found(tmp_path):
    (tmp_path / "a.manifest.json").write_text(json.dumps(MANIFEST))
    (tmp_path / "b.manifest.json").write_text(json.dumps(MANIFEST | {"files": {"b": 1}}))
    found = find_manifests([str(tmp_path / "a-00001-of-00002"), str(tmp_path / "c")])
    assert found == {str(tmp_path / "a.manifest.json"): MANIFEST}
    assert find_manifests([str(tmp_path / "c")]) == {}
    # The manifest of an extracted corpus, or a damaged one of other files, is ignored.
    (tmp_path / "corpus.manifest.json").write_text('{"documents": 3}')
    assert list(find_manifests([str(tmp_path / "b")])) == [str(tmp_path / "b.manifest.json")]
    with pytest.raises(InputError, match=r"corpus\.manifest\.json: not a manifest"):
        find_manifests([str(tmp_path / "corpus.tfrecord")])


@pytest.mark.parametrize("content", ["", "{", "[]", '{"settings": {}}'])
def test_a_file_that_is_not_a_manifest_is_reported(tmp_path, content):
    (tmp_path / "a.manifest.json").write_text(content)
    with pytest.raises(InputError, match=r"a\.manifest\.json: not a manifest"):
        read_manifest(str(tmp_path / "a.manifest.json"))


def test_mismatches_are_reported():
    manifests = {"a.manifest.json": MANIFEST}
    check_manifests(manifests, 64, 10, 1000)
    for arguments, message in (
        ((128, 10, 1000), r"`max_seq_length`=128: .* with 64 \(a\.manifest\.json\)"),
        ((64, 20, 1000), r"`max_predictions_per_seq`=20: .* with 10 \(a\.manifest"),
        ((64, 10, 999), r"a\.manifest\.json: .* of 1000 pieces, but .* only 999"),
    ):
        with pytest.raises(InputError, match=message):
            check_manifests(manifests, *arguments)
    # With dynamic masks, the number of predictions is an option of training.
    check_manifests({"a": changed(masking="dynamic")}, 64, 20, 1000)


def test_dynamic_masks_take_their_settings_from_the_manifest():
    assert dynamic_masks({}, 20) is None
    assert dynamic_masks({"a": MANIFEST}, 20) is None
    masks = dynamic_masks({"a": changed(masking="dynamic", ngram=2)}, 20)
    assert masks.masking.ngram == 2
    assert masks.masking.max_predictions == 20
    assert masks.special_ids == (2, 3)
    assert masks.mask_id == 4
    assert masks.replacement_ids.tolist() == [5, 6, 7, 9, 10, 11]
    assert masks.replacement_ids.dtype == np.int32
    assert not masks.swap_segments
    new = {**changed(masking="dynamic"), "swapped_in_training": True}
    assert dynamic_masks({"a": new}, 20).swap_segments


def test_files_that_do_not_match_are_reported():
    dynamic = changed(masking="dynamic")
    with pytest.raises(InputError, match=r"b: has masking=static"):
        dynamic_masks({"a": dynamic, "b": MANIFEST}, 10)
    with pytest.raises(InputError, match=r"b: has another vocabulary or"):
        dynamic_masks({"a": dynamic, "b": changed(masking="dynamic", ngram=1)}, 10)
    with pytest.raises(InputError, match=r"b: was made before or after training began to draw"):
        dynamic_masks({"a": dynamic, "b": {**dynamic, "swapped_in_training": True}}, 10)
    with pytest.raises(InputError, match=r"the files have different pair objectives: "):
        pair_objective({"a": MANIFEST, "b": changed(pair_objective="nsp")})
    assert pair_objective({}) == pair_objective({"a": MANIFEST}) == "sop"
    assert pair_objective({"a": changed(pair_objective="none")}) == "none"


def test_globs_for_records_pass_over_what_is_written_next_to_them(tmp_path):
    records = [f"{tmp_path}/train.tfrecord-{number:05d}-of-00002" for number in range(2)]
    for path in (*records, f"{tmp_path}/train.manifest.json", f"{tmp_path}/train.index.json"):
        pathlib.Path(path).touch()
    assert record_files([f"{tmp_path}/train*"], "input_file") == records
    assert record_files([f"{tmp_path}/*"], "input_file") == records
    with pytest.raises(InputError, match="`input_file`: no file matches"):
        record_files([f"{tmp_path}/*.json"], "input_file")
    named = [f"{tmp_path}/train.index.json"]
    assert record_files(named, "input_file") == named


def test_files_of_rows():
    """Averages are over all files; files of both kinds are refused, whether or not one is known."""
    counts = {"examples": 30, "rows": 7, "padding_share": 0.125}
    first = changed(pack_rows=True) | counts
    second = first | {"examples": 10, "rows": 3, "padding_share": 0.0, "files": {"b": 3}}
    both = {"d/a.manifest.json": first, "e/b.manifest.json": second}
    found = packed_rows(both, ["d/a-00000-of-00002", "e/b"])
    assert found == pytest.approx((4, 64 * (7 * 0.875 + 3) / 10))
    assert packed_rows({"d/a.manifest.json": MANIFEST}, ["d/a-00000-of-00002", "d/c"]) is None
    unpacked = {"d/a.manifest.json": MANIFEST, "e/b.manifest.json": second}
    for manifests, other in ((unpacked, "d/a-00000-of-00002"), (both, "d/c")):
        with pytest.raises(InputError, match=rf"^{other}: has no manifest .*--pack_rows, but"):
            packed_rows(manifests, ["e/b", other])
