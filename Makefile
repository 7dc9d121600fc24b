# `make check` judges the default target from nothing; `make test` runs what CI runs; `make peers` installs engines.
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: check test soak peers bench clean

check: .venv/.installed
	$(BIN)/milepost run

test: .venv/.installed
	$(BIN)/ruff check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -n 2

soak: .venv/.installed
	$(BIN)/pytest -m soak

# Each engine that the kit judges gets an environment of its own, gigabytes in all.
peers:
	PYTHON=$(PYTHON) tools/install_peers.sh

# Our index beside every installed engine, a quarter of an hour; writes the table and the plots in benchmarks/.
bench: .venv/.installed
	$(BIN)/python benchmarks/bench.py --write

clean:
	rm -rf .venv build dist milepost.egg-info

# setuptools comes first, pinned: the build then uses it instead of whatever is newest.
.venv/.installed: pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { echo "Milepost needs Python 3.11 or newer, and there is no '$(PYTHON)' here: name one with 'make PYTHON=...'." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit("Milepost needs Python 3.11 or newer, and $(PYTHON) is %d.%d: name another with \"make PYTHON=...\"." % sys.version_info[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt setuptools
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --no-build-isolation --editable '.[bench,cache,proofs,test]'
	@touch $@
