"""Tests of models, optimizers and fine-tuning, on JAX and without TensorFlow, in one process."""

import os
import re
import subprocess
import xml.etree.ElementTree as ElementTree

import pytest

from tests.conftest import KERAS_ON_JAX, ROOT

pytestmark = pytest.mark.integration

# What the original and Hugging Face compute.
REFERENCES = (
    "tests/modeling/test_original_outputs.py",
    "tests/optimization/test_original_updates.py",
)
OTHERS = (
    "tests/finetuning/test_trained_settings.py",
    "tests/modeling/test_encoder.py",
    "tests/modeling/test_forward_pass.py",
    "tests/modeling/test_fitting.py",
    "tests/modeling/test_objectives.py",
    "tests/modeling/test_question_answering.py",
    "tests/modeling/test_rows.py",
    "tests/optimization/test_lamb.py",
    "tests/optimization/test_update_formulas.py",
    "tests/support/distributed_fit.py",
    "tests/tasks/test_kinds.py",
)
# What is one computation to Keras on any backend, and takes long to compile op by op.
LEFT_OUT = {
    "test_examples_that_only_fill_up_a_batch_do_not_count",
    "test_spans_that_are_found_apart",
    "test_dropout_acts_on_the_class_alone",
}

# A module that is None cannot be imported: nothing here may need TensorFlow. The references compare
# all structures and heads; of other tests, the first case shows what JAX computes in its own way.
RUN = f"""
import sys
sys.modules["tensorflow"] = None
import pytest
class FirstCases:
    def pytest_collection_modifyitems(self, items):
        cases = {{}}
        for item in items:
            file, name = item.nodeid.split("::")
            if item.originalname not in {LEFT_OUT}:
                cases.setdefault((file, name if file in {REFERENCES} else item.originalname), item)
        items[:] = cases.values()
sys.exit(pytest.main(plugins=[FirstCases()]))
"""


@pytest.mark.slow
def test_the_same_tests_pass_on_jax_without_tensorflow(peers, tmp_path):
    report, files = tmp_path / "report.xml", REFERENCES + OTHERS
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST")}
    words = ("-q", "-p", "no:cacheprovider", "-m", "not manual", f"--junitxml={report}", *files)
    # Several of the tests train the same model again.
    compiled_once = {
        "JAX_COMPILATION_CACHE_DIR": f"{tmp_path}/compiled",
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
        "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1",
    }
    process = subprocess.run(
        [peers, "-c", RUN, *words],
        cwd=ROOT,
        env={**inherited, **KERAS_ON_JAX, **compiled_once, "JAX_NUM_CPU_DEVICES": "2"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=900,
    )
    assert process.returncode == 0, process.stdout[-20_000:]

    cases = list(ElementTree.parse(report).getroot().iter("testcase"))
    skipped = [
        case.find("skipped").get("message") for case in cases if case.find("skipped") is not None
    ]
    assert [reason for reason in skipped if "reference data" not in reason] == []
    ran = {(case.get("classname"), case.get("name").partition("[")[0]) for case in cases}
    for file in files:
        module = file.removesuffix(".py").replace("/", ".")
        tests = set(re.findall(r"^def (test_\w+)", (ROOT / file).read_text("utf-8"), re.MULTILINE))
        assert {name for where, name in ran if where == module} == tests - LEFT_OUT
    if skipped:
        pytest.skip(
            f"{len(cases) - len(skipped)} passed on JAX, {len(skipped)} did not run: {skipped[0]}"
        )
