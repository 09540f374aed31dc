"""Creates TFRecord files for pretraining from text with one sentence per line.

    albert-create-pretraining-data --input_file='corpus/*.txt' \\
        --output_file=train-0.tfrecord,train-1.tfrecord --spm_model_file=30k.model

A blank line separates documents. Flags, defaults and features are the original project's, so each
project can read the files of the other. A manifest, `NAME.manifest.json` next to the first output,
records the settings, the input and statistics of the data.
"""

from typing import Any

from albert_tf import original_flags
from albert_tf.logs import counted
from albert_tf.options import command
from albert_tf.pair_objectives import PAIR_OBJECTIVES
from data_prep.pretraining_data_options import PretrainingDataOptions

_MAX_LISTED_FILES = 10
# Losses from which on the command says what to do about them.
_NOTABLE_LOSS = 0.05


def run(options: PretrainingDataOptions) -> None:
    from data_prep.pretraining_data import create_pretraining_data

    manifest = create_pretraining_data(options)
    shares = [f"padding {manifest['padding_share']:.1%}"]
    record = "row" if options.pack_rows else "example"
    if options.pack_rows:
        shares = [f"{counted(manifest['rows'], 'row')}, {manifest['fill']:.1%} filled"]
    if options.masking == "static":
        shares.append(f"masked {manifest['masked_share']:.1%}")
    if options.swapped_in_training:
        shares.append("swapped in training")
    elif (pair := PAIR_OBJECTIVES[options.objective]).part:
        shares.append(f"{pair.labels[1]} {manifest['positive_label_share']:.1%}")
    megabytes, seconds = manifest["text_bytes"] / 1e6, manifest["seconds"]
    print(
        f"{counted(manifest['examples'], 'example')} from "
        f"{counted(manifest['documents'], 'document')}, {counted(manifest['tokens'], 'token')} "
        f"({megabytes:.1f} MB), in {seconds:.1f} s ({megabytes / seconds:.1f} MB/s); "
        f"{', '.join(shares)}"
    )
    _print_losses(options, manifest)
    _print_unknown(manifest)
    if manifest["skipped_lines"]:
        print(f"skipped {counted(manifest['skipped_lines'], 'line')} of more than a megabyte")
    if skipped := len(manifest.get("skipped_files", ())):
        print(f"left out {counted(skipped, 'file')} that cannot be read")
    for file, records in list(manifest["files"].items())[:_MAX_LISTED_FILES]:
        print(f"{file}: {counted(records, record)}")
    if len(manifest["files"]) > _MAX_LISTED_FILES:
        print(f"... and {len(manifest['files']) - _MAX_LISTED_FILES} more files")


def _print_losses(options: PretrainingDataOptions, manifest: dict[str, Any]) -> None:
    lost = manifest["truncated_tokens"] / (manifest["tokens"] * options.dupe_factor)
    single = options.packing == "fit" and options.objective == "sop"
    why = "off single sentences" if single else f"to fit {options.max_seq_length} tokens"
    without = counted(manifest["dropped_chunks"], "single sentence")
    print(f"lost: {lost:.1%} of the tokens, cut {why}, or in {without} without a pair")
    if lost >= _NOTABLE_LOSS and options.packing == "original":
        print(
            "--packing=fit, or a larger --max_seq_length, loses less; other copies of a document "
            "(--dupe_factor) are cut elsewhere"
        )


def _print_unknown(manifest: dict[str, Any]) -> None:
    from albert_tf.tokenizers.unknown import describe_unknown

    unknown = manifest.get("unknown_tokens", 0)  # manifests of earlier versions have none
    if not unknown:
        return
    share = manifest.get("unknown_character_share", 0.0)
    print(describe_unknown(unknown, manifest["tokens"], manifest["unknown_characters"], share))
    shares = manifest["unknown_share_by_file"]
    if list(shares.values()) == [unknown / manifest["tokens"]]:
        return  # the only file
    for path, share in list(shares.items())[:_MAX_LISTED_FILES]:
        print(f"{path}: {share:.2%} unknown")


cli = command(PretrainingDataOptions, run, original=original_flags.PRETRAINING_DATA)

if __name__ == "__main__":
    cli()
