"""A small ALBERT for each of several languages, from the manual of LibreOffice, and their table.

    python -m examples.languages --languages=ru,de,tr,ja --output_dir=languages

Needs Debian or Ubuntu, whose packages `libreoffice-help-XX` are downloaded with apt-get; each has
some 2,300 pages. Pages, without paragraphs that are still in English, become a corpus; the demo
trains a vocabulary and a model on it, and a classifier of the program that a page is about. Started
again, the command resumes.
"""

import collections
import dataclasses
import glob
import html.parser
import io
import json
import re
import subprocess
import sys
import tarfile

from albert_tf.children import run_child, stoppable
from albert_tf.errors import InputError
from albert_tf.files import make_folder, read_text, write_text
from albert_tf.options import command, option
from benchmarks.measurements import Table
from examples.demo.write_report import Results

_TEN = ("ru", "de", "fr", "tr", "fi", "ja", "zh-cn", "ko", "vi", "km")
_VOCAB_SIZES = {"vi": 4000, "km": 6000}  # where the text is too small for 8,000 pieces
_COLUMNS = (
    *("language", "pages", "characters", "unknown tokens", "masked tokens, %", "always the same"),
    *("masked characters, %", "always the same", "bits per character", "order, %"),
    *("programs, %", "from scratch", "minutes"),
)


@dataclasses.dataclass(frozen=True)
class LanguagesOptions:
    languages: tuple[str, ...] = option(_TEN, "Endings of Debian's packages libreoffice-help-XX.")
    output_dir: str = option("languages", "Folder for packages, pages, models and the table.")


class _Paragraphs(html.parser.HTMLParser):
    """The paragraphs of a page of the manual: its headings, and what its body has in <p>."""

    def __init__(self, page: str):
        super().__init__()
        self.found: list[str] = []
        self._is_open = False
        body = page[page.find('id="DisplayArea"') :]
        self.feed(re.split('class="relatedtopics"|<footer', body)[0])

    def handle_starttag(self, tag: str, attributes: list) -> None:
        if re.fullmatch("p|h[1-6]", tag):
            self.found.append("")
            self._is_open = True

    def handle_endtag(self, tag: str) -> None:
        self._is_open &= not re.fullmatch("p|h[1-6]", tag)

    def handle_data(self, data: str) -> None:
        if self._is_open:
            self.found[-1] += data


def read_manual(package: str) -> dict[str, list[str]]:
    """Return the paragraphs of the pages of a Debian package, by the path of the page."""
    pages = {}
    deb = subprocess.run(["dpkg-deb", "--fsys-tarfile", package], capture_output=True, check=True)
    with tarfile.open(fileobj=io.BytesIO(deb.stdout)) as archive:
        for member in archive:
            content = archive.extractfile(member)
            if content and member.name.endswith(".html") and "/text/" in member.name:
                found = _Paragraphs(content.read().decode("utf-8")).found
                texts = [" ".join(paragraph.split()) for paragraph in found]
                pages[member.name.partition("/text/")[2]] = [*filter(None, texts)]
    return pages


def download(language: str, folder: str) -> str:
    """Return the path of a package, which is downloaded if it is not in the folder."""
    name = f"libreoffice-help-{language}"
    if not glob.glob(f"{folder}/{name}_*.deb"):
        make_folder(folder, "output_dir")
        done = subprocess.run(["apt-get", "download", "-q", name], cwd=folder)
        if done.returncode:
            raise InputError(f"`languages`={language}: apt-get did not find the package {name}")
    return glob.glob(f"{folder}/{name}_*.deb")[0]


def write_pages(pages: dict[str, list[str]], english: dict[str, list[str]], folder: str) -> None:
    """Write a table of pages for each program."""
    rows = collections.defaultdict(list)
    for path, paragraphs in sorted(pages.items()):
        own = [text for text in paragraphs if text not in english.get(path, ())]
        directory = path.partition("/")[0]
        program = "general" if directory == "shared" else directory.removeprefix("s")
        if own:
            rows[program].append(json.dumps({"text": "\n".join(own)}) + "\n")
    make_folder(folder, "output_dir")
    for program, lines in rows.items():
        write_text(f"{folder}/{program}.jsonl", "".join(lines))


def row_of(language: str, folder: str) -> tuple[str, ...]:
    """Return the row of a language: what the demo has measured."""
    corpus, manifest = (
        json.loads(read_text(f"{folder}/{name}.json"))
        for name in ("corpus/train.corpus", "records/train.manifest")
    )
    results = Results.read(folder)
    held_out, check = results.held_out, results.check
    most_frequent = check["most_frequent_token_accuracy"]
    per_piece = check["masked_tokens"] / held_out["characters_weight"]
    per_piece *= len(check["most_frequent_token"].replace("\u2581", ""))
    documents = sum(each["documents"] for each in corpus["outputs"].values())
    characters = len(read_text(f"{folder}/corpus/train.txt"))
    return (
        language,
        f"{documents:,}",
        f"{characters / 1e6:.1f} million",
        f"{manifest['unknown_tokens'] / manifest['tokens']:.2%}",
        f"{100 * held_out['masked_lm_accuracy']:.1f}",
        f"{100 * most_frequent:.1f}",
        f"{100 * held_out['characters_accuracy']:.1f}",
        f"{100 * most_frequent * per_piece:.1f}",
        f"{held_out['bits_per_character']:.2f}",
        f"{100 * held_out['sentence_order_accuracy']:.1f}",
        f"{100 * results.pretrained:.1f}",
        f"{100 * results.scratch:.1f}",
        f"{results.minutes:.1f}",
    )


@stoppable("stopped; rerun the same command to resume")
def run(options: LanguagesOptions) -> None:
    out, packages = options.output_dir, f"{options.output_dir}/packages"
    english = read_manual(download("en-us", packages))
    rows = []
    for language in options.languages:
        folder = f"{out}/{language}"
        if not glob.glob(f"{folder}.pages/*.jsonl"):
            others = {} if language.startswith("en") else english
            write_pages(read_manual(download(language, packages)), others, f"{folder}.pages")
        words = [f"--corpus={folder}.pages", f"--output_dir={folder}"]
        words.append(f"--language={language.partition('-')[0]}")
        if language in _VOCAB_SIZES:
            words.append(f"--vocab_size={_VOCAB_SIZES[language]}")
        done = run_child([sys.executable, "-m", "examples.demo", *words])
        if done.returncode:  # it has said why
            sys.exit(done.returncode)
        rows.append(row_of(language, folder))
        write_text(f"{out}/languages.md", Table("", _COLUMNS, rows).markdown() + "\n")
    print(read_text(f"{out}/languages.md"))


cli = command(LanguagesOptions, run)

if __name__ == "__main__":
    cli()
