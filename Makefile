# Each target sets up .venv by itself; `make run` and `make test` are all a newcomer needs.
PYTHON ?= python3
VENV   := .venv
READY  := $(VENV)/.ready
BIN    := $(VENV)/bin

.PHONY: run test lint tests bench setup clean

run: $(READY)
	$(BIN)/trainmark run

test: $(READY)
	@$(MAKE) --no-print-directory --jobs 2 lint tests

tests: $(READY)
	$(BIN)/pytest --numprocesses 3

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(READY)
	$(BIN)/python benchmarks/loop_cost.py
	$(BIN)/python benchmarks/overhead.py
	$(BIN)/python benchmarks/levers.py
	$(BIN)/python benchmarks/memory.py
	$(BIN)/python benchmarks/loading.py
	$(BIN)/python benchmarks/store.py
	$(BIN)/python -m benchmarks.slurm_overhead
	$(BIN)/python -m benchmarks.bagging_scaling

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "trainmark needs Python 3.11 or newer, but '$(PYTHON)' is older. Run: make PYTHON=/path/to/python3.11"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	@touch $(READY)

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build src/*.egg-info
