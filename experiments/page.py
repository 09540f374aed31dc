"""Writes docs/experiments.md from the results in experiments/results.

    python -m experiments.page --output_dir=out

Copies the `results.json` of finished studies from the output of `python -m experiments` to
experiments/results/SCALE/NAME.json, draws their pictures in docs/images/experiments, and writes the
page. Without --output_dir, only the page and the pictures are written again.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib

from albert_tf.files import make_folder, read_text, write_text
from albert_tf.options import command, option
from experiments import pictures, report
from experiments.results import Row
from experiments.scales import SCALES
from experiments.study import Study, find_study, study_names

ROOT = pathlib.Path(__file__).parents[1]
RESULTS = ROOT / "experiments" / "results"
PAGE = ROOT / "docs" / "experiments.md"
IMAGES = ROOT / "docs" / "images" / "experiments"
TEMPLATE = ROOT / "experiments" / "page.md"
OVERVIEW, SECTIONS = "<!-- overview -->", "<!-- studies -->"


@dataclasses.dataclass(frozen=True)
class Options:
    """Flags of the page."""

    output_dir: str | None = option(None, "Output of `python -m experiments` to take results from.")


def run(options: Options) -> None:
    if options.output_dir:
        take(pathlib.Path(options.output_dir))
    for path, text in files().items():
        make_folder(str(path.parent))
        write_text(str(path), text)
        print(f"-> {path.relative_to(ROOT)}")


def take(folder: pathlib.Path) -> None:
    """Copy the results of the project's own studies."""
    for scale in SCALES:
        for name in study_names():
            source = folder / scale / name / "results.json"
            if source.exists():
                target = RESULTS / scale / f"{name}.json"
                make_folder(str(target.parent))
                write_text(str(target), read_text(str(source)))


def files() -> dict[pathlib.Path, str]:
    """Return the page and its pictures: path -> content."""
    made: dict[pathlib.Path, str] = {}
    lines: list[str] = []
    measured: list[Study] = []
    unmeasured: dict[str, Study] = {}
    for name in study_names():
        study = find_study(name)
        found = [scale for scale in SCALES if (RESULTS / scale / f"{name}.json").exists()]
        for scale in found:
            results = json.loads(read_text(str(RESULTS / scale / f"{name}.json")))
            drawn = _pictures(study, name, scale, results)
            made.update({IMAGES / file: svg for file, (_, svg) in drawn.items()})
            shown = [(f"images/experiments/{file}", text) for file, (text, _) in drawn.items()]
            lines += report.section(study, results, shown)
        if found:
            measured.append(study)
        else:
            unmeasured[name] = study
    lines += report.unmeasured(unmeasured)
    page = read_text(str(TEMPLATE)).replace(OVERVIEW, report.overview(measured))
    page = page.replace(SECTIONS, "\n".join(lines).strip())
    return {PAGE: page, **made}


def _pictures(study: Study, name: str, scale: str, results: dict) -> dict[str, tuple[str, str]]:
    """Return file name -> description and SVG text."""
    rows = [Row(**row) for row in results["rows"]]
    made = {}
    for picture in study.pictures:
        svg = pictures.draw(study, picture, rows)
        if svg is not None:
            file = f"{scale}-{name}-{pictures.name_of(picture)}.svg"
            made[file] = (f"{study.title}: {picture.y.heading}", svg)
    return made


cli = command(Options, run)

if __name__ == "__main__":
    cli()
