# Every target builds the environment by itself when it is missing or older than what it is made from.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DEMO_DIR ?= demo

.PHONY: demo serve test test-all lint types check docs bench bench-quick experiments experiments-status size graph schema pictures clean help

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */\1\t/' | expand -t 12

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "make: $(PYTHON) was not found; install Python 3.11 or name another with PYTHON=..." >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

demo: $(READY)  ## simulate elevators, train, evaluate, diagnose, commission a new one, write an HTML report
	$(BIN)/dfstrans demo --out $(DEMO_DIR)

serve: $(READY)  ## serve a workspace with simulated elevators; prints the address of its pages
	$(BIN)/dfstrans serve --demo --workspace $(DEMO_DIR)/workspace

test: $(READY)  ## the fast tests
	$(BIN)/python -m pytest -n 2

test-all: $(READY)  ## the fast and the slow tests
	$(BIN)/python -m pytest -n 2 -m 'slow or not slow'

lint: $(READY)  ## style
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)  ## types
	$(BIN)/mypy

check: lint types test  ## lint, types and tests: what CI runs

bench: $(READY)  ## speed and memory, as ratios measured in one run
	$(BIN)/python -m benchmarks.network
	$(BIN)/python -m benchmarks.elevator
	$(BIN)/python -m benchmarks.prediction

bench-quick: $(READY)  ## speed at the elevator's shape in under a minute, as JSON
	@$(BIN)/python -m benchmarks.network --quick

# LOKY_MAX_CPU_COUNT limits scikit-learn, and OMP_NUM_THREADS all others, to one core
experiments: $(READY)  ## compute the runs of results/queue.toml one by one on one core; Ctrl-C stops, repeat to resume
	LOKY_MAX_CPU_COUNT=1 OMP_NUM_THREADS=1 nice -n 10 $(BIN)/dfstrans experiments run

experiments-status: $(READY)  ## which of these runs are finished, and the hours that the others take
	@$(BIN)/dfstrans experiments status

docs: $(READY)  ## the documentation site, in docs/_build/html
	$(BIN)/python -m sphinx --fail-on-warning --keep-going --quiet -b html docs docs/_build/html
	@echo docs/_build/html/index.html

size: $(READY)  ## files and lines of every part
	@$(BIN)/python -m tools.size

graph: $(READY)  ## draw the packages and their imports
	$(BIN)/python -m tools.draw_packages

schema: $(READY)  ## write the JSON Schema of a diagnosis into the documentation
	$(BIN)/python -m tools.reference

pictures: $(READY)  ## take the pictures of pages in docs/images with Chromium; trains four small models
	$(BIN)/python -m tools.pictures

clean:  ## remove the environment and everything that was built
	rm -rf $(VENV) build dist docs/_build $(DEMO_DIR) .pytest_cache .mypy_cache .ruff_cache
