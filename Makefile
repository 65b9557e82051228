# `make serve` and `make test` need Python 3.11 or later, a C++ compiler and make; everything else goes into .venv.
# A step that has been done is not done again: its stamp in .venv is newer than what it depends on.

PYTHON ?= python3
VENV ?= .venv
MODEL ?= demo
MINUTES ?= 10
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet
NATIVE_SOURCES := CMakeLists.txt $(shell find csrc -name '*.cc' -o -name '*.h')
TEST_MODELS := demo gemma-3-270m

ISAS := generic avx2
NUM_CORES := $(shell nproc)
CMAKE := $(BIN)/python -m cmake
CONFIGURE = $(CMAKE) -S . -DCMAKE_MESSAGE_LOG_LEVEL=WARNING -DPython_EXECUTABLE=$(abspath $(BIN))/python
# Python itself is not instrumented, so the libraries must come first; its own leaks are none of ours.
WITH_ASAN = LD_PRELOAD="$(shell $(CXX) -print-file-name=libasan.so) $(shell $(CXX) -print-file-name=libstdc++.so)" \
	ASAN_OPTIONS=detect_leaks=0 UBSAN_OPTIONS=print_stacktrace=1

.PHONY: help serve test check setup fetch-test-models lint types unit native bench docs clean
.PHONY: coverage fuzz search soak soak-real overload test-isa sanitize sanitize-address sanitize-thread
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

help: ## Say what can be made
	@grep -E '^[a-z-]+:.*## ' Makefile | sed -E 's/:.*## /\t/' | while IFS='	' read -r name text; do printf '  make %-12s %s\n' "$$name" "$$text"; done

serve: $(VENV)/.stamp-run ## Set up, fetch MODEL (demo) and serve it on http://127.0.0.1:8000
	$(BIN)/pelton serve $(MODEL)

test: setup ## Set up, fetch the test models, run every check and every test
	$(MAKE) fetch-test-models
	$(MAKE) lint types
	$(BIN)/python -m pytest
	$(MAKE) test-isa ISA_TESTS='tests/models tests/runner tests/backends'
	$(MAKE) sanitize-thread

check: setup ## The checks to run before every commit; no models, under 90 s
	$(MAKE) lint types unit

setup: $(VENV)/.stamp-run $(VENV)/.stamp-dev ## Set up .venv for development

fetch-test-models: $(VENV)/.stamp-run
	$(BIN)/python tools/fetch_models.py $(TEST_MODELS)

lint:
	$(BIN)/ruff format --check src tests tools
	$(BIN)/ruff check src tests tools
	$(BIN)/lint-imports
	$(BIN)/python tools/house_rules.py

types:
	$(BIN)/mypy
	$(BIN)/mypy tools/house_rules.py tools/write_reference.py

unit:
	$(BIN)/python -m pytest -m unit

# Tests that try every instruction set anyway are left out here.
ISA_TESTS ?= -m cpu
test-isa: setup ## Run the tests of kernels and models as on machines with lesser instruction sets
	for isa in $(ISAS); do echo "== $$isa"; $(BIN)/python -m pytest --isa $$isa $(ISA_TESTS) || exit 1; done

sanitize: ## Run kernels and programs under Address-, UndefinedBehavior- and ThreadSanitizer
	$(MAKE) sanitize-thread sanitize-address

sanitize-thread: setup
	$(CONFIGURE) -B build/thread -DPELTON_SANITIZE=thread
	$(CMAKE) --build build/thread --target native_tests --parallel $(NUM_CORES) -- --quiet
	CTEST_OUTPUT_ON_FAILURE=1 $(CMAKE) --build build/thread --target test

sanitize-address: setup
	$(CONFIGURE) -B build/address -DPELTON_SANITIZE=address,undefined
	$(CMAKE) --build build/address --target _native --parallel $(NUM_CORES) -- --quiet
	$(WITH_ASAN) $(BIN)/python -m pytest --capture=sys --native build/address/_native*.so \
		tests/backends/cpu tests/conformance tests/runner/test_determinism.py

native: ## Build the C++ kernels again, as far as they changed
	@rm -f $(VENV)/.stamp-run
	@$(MAKE) $(VENV)/.stamp-run

soak: $(VENV)/.stamp-dev ## Load a server for MINUTES and kill its engine again and again; no answer may be lost
	$(BIN)/python -m tests.soak.run $(MINUTES) build/soak

soak-real: $(VENV)/.stamp-dev ## The same with MODEL (demo): answers must be those of a server that nobody hurt
	$(BIN)/python -m tests.soak.real $(MODEL) $(MINUTES) build/soak-real

overload: $(VENV)/.stamp-dev ## Offer a server ten times too much for MINUTES; what it admits must be right
	$(BIN)/python -m tests.soak.overload $(MINUTES)

fuzz: $(VENV)/.stamp-dev ## Attack readers with wrong files and a server with hostile requests, each for MINUTES (10)
	$(BIN)/python -m tests.file_fuzz.run $(MINUTES) $(SEED)
	$(BIN)/python -m tests.http_adversary.storm $(MINUTES) $(SEED)
	$(BIN)/python -m tests.simulation.endless $(MINUTES) $(SEED)

search: $(VENV)/.stamp-dev ## Search all states of a small scheduler, more than a million; half an hour on two cores
	$(BIN)/python -m tests.exhaustive.run $(SETTING)

COVERED := kvcache $(addprefix engine.,deadline limits pace parking repeat request scheduler victim waiting)
coverage: $(VENV)/.stamp-dev ## See that tests run every branch of scheduler, queue, pool and tree
	$(BIN)/python -m pytest -m unit tests/engine tests/kvcache $(COVERED:%=--cov=pelton.%) --cov-branch \
		--cov-report=term-missing:skip-covered --cov-fail-under=100

bench: $(VENV)/.stamp-run ## Measure the speed of MODEL (demo)
	$(BIN)/pelton bench offline $(MODEL)

docs: setup ## Write the reference pages that come from code
	$(BIN)/python tools/write_reference.py

clean: ## Remove what was built, .venv included; downloaded models stay in the cache
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage
	find src tests tools -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.stamp-venv:
	@echo "== making $(VENV)"
	@$(PYTHON) -c 'import sys; sys.exit(f"Python 3.11 or later is needed, this is {sys.version}" if sys.version_info < (3, 11) else 0)'
	@$(PYTHON) -m venv $(VENV)
	@$(PIP) --upgrade 'pip>=25.1'
	@touch $@

# The build runs in the venv, not in a fresh environment each time, so ninja builds only what changed.
$(VENV)/.stamp-run: $(VENV)/.stamp-venv pyproject.toml $(NATIVE_SOURCES)
	@echo "== installing what Pelton needs and building the kernels (a minute or two)"
	@$(PIP) --group build
	@$(PIP) --no-build-isolation --editable .
	@touch $@

# torch comes first and alone: whichever build of this version pip is set up to find is the one that stays.
$(VENV)/.stamp-dev: $(VENV)/.stamp-venv pyproject.toml
	@echo "== installing tools and oracles of the tests (minutes, torch is large)"
	@$(PIP) torch==2.13.0
	@$(PIP) --group dev
	@touch $@
