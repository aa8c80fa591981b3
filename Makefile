# Tidegate: `make run` shows a moving demo, `make test` runs the tests. Nothing is needed but Python 3.11 or newer.

.DEFAULT_GOAL := help
.NOTPARALLEL:
MAKEFLAGS += --no-print-directory

export PYTHONPATH := platform
export PYTHONUNBUFFERED := 1
# A process that finds no bytecode compiles all that it imports, which takes longer than what it then does.
unexport PYTHONDONTWRITEBYTECODE
PY := .venv/bin/python

# The first Python that is new enough; PYTHON=… names another one.
find_python = python=; for name in "$(PYTHON)" python3 python3.14 python3.13 python3.12 python3.11 python; do \
	  if [ -n "$$name" ] && "$$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then python="$$name"; break; fi; \
	done; \
	if [ -z "$$python" ]; then \
	  echo "Tidegate needs Python 3.11 or newer; found: $$(python3 --version 2>&1 || true)." >&2; \
	  echo "Debian 12, Ubuntu 24.04 and newer bring it with: apt-get install python3 python3-venv" >&2; \
	  echo "Another one can be named: make $@ PYTHON=/path/to/python3.12" >&2; exit 1; \
	fi

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' Makefile

.PHONY: setup
setup: ## make .venv with everything that running, testing and linting need
	@$(find_python); exec "$$python" -m stack.setup --dev

.PHONY: setup-run
setup-run:
	@$(find_python); exec "$$python" -m stack.setup

.PHONY: run
run: setup-run ## start the demo: databases, an emulated GPU cluster, Tidegate; Ctrl-C stops all (FRESH=1: forget earlier data)
	@exec $(PY) -m stack.run --with-parent $(if $(FRESH),--fresh) $(if $(VERBOSE),--verbose)

.PHONY: test
test: setup ## the whole suite but what needs a real Kubernetes control plane
	@$(PY) -m stack.browser
	@exec $(PY) -m pytest -q -n 2 --dist loadgroup -m "not kubernetes" $(ARGS)

.PHONY: test-kubernetes
test-kubernetes: setup ## the tests against a real control plane (built once with Go, about 8 minutes)
	@$(PY) -m tests.kubernetes.build
	@exec $(PY) -m pytest -q -m kubernetes tests/kubernetes tests/clusters tests/recovery $(ARGS)

.PHONY: control-plane
control-plane: setup ## a real control plane with pretended nodes, for soaks; prints its kubeconfig, Ctrl-C stops it
	@$(PY) -m tests.kubernetes.build
	@exec $(PY) -m tests.kubernetes.serve

.PHONY: mutate
mutate: setup ## change the rules bit by bit and see which change no test notices: MODULE="quota usage" ARGS="--sample 25"
	@exec $(PY) -m tests.mutation $(MODULE) $(ARGS)

.PHONY: lint
lint: setup ## every gate of style and architecture, cheap ones first (ALL=1: do not stop at the first that fails)
	@exec $(PY) -m stack.gates $(if $(ALL),--all)

.PHONY: format
format: setup ## let the formatters write
	@.venv/bin/ruff format
	@.venv/bin/ruff check --fix
	@git ls-files -z 'templates/*.html' | xargs -0 -r .venv/bin/djade --target-version 5.2

.PHONY: lock
lock: ## renew the lock files (needs uv)
	uv pip compile pyproject.toml -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url -o requirements.lock
	uv pip compile pyproject.toml --group dev -q --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-index-url -c requirements.lock -o requirements-dev.lock

.PHONY: clean
clean: ## stop a running demo and remove .venv, .data, .tools and caches
	@if [ -x $(PY) ]; then $(PY) -m stack.run --stop; fi
	rm -rf .venv .data .tools .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache mutants
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
