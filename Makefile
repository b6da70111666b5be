# On a fresh machine with python3 and make: `make fit` trains on the embedded data, `make test` runs the tests.
PYTHON ?= python3
BIN := .venv/bin
UV = .venv-tools/bin/uv

.PHONY: fit test test-fast check test-encoders faults fuzz soak bench lock locked lowest highest audit clean

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

# Two minutes: 2,000 changes to the files of run folders, each read by a command.
fuzz: .venv/ready
	SURELABEL_FUZZ=2000 $(BIN)/python -m pytest -s -n 0 tests/end_to_end/test_run_folder_fuzz.py

# Half an hour: random commands that are killed, or have too little disk or memory.
soak: .venv/ready
	$(BIN)/python -m bench.soak

bench: .venv/ready
	$(BIN)/python -m bench

# uv, pip-audit and the maker of the bill of materials, in an environment of their own.
.venv-tools/ready:
	@$(PYTHON) -m venv .venv-tools
	@.venv-tools/bin/python -m pip install --quiet --disable-pip-version-check uv pip-audit cyclonedx-bom
	@touch $@

# All that the tests need, with the hash of every file. Not torch and what comes with it: which file of torch a machine
# takes (CPU, CUDA, a company's own) is its own affair, so no hash can be the right one; constraints.txt has the version.
lock: .venv-tools/ready
	@echo "# Made by make lock; make locked installs it. Without torch, whose files differ by machine." > requirements-test.txt
	@printf 'hatchling\neditables\n' | $(UV) pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --extra test --extra check --extra figures -c constraints.txt pyproject.toml - \
	  | awk '/^[a-z]/ { kept = !/^(torch|triton|cuda-|nvidia-)/ } kept' >> requirements-test.txt

# The tests with exactly these files.
locked:
	@$(PYTHON) -m venv --clear .venv-locked
	@.venv-locked/bin/python -m pip install --quiet -c constraints.txt torch
	@.venv-locked/bin/python -m pip install --quiet --require-hashes --no-deps -r requirements-test.txt
	@.venv-locked/bin/python -m pip install --quiet --no-deps --no-build-isolation -e .
	.venv-locked/bin/python -m pytest -n 2

# The tests with the lowest version of each dependency that pyproject.toml allows, and with the highest.
lowest: .venv-tools/ready
	@$(UV) venv --quiet --clear --python $(PYTHON) .venv-lowest
	@$(UV) pip install --quiet --python .venv-lowest --resolution lowest-direct -e '.[test]'
	.venv-lowest/bin/python -m pytest -n 2

highest: .venv-tools/ready
	@$(UV) venv --quiet --clear --python $(PYTHON) .venv-highest
	@$(UV) pip install --quiet --python .venv-highest --resolution highest -e '.[test]'
	.venv-highest/bin/python -m pytest -n 2

# A bill of materials, and whether a weakness of any of it is known; needs the network. A package that the service does
# not know is an error too, else a service that does not answer would look like a clean bill.
audit: .venv/ready .venv-tools/ready
	@mkdir -p build
	.venv-tools/bin/cyclonedx-py environment .venv --pyproject pyproject.toml --output-reproducible -o build/sbom.json
	.venv-tools/bin/pip-audit --strict --disable-pip --require-hashes -r requirements-test.txt

clean:
	rm -rf .venv .venv-* build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
