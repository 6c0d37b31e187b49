# Every target prints what it installs, makes .venv, and calls the real command. CONTRIBUTING.md has the same with pip alone.

PY := .venv/bin/python
.DEFAULT_GOAL := help
.PHONY: help demo test test-ci test-all test-covered test-loaded fuzz torture lint format docs \
        bench generate lock fresh wheel release-check venv clean

help:            ## print this list
	@grep -hE '^[a-z0-9%-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## */\t/' | expand -t 18

demo:            ## change a real container with two ten-line plugins, in our own engine (root; Debian; without root: dry)
	@tools/setup.sh packages demo
	@tools/setup.sh venv demo
	@$(PY) tools/demo/demo.py $(ARGS)

test: setup      ## lint, types, quick and fault tests, examples of the pages, one real container: minutes
	@$(PY) tools/check.py

test-ci: setup   ## what CI runs: the same, measured for coverage, and tests with real parts
	@$(PY) tools/check.py --ci

test-all: setup  ## everything, in stages; start it again to continue after an interruption
	@$(PY) tools/check.py --all

test-%: setup    ## one group of the table in tests/README.md: test-engine, test-agent, test-compiled, ...
	@$(PY) tools/check.py $*

torture: setup    ## attack a node with every hostile plugin, write tests/torture/RESULTS.md; ARGS="--soak 60" for an hour
	@$(PY) -m tests.torture $(or $(ARGS),--write)

fuzz: setup      ## look for inputs that break parsers, a minute each; ARGS="--minutes 60 yaml" for an hour of one
	@$(PY) -m tests.fuzz $(ARGS)

test-covered: setup ## list the lines and branches of each file that the unit and fault tests do not run
	@$(PY) tools/check.py unit faults covered

test-loaded: setup ## the unit and fault tests while eight loops keep every core busy; nothing may fail then
	@for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & loops="$$loops $$!"; done; trap "kill $$loops" EXIT; \
	    $(PY) -m pytest -q $(or $(ARGS),tests/unit tests/property tests/conformance tests/wire tests/faults)

lint: venv       ## ruff, mypy, import-linter, generated code, lock file
	@$(PY) tools/check.py lint

format: venv     ## format and fix the code with ruff
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix-only --quiet .

docs: venv       ## the documentation as HTML, warnings are errors; make test-docs runs its examples
	@$(PY) -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

bench: setup     ## measure against the Go reference; writes bench/RESULTS.md
	@$(PY) -m bench $(ARGS)

generate: venv   ## write the generated code from proto/
	@for tool in tools/generate_*.py; do echo "$$tool"; $(PY) $$tool || exit 1; done

lock: venv       ## resolve pyproject.toml and export requirements/*.txt
	@tools/lock.sh

fresh:           ## run make demo and make test in a new Debian chroot (root); GOALS="demo lint" runs others
	@tools/setup.sh packages fresh
	@tools/setup.sh venv demo
	@$(PY) tools/fresh.py $(GOALS)

wheel: venv      ## build the source archive and both wheels, the pure and the compiled one, into dist/
	@$(PY) -m build --no-isolation
	@NRI_COMPILE=1 $(PY) -m build --no-isolation --wheel

release-check: setup ## build the parts of a release (also compiled wheels for each Python) into dist/, install and use each
	@$(PY) tools/release_check.py

venv:            ## only make .venv
	@tools/setup.sh venv dev

setup:
	@tools/setup.sh packages test
	@tools/setup.sh venv dev

clean:           ## remove the output of builds and tests (.venv stays)
	@rm -rf build dist docs/_build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

.PHONY: setup

.PHONY: cluster
cluster:         ## tests on a Kubernetes cluster of two user-mode nodes (root)
	@.venv/bin/python -m tests.cluster test
