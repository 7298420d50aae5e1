# `make verify` is the main job, `make test` the tests. Both build .venv from requirements.lock first.
PYTHON ?= python3
VENV := .venv
READY := $(VENV)/.ready
ARGS ?=

.PHONY: verify test bench mutate lint docs site lowest wheel hashes licences advisories clean help

verify: $(READY)
	$(VENV)/bin/finite-calculus verify $(ARGS)

test: $(READY)
	$(VENV)/bin/python -m pytest -n 2 --dist loadgroup $(ARGS)

bench: $(READY)
	$(VENV)/bin/python -m pytest -o addopts= -q --benchmark-quiet -p no:cacheprovider $(ARGS) $(if $(findstring bench/,$(ARGS)),,bench)

mutate: $(READY)
	OMP_NUM_THREADS=1 $(VENV)/bin/python -m tests.mutation $(or $(ARGS),--jobs 2)

lint: $(READY)
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/pyright

docs: $(READY)
	$(VENV)/bin/python docs/make.py $(ARGS)

site: $(READY)
	$(VENV)/bin/python docs/site/make_site.py

# A second environment, with the lowest versions that pyproject.toml names; not part of CI.
LOWEST := build/lowest
LOWEST_TESTS := tests/test_imports.py tests/test_accuracy.py tests/test_rotary.py tests/test_sparse.py \
	tests/test_ledger.py tests/test_native_commands.py tests/test_extras.py tests/test_packaging.py \
	tests/cache tests/harness tests/models tests/search tests/studies
lowest:
	$(PYTHON) -m venv $(LOWEST)
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --requirement requirements.lowest.txt
	$(LOWEST)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	$(LOWEST)/bin/python -m pytest -q -p no:cacheprovider $(or $(ARGS),$(LOWEST_TESTS))

wheel: $(READY)
	$(VENV)/bin/python -m hatchling build -t wheel

# The three lists of what is locked; `hashes` and `advisories` need the network.
hashes: $(READY)
	$(VENV)/bin/python -m tests.supply hashes $(ARGS)

licences: $(READY)
	$(VENV)/bin/python -m tests.supply licences

ADVISORIES := build/advisories
advisories:
	$(PYTHON) -m venv $(ADVISORIES)
	$(ADVISORIES)/bin/pip install --quiet --disable-pip-version-check pip-audit
	$(ADVISORIES)/bin/pip-audit --strict --disable-pip --no-deps --requirement requirements.lock $(ARGS)

clean:
	rm -rf $(VENV) build dist

help:
	@echo "make verify   prove the calculus and hold the code against its references"
	@echo "make test     run the tests"
	@echo "make bench    measure beside dense recomputation; writes bench/latest.json"
	@echo "make mutate   hold the tests against every mutant of the core (hours; ARGS='--files phi.py' for one file)"
	@echo "make lint     ruff and pyright"
	@echo "make docs     fill the tables of README.md and docs/ from the saved records"
	@echo "make site     build the documentation as a site in build/site, without a network"
	@echo "make lowest   run tests with the lowest versions of requirements.lowest.txt"
	@echo "make wheel    build the wheel into dist/"
	@echo "make hashes   write requirements.hashes from a package index (ARGS=https://.../simple; network)"
	@echo "make licences write results/licences.json from the installed packages"
	@echo "make advisories  ask for known vulnerabilities of the locked versions (pip-audit; network)"
	@echo "ARGS=... is passed on, e.g. make verify ARGS='--why main:response'"

$(READY): requirements.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or later is needed; " + sys.version.split()[0] + " found. Set PYTHON=..." if sys.version_info < (3, 11) else 0)'
	@echo "Installing the locked versions of requirements.lock into $(VENV) (once; about two minutes) ..."
	@$(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --requirement requirements.lock
	@$(VENV)/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@
	@echo "$(VENV) is ready."
