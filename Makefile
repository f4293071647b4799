PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: setup run test check lock clean
.DEFAULT_GOAL := help

help:
	@echo "make run    set everything up and watch Ferret being adapted (about 3 minutes)"
	@echo "make test   everything CI runs"
	@echo "make check  the fast part: linters, types, import contracts, unit tests"

$(VENV)/.ready: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

setup: $(VENV)/.ready

run: setup
	$(BIN)/recompose demo ferret

check: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/pytest -q tests/unit tests/property

test: setup check
	$(BIN)/pytest -q --ignore=tests/unit --ignore=tests/property tests

clean:
	rm -rf $(VENV)
