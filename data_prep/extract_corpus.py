"""Extracts a corpus as text with one sentence per line and a blank line between documents.

    albert-extract-corpus --format=books --input_file='books/*.txt' \\
        --output_file=corpus.txt --eval_output_file=held_out.txt --eval_fraction=0.05

    albert-extract-corpus --source=wikipedia:dump.xml.bz2,books:novels/*.txt@2 \\
        --output_file=corpus.txt

Next to each output such as corpus.txt, a file corpus.sources.tsv lists its documents in order: the
source (package, book, ...), a tab, the name. corpus.corpus.json records the settings, the input and
statistics. Rerun the same command to resume an interrupted run.
"""

import logging
from typing import Any

from albert_tf.logs import counted
from albert_tf.options import command
from data_prep.extraction_options import ExtractionOptions

_SHOWN_TEMPLATES = 10

logger = logging.getLogger(__name__)


def run(options: ExtractionOptions) -> None:
    from data_prep.extraction import extract

    summary = extract(options)
    if options.quality_report:
        _print_report(summary)
        return
    for path, written in summary["outputs"].items():
        counts = [counted(written[f"{unit}s"], unit) for unit in ("document", "sentence", "word")]
        print(f"{path}: {', '.join(counts)}, {written['bytes'] / 1e6:.1f} MB")
    megabytes, seconds = summary["characters"] / 1e6, summary["seconds"]
    line = f"read {megabytes:.1f} MB of text in {seconds:.1f} s ({megabytes / seconds:.1f} MB/s)"
    if summary["repeated_characters"]:
        repeated = summary["repeated_characters"] / summary["characters"]
        line += f"; left out {repeated:.1%} of it as repeated"
    print(line)
    left_out = [f"{count:,} {reason}" for reason, count in sorted(summary["left_out"].items())]
    if summary["skipped"]:
        left_out.append(f"{summary['skipped']:,} that could not be parsed")
    if left_out:
        print(f"left out: {', '.join(left_out)}")
    if evaluation_sets := summary["evaluation_sets"].values():
        texts, short = (
            sum(found[name] for found in evaluation_sets) for name in ("texts", "too_short")
        )
        print(
            f"looked for 13 words in a row of {texts:,} evaluation texts; {short:,} of them are "
            "shorter and cannot be found"
        )
    if summary["left_out_by_max_megabytes"]:
        print(
            f"sampled uniformly: {summary['left_out_by_max_megabytes'] / 1e6:.1f} MB of sentences "
            f"left out by --max_megabytes={options.max_megabytes:g}"
        )
    if unknown := summary["unknown_templates"]:
        most = [f"{name} ({count:,})" for name, count in unknown.items()][:_SHOWN_TEMPLATES]
        print(
            f"removed {sum(unknown.values()):,} templates with unknown text: {', '.join(most)}"
            f"{', ...' * (len(unknown) > len(most))}; --templates=FILE can define them"
        )
    for warning in summary["warnings"]:
        logger.warning("%s", warning)


def _print_report(report: dict[str, Any]) -> None:
    from data_prep.document_filters import ANY_RULE

    counts, documents = report["left_out"], report["documents"]
    print(
        f"{counts.get(ANY_RULE, 0):,} of {documents:,} documents break a rule; nothing is written"
    )
    rules = {row[0] for row in report["examples"]}
    for rule in sorted(rules, key=lambda rule: (-counts[rule], rule)):
        print(f"{rule}: {counts[rule]:,} ({counts[rule] / documents:.1%}), such as")
        for _, _, value, name, text in (row for row in report["examples"] if row[0] == rule):
            print(f"    {value}  {name}: {text}")


cli = command(ExtractionOptions, run)

if __name__ == "__main__":
    cli()
