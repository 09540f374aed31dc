# `make demo` and `make test` set everything up by themselves; a second run installs nothing.
PYTHON ?= python3
VENV := .venv
JOBS ?= 2
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
# Where tests find PyTorch, transformers and JAX. Apart from the rest: the demo reads what is installed
# there, and nobody needs gigabytes for a demo.
PEERS := $(VENV)/peers
# TensorFlow Text with the TensorFlow that it was made for, here an earlier one than elsewhere, and
# TensorFlow Hub, to load what is exported.
EXPORT := $(VENV)/export
# TensorFlow, PyTorch, transformers and KerasHub side by side, to be timed.
BENCH := $(VENV)/bench

.PHONY: demo test bench docs clean

$(INSTALLED): pyproject.toml setup.py constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' \
	  || { echo "make: Python 3.10 to 3.13 is needed, $$($(PYTHON) --version) found; try make PYTHON=python3.12"; exit 1; }
	@$(PYTHON) -m venv $(VENV) \
	  || { echo "make: 'python3 -m venv' failed; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cpu,test]'
	@touch $@

$(PEERS)/.installed: $(INSTALLED)
	@$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[peers]'
	@touch $@

# The TPU compiler, which only tests and the preflight need.
$(VENV)/.preflight: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[preflight]'
	@touch $@

$(EXPORT)/.installed: $(INSTALLED) constraints-export.txt
	@$(PYTHON) -m venv $(EXPORT)
	@grep -vE '^(tensorflow|tensorflow-text|tensorboard|setuptools)==' constraints.txt | cat - constraints-export.txt > $(EXPORT)/constraints.txt
	$(EXPORT)/bin/python -m pip install --quiet --disable-pip-version-check --constraint $(EXPORT)/constraints.txt --editable '.[export,test]' tensorflow-hub setuptools
	@touch $@

$(BENCH)/.installed: $(INSTALLED)
	@$(PYTHON) -m venv $(BENCH)
	$(BENCH)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[cpu,bench]'
	@touch $@

# make demo CORPUS=DIR does the same on the .txt files of a folder.
demo: $(INSTALLED)
	@$(BIN)/python -m examples.demo $(if $(CORPUS),--corpus='$(CORPUS)')

test: $(INSTALLED) $(VENV)/.preflight $(PEERS)/.installed $(EXPORT)/.installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	PEERS=$(abspath $(PEERS)) $(BIN)/python -m pytest -n $(JOBS) --dist worksteal
	$(EXPORT)/bin/python -m pytest -n $(JOBS) tests/export

# How fast everything is, beside other libraries; hours. make bench ONLY=startup,scaling runs just these
# parts, BOOKS=DIR makes training data of the .txt files of a folder.
bench: $(BENCH)/.installed
	@$(BENCH)/bin/python -m benchmarks $(if $(ONLY),--only='$(ONLY)') $(if $(BOOKS),--books='$(BOOKS)')

$(VENV)/.docs: $(INSTALLED)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

# The documentation site, build/docs/html/index.html. Warnings, such as broken links, are errors.
docs: $(VENV)/.docs
	$(BIN)/python -m sphinx -W -q docs build/docs/html

clean:
	rm -rf $(VENV) demo build *.egg-info
