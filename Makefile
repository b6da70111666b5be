# On a fresh machine with python3 and make: `make fit` trains on the embedded data, `make test` runs the tests.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: fit test test-fast check faults bench clean test-encoders

# One stamp for the whole environment: made again when the dependencies change.
.venv/ready: pyproject.toml constraints.txt
	@echo "Setting up .venv (one or two minutes)"
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --quiet --disable-pip-version-check -c constraints.txt -e '.[test,check,figures]'
	@touch $@

fit: .venv/ready
	@$(BIN)/surelabel fit --resume auto

test: .venv/ready
	$(BIN)/python -m pytest -n 2

# Under a minute: without the tests that are marked slow.
test-fast: .venv/ready
	$(BIN)/python -m pytest -n 2 -m "not slow"

# Six gigabytes: timm, open_clip and torchvision need another torch than .venv has.
.venv-encoders/ready: pyproject.toml
	@echo "Setting up .venv-encoders (some minutes)"
	@$(PYTHON) -m venv .venv-encoders
	@.venv-encoders/bin/python -m pip install --quiet --quiet --disable-pip-version-check \
		-e '.[hf,open_clip,pretrained,timm,torchvision]' hypothesis pytest pytest-xdist
	@touch $@

test-encoders: .venv-encoders/ready
	.venv-encoders/bin/python -m pytest -n 2 tests/models/encoders

check: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Some minutes: kills training processes, resumes them, and compares what they end with.
faults: .venv/ready
	SURELABEL_FAULTS=1 $(BIN)/python -m pytest -s -n 0 tests/end_to_end/test_faults.py

bench: .venv/ready
	$(BIN)/python -m bench

clean:
	rm -rf .venv .venv-encoders build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
