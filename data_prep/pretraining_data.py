"""From text to TFRecord files with a manifest: options in, files with their final names out.

`local_runner` makes the files, with the cores of this machine or a Dask cluster.
"""

import contextlib
import glob
import logging
import os
import time
from collections.abc import Iterator, Sequence
from typing import Any

from albert_tf import files
from albert_tf.children import stoppable
from albert_tf.errors import InputError
from albert_tf.input.manifest import (
    find_manifests,
    manifest_file,
    read_manifest,
    without_shard,
)
from albert_tf.input.record_index import index_file, write_indexes
from albert_tf.tokenizers import Tokenizer
from data_prep.example_maker import load_tokenizer, masking_of
from data_prep.local_runner import make_files, part_name, shard_name, unit_name
from data_prep.manifest_writer import (
    build_manifest,
    check_labels,
    finished_manifest,
    write_manifest,
)
from data_prep.plan import Plan, make_plan
from data_prep.pretraining_data_options import PretrainingDataOptions
from data_prep.text_units import readable, text_files
from data_prep.work_folder import WorkFolder, move

logger = logging.getLogger(__name__)


@stoppable()
def create_pretraining_data(options: PretrainingDataOptions) -> dict[str, Any]:
    """Write TFRecord files of pretraining examples and their manifest, all or none of them.

    An interrupted run resumes when the function is called again with the same options and input.
    A finished run is not repeated if the files are unchanged.

    Returns:
        The manifest.

    Raises:
        InputError: If an option is invalid; if an input file is missing, empty or not UTF-8; if
            the vocabulary does not match; if the output cannot be written; or if the text yields
            no example.
    """
    start = time.monotonic()
    options.check()
    paths = text_files(options.input_file)
    outputs = options.output_files
    files.check_outputs(
        {"output_file": [*outputs, manifest_file(outputs[0]), index_file(outputs[0])]},
        {
            "input_file": paths,
            "spm_model_file": [options.spm_model_file],
            "vocab_file": [options.vocab_file],
        },
    )
    _check_manifest(outputs)
    for path in outputs:
        files.make_folder(os.path.dirname(path), "output_file")
    tokenizer = load_tokenizer(options)
    paths = readable(paths, files.check_utf8, options.skip_bad_files, [])
    plan = make_plan(options, paths, tokenizer)
    if manifest := finished_manifest(plan):
        return manifest
    note = masking_of(options).shortfall(options.max_seq_length)
    if note and options.masking == "static":  # of dynamic masks, training decides
        logger.info("%s", note)
    with WorkFolder.resume(outputs[0], options.work_dir, plan.fingerprint) as work:
        with work.kept_after_error():
            make_files(plan, work)
        return publish(plan, work, tokenizer, start)


def publish(plan: Plan, work: WorkFolder, tokenizer: Tokenizer, start: float) -> dict[str, Any]:
    """Move the finished files to their final names and write their index and manifest.

    Args:
        plan: the plan of the run.
        work: the folder that contains all finished shards.
        tokenizer: the tokenizer of the run.
        start: start time of the run, by `time.monotonic`.

    Returns:
        The manifest.
    """
    outputs = plan.options.output_files
    part_counts = work.counts(part_name(bucket) for bucket in range(plan.buckets))
    with work.kept_after_error(is_useful=False):
        check_labels(plan, part_counts)
    for path in _descriptions(outputs):  # they do not describe the new files
        files.remove(path)
    for shard, path in enumerate(outputs):
        if not work.is_intact(shard_name(shard), path):
            move(work.file(shard_name(shard)), path)
    unit_counts = [work.counts([unit_name(unit)]) for unit in range(len(plan.units))]
    records = [work.require_record(shard_name(shard)) for shard in range(len(outputs))]
    write_indexes(outputs, [record["index"] for record in records])
    seconds = time.monotonic() - start
    manifest = build_manifest(plan, tokenizer, unit_counts, part_counts, records, seconds)
    write_manifest(plan, manifest)
    work.remove()
    _warn_about_stale_shards(outputs)
    return manifest


def _check_manifest(outputs: Sequence[str]) -> None:
    path = manifest_file(outputs[0])
    described: list[str] = []
    with contextlib.suppress(InputError):
        described = list(read_manifest(path)["files"])
    for file in (os.path.join(os.path.dirname(path), name) for name in described):
        alike = without_shard(file) == without_shard(outputs[0]) or file in outputs
        if not alike and manifest_file(file) == path and files.exists(file):
            raise InputError(
                f"`output_file`={outputs[0]}: {path} is the manifest of {file}; choose another name"
            )


def _descriptions(outputs: Sequence[str]) -> Iterator[str]:
    """Yield the manifests and indexes of these files only, under names of any revision."""
    manifests = {manifest_file(outputs[0])}
    with contextlib.suppress(InputError):
        names = set(map(os.path.basename, outputs))
        found = find_manifests(outputs)
        manifests |= {path for path in found if names.issuperset(found[path]["files"])}
    for path in manifests:
        yield from (path, path.removesuffix(".manifest.json") + ".index.json")


def _warn_about_stale_shards(outputs: Sequence[str]) -> None:
    """Warn of shards, which a glob would also match, and work of runs with other `num_shards`."""
    folder, name = os.path.split(without_shard(outputs[0]))
    is_shard = outputs[0] != os.path.join(folder, name)
    of_shards = f"{glob.escape(name)}-*-of-*"
    stale = set(files.files_in(folder, of_shards)) - set(outputs) if is_shard else set()
    for pattern in (f".{glob.escape(name)}.work", f".{of_shards}.work"):
        stale.update(files.files_in(folder, pattern))
    if stale:
        logger.warning(
            "these files are from another run; remove them: %s", ", ".join(sorted(stale))
        )
