# The commands of this project. Each sets up what it needs; PYTHON chooses the interpreter, JOBS how many compilers run.
PYTHON ?= python3
JOBS ?= 2

VENV := .venv
BIN := $(CURDIR)/$(VENV)/bin
READY := $(VENV)/.ready
PRESETS := dev asan tsan
FUZZ_SECONDS ?= 20
export PATH := $(BIN):$(PATH)

.DELETE_ON_ERROR:
.PHONY: test lint docs wheel install cpp-test python-test fuzz demo gpu-test format clean help

help: ## Show the commands.
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

test: lint docs cpp-test fuzz python-test ## Set everything up and run all tests that need no GPU.

$(READY): requirements/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --requirement requirements/dev.txt
	touch $@

wheel: $(READY) ## Build the wheel into dist/.
	rm -f dist/*.whl
	$(BIN)/python -m pip wheel . --disable-pip-version-check --quiet --no-deps --no-build-isolation --wheel-dir dist

install: wheel
	$(BIN)/python -m pip install --disable-pip-version-check --quiet --no-deps --force-reinstall dist/*.whl

lint: $(READY) ## Check style and types.
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	git ls-files '*.cpp' '*.h' | xargs $(BIN)/clang-format --dry-run -Werror

format: $(READY) ## Rewrite the sources in the project's style.
	$(BIN)/ruff check --fix
	$(BIN)/ruff format
	git ls-files '*.cpp' '*.h' | xargs $(BIN)/clang-format -i

docs: $(READY) ## Build the documentation into site/; a warning is an error.
	$(BIN)/mkdocs build --strict --quiet

cpp-test: $(READY) ## Build with the fakes and run the C++ tests, plainly and under the sanitizers.
	tools/require.sh /usr/include/gtest/gtest.h libgtest-dev
	set -e; for preset in $(PRESETS); do \
	  cmake --preset $$preset -DPython_EXECUTABLE=$(BIN)/python --log-level=WARNING; \
	  cmake --build --preset $$preset --parallel $(JOBS) -- --quiet; \
	  ctest --preset $$preset --parallel $(JOBS) --progress; \
	done

fuzz: $(READY) ## Feed the blob reader changed bytes for a while.
	tools/require.sh clang++ clang
	cmake --preset fuzz -DPython_EXECUTABLE=$(BIN)/python --log-level=WARNING
	cmake --build --preset fuzz --parallel $(JOBS) -- --quiet
	build/fuzz/tests/fuzz_blob -max_total_time=$(FUZZ_SECONDS) -print_final_stats=1 >build/fuzz/log 2>&1 \
	  || { tail -n 60 build/fuzz/log; exit 1; }
	grep number_of_executed_units build/fuzz/log

python-test: install ## Run the Python tests against the installed wheel.
	OMP_NUM_THREADS=1 $(BIN)/pytest --numprocesses $(JOBS) --dist loadfile

demo: install ## Export EfficientNet-Lite0, show what is in the file, run it where there is a GPU.
	$(BIN)/python examples/demo.py --output demo

gpu-test: ## On a machine with an NVIDIA GPU: run everything that needs one.
	tests/gpu/run_all.sh

clean: ## Remove everything that was built, and the environment.
	rm -rf build dist site demo $(VENV)
