# Every target installs what it needs in .venv; a second run installs nothing.
PYTHON ?= python3
VENV := .venv
JOBS ?= 2
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check \
  --constraint constraints.txt
# pip would compile the 20,000 modules one by one. Some are templates, which cannot be compiled, and
# some hardly anyone imports.
COMPILE := $(BIN)/python -m compileall -qq -j 0 \
  -x '/(_inductor|examples|models|pip|testing|tests?)/' $(VENV)/lib || true
# Container images often set it; each of the hundreds of processes of the tests would then compile
# the package, and each run of pytest all tests.
unexport PYTHONDONTWRITEBYTECODE
# make test CPU=avx2 computes as a processor without AVX-512 does.
ifeq ($(CPU),avx2)
export NPY_DISABLE_CPU_FEATURES := X86_V4 AVX512_ICL AVX512_SPR
export OPENBLAS_CORETYPE := Haswell
# Not oneDNN with a limit: TensorFlow would ask it for bfloat16 products that the limit rules out.
export TF_ENABLE_ONEDNN_OPTS := 0
export ONEDNN_MAX_CPU_ISA := AVX2
export XLA_FLAGS := --xla_cpu_max_isa=AVX2
export MKL_ENABLE_INSTRUCTIONS := AVX2
export ATEN_CPU_CAPABILITY := avx2
endif
PYTEST = $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: demo lint check test test-rest test-random test-engines test-all bench docs clean

# What the demo needs.
$(VENV)/.installed: pyproject.toml setup.py constraints.txt | $(VENV)/.created
	$(PIP) --editable '.[cpu,test]'
	@$(COMPILE)
	@touch $@

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "make: Python 3.11 to 3.13 is needed, $$($(PYTHON) --version) found; try make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "make: 'python3 -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@touch $@

# What tests need in addition: TensorFlow Text, the TPU compiler, and what results are compared with.
$(VENV)/.tested: pyproject.toml setup.py constraints.txt | $(VENV)/.created
	$(PIP) --editable '.[cpu,test,export,peers,preflight]'
	@$(COMPILE)
	@touch $(VENV)/.installed $@

# What benchmarks need in addition.
$(VENV)/.benchmarked: $(VENV)/.tested
	$(PIP) --editable '.[cpu,test,export,peers,preflight,bench]'
	@$(COMPILE)
	@touch $@

# make demo CORPUS=DIR does the same on the .txt files of a folder.
demo: $(VENV)/.installed
	@$(BIN)/python -m examples.demo $(if $(CORPUS),--corpus='$(CORPUS)')

lint: $(VENV)/.tested
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/mypy

# The loop of development: style, imports, types and unit tests.
check: lint
	$(PYTEST) -m 'not integration and not slow and not manual'

# The same, and every command end to end once.
test: lint
	$(PYTEST) -m 'not slow and not manual'

# What `make test` leaves to `make test-all`. Many of these tests wait for processes that they start.
test-rest: JOBS := 3
test-rest: $(VENV)/.tested
	$(PYTEST) -m 'slow and not manual'

# The other commands take the same random inputs in every run; this takes new ones. What it finds
# becomes an example.
test-random: $(VENV)/.tested
	RANDOM_EXAMPLES=$(or $(EXAMPLES),1000) $(PYTEST) -m 'hypothesis and not manual'

$(VENV)/.engines: pyproject.toml setup.py constraints.txt | $(VENV)/.created
	$(PIP) --editable '.[cpu,gcs,jax]' hypothesis openpyxl pytest pytest-xdist
	@touch $@

# What depends on the Python, on another one: how commands start, trace, save, stop and end, and not
# what they compute. make test-engines VENV=build/venv PYTHON=python3.13; `make test` takes both, too.
ON_ANOTHER := tests/end_to_end tests/engines/test_startup.py tests/engines/jax/test_batches.py \
  tests/engines/tensorflow/test_engine.py tests/engines/tensorflow/test_pipelines.py
test-engines: $(VENV)/.engines
	$(PYTEST) -m 'not slow and not manual' $(ON_ANOTHER)

test-all: test test-rest

# How fast everything is, next to other libraries; hours. make bench ONLY=startup,scaling runs just
# these parts, BOOKS=DIR makes training data of the .txt files of a folder.
bench: $(VENV)/.benchmarked
	@$(BIN)/python -m benchmarks $(if $(ONLY),--only='$(ONLY)') $(if $(BOOKS),--books='$(BOOKS)')

$(VENV)/.docs: $(VENV)/.installed
	$(PIP) --editable '.[docs]'
	@$(COMPILE)
	@touch $@

# The documentation site, build/docs/html/index.html. Warnings, such as broken links, are errors.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W -q docs build/docs/html

clean:
	rm -rf $(VENV) demo build *.egg-info
