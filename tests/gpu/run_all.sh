#!/bin/bash
# Builds and installs this tree without a network, runs every GPU test and writes h200-first-light.json.
#
#   tests/gpu/run_all.sh [FOLDER]       # FOLDER for results, default $OUT, else build/gpu
#
# Needs an NVIDIA GPU, Python with the packages of the extras [rtx,export,test], a C++ compiler, CMake and ninja.
# PYTHONPATH is respected: the wheel goes into the folder that holds executorch. A machine on which every test skips
# counts as failed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONUNBUFFERED=1
export OUT="${1:-${OUT:-$PWD/build/gpu}}"
export TTER_RESULTS="$OUT/${TTER_RESULT_NAME:-h200-first-light.json}"
export TTER_COMMAND="tests/gpu/run_all.sh"
work="${TTER_WORK:-$(mktemp -d)}"
python="${PYTHON:-python3}"
PATH="$(dirname "$(command -v "$python")"):$PATH" # the CMake beside Python may be newer than the system's
jobs="$(nproc)"
mkdir -p "$OUT" "$work"
rm -f "$TTER_RESULTS"

step() { printf '\n=== %s (%d s since the start)\n' "$1" "$SECONDS"; }

fail() {
  printf 'FAILED: %s\n' "$1"
  exit 1
}

step "wheel"
site="$("$python" -c 'import importlib.metadata as m; print(m.distribution("executorch").locate_file(""))')" ||
  fail "executorch is not installed for $python"
CMAKE_BUILD_PARALLEL_LEVEL="$jobs" "$python" -m pip install --no-deps --no-build-isolation --no-index --upgrade \
  --target "$site" --config-settings=build-dir="$work/wheel" . || fail "the wheel could not be built and installed"

step "C++ runner, slot probe and test kernels"
build() {
  cmake -S "$1" -B "$2" -DPython_EXECUTABLE="$(command -v "$python")" >"$2.log" 2>&1 &&
    cmake --build "$2" --parallel "$jobs" >>"$2.log" 2>&1 || { tail -n 30 "$2.log"; fail "$1 could not be built"; }
}
build examples/cpp_runner "$work/cpp_runner"
build tests/gpu/slots "$work/slots"
build tests/gpu/kernels "$work/kernels"
export TTER_CPP_RUNNER="$work/cpp_runner/cpp_runner" TTER_SLOT_PROBE="$work/slots/slot_probe"
export TTER_TEST_KERNELS="$work/kernels/libtest_kernels.so"

step "tests"
# Tests import the installed package, not the sources beside them. Those that need the GPU for themselves come last.
alone=tests/gpu/test_load_rounds.py
run() { PYTHONSAFEPATH=1 "$python" -m pytest -p no:cacheprovider -W default -ra --durations=10 ${TTER_PYTEST:-} "$@" 2>&1 | tee -a "$OUT/pytest.log"; return "${PIPESTATUS[0]}"; }
workers=""
"$python" -c 'import xdist' 2>/dev/null && workers="-n $((jobs < 10 ? jobs : 10))"
rm -f "$OUT/pytest.log"
run tests/gpu --ignore "$alone" --ignore tests/gpu/every_tensor $workers
together="$?"
run "$alone"
alone_status="$?"
tests=$((together > alone_status ? together : alone_status))

step "summary"
"$python" tests/gpu/results.py "$TTER_RESULTS"
checks="$?"
"$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' || fail "this machine has no NVIDIA GPU"
[ "$tests" -eq 0 ] || fail "pytest ended with $tests"
exit "$checks"
