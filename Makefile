# Each target is enough on a fresh clone: .venv is made when it is missing or when what it is made
# from has changed. PYTHON=... chooses the interpreter (3.11 or newer).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
SOURCES := $(wildcard phrasescore moses_integration tuning tests examples docs)

.PHONY: help demo test test-slow check format docs bench fuzz faults clean
.DELETE_ON_ERROR:

help:
	@echo "make demo        run the experiment of the shipped example: what networks give there"
	@echo "make test        run the tests, a process per core"
	@echo "make test-slow   run the slow tests, too"
	@echo "make check       ruff, mypy, import-linter"
	@echo "make format      lay out the code"
	@echo "make docs        make the site of the documentation, in site/"
	@echo "make bench       measure speed and memory: bench.json, bench.md"
	@echo "make fuzz        give every reader damaged files, CASES=500"
	@echo "make faults      kill long work, fill disks and more, KILLS=20 SIZES=20"
	@echo "make clean       remove .venv and everything else that git ignores"

demo: $(INSTALLED)
	@$(BIN)/python examples/english-french/demo.py

# Workers, of which each loads torch.
PARALLEL := -n auto --maxprocesses 8 --dist worksteal

test: $(INSTALLED)
	@$(BIN)/python -m pytest $(PARALLEL)

test-slow: $(INSTALLED)
	@$(BIN)/python -m pytest $(PARALLEL) -m "not gpu and not moses"

check: $(INSTALLED)
	$(BIN)/ruff check $(SOURCES)
	$(BIN)/ruff format --check $(SOURCES)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(INSTALLED)
	$(BIN)/ruff check --fix-only $(SOURCES)
	$(BIN)/ruff format $(SOURCES)

docs: $(INSTALLED)
	@log=$$($(BIN)/python -m zensical build --clean --strict 2>&1) || { echo "$$log" >&2; exit 1; }
	@echo "Open site/index.html, or: $(BIN)/python -m http.server -d site"

# MOSES=DIR is where the programs of Moses and KenLM are.
bench: $(INSTALLED)
	@$(BIN)/python tests/benchmarks/run.py --json bench.json $(if $(MOSES),--moses-bin $(MOSES))

CASES := 500
# Without captured logs: xdist cannot send a file's name that is not UTF-8.
fuzz: $(INSTALLED)
	@CASES=$(CASES) $(BIN)/python -m pytest $(PARALLEL) -p no:logging tests/fuzz -m "slow or not slow"

KILLS := 20
SIZES := 20
faults: $(INSTALLED)
	@$(BIN)/python -m tests.faults.campaign --kills $(KILLS) --sizes $(SIZES)

clean:
	rm -rf $(VENV) build site *.egg-info demo-output .cache .*_cache .hypothesis
	find $(SOURCES) -name __pycache__ -type d -prune -exec rm -rf {} +

$(INSTALLED): setup.cfg pyproject.toml constraints.txt phrasescore/version.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	    echo "phrasescore needs Python 3.11 or newer, and '$(PYTHON)' is not: $$($(PYTHON) --version 2>&1)." >&2; \
	    echo "Name another one: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	    echo "'$(PYTHON)' has no venv module (on Debian and Ubuntu: apt install python3-venv)." >&2; exit 1; }
	@$(PYTHON) -c 'import os, sys, sysconfig as s; sys.exit(not os.path.exists(s.get_path("include") + "/Python.h"))' || { \
	    echo "'$(PYTHON)' has no C headers, which kenlm needs (on Debian and Ubuntu: apt install python3-dev)." >&2; exit 1; }
	@command -v "$${CXX:-c++}" >/dev/null || command -v g++ >/dev/null || { \
	    echo "no C++ compiler found, which kenlm needs (on Debian and Ubuntu: apt install g++)." >&2; exit 1; }
	@echo "Installing phrasescore and what it needs into $(VENV); the first time takes some minutes ..." >&2
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[cluster,dev,docs,report,test]'
	@touch $@
