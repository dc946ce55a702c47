# Two commands do everything, set-up included:   make demo    make test
# The environment lives in .venv; `make help` lists the rest.

PYTHON ?= python3
BIN := .venv/bin

# A dot every three seconds while a long step is silent.
DOTS := (while sleep 3; do printf .; done) & dots=$$!; trap 'kill $$dots; echo' EXIT;
# Of ten thousand modules few are ever imported; those are compiled then.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile
export PYTHONDONTWRITEBYTECODE =

.DEFAULT_GOAL := help
.PHONY: help demo test test-fast check format lint types layers tests system coverage bench bench-large study docs pictures clean

help:  ## what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

demo: .venv/watch  ## what planning is worth, on a real history and on a web that is watched live
	$(BIN)/observant demo

# Types and layers are checked beside the tests, in time that those leave: many of them wait.
test: format lint  ## everything CI asks for: format, lint, types, layers, tests, documentation
	@nice $(MAKE) --no-print-directory --keep-going types layers >.venv/types 2>&1 & types=$$!; \
		$(MAKE) --no-print-directory tests; tests=$$?; \
		wait $$types; types=$$?; cat .venv/types; exit $$(( tests | types ))

check: format lint types layers

format: .venv/ready
	$(BIN)/ruff format --check .

lint: .venv/ready
	$(BIN)/ruff check .

types: .venv/ready
	$(BIN)/mypy

layers: .venv/ready
	$(BIN)/lint-imports --no-logo 2>/dev/null || $(BIN)/lint-imports

# Two workers more than cores: many tests wait for a server, a browser or a killed process.
tests: .venv/ready system  ## the tests alone
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n $$(( $$(nproc 2>/dev/null || echo 2) + 2 ))

test-fast: .venv/ready  ## in less than a minute, what most changes break: no servers, no long studies
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -q -n $$(nproc 2>/dev/null || echo 2) -m "not live and not slow" tests

coverage: .venv/ready system  ## the tests, and which branches of the code they take
	$(PIP) --group coverage
	OPENBLAS_NUM_THREADS=1 $(BIN)/pytest -n auto --cov --cov-report=html:site-coverage --cov-report=term

bench: .venv/ready  ## the performance claims, small enough for a coffee break
	$(PIP) --group bench
	$(BIN)/python -m benchmarks

bench-large: .venv/ready  ## the same at 100 million visits (about ten minutes, 8 GB of disk)
	$(BIN)/python -m benchmarks --large

study: .venv/ready  ## the accuracy claims: errors on populations (and TRACES=folder), coverage
	$(BIN)/python -m benchmarks.accuracy $(if $(TRACES),--traces $(TRACES))
	$(BIN)/python -m benchmarks.coverage

docs: .venv/ready  ## the documentation site, in site/
	$(BIN)/zensical build --clean
	@rm -rf site/*.py site/drawings  # programs that draw: not for readers

pictures: .venv/ready  ## every picture of the documentation anew (minutes; wants Chromium)
	$(BIN)/python docs/pictures.py
	$(BIN)/python -m tests.journeys
	$(BIN)/python docs/screenshots.py

# The tests use a real PostgreSQL, a real Chromium and a real Spark. As root, what is missing is
# fetched here; otherwise the tests that need it are left out, and say so.
system:
	@missing=""; \
	{ ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || command -v initdb >/dev/null; } || missing="$$missing postgresql"; \
	{ command -v chromium-headless-shell || command -v chromium || command -v chromium-browser; } >/dev/null \
		|| missing="$$missing chromium-headless-shell"; \
	command -v java >/dev/null || missing="$$missing default-jre-headless"; \
	test -z "$$missing" \
		|| { test "$$(id -u)" = 0 && command -v apt-get >/dev/null && apt-get update -qq \
			&& DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=600 install -y -qq $$missing >/dev/null; } \
		|| echo "Not here, and its tests are left out (apt-get install):$$missing"

# Debian's python3 comes without venv; as root we can fetch it ourselves.
.venv/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
		|| { echo "observant needs Python 3.11 or newer; say which with PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || { test "$$(id -u)" = 0 \
		&& apt-get update -qq && apt-get install -y -qq python3-venv; } \
		|| { echo "python3-venv is missing: apt-get install python3-venv" >&2; exit 1; }
	@echo "Making an environment in .venv ..."
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(DOTS) $(PIP) --upgrade "pip>=25.1"
	@touch $@

# A demo needs observant and what watching takes; the tools of the tests come with `make test`.
.venv/watch: pyproject.toml | .venv/pip
	@test -e .venv/ready || { echo "Installing observant with what watching needs (about 40 packages) ..."; \
		$(DOTS) $(PIP) --editable '.[watch]'; }
	@touch $@

.venv/ready: pyproject.toml | .venv/pip
	@echo "Installing observant, every extra, and the tools of the tests ..."
	@$(DOTS) $(PIP) --editable '.[all]' --group dev
	@touch $@ .venv/watch

clean:  ## remove the environment and everything that was built
	rm -rf .venv site site-coverage .coverage dist demo .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
