# Bare `make` lists the targets. Only Python (>= 3.11) and make are needed; everything else lands in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable
# A file is run by one process, and files are begun in the order that tests/conftest.py gives them.
PYTEST := $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder
# One file of versions for every install, the building of wheels included.
export PIP_CONSTRAINT := $(CURDIR)/constraints.txt
# One thread per process: more only wait for each other on a busy machine.
export OMP_NUM_THREADS ?= 1
export OMP_WAIT_POLICY ?= passive
# Hundreds of short processes would otherwise read the same source again.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
MINUTES ?= 20
SEED ?= 1
.PHONY: help demo test test-all ready soak soak-plant bench bench-peers leaderboard lint types format proto docs wheel clean

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-11s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "fedfloor needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing fedfloor into $(VENV) ..."
	@$(INSTALL) .
	@touch $@

$(VENV)/.train: $(VENV)/.core
	@echo "installing torch into $(VENV) ..."
	@$(INSTALL) '.[train]'
	@touch $@

$(VENV)/.dev: $(BIN)/python pyproject.toml constraints.txt
	@echo "installing fedfloor, torch and the tools for development into $(VENV) ..."
	@$(INSTALL) '.[train,report,ray,deploy,flower,dev]'
	@touch $(VENV)/.core $(VENV)/.train $@

$(VENV)/.compiled: $(VENV)/.core
	@echo "compiling the solver, once ..."
	@$(BIN)/python -c 'import fedfloor; fedfloor.simulate("quick", rounds=1)'
	@touch $@

demo: $(VENV)/.train $(VENV)/.compiled ## train the preset `quick`: rounds of scheduling and split learning on a small plant
	@rm -rf runs/demo
	@$(BIN)/fedfloor run quick --out runs/demo

test: ready ## ruff, mypy --strict and pytest
	$(PYTEST) -m "not slow"

test-all: ready ## the same with the slow tests: twice as long
	$(PYTEST)

# The solver is compiled beside the checks, so that the processes of pytest find it and do not each compile it.
ready: $(VENV)/.dev
	@$(MAKE) --no-print-directory -j 2 $(VENV)/.compiled lint types

lint: $(VENV)/.dev ## check format and style
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(VENV)/.dev ## mypy --strict
	$(BIN)/mypy --strict

format: $(VENV)/.dev ## rewrite the code in our format
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

soak: $(VENV)/.dev $(VENV)/.compiled ## random faults for MINUTES=20 (needs root for small disks)
	@$(BIN)/python -m tests.soak --minutes $(MINUTES)

soak-plant: $(VENV)/.dev ## 30 random faults in 100 rounds of real programs on this machine (SEED=1)
	@$(BIN)/python -m tests.soak_plant --seed $(SEED)

bench: $(VENV)/.dev ## measure solvers, training, connections, a deployed plant, Flower: one table of ratios
	@$(BIN)/python -m benchmarks.bench

bench-peers: $(VENV)/.dev ## train beside Flower and pfl, each in an environment of its own: downloads, minutes
	@$(BIN)/python -m benchmarks.peers

leaderboard: $(VENV)/.dev ## the study of docs/reproduce.md: trains what has no line yet (needs FEDFLOOR_DATA; hours)
	@$(BIN)/python -m benchmarks.delays
	@$(BIN)/python -m benchmarks.study

proto: $(VENV)/.dev ## generate src/fedfloor/deploy/wire_pb2.py from wire.proto
	$(BIN)/python -m grpc_tools.protoc -Isrc --python_out=src src/fedfloor/deploy/wire.proto

$(VENV)/.docs: $(VENV)/.core
	@echo "installing the tools for the documentation into $(VENV) ..."
	@$(INSTALL) '.[docs]'
	@touch $@

docs: $(VENV)/.docs ## build the documentation as a site in build/site; a broken link fails
	@$(BIN)/python -m sphinx -q -W --keep-going -b html -c docs/site -d build/doctrees . build/site
	@echo "open build/site/index.html in a browser; it needs no server and no network"

wheel: $(VENV)/.dev ## build dist/*.whl and dist/*.tar.gz
	$(BIN)/python -m build --no-isolation

clean: ## remove the environment and everything built
	rm -rf $(VENV) build dist runs .mypy_cache .pytest_cache .ruff_cache
