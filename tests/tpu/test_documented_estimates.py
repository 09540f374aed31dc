"""The estimates of docs/howto/preflight.md for both engines, from programs compiled again.

A change of the training step that alters them must update the table.
"""

from __future__ import annotations

import re

import pytest

from albert_tf.hardware.slices import GENERATIONS, GIB, parse_slice
from albert_tf.tpu.bounds import step_time
from albert_tf.tpu.preflight import Compiler, check_installed
from albert_tf.tpu.preflight_options import PreflightOptions
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "howto" / "preflight.md").read_text("utf-8")
ROW = re.compile(
    r"^\| (?P<engine>JAX|TensorFlow), (?P<model>\w+) \| `(?P<slice>.+?)` \| (?P<attention>\w+) "
    r"\| (?P<examples>\d+) \| (?P<needed>[\d.]+) of .+? \| (?P<moved>[\d.]+) "
    r"\| (?P<estimate>[\d.]+) \| (?P<kernels>[\d.]+) \|",
    re.MULTILINE,
)
ROWS = [found.groupdict() for found in ROW.finditer(PAGE)]


PUBLISHED = re.compile(
    r"^\| (?P<model>[^|]+) \| `(?P<generation>\w+):\w+` \| (?P<seconds>[\d.]+) "
    r"\| (?P<estimate>[\d.]+) \| (?P<ratio>[\d.]+) \|$",
    re.MULTILINE,
)


def test_the_page_has_a_table():
    assert len(ROWS) >= 10


def test_ranges_are_those_of_published_steps():
    ratios: dict[str, list[float]] = {}
    for row in PUBLISHED.finditer(PAGE):
        assert float(row["seconds"]) / float(row["estimate"]) == pytest.approx(
            float(row["ratio"]), abs=0.01
        )
        if not row["model"].startswith("ALBERT"):
            ratios.setdefault(row["generation"], []).append(float(row["ratio"]))
    everything = [ratio for known in ratios.values() for ratio in known]
    assert len(everything) >= 12
    for name, generation in GENERATIONS.items():
        known = ratios.get(name, [])
        of = known if len(known) > 2 else everything
        assert generation.error == (min(of), max(of)), name


@pytest.mark.manual
@pytest.mark.parametrize("row", ROWS, ids=lambda row: "-".join(list(row.values())[:4]))
def test_a_step_takes_what_the_page_says(row):
    check_installed()
    where, examples = parse_slice(row["slice"]), int(row["examples"])
    options = PreflightOptions(
        engine=row["engine"].lower(),
        attention="auto" if row["attention"] == "fused" else row["attention"],
        albert_config_file=str(ROOT / "configs" / "model" / f"{row['model']}.json"),
        topology=row["slice"],
        train_batch_size=examples * where.replicas,
        dtype="bfloat16",
    )
    compiled = Compiler(options).compile(where, options.train_batch_size, examples, remat=False)
    assert compiled.error is None
    time = step_time(compiled, where)
    measured = {
        "needed": compiled.memory / GIB,
        "moved": compiled.memory_bytes / 1e9,
        "estimate": 1e3 * time.estimate,
        "kernels": 1e3 * time.kernels,
    }
    print({name: round(value, 2) for name, value in measured.items()}, compiled.seconds)
    assert measured == pytest.approx({name: float(row[name]) for name in measured}, rel=0.02)
