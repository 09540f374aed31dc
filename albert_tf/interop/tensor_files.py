"""Files of named tensors in Hugging Face folders: safetensors, and pickles, which torch reads.

Reading a pickle can run any code. The weights-only loader of torch builds tensors and plain values
alone, and refuses the rest.
"""

import functools
import io
import os
import re
import zipfile
from collections.abc import Callable, Iterable
from typing import Any, TypedDict

import numpy as np

from albert_tf.errors import InputError
from albert_tf.files import exists, files_in, read_bytes, read_json
from albert_tf.hub.names import PICKLES, SAFETENSORS, TORCH_NEEDED

PICKLE_ENDINGS = (".bin", ".pt", ".pth")

_FLOATS = ("F16", "BF16", "F32", "F64")

# Name and shape of a tensor, and a reader by name.
_Named = tuple[str, tuple[int, ...], Callable[[str], np.ndarray]]


class _Index(TypedDict):
    weight_map: dict[str, str]


def find_files(path: str) -> list[str]:
    """Return the files of the weights at `path`, a folder or one of its files.

    Raises:
        InputError: If there are none, or the list of several is damaged.
    """
    if path.endswith((".safetensors", *PICKLE_ENDINGS)):
        return [path]
    for name in (*SAFETENSORS, *PICKLES):
        if exists(file := os.path.join(path, name)):
            return _listed(path, file) if name.endswith(".json") else [file]
    raise InputError(f"{path}: contains no {SAFETENSORS[0]} or {PICKLES[0]}")


def check_names(path: str) -> None:
    """Raise InputError if a folder's weights are only in files that nothing here reads."""
    patterns = ("*.safetensors", "*.bin", "tf_model.h5", "*.msgpack", "*.onnx", "*.gguf")
    others = [file for each in patterns for file in files_in(path, each)]
    if others and not files_in(path, "*.index"):  # of a checkpoint of TensorFlow
        readable = ", ".join((*SAFETENSORS, *PICKLES))
        raise InputError(f"`path`={path}: contains {others[0]}, and none of {readable}")


def _listed(folder: str, index: str) -> list[str]:
    if not (names := sorted(set(read_json(index, _Index)["weight_map"].values()))):
        raise InputError(f"{index}: weight_map names no file")
    for name in names:
        if not name or name != os.path.basename(name) or not name.isprintable():
            raise InputError(f"{index}: weight_map names {name!r}, not a file in this folder")
    return [os.path.join(folder, name) for name in names]


def open_tensors(file: str) -> Iterable[_Named]:
    """Return the name and shape of every tensor in a file, and a reader by name.

    Raises:
        InputError: If there is no such file, it is damaged or contains code, or is a pickle and
            there is no torch.
    """
    if not exists(file):
        raise InputError(f"{file}: no such file")
    read_bytes(file, end=64)  # refuses a pointer
    return (_open_pickle if file.endswith(PICKLE_ENDINGS) else _open_safetensors)(file)


def _open_safetensors(file: str) -> Iterable[_Named]:
    from safetensors import SafetensorError, deserialize, safe_open

    try:
        if "://" in file:
            views = dict(deserialize(read_bytes(file)))
            read = functools.partial(_remote_array, file, views)
            return [(name, tuple(view["shape"]), read) for name, view in views.items()]
        opened: Any = safe_open(file, framework="numpy")
        slices = {name: opened.get_slice(name) for name in opened.keys()}  # noqa: SIM118

        def read_local(name: str) -> np.ndarray:
            _check_dtype(file, name, slices[name].get_dtype())
            return opened.get_tensor(name)

        return [(name, tuple(each.get_shape()), read_local) for name, each in slices.items()]
    except SafetensorError as error:
        raise InputError(f"{file}: not a safetensors file ({error})") from None


def _check_dtype(file: str, name: str, dtype: str) -> None:
    """Check that a tensor that is read is no code of a quantized one."""
    if dtype not in _FLOATS:
        raise InputError(f"{file}: {name} is {dtype}: must be one of {', '.join(_FLOATS)}")


def _remote_array(file: str, views: dict[str, dict[str, Any]], name: str) -> np.ndarray:
    import ml_dtypes  # the library's own function for bytes has no bfloat16

    view = views[name]
    kind = view["dtype"]  # such as F32
    _check_dtype(file, name, kind)
    dtype = ml_dtypes.bfloat16 if kind == "BF16" else f"{kind[0].lower()}{int(kind[1:]) // 8}"
    return np.frombuffer(view["data"], dtype).reshape(view["shape"])


def _open_pickle(file: str) -> Iterable[_Named]:
    try:
        import torch

        has_loader = torch.__version__ >= "2.6"  # earlier loaders can be made to run code
    except ImportError:
        has_loader = False
    if not has_loader:
        raise InputError(f"{file}: {TORCH_NEEDED}")
    source: Any = io.BytesIO(read_bytes(file)) if "://" in file else file
    is_mapped = source is file and zipfile.is_zipfile(file)  # not those of early releases
    try:
        values = torch.load(source, map_location="cpu", weights_only=True, mmap=is_mapped)
    except Exception as error:  # of any type, since bytes of the file decide what is called
        raise InputError(f"{file}: {_refusal(error)}") from None
    found = values.items() if isinstance(values, dict) else ()
    tensors = {str(name): value for name, value in found if isinstance(value, torch.Tensor)}
    if not tensors:
        raise InputError(f"{file}: contains no tensors by name, as save_pretrained writes them")
    read = functools.partial(_array, file, tensors)
    return [(name, tuple(value.shape), read) for name, value in tensors.items()]


def _array(file: str, tensors: dict[str, Any], name: str) -> np.ndarray:
    value = tensors[name].detach()
    dtype = str(value.dtype).removeprefix("torch.")
    _check_dtype(file, name, dtype.upper().replace("FLOAT", "F"))  # BFLOAT16 is BF16
    return value.float().numpy()


def _refusal(error: Exception) -> str:
    text = str(error)
    if found := re.search(r"GLOBAL (\S+)", text):
        return (
            f"refused by torch's weights-only loader, as reading it would run code ({found[1]!r}); "
            "if you trust it, load it with torch.load(..., weights_only=False) and write its "
            "tensors with safetensors.torch.save_file"
        )
    lines = text.rpartition("WeightsUnpickler error:")[2].strip().splitlines()
    reason = lines[0] if lines else "it ends too early"
    return f"damaged, or not a file of torch.save ({type(error).__name__}: {reason})"
