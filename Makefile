# The course's commands. Each sets up what it needs; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := lessons,course,site,tests
LESSONS ?=
JOBS ?= 2
# Tests wait now and then, for a compiler, a browser or a child process: one more than cores fills the gaps.
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
IMAGE ?= latest
TWIN_PYTHON ?=
COLABTOOLS ?=
GPU ?=
TPU ?=
OFFLINE ?=
STEP ?=
PYTHON_PAGES ?=
PLACE ?=
REHEARSE ?=
WHEELS ?= build/wheels
PY ?= 3.12
THERE ?=
FROM ?=
MUTANTS ?= 150
SEED ?= 0
# uv installs faster, where it is there. `make UV= …` does without it.
UV ?= $(shell command -v uv)
export JUPYTER_PLATFORM_DIRS := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1
# Tests start hundreds of processes: none should compile again what one before it has compiled.
unexport PYTHONDONTWRITEBYTECODE

# What somebody writes after LESSONS= is handed on as words, and never read by the shell.
quoted = $(foreach word,$(1),'$(subst ','\'',$(word))')
ifneq ($(shell printf '%s' $(call quoted,$(JOBS)) | grep -cxE '[1-9][0-9]{0,2}'),1)
$(error JOBS=$(JOBS): give a number of processes, as in JOBS=2)
endif
# An environment whose interpreter is gone, or half made, is not ready, whatever its mark says.
ifneq ($(wildcard $(READY)),)
$(shell $(BIN)/python -c "import pip" 2>/dev/null || rm -f $(READY))
endif

.DEFAULT_GOAL := help
.PHONY: help setup course lab notebooks build new-lesson test test-slow test-unit test-notebooks test-matrix test-stand-in test-kills \
	test-interruptions colab-twin test-colab wheels test-gpu reference accuracy slides class site bench mutants drift facts lint types format retarget \
	release clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "Everywhere: LESSONS=\"01 03\" for some lessons, JOBS=1 for fewer processes at once,"
	@echo "PYTHON=python3.12 for another Python, VENV=folder for another environment than .venv."

setup: $(READY) ## make .venv with everything, in the versions of constraints.txt

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; choose one: make PYTHON=python3.12 …")'
	@if $(BIN)/python -c "import pip" 2>/dev/null; then true; \
	elif test ! -e $(VENV) || test -e $(VENV)/pyvenv.cfg || test -z "$$(ls -A $(VENV))"; then \
		echo "Making $(VENV) with $(PYTHON)"; $(PYTHON) -m venv --clear $(VENV); \
	else \
		echo "$(VENV) is a folder, and no environment with pip: give another one, make setup VENV=folder"; exit 1; \
	fi
	@echo "Installing the versions of constraints.txt into $(VENV); the first time this takes minutes"
ifneq ($(UV),)
	$(UV) pip install --compile-bytecode --python $(BIN)/python --constraint constraints.txt --editable ".[$(EXTRAS)]"
else
	set -o pipefail; $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off \
		--constraint constraints.txt --editable ".[$(EXTRAS)]" \
		| awk '/^(Collecting|Installing|Successfully|Building)/ {print "  " substr($$0, 1, 100); fflush()}'
endif
	@touch $@

course: setup ## run every lesson at full size; executed notebooks and report in build/course/report.html
	$(BIN)/python -m course run $(call quoted,$(LESSONS))

lab: setup ## open the notebooks in JupyterLab
	$(BIN)/jupyter lab --notebook-dir notebooks

notebooks: setup ## build notebooks/ from lessons/, run them at full size, keep the outputs there
	$(BIN)/python -m course notebooks $(call quoted,$(LESSONS))

build: setup ## build notebooks/ and the made parts of pages, without running
	$(BIN)/python -m course build

new-lesson: export TITLE := $(TITLE)
new-lesson: setup ## lay what a new lesson needs: make new-lesson NN=10 NAME=my_topic TITLE="My topic"
	$(BIN)/python -m course new-lesson $(call quoted,$(NN)) $(call quoted,$(NAME)) --title "$$TITLE"

# Two workers on few cores: threads of one would only take from the other.
test test-slow test-unit test-notebooks test-matrix test-stand-in test-kills: export OMP_NUM_THREADS := 1
test: lint ## lint, every notebook, the helper and the course's tools: what each change has to pass, in under eight minutes
	$(BIN)/python -m pytest tests/notebooks tests -m "not slow" -n $(TEST_JOBS)

test-slow: setup ## the rest: every notebook once more as a machine with a GPU, every page and deck, more cases of other tests
	$(BIN)/python -m pytest tests/notebooks tests -m slow -n $(TEST_JOBS)

test-unit: setup ## the helper and the course's tools, slow ones too
	$(BIN)/python -m pytest tests --ignore tests/notebooks -n $(TEST_JOBS)

test-notebooks: setup ## every notebook: static checks, papermill with FAST, nbval, and as a machine with a GPU
	$(BIN)/python -m pytest tests/notebooks -n $(TEST_JOBS)

