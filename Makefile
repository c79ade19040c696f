# Everything a newcomer needs: `make run`, `make test`. Both make their own environment in .venv.
#   make run ARGS="--verbose"      arguments for `callmemaybe run`
#   make run PYTHON=/path/python   choose the interpreter for a new .venv

VENV := .venv
BIN := $(VENV)/bin
# Compiling every file of every package would double the time; Python compiles what is used.
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install --no-compile
ARGS ?=
PYTHON ?=
ROOM ?=
JOBS ?= auto

.DEFAULT_GOAL := help
.PHONY: help run test test-slow lint format types contract tests docs lock train clean

help:
	@echo 'make run     install, then turn the example prompts into calls (no network model needed)'
	@echo 'make test    lint, types, import contract and tests'
	@echo 'make tests   the tests alone; make tests ROOM=wire those of one room, in seconds'
	@echo 'make test-slow  the long variants: the whole fault matrix, a database gone for 30 s'
	@echo 'make docs    the documentation as a site, in build/site'
	@echo 'make lock    write requirements-dev.txt anew: exact versions with hashes (needs uv)'
	@echo 'make train   train the embedded model again (needs PyTorch; see training/);'
	@echo '             make train ARGS=--resume goes on from its last checkpoint'
	@echo 'make clean   remove the environment and all caches'

run: $(VENV)/.core
	@$(BIN)/callmemaybe run $(ARGS)

test: lint types contract tests

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contract: $(VENV)/.dev
	$(BIN)/lint-imports

# All rooms on all cores; one room (make tests ROOM=wire) in one process, which starts faster.
tests: $(VENV)/.dev
	$(BIN)/pytest $(if $(ROOM),tests/$(ROOM),-n $(JOBS) --dist worksteal) $(ARGS)

test-slow: $(VENV)/.dev
	$(BIN)/pytest -m slow $(ARGS)

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(VENV)/.docs
	$(BIN)/mkdocs build --strict --quiet
	@echo 'The documentation is in build/site: open build/site/index.html'

lock:
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-annotate --no-strip-extras --quiet --upgrade \
	    --custom-compile-command 'make lock' --output-file requirements-dev.txt

train: $(VENV)/.train
	$(BIN)/python -m training.train $(ARGS)

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# One interpreter that can make environments; the first that fits wins.
$(VENV)/bin/python:
	@set -e; found=; \
	for python in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
	    if "$$python" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' \
	        >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
	    echo 'No Python 3.11 or newer with the venv module was found.' >&2; \
	    echo 'Install one (Debian, Ubuntu: apt install python3 python3-venv), or name one:' >&2; \
	    echo '    make run PYTHON=/path/to/python3' >&2; \
	    exit 1; \
	fi; \
	echo "Making $(VENV) with $$found ($$("$$found" --version))"; \
	rm -rf $(VENV); "$$found" -m venv $(VENV) || { rm -rf $(VENV); exit 1; }

$(VENV)/.core: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing callmemaybe (core only; a minute or two)'
	@$(PIP) -e .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing callmemaybe with its development tools (some minutes)'
	@$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.core

$(VENV)/.docs: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing what the documentation needs'
	@$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/.core

$(VENV)/.train: pyproject.toml | $(VENV)/bin/python
	@echo 'Installing callmemaybe with what training needs'
	@$(PIP) -e '.[train]'
	@touch $@
