"""Files of tensors: pickles by torch's weights-only loader, which no code of theirs gets past."""

import os
import shutil
import sys
import types

import ml_dtypes
import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import albert_tf
from albert_tf.errors import InputError
from albert_tf.interop.loading import open_weights
from tests.conftest import GOLDEN
from tests.support.layouts import rewrite_weights

torch = pytest.importorskip("torch")
EARLY = {"_use_new_zipfile_serialization": False}


@pytest.fixture
def folder(tmp_path):
    return shutil.copytree(GOLDEN / "hf_bert_pretraining", tmp_path / "folder")


@pytest.mark.parametrize(
    ("place", "name", "dtype", "options"),
    [
        ("{}", "model.safetensors", np.float16, {}),
        ("{}", "model.safetensors", ml_dtypes.bfloat16, {"parts": 2}),
        ("file://{}", "model.safetensors", ml_dtypes.bfloat16, {}),
        ("{}", "pytorch_model.bin", np.float32, {}),
        ("{}", "pytorch_model.bin", ml_dtypes.bfloat16, {"parts": 2}),
        ("file://{}", "pytorch_model.bin", np.float16, {}),
        ("{}/best.pt", "best.pt", ml_dtypes.bfloat16, EARLY),
        ("file://{}/best.pth", "best.pth", np.float32, EARLY),
    ],
)
def test_tensors_of_all_types_become_float32(folder, place, name, dtype, options):
    before = open_weights(str(folder))
    values = {path: before.read(path).astype(dtype).astype("f4") for path in before.tensors}
    rewrite_weights(folder, name, dtype=dtype, **options)
    weights = open_weights(place.format(folder))
    assert (weights.format, set(weights.tensors)) == ("huggingface", set(values))
    for path, value in values.items():
        np.testing.assert_array_equal(weights.read(path), value, strict=True)
    for part in sorted(folder.glob("*-of-*"))[:1]:
        part.unlink()
        with pytest.raises(InputError, match=f"{part.name}: no such file"):
            open_weights(str(folder))


@pytest.mark.parametrize(
    ("place", "name"),
    [("{}", "model.safetensors"), ("file://{}", "model.safetensors"), ("{}", "pytorch_model.bin")],
)
def test_codes_of_quantized_weights_are_refused(folder, place, name):
    rewrite_weights(folder, name, dtype=np.int8)
    weights = open_weights(place.format(folder))
    with pytest.raises(InputError, match=rf"{name}: .* is I(NT)?8: must be one of F16, BF16"):
        weights.read(next(iter(weights.tensors)))


def test_files_that_are_not_the_weights_are_named(folder, caplog):
    albert_tf.AlbertForSequenceClassification.from_preset(GOLDEN / "hf_bert_seqcls")
    tensors = load_file(folder / "model.safetensors")
    extra = "bert.encoder.layer.0.attention.self.distance_embedding.weight"
    save_file(tensors | {extra: np.ones((3, 2), "f4")}, folder / "model.safetensors")
    albert_tf.from_preset(folder)
    assert f"1 weight not used, unknown in an ALBERT or BERT: {extra}" in caplog.text
    with pytest.raises(InputError, match="`num_labels`: required, since the weights have no such"):
        albert_tf.AlbertForSequenceClassification.from_preset(folder)
    with pytest.raises(InputError, match="`num_labels`=0: must be at least 1"):
        albert_tf.AlbertForSequenceClassification.from_preset(folder, num_labels=0)
    name = next(iter(tensors))
    broken = tensors | {name: np.full_like(tensors[name], np.nan)}
    save_file(broken, folder / "model.safetensors")
    with pytest.raises(InputError, match=r": bert/.* contains NaN or infinity"):
        albert_tf.from_preset(folder)
    (folder / "model.safetensors").write_text("version https://git-lfs.github.com/spec/v1\n")
    with pytest.raises(InputError, match="model.safetensors: a pointer of Git LFS"):
        albert_tf.from_preset(folder)
    (folder / "model.safetensors").rename(folder / "adapter_model.safetensors")
    with pytest.raises(InputError, match=r"contains .*adapter_model.safetensors, and none of"):
        albert_tf.from_preset(folder)


class Code:
    """What runs when it is unpickled."""

    def __reduce__(self):
        return os.mkdir, ("made",)


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ({"a": Code()}, {}, r"reading it would run code \('posix.mkdir'\); if you trust it"),
        ({"a": Code()}, EARLY, r"reading it would run code \('posix.mkdir'\)"),
        ({"state_dict": {"a": torch.zeros(2)}}, {}, "contains no tensors by name"),
        ("version https://git-lfs.github.com/spec/v1\n", None, "a pointer of Git LFS"),
    ],
)
def test_other_pickles_are_refused_in_one_line(folder, monkeypatch, content, options, message):
    monkeypatch.chdir(folder)
    file = folder / "a.bin"
    file.write_text(content) if options is None else torch.save(content, file, **options)
    with pytest.raises(InputError, match=f"/a.bin: .*{message}") as error:
        open_weights(str(file))
    assert len(str(error.value).splitlines()) == 1
    assert not (folder / "made").exists()


OLD = types.SimpleNamespace(__version__=type(torch.__version__)("2.5.1"))


@pytest.mark.parametrize("installed", [None, OLD])
def test_pickles_need_a_torch_without_known_holes(folder, monkeypatch, installed):
    rewrite_weights(folder, "pytorch_model.bin")
    monkeypatch.setitem(sys.modules, "torch", installed)
    with pytest.raises(InputError, match=r"pytorch_model.bin: a pickle, .*pip install 'torch>="):
        open_weights(str(folder))
