"""Writes the figures, outputs and pictures of a finished demo into the pages that show them.

    make demo 2>&1 | tee demo.log
    python -m examples.demo.update_docs --log=demo.log

A page has `<!-- demo: NAME -->` in front of a figure, or on the line above a block of output. What
follows is replaced. docs/demo.json records it all, and a test compares it with the pages.
"""

import dataclasses
import datetime
import io
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Mapping

from albert_tf.errors import InputError
from albert_tf.files import read_text, write_bytes, write_text
from albert_tf.options import command, option
from benchmarks.machine import describe
from benchmarks.tasks import run_quietly
from examples.demo.write_report import Results

ROOT = pathlib.Path(__file__).parents[2]
RECORD = ROOT / "docs/demo.json"
DOCS = ("analysis", "index", "tutorial")
PAGES = ("README.md", *(f"docs/{name}.md" for name in DOCS))
MARK = re.compile(r"(<!-- demo: (\w+) -->\n?)")

# Name -> commands that print the output, and the lines that are shown.
_OUTPUTS = {
    "corpus": ("data_prep.extract_corpus", "."),
    "vocabulary": ("data_prep.train_vocabulary", "."),
    "records": ("data_prep.create_pretraining_data", r" examples from |: [\d,]+ (examples|rows)$"),
    "pretraining": ("--do_train --input_file", "^starting|^step |^report in "),
    "evaluation": ("--do_eval", r"^all |global_step =|^loss =|(lm|order)_accuracy =|^report in "),
    "finetuning": (
        r"demo\.passages|finetune\.cfg",
        "sources: |^step .* 0:00 left|^eval_accuracy|^report in ",
    ),
    "scratch": ("from_scratch.cfg", "^eval_accuracy"),
    "export": ("export_saved_model.py", "variables loaded|signatures"),
    "check": ("check_export", "."),
    "report": ("write_report", "."),
}
# What the commands or the Python in the block above the mark print.
_RUN = ("inspect", "predict", "attention", "fill")
# Picture -> the page that it shows, width and height.
_PICTURES = {
    "report.png": ("finetuned/report.html", 1000, 1010),
    "pretraining-report.png": ("pretrained/report.html", 800, 1000),
    "attention-page.png": ("analysis/attention.html", 640, 1050),
}


@dataclasses.dataclass(frozen=True)
class UpdateOptions:
    log: str = option(help="What `make demo` printed. Its results are in `demo`.")


def filled(text: str, old: Mapping[str, str], new: Mapping[str, str]) -> str:
    """Return a page with other values after its marks.

    Raises:
        InputError: If a mark is not followed by its old value.
    """
    before, *parts = MARK.split(text)
    done = [before]
    for mark, name, after in zip(*[iter(parts)] * 3, strict=True):
        if not after.startswith(old[name]):
            raise InputError(f"{mark.strip()}: has {after[:40]!r} in place of {old[name][:40]!r}")
        done += [mark, new[name], after.removeprefix(old[name])]
    return "".join(done)


def _block(lines: list[str]) -> str:
    """Return a block of output, in lines of at most 100 columns."""
    wrap = textwrap.TextWrapper(
        100, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False,
        replace_whitespace=False, drop_whitespace=True,
    )  # fmt: skip
    return "\n".join(["```", *("\n".join(wrap.wrap(line)) for line in lines), "```"])


def outputs(log: str) -> dict[str, str]:
    """Return name -> block of output, from what the demo printed."""
    printed = re.findall(
        r"^ +\$ python (.*)\n((?:(?! {6}(?:->|\$|\d)|\[\d).*\n)*)", log, re.MULTILINE
    )
    blocks = {}
    for name, (part, shown) in _OUTPUTS.items():
        lines = [
            line for words, text in printed if re.search(part, words) for line in text.splitlines()
        ]
        blocks[name] = _block([line for line in lines if re.search(shown, line)])
    return blocks


def figures(folder: str) -> dict[str, str]:
    """Return name -> figure, from the results in a folder."""
    results, machine = Results.read(folder), describe()
    known = {"amx_bf16": "AMX", "avx512_bf16": "AVX-512 BF16", "avx512f": "AVX-512", "avx2": "AVX2"}
    instructions = next(text for flag, text in known.items() if machine["instructions"][flag])
    pretraining, held_out = results.state["done"]["pretraining"], results.held_out
    today = datetime.date.today()
    return {
        "date": f"{today.day} {today:%B %Y}",
        "machine": f"{machine['cores']} cores of {machine['cpu']} ({instructions})",
        "minutes": f"{results.minutes:.1f} minutes",
        "pretraining_minutes": f"{pretraining['seconds'] / 60:.1f} minutes",
        "masked": f"{held_out['masked_lm_accuracy']:.1%}",
        "masked_baseline": f"{results.check['most_frequent_token_accuracy']:.1%}",
        "order": f"{held_out['sentence_order_accuracy']:.1%}",
        "passages": f"{len(results.sources)}",
        "with_pretraining": f"{results.pretrained:.1%}",
        "without_pretraining": f"{results.scratch:.1%}",
    }


def _run(text: str) -> dict[str, str]:
    """Return name -> block of what the commands of a page print."""
    path = f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"
    before, *parts = MARK.split(text)
    blocks = {}
    for _, name, after in zip(*[iter(parts)] * 3, strict=True):
        if name in _RUN:
            block = r"^```(python)?\n(.*?)\n```"
            language, words = re.findall(block, before, re.DOTALL | re.MULTILINE)[-1]
            shown = run_quietly([language or "bash", "-c", words], {"PATH": path})
            blocks[name] = _block(shown.splitlines())
        before = after
    return blocks


def _draw(page: pathlib.Path, picture: pathlib.Path, size: tuple[int, int]) -> None:
    """Take a picture of the top of a page, in few colors."""
    from PIL import Image

    browser = next(filter(None, map(shutil.which, ("chromium", "google-chrome", "chrome"))), None)
    if browser is None:
        raise InputError("pictures need Chromium, which is not installed")
    with tempfile.NamedTemporaryFile(suffix=".png") as file:
        size_flag = f"--window-size={size[0]},{size[1]}"
        flags = ("--headless", "--no-sandbox", "--hide-scrollbars", size_flag)
        words = [browser, *flags, f"--screenshot={file.name}", page.resolve().as_uri()]
        subprocess.run(words, check=True, capture_output=True)
        image = io.BytesIO()
        Image.open(file.name).convert("RGB").quantize(64).save(image, "PNG", optimize=True)
    write_bytes(str(picture), image.getvalue())


def run(options: UpdateOptions) -> None:
    old = json.loads(read_text(str(RECORD)))
    texts = {page: read_text(str(ROOT / page)) for page in PAGES}
    new = {**figures("demo"), **outputs(read_text(options.log))}
    for text in texts.values():
        new |= _run(text)
    for page, text in texts.items():
        write_text(str(ROOT / page), filled(text, old, new))
    write_text(str(RECORD), json.dumps(new, indent=1, ensure_ascii=False) + "\n")
    for name, (page, *size) in _PICTURES.items():
        _draw(pathlib.Path("demo", page), ROOT / "docs/images" / name, tuple(size))


cli = command(UpdateOptions, run)

if __name__ == "__main__":
    cli()
