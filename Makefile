# The course's commands. Each sets up what it needs; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
EXTRAS := lessons,libraries,course,site,tests
LESSONS ?=
SPACE := $(subst ,, )
JOBS ?= 2
# Tests wait now and then, for a compiler, a browser or a child process: one more than cores fills the gaps.
TEST_JOBS ?= $(shell expr $(JOBS) + 1)
IMAGE ?= latest
# uv installs faster, where it is there. `make UV= …` does without it.
UV ?= $(shell command -v uv)
COURSE := $(BIN)/python -m course
export JUPYTER_PLATFORM_DIRS := 1
export PYDEVD_DISABLE_FILE_VALIDATION := 1
# Tests start hundreds of processes: none should compile again what one before it has compiled.
unexport PYTHONDONTWRITEBYTECODE

# Ignore the stamp if the environment is broken.
ifneq ($(wildcard $(READY)),)
$(shell $(BIN)/python -c "import pip" 2>/dev/null || rm -f $(READY))
endif

.DEFAULT_GOAL := help
.PHONY: help setup course notebooks build new-lesson test test-slow test-notebooks replica test-gpu \
	reference slides handouts site drift facts lint retarget release clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo "LESSONS=\"01 03\" for some lessons; everywhere JOBS=1 for fewer processes at once,"
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
	$(UV) pip install --python $(BIN)/python --constraint constraints.txt --editable ".[$(EXTRAS)]"
else
	$(BIN)/python -m pip install --no-compile --disable-pip-version-check --progress-bar off \
		--constraint constraints.txt --editable ".[$(EXTRAS)]" \
		| awk '/^(Collecting|Installing|Successfully|Building)/ {print "  " substr($$0, 1, 100); fflush()}'
endif
ifeq ($(shell uname),Linux)
	@# In a folder of its own, which only lesson 13 sees: PyTorch would import it everywhere.
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --no-deps --upgrade \
		--constraint constraints.txt --target $(VENV)/triton triton
endif
	@touch $@

course: setup ## run every lesson at full size; executed notebooks and report in build/course/report.html
	$(COURSE) run $(LESSONS)

notebooks: setup ## build notebooks/ from lessons/, run them at full size, keep the outputs there
	$(COURSE) notebooks $(LESSONS) $(if $(NOISY),--noisy)

build: setup ## build notebooks/ and the generated parts of pages, without running
	$(COURSE) build

new-lesson: export TITLE := $(TITLE)
new-lesson: setup ## create the files of a lesson: make new-lesson NN=17 NAME=my_topic TITLE="My topic"
	$(COURSE) new-lesson $(NN) $(NAME) --title "$$TITLE"

# Two workers on few cores: threads of one would only take from the other.
test test-slow test-notebooks: export OMP_NUM_THREADS := 1
test: lint ## lint, every notebook, the packages and the tools: what each change has to pass
	$(BIN)/python -m pytest tests -m "not slow" -n $(TEST_JOBS) --dist worksteal

test-slow: setup ## the rest: every notebook on a fake GPU, every page and deck, more cases of other tests
	$(BIN)/python -m pytest tests -m slow -n $(TEST_JOBS) --dist worksteal

test-notebooks: setup ## every notebook: static checks, papermill with FAST, stored outputs by nbval
	$(BIN)/python -m pytest tests/notebooks -m "not slow" -n $(TEST_JOBS) --dist worksteal \
		$(if $(LESSONS),-k "$(subst $(SPACE), or ,$(strip $(LESSONS)))")

replica: setup ## every lesson with the versions that Colab ships: [IMAGE=2026.07] [REPLICA_PYTHON=…]
	$(COURSE) replica --image "$(IMAGE)" --python "$(REPLICA_PYTHON)" --colabtools "$(COLABTOOLS)" $(LESSONS)

test-gpu: setup ## the lessons at full size, on a CUDA machine
	$(COURSE) run --require GPU $(LESSONS)

reference: setup ## measure this machine and keep the records, or keep those of another: FROM=folder
	$(COURSE) reference $(if $(FROM),--from "$(FROM)") $(LESSONS)

slides: setup ## each lesson as slides, in build/slides; fetches reveal.js once, with npm: [FROM=notebook that you ran]
	$(COURSE) slides $(if $(FROM),--from "$(FROM)") $(LESSONS)

handouts: setup ## what students and teachers get, in build/class: [PLACE=owner/name/branch/folder]
	$(COURSE) handouts $(if $(PLACE),--place "$(PLACE)") $(LESSONS)

site: setup ## the course as a web site, in build/site/html; fetches Pyodide once, with npm: [PYTHON_PAGES=no]
	$(COURSE) site $(if $(filter no,$(PYTHON_PAGES)),--without-python)

drift: setup ## compare Colab's package lists with those tested: [FREEZE=file]
	$(COURSE) drift $(if $(FREEZE),--freeze "$(FREEZE)")

facts: setup ## platform facts and known problems by age; fails past a review date
	$(COURSE) facts

lint: setup ## ruff, mypy, and notebooks that are out of date
	$(BIN)/ruff check .
	$(BIN)/ruff format --check colab_helpers colab_doctor colab_lessons course tests
	$(BIN)/mypy
	$(COURSE) build --check

retarget: setup ## point badges and set-up cells at a fork: [REPO=owner/name] [BRANCH=main]
	$(COURSE) retarget $(REPO) $(if $(BRANCH),--branch $(BRANCH))

release: setup ## write a release into the tree: make release VERSION=1.2.0
	@test -n "$(VERSION)" || { echo "Say which: make release VERSION=1.2.0"; exit 1; }
	$(COURSE) release $(VERSION)

clean: ## remove what the other commands made: the environment, build (with its records), caches
	test ! -e $(VENV)/pyvenv.cfg || rm -rf $(VENV) # never an environment of conda
	rm -rf build dist .pytest_cache .ruff_cache .mypy_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