test-matrix: setup ## every lesson under every condition; takes half an hour
	$(BIN)/python -m course matrix --jobs $(JOBS) $(call quoted,$(LESSONS))

test-stand-in: setup ## every lesson as every machine with a GPU that is stood in for, and planted faults; a quarter of an hour
	FAULTS=1 $(BIN)/python -m pytest tests/course/stand_in -n $(JOBS) -rA
	$(BIN)/python -m course matrix --jobs $(JOBS) --conditions "T4,two T4,A100,H200,Apple GPU" $(call quoted,$(LESSONS))

test-kills: setup ## kill a lesson's kernel in a random cell, 20 times: is it named, is the next lesson run?
	KILLS=20 $(BIN)/python -m pytest tests/course/run/test_kills.py -n $(JOBS) -rP

test-interruptions: setup ## kill build, notebooks, retarget and release at 200 moments: does the next run repair?
	INTERRUPTIONS=50 $(BIN)/python -m pytest tests/course/test_interruptions.py -n $(JOBS) -rP

colab-twin: setup ## every lesson with the versions that Colab ships: [IMAGE=2026.07] [TWIN_PYTHON=…] [COLABTOOLS=…]
	$(BIN)/python -m course twin --image "$(IMAGE)" --python "$(TWIN_PYTHON)" --colabtools "$(COLABTOOLS)" $(call quoted,$(LESSONS))

test-colab: setup ## on a real Colab machine (needs a login, may cost units): GPU=T4, TPU=v5e1, or neither
	$(BIN)/python -m course colab --gpu "$(GPU)" --tpu "$(TPU)" $(call quoted,$(LESSONS))

wheels: setup ## what a machine that has only PyTorch lacks, into WHEELS=build/wheels: [PY=3.12] [THERE=its pip list]
	$(BIN)/python -m course wheels $(call quoted,$(WHEELS)) --python $(PY) $(if $(THERE),--there $(call quoted,$(THERE)))

ifeq ($(OFFLINE),)
test-gpu: setup ## the lessons at full size, on a CUDA machine; without a network: OFFLINE=1 [STEP=lessons]
	$(BIN)/python -m course run --require GPU $(call quoted,$(LESSONS))
else
test-gpu:
	$(PYTHON) -m course gpu --wheels $(call quoted,$(WHEELS)) $(foreach step,$(STEP),--step $(step)) \
		$(if $(REHEARSE),--rehearse $(call quoted,$(REHEARSE))) $(call quoted,$(LESSONS))
endif

reference: setup ## measure this machine and keep the records, or those of a GPU machine: FROM=archive
	$(BIN)/python -m course reference $(if $(FROM),--from $(call quoted,$(FROM))) $(call quoted,$(LESSONS))

accuracy: setup ## predict and measure eight networks on this machine; the table of docs/planner.md
	$(BIN)/python -m course accuracy

mutants: setup ## plant faults at random, MUTANTS=150 SEED=0: do the tests see them? build/mutants/report.md
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt cosmic-ray
	$(BIN)/python -m course mutants --count $(MUTANTS) --seed $(SEED) --jobs $(JOBS)

drift: setup ## compare Colab's package lists with those tested: make drift [FREEZE=file]
	$(BIN)/python -m course drift $(if $(FREEZE),--freeze $(FREEZE))

facts: setup ## platform facts and known problems by age; fails past a review date
	$(BIN)/python -m course facts

slides: setup ## each lesson as slides, in build/slides; fetches reveal.js once, with npm: [FROM=notebook that you ran]
	$(BIN)/python -m course slides $(if $(FROM),--from $(call quoted,$(FROM))) $(call quoted,$(LESSONS))

class: setup ## what students and teachers get, in build/class: [PLACE=owner/name/branch/folder]
	$(BIN)/python -m course handouts $(if $(PLACE),--place $(call quoted,$(PLACE))) $(call quoted,$(LESSONS))

site: setup ## the course as a web site, in build/site/html; fetches Pyodide once, with npm: [PYTHON_PAGES=no]
	$(BIN)/python -m course site $(if $(filter no,$(PYTHON_PAGES)),--without-python)

bench: setup ## cost of the helper, its timer beside PyTorch's, time of the notebooks' tests
	$(BIN)/python -m course bench

lint: setup types ## ruff, mypy, and notebooks that are out of date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check colab_helpers course tests
	$(BIN)/python -m course build --check

types: setup
	$(BIN)/mypy

format: setup ## ruff's formatting and fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format colab_helpers course tests

retarget: setup ## point badges and set-up cells at a fork: make retarget [REPO=owner/name] [BRANCH=main]
	$(BIN)/python -m course retarget $(call quoted,$(REPO)) $(if $(BRANCH),--branch $(call quoted,$(BRANCH)))

release: setup ## write a release of the helper into the tree: make release VERSION=1.2.0
	@test -n "$(VERSION)" || { echo "Say which: make release VERSION=1.2.0"; exit 1; }
	$(BIN)/python -m course release $(call quoted,$(VERSION))

clean: ## remove what the other commands made: .venv, build (with its records), caches
	rm -rf .venv build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
