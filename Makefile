# Thin: every target says what it installs, makes .venv, and calls the real command. README.md has the same with pip alone.

PY := .venv/bin/python
.DEFAULT_GOAL := help
.PHONY: help demo test test-quick test-interop test-faults test-compiled test-covered test-loaded test-pythons test-engine test-agent test-kubelet test-real test-v2 test-packaging test-deploy test-apiserver fuzz torture lint format docs \
        bench generate lock fresh wheel release-check venv clean

help:            ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed 's/:[^#]*## */\t/' | expand -t 18

demo:            ## change a real container with two ten-line plugins, in our own engine (root; Debian; without root: dry)
	@tools/setup.sh packages demo
	@tools/setup.sh venv demo
	@$(PY) tools/demo/demo.py $(ARGS)

test: setup      ## what CI runs: lint, types, all tests, docs; the quick ones on the newest Python, too
	@$(PY) tools/check.py

test-quick: setup   ## lint, types and the tests that need nothing but Python
	@$(PY) tools/check.py lint unit quick

test-packaging: setup   ## build the wheel and try it in a clean environment
	@$(PY) tools/check.py packaging

test-deploy: setup  ## what `nri new` makes and deploy/, with buildah, systemd, kustomize, Helm's engine, Kubernetes' schemas (root)
	@$(PY) tools/check.py deploy

test-apiserver: setup ## deploy/ on a real kube-apiserver, with kubectl and helm (Go; builds them the first time: minutes)
	@$(PY) tools/check.py apiserver

test-interop: setup ## our side against peers in Go and Rust
	@$(PY) tools/check.py interop

test-faults: setup  ## the other side misbehaves
	@$(PY) tools/check.py faults

torture: setup    ## attack a node with every hostile plugin, write docs/reliability.md; ARGS="--soak 60" for an hour
	@$(PY) -m tests.torture $(or $(ARGS),--write)

fuzz: setup      ## look for inputs that break a parser, a minute for each; ARGS="--minutes 60 yaml" for an hour of one
	@$(PY) -m tests.fuzz $(ARGS)

test-covered: setup ## which lines and branches of each file the unit and fault tests do not run
	@$(PY) tools/check.py unit faults covered

test-loaded: setup ## the quick and fault suites beside eight busy loops
	@$(PY) tools/loaded.py

test-compiled: setup ## compile the hot path, and run the tests against it
	@$(PY) tools/check.py compiled

test-pythons: setup ## the quick, fault and packaging suites on every other supported Python of this machine
	@$(PY) tools/check.py pythons

test-engine: setup  ## the engine's rooms with runc, crun, conmon, skopeo, umoci and CNI plugins (root)
	@$(PY) tools/check.py engine

test-agent: setup   ## the node agent on a real containerd, its program and its faults; the CRI proxy (root, Go)
	@$(PY) tools/check.py agent

test-kubelet: setup ## pods under a real kubelet, on containerd and on the engine (root, Go; ten minutes more the first time)
	@$(PY) tools/check.py kubelet

test-real: setup    ## real containerd, runc (root)
	@$(PY) tools/check.py real

test-v2: setup    ## plugins on containerd, nri.oci and the engine in a guest with cgroup v2 and two NUMA nodes (root)
	@$(PY) tools/check.py v2

lint: venv       ## ruff, mypy, import-linter, generated code, lock file
	@$(PY) tools/check.py lint

format: venv     ## let ruff format and fix what it can
	@.venv/bin/ruff format . && .venv/bin/ruff check --fix-only --quiet .

docs: venv       ## the documentation as HTML, warnings are errors
	@$(PY) tools/check.py docs
	@echo "open docs/_build/html/index.html"

bench: setup     ## measure against the Go reference; writes bench/RESULTS.md
	@$(PY) -m bench $(ARGS)

generate: venv   ## write the generated code anew from proto/
	@for tool in tools/generate_*.py; do echo "$$tool"; $(PY) $$tool || exit 1; done

lock: venv       ## resolve pyproject.toml anew and export requirements/*.txt
	@tools/lock.sh

fresh:           ## run both commands of the README in a new Debian chroot (root); GOALS="demo test-quick" runs others
	@tools/setup.sh packages fresh
	@tools/setup.sh venv demo
	@$(PY) tools/fresh.py $(GOALS)

wheel: venv      ## build the source archive and both wheels, the pure and the compiled one, into dist/
	@$(PY) -m build --no-isolation
	@NRI_COMPILE=1 $(PY) -m build --no-isolation --wheel

release-check: setup ## build what a release has (also compiled wheels, for each Python) into dist/, install each and use it
	@$(PY) tools/release_check.py

venv:            ## only make .venv
	@tools/setup.sh venv dev

setup:
	@tools/setup.sh packages test
	@tools/setup.sh venv dev

clean:           ## remove what builds and tests leave in the tree (.venv stays)
	@rm -rf build dist docs/_build .coverage .hypothesis .mypy_cache .pytest_cache .ruff_cache .import_linter_cache
	@find . -name __pycache__ -not -path './.venv/*' -prune -exec rm -rf {} +

.PHONY: setup
