# The course's commands. Each sets up what it needs; `make` alone lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := lessons,course,tests
LESSONS ?=
JOBS ?= 2
# Lessons wait now and then, for a compiler or a child process: one more than cores fills the gaps.
NOTEBOOK_JOBS ?= $(shell expr $(JOBS) + 1)
IMAGE ?= latest
TWIN_PYTHON ?=
COLABTOOLS ?=
GPU ?=
TPU ?=
export JUPYTER_PLATFORM_DIRS := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1

.DEFAULT_GOAL := help
.PHONY: help setup course lab notebooks build test test-unit test-notebooks test-matrix test-kills colab-twin test-colab test-gpu reference bench drift facts \
	lint format retarget clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Everywhere: LESSONS=\"01 03\" for some lessons, JOBS=1 for fewer processes at once,"
	@echo "PYTHON=python3.12 for another Python, VENV=folder for another environment than .venv."

setup: $(READY) ## make .venv with everything, in the versions of constraints.txt

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; choose one: make PYTHON=python3.12 …")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
		--constraint constraints.txt --editable ".[$(EXTRAS)]"
	@touch $@

course: setup ## run every lesson at full size; executed notebooks and report in build/course/report.html
	$(BIN)/python -m course run $(LESSONS)

lab: setup ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab --notebook-dir notebooks

notebooks: setup ## build notebooks/ from lessons/, run them at full size, keep the outputs there
	$(BIN)/python -m course notebooks $(LESSONS)

build: setup ## build notebooks/ and the made parts of pages, without running
	$(BIN)/python -m course build

test: lint test-unit test-notebooks ## everything: lint, unit tests, notebooks

# Two workers on few cores: threads of one would only take from the other.
test-unit test-notebooks test-matrix test-kills: export OMP_NUM_THREADS := 1
test-unit: setup ## the helper and the course's tools
	$(BIN)/python -m pytest tests --ignore tests/notebooks -n $(JOBS)

test-notebooks: setup ## every notebook: static checks, papermill with FAST, nbval
	$(BIN)/python -m pytest tests/notebooks -n $(NOTEBOOK_JOBS) --dist worksteal

test-matrix: setup ## every lesson under every condition; takes half an hour
	$(BIN)/python -m course matrix --jobs $(JOBS) $(LESSONS)

test-kills: setup ## kill a lesson's kernel in a random cell, 20 times: is it named, is the next lesson run?
	KILLS=20 $(BIN)/python -m pytest tests/course/test_kills.py -n $(JOBS) -rP

colab-twin: setup ## every lesson with the versions that Colab ships: [IMAGE=2026.07] [TWIN_PYTHON=…] [COLABTOOLS=…]
	$(BIN)/python -m course twin --image "$(IMAGE)" --python "$(TWIN_PYTHON)" --colabtools "$(COLABTOOLS)" $(LESSONS)

test-colab: setup ## on a real Colab machine (needs a login, may cost units): GPU=T4, TPU=v5e1, or neither
	$(BIN)/python -m course colab --gpu "$(GPU)" --tpu "$(TPU)" $(LESSONS)

test-gpu: setup ## the lessons at full size, on a CUDA machine
	$(BIN)/python -m course run --require GPU $(LESSONS)

reference: setup ## measure this machine and keep the records in colab_helpers/lessons/reference/
	$(BIN)/python -m course reference $(LESSONS)

drift: setup ## compare Colab's package lists with those tested: make drift [FREEZE=file]
	$(BIN)/python -m course drift $(if $(FREEZE),--freeze $(FREEZE))

facts: setup ## platform facts and known problems by age; fails past a review date
	$(BIN)/python -m course facts

bench: setup ## cost of the helper, its timer beside PyTorch's, time of the notebooks' tests
	$(BIN)/python -m course bench

lint: setup ## ruff, and notebooks that are out of date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check colab_helpers course tests
	$(BIN)/python -m course build --check

format: setup ## ruff's formatting and fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format colab_helpers course tests

retarget: setup ## point badges and set-up cells at a fork: make retarget REPO=owner/name
	@test -n "$(REPO)" || { echo "Say which: make retarget REPO=owner/name"; exit 1; }
	$(BIN)/python -m course retarget $(REPO) $(if $(BRANCH),--branch $(BRANCH))

clean: ## remove what the other commands made: .venv, build (with its records), caches
	rm -rf .venv build dist .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
