# `make demo` and `make test` need Python 3.11 or later and make; they bring everything else into .venv.
# A second call finds it there; only a change of pyproject.toml or constraints.txt installs again.

SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= $(firstword $(foreach p,python3 python3.14 python3.13 python3.12 python3.11,\
  $(shell $(p) -c 'import sys; sys.version_info >= (3, 11) and print("$(p)")' 2>/dev/null)))
WORKERS ?= 2
ARGS ?=
SELECTORS ?= random-shrunk,random,hcsfed,pivotal,frontier,full

BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
# The build backend is pinned like the rest, hence no build environment of pip's own making.
EDITABLE := $(PIP) --no-build-isolation -e

.PHONY: help demo test long lint bench docs reference constraints clean

help:  ## say what can be made
	@grep -E '^[a-z]+:.*##' $(firstword $(MAKEFILE_LIST)) | sed -E 's/:[^#]*##/\t/' | expand -t 14

demo: .venv/.demo  ## compare selectors on a small federation, draw report.html
	@rm -rf runs/demo
	@$(BIN)/hcsfed compare --selectors $(SELECTORS) --seeds 3 --rounds 60 --target 0.8 --out runs/demo --report report.html \
	  --picture-at 10
	@echo "Open $(CURDIR)/report.html in a browser."

test: .venv/.dev  ## run the tests (ARGS="-k word" for some, WORKERS=4 for more processes)
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(WORKERS) $(ARGS)

long: .venv/.dev  ## run the tests that take minutes of real processes
	@HCSFED_LONG=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 1 tests/test_federation_demo.py tests/test_example.py

lint: .venv/.dev  ## formatting, style, types, direction of imports
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy -p hcsfed
	$(BIN)/lint-imports

bench: .venv/.dev  ## measure the engines and the selectors on this machine
	$(BIN)/hcsfed bench engine
	$(BIN)/hcsfed bench select

docs: .venv/.dev  ## build the site into site/
	$(BIN)/zensical build --clean --strict -f mkdocs.yml

reference: .venv/.dev  ## write docs/reference anew from the code
	$(BIN)/python tools/reference.py

constraints:  ## pin the newest packages that fit pyproject.toml
	$(PYTHON) tools/pin.py

clean:  ## remove the environment and everything that was built
	rm -rf .venv site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache report.html

.venv/bin/python:
	@test -n "$(PYTHON)" || { echo "hcsfed needs Python 3.11 or later; none found (set PYTHON=...)" >&2; exit 1; }
	@$(PYTHON) -m venv .venv || { rm -rf .venv; echo "Python's venv module is missing (Debian: the package python3-venv)" >&2; exit 1; }

.venv/.build: constraints.txt | .venv/bin/python
	@$(PIP) hatchling editables
	@touch $@

.venv/.demo: pyproject.toml .venv/.build
	@echo "Installing packages into .venv: once, takes some minutes"
	@$(EDITABLE) '.[sim,report]'
	@touch $@

.venv/.dev: pyproject.toml .venv/.build
	@echo "Installing packages into .venv: once, takes some minutes"
	@$(EDITABLE) '.[sim,report,track,flower,ray,dev,docs]'
	@touch .venv/.demo $@
