"""Folders locked for one program, copies, identities and hashes of files, and JSON in them."""

import dataclasses
import errno
import fcntl
import hashlib
import math
import os
import pathlib
import re
import signal
import subprocess
import sys

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from albert_tf import files
from albert_tf.errors import InputError
from albert_tf.files import (
    Positive,
    compression,
    copy_file,
    expand_globs,
    file_identity,
    folder_of_one,
    make_folder,
    read_json,
    replacing,
    sha256_of,
    temporary_name,
    to_json,
    write_text,
)
from albert_tf.finetuning import streaming
from tests.conftest import random_inputs

HOLD = """
import sys
from albert_tf.files import folder_of_one
with folder_of_one(sys.argv[1], "output_dir"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_another_programs_until_it_dies(tmp_path):
    folder = str(tmp_path / "deep" / "out")
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, folder], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdout.readline() == b"held\n"
    message = f"^`output_dir`: another process is already writing to {folder}$"
    with pytest.raises(InputError, match=message), folder_of_one(folder, "output_dir"):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()
    with folder_of_one(folder, "output_dir"):
        (tmp_path / "deep" / "out" / "file").write_text("kept")
    with folder_of_one(folder, "output_dir"):
        pass
    assert os.listdir(folder) == ["file"]


def test_a_folder_in_which_nothing_began_is_removed(tmp_path):
    folder = tmp_path / "out"
    with pytest.raises(ZeroDivisionError), folder_of_one(str(folder), "output_dir"):
        raise ZeroDivisionError
    assert not folder.exists()


def test_where_there_are_no_locks_a_line_says_so(tmp_path, monkeypatch, capsys):
    def no_locks(descriptor, operation):
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", no_locks)
    with folder_of_one(str(tmp_path), "output_dir"):
        pass
    assert capsys.readouterr().err == (
        f"warning: {tmp_path} cannot be locked (No locks available); do not run a second program "
        "that writes to it\n"
    )


@pytest.mark.parametrize("links", [True, False])
def test_copies(tmp_path, monkeypatch, links):
    def no_links(source, target):
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))

    if not links:
        monkeypatch.setattr(os, "link", no_links)
    source, target = tmp_path / "source", tmp_path / "target"
    target.write_text("before")
    source.write_text("after")
    for _ in range(2):
        copy_file(str(source), str(target))
        assert target.read_text() == "after"
        assert sorted(os.listdir(tmp_path)) == ["source", "target"]


def test_a_pipe(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with pytest.raises(InputError, match=f"^`input_file`={path}: is a pipe or a device"):
        expand_globs([str(path)], "input_file")


def test_a_full_disk_names_the_file(tmp_path):
    path = str(tmp_path / "results.txt")

    def write():
        with replacing(path) as partial:
            pathlib.Path(partial).write_text("half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(OSError, match="No space left") as raised:
        write()
    assert raised.value.filename == path
    assert os.listdir(tmp_path) == []


def test_leftovers_of_the_dead_are_removed(tmp_path, monkeypatch):
    folder = tmp_path / "out"
    folder.mkdir()
    mine = pathlib.Path(temporary_name(str(folder / "export")))
    number = str(os.getpid())
    dead = folder / mine.name.replace(number, "4194305")  # above the largest that Linux gives
    other = folder / dead.name.replace("-4194305", "-x-4194305")  # of another machine
    for path in (mine, dead, other):
        path.mkdir()
    write_text(str(folder / "a.txt"), "")
    assert set(os.listdir(folder)) == {mine.name, other.name, "a.txt"}


def test_the_reason_of_an_error_of_tensorflow_is_the_line_that_tells_it():
    from albert_tf.errors import tensorflow_reason

    text = "Graph execution error:\n\nDetected at node Read defined at (most recent call last):\n"
    text += "<stack traces unavailable>\n{{function_node f}} disk is full [Op:Read] name: \n"
    assert tensorflow_reason(RuntimeError(text)) == "disk is full"
    assert tensorflow_reason(RuntimeError("")) == "RuntimeError"
    inside = "No kernel for 'Read' used by {{node x}} with these attrs: [N=2]\n\n [[x]] [Op:f]"
    assert tensorflow_reason(RuntimeError(inside)) == inside.splitlines()[0]


def test_the_identity_of_a_file_changes_with_its_content(tmp_path):
    path = tmp_path / "file"
    path.write_bytes(b"one")
    before = file_identity(str(path))
    assert before == file_identity(str(path))
    path.write_bytes(b"three")
    assert file_identity(str(path)) != before


def test_the_hash_of_a_file_is_that_of_its_content(tmp_path):
    content = bytes(range(256)) * 8192  # several blocks
    path = tmp_path / "file"
    path.write_bytes(content)
    assert sha256_of(str(path)) == hashlib.sha256(content).hexdigest()


@pytest.mark.parametrize("root", ["local", "remote"])
def test_a_name_that_exists_is_no_pattern(tmp_path, monkeypatch, root):
    folder = str(tmp_path)
    if root == "remote":
        memory = fsspec.filesystem("memory")
        monkeypatch.setattr(type(memory), "store", {})
        monkeypatch.setattr(type(memory), "pseudo_dirs", [""])
        folder = "memory://folder"
    names = ["d/e/f/y.txt", "d/y.txt", "d/.h/y.txt", "d/e/.y.txt", "z[1]/a.txt", "z1/b.txt"]
    names += ["x[1].txt", "x1.txt", "a,b.txt", "c, d,e.txt", "what?.txt", "whats.txt", "*.txt"]
    for name in names:
        if root == "local":
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).touch()
        else:
            memory.pipe(f"{folder}/{name}", b"x")

    def found(text):
        # As flags split lists.
        patterns = [f"{folder}/{part}" if n == 0 else part for n, part in enumerate(text)]
        return [path.removeprefix(f"{folder}/") for path in expand_globs(patterns, "input_file")]

    assert found(["x[1].txt"]) == ["x[1].txt"]
    assert found(["z[1]/*.txt"]) == ["z[1]/a.txt"]
    assert found(["z[0-9]/*.txt"]) == ["z1/b.txt"]
    assert found(["**/y.txt"]) == found(["d/**/*.txt"]) == found(["d/**"])
    if root == "local":
        (tmp_path / "d" / "e" / "up").symlink_to("..")
    assert found(["d/**"]) == ["d/e/f/y.txt", "d/y.txt"]
    assert found(["d/.h/*"]) == ["d/.h/y.txt"]
    assert found(["what?.txt"]) == ["what?.txt"]
    assert found(["*.txt"]) == ["*.txt"]
    assert found(["x[0-9].txt"]) == ["x1.txt"]
    assert found(["x*.txt"]) == ["x1.txt", "x[1].txt"]
    assert found(["a", "b.txt"]) == ["a,b.txt"]
    assert found(["c", "d,e.txt"]) == ["c, d,e.txt"]
    # Within a list.
    assert found(["a", "b.txt", f"{folder}/x1.txt"]) == ["a,b.txt", "x1.txt"]
    assert found(["x1.txt", f"{folder}/a", "b.txt"]) == ["a,b.txt", "x1.txt"]
    with pytest.raises(InputError, match=r"`input_file`: no file matches '.*/a'"):
        found(["a", "c.txt", f"{folder}/x1.txt"])
    with pytest.raises(InputError, match=r"no file matches '.*/y\[1\]\.txt'"):
        found(["y[1].txt"])


@pytest.mark.parametrize("name", ["a[1]", "a*", "b?/c"])
def test_names_of_folders_are_no_patterns(tmp_path, name):
    folder = str(tmp_path / name)
    make_folder(folder, "output_dir")
    for file in ("x.txt", "y.tsv", ".x.txt"):
        files.write_text(f"{folder}/{file}", "")
    make_folder(str(tmp_path / "a1"), "output_dir")
    assert files.files_in(folder, "*.txt") == [f"{folder}/x.txt"]
    assert files.files_in(folder, ".x*") == [f"{folder}/.x.txt"]
    assert files.files_in(f"{folder}/x.txt", "*") == files.files_in(f"{folder}/none", "*") == []


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        *(("./out", "out"), ("out//", "out"), ("a/../out", "out"), (".", "."), ("", "")),
        *(("../out/", "../out"), ("/a/./b//", "/a/b"), ("/", "/"), ("~/x", "/home/me/x")),
        *(("link/../out", "real/out"), ("x/../../y", "../y"), ("none/../out", "out")),
        *(("a[1]/../*.txt", "a[1]/../*.txt"), ("x/**/*.txt", "x/**/*.txt"), ("-", "-")),
        *(
            ("gs://b/out/", "gs://b/out"),
            ("gs://b//a/./x/../y", "gs://b/a/y"),
            ("gs://b", "gs://b"),
        ),
        *(("https://h/a//b/", "https://h/a//b/"), ("zip://a//b::gs://c", "zip://a//b::gs://c")),
        (pathlib.Path("a/b"), "a/b"),
    ],
)
def test_a_path_has_one_spelling(tmp_path, monkeypatch, path, expected):
    (tmp_path / "real" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("real/deep")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/me")
    assert files.normalized(path) == expected


@pytest.mark.parametrize(
    ("path", "module", "package"),
    [
        ("hf://datasets/a/b/c.txt", "huggingface_hub", "huggingface_hub"),
        ("https://a/b.txt", "fsspec", "fsspec[http]"),
    ],
)
def test_packages_that_are_missing_are_named(path, module, package, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(InputError, match=re.escape(f"pip install '{package}'")):
        files.exists(path)


def test_a_server_that_is_lost_is_not_invalid_input(monkeypatch):
    """After invalid input, unfinished work is removed."""

    def lost(path):
        raise RuntimeError("no connection")

    monkeypatch.setattr(fsspec.core, "url_to_fs", lost)
    for read in (files.exists, files.matches, files.size, files.open_file):
        with pytest.raises(OSError, match="memory://a/b: no connection"):
            read("memory://a/b")


@random_inputs(100)
@given(
    content=st.lists(st.sampled_from([*"ab \r\n\x0b\x85\u2028\u00e9", "\r\n"]), max_size=40),
    size=st.sampled_from([4, 5, 8192]),
)
def test_lines_end_where_pythons_universal_newlines_end_them(tmp_path_factory, content, size):
    path = tmp_path_factory.mktemp("lines") / "a.txt"
    path.write_bytes("".join(content).encode())
    expected = path.read_text("utf-8").removesuffix("\n").split("\n") if content else []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compression, "_LINES_BYTES", size)
        assert list(files.read_lines(str(path))) == expected
    read = os.read
    for read_size in (1, 2, 65536):  # of standard input, whose blocks end anywhere
        with path.open("rb") as file, pytest.MonkeyPatch.context() as patch:
            patch.setattr(streaming.os, "read", lambda fd, _, n=read_size: read(fd, n))
            batches = streaming.available_batches(file, 2)
            assert [line for batch in batches for line in batch] == expected


def test_a_batch_has_the_lines_that_have_arrived():
    source, sink = os.pipe()
    with open(source) as file:
        batches = streaming.available_batches(file, 2)
        os.write(sink, b"a\nb\nc\npar")
        assert [next(batches), next(batches)] == [["a", "b"], ["c"]]
        os.write(sink, b"t\nd\n\xff\n")
        os.close(sink)
        assert next(batches) == ["part", "d"]
        with pytest.raises(InputError, match="line 6 of standard input is not UTF-8"):
            next(batches)


def test_names_that_are_not_utf_8_are_refused(tmp_path):
    path = os.fsdecode(bytes(tmp_path) + b"/caf\xe9.txt")
    pathlib.Path(path).touch()
    for find, pattern in (
        (files.normalized, path),
        (lambda pattern: files.expand_globs([pattern]), f"{tmp_path}/*"),
        (files.files_below, str(tmp_path)),
    ):
        with pytest.raises(InputError, match=r"caf\\udce9.txt': the name of a file must be UTF-8"):
            find(pattern)
    process = subprocess.run(
        [sys.executable, "-c", "from albert_tf.files import normalized; normalized('\\xe9')"],
        env=os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
        capture_output=True, text=True,
    )  # fmt: skip
    assert process.stderr.splitlines()[-1] == (
        r"albert_tf.errors.InputError: '\xe9': Python takes names of files for ASCII; set "
        "PYTHONUTF8=1 before it starts"
    )


@dataclasses.dataclass(frozen=True)
class Form:
    """What the tests read."""

    size: Positive
    rates: list[float] = dataclasses.field(default_factory=list)
    name: str | None = None


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"\xff", r"not UTF-8 \(invalid start byte, byte 0xff at 0\)"),
        (b"{", r"not JSON \(Expecting property name.*"),
        (b"[" * 100_000 + b"]" * 100_000, r"not usable JSON \(nested too deeply\)"),
        (b'{"size": 1, "name": "\\ud800"}', r"contains \\ud800, half of a surrogate pair"),
        (b"[1]", "must be object, not array"),
        (b"{}", "lacks 'size'"),
        (b'{"size": "x"}', 'size="x": must be int, not str'),
        (b'{"size": true}', "size=true: must be int, not bool"),
        (b'{"size": 0}', "size=0: must be int >= 1"),
        (b'{"size": 1' + b"0" * 400 + b"}", r"size=10+\.\.\.: .*"),
        (b'{"size": 1, "rates": [1, null]}', r"rates\[1\]=null: must be float, not null"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, content, reason):
    path = tmp_path / "state.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=f"^{path}: {reason}$"):
        read_json(str(path), Form)


def test_a_form_need_not_declare_everything(tmp_path):
    path = tmp_path / "state.json"
    path.write_bytes(b'\xef\xbb\xbf{"size": 3, "rates": [1, NaN, Infinity], "more": [{}]}')
    found = read_json(str(path), Form)
    assert (found.size, found.name) == (3, None)
    assert found.rates[::2] == [1.0, math.inf]
    assert math.isnan(found.rates[1])
    with pytest.raises(InputError, match=r"none\.json: no such file"):
        read_json(str(tmp_path / "none.json"), Form)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_json_lacks_become_null(value):
    written = to_json({"a": [value, (value, 1.5)], "b": {"c": value}, "d": "NaN"})
    assert written == '{"a": [null, [null, 1.5]], "b": {"c": null}, "d": "NaN"}'
