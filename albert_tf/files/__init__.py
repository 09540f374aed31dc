"""Local and remote files: globs, UTF-8 text, JSON, digests, and atomic writes.

Files like `gs://bucket/file` are read and written through TensorFlow, or through fsspec in a
process that runs on JAX. Others are read through fsspec (`hf://datasets/org/name/file`,
`s3://bucket/file`, `https://host/file`, ...).
"""

from albert_tf.files.durability import remove_leftovers, sync, sync_names, temporary_name
from albert_tf.files.json_files import Natural, Positive, converted, parse_json, read_json, shown
from albert_tf.files.reading import (
    exists,
    expand_globs,
    file_identity,
    is_folder,
    matches,
    names_in,
    open_file,
    read_lines,
    read_text,
    sha256_of,
    size,
    sizes,
)
from albert_tf.files.servers import is_read_only, is_remote, published_checksum
from albert_tf.files.writing import (
    check_name,
    check_outputs,
    copy_file,
    folder_of_one,
    lock_folder,
    make_folder,
    remove,
    rename,
    replacing,
    write_bytes,
    write_text,
)

__all__ = [
    "Natural",
    "Positive",
    "check_name",
    "check_outputs",
    "converted",
    "copy_file",
    "exists",
    "expand_globs",
    "file_identity",
    "folder_of_one",
    "is_folder",
    "is_read_only",
    "is_remote",
    "lock_folder",
    "make_folder",
    "matches",
    "names_in",
    "open_file",
    "parse_json",
    "published_checksum",
    "read_json",
    "read_lines",
    "read_text",
    "remove",
    "remove_leftovers",
    "rename",
    "replacing",
    "sha256_of",
    "shown",
    "size",
    "sizes",
    "sync",
    "sync_names",
    "temporary_name",
    "write_bytes",
    "write_text",
]
