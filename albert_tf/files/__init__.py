"""Local and remote files: globs, text, compressed files, JSON, tables, digests, durable writes.

Paths are local, or addresses that fsspec knows: `gs://bucket/file`, `s3://bucket/file`, and, to be
read only, `hf://datasets/org/name/file` and `https://host/file`.
"""

from albert_tf.files.compression import (
    COMPRESSED_ENDINGS,
    check_utf8,
    located_lines,
    not_utf8,
    open_decompressed,
    open_lines,
    read_lines,
    split_compression,
)
from albert_tf.files.json_files import (
    Natural,
    Positive,
    check_unicode,
    converted,
    parse_json,
    read_json,
    shown,
    to_json,
)
from albert_tf.files.reading import (
    checksums,
    exists,
    expand_globs,
    file_identity,
    files_below,
    files_in,
    info_of,
    is_folder,
    matches,
    names_in,
    normalized,
    open_file,
    read_bytes,
    read_text,
    sha256_of,
    size,
    sizes,
    without_magic,
)
from albert_tf.files.remote import is_read_only, is_remote
from albert_tf.files.tables import (
    TABLE_FORMATS,
    Row,
    RowReader,
    ValueText,
    column_names,
    csv_rows,
    open_parquet,
    parquet_rows,
    read_rows,
    read_tsv,
    text_of,
    tsv_rows,
    value_of,
)
from albert_tf.files.writing import (
    check_outputs,
    copy_file,
    folder_of_one,
    lock_folder,
    make_folder,
    remove,
    rename,
    replacing,
    sync,
    sync_names,
    temporary_name,
    write_bytes,
    write_files,
    write_for,
    write_text,
)
