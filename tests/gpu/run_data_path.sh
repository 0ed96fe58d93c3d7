#!/bin/bash
# Checks every tensor and compares speed and memory on a machine with an NVIDIA GPU, in about five minutes.
#
#   tests/gpu/run_data_path.sh [FOLDER]      # FOLDER for results, default $OUT, else build/gpu
#
# Writes h200-every-tensor.json and h200-fast-and-lean.json, each after every step. The wheel of this tree must be
# installed already (tests/gpu/run_all.sh does it), or TTER_BUILD_WHEEL=1 does it here. TTER_PROGRAMS names a folder, or
# archives of it separated by spaces, with the programs that `python -m gpu.every_tensor.programs` wrote; what is missing is written here.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
export PYTHONUNBUFFERED=1 TTER_COMMAND="tests/gpu/run_data_path.sh"
OUT="${1:-${OUT:-$PWD/build/gpu}}"
work="${TTER_WORK:-$(mktemp -d)}"
python="$(command -v "${PYTHON:-python3}")"
PATH="$(dirname "$python"):$PATH" # the CMake beside Python may be newer than the system's
jobs="$(nproc)"
programs="${TTER_PROGRAMS:-$work/programs}"
mkdir -p "$OUT" "$work"
# Tests import the installed package, not the sources beside them.
export PYTHONSAFEPATH=1 PYTHONPATH="$PWD/benchmarks:$PWD/tests${PYTHONPATH:+:$PYTHONPATH}"

step() { printf '\n=== %s (%d s since the start)\n' "$1" "$SECONDS"; }

build() {
  cmake -S "$1" -B "$2" -DPython_EXECUTABLE="$python" "${@:3}" >"$2.log" 2>&1 &&
    cmake --build "$2" --parallel "$jobs" >>"$2.log" 2>&1 || { tail -n 20 "$2.log"; printf 'FAILED: %s could not be built\n' "$1"; }
}

if [ "${TTER_BUILD_WHEEL:-0}" = 1 ]; then
  step "wheel"
  site="$("$python" -c 'import importlib.metadata as m; print(m.distribution("executorch").locate_file(""))')"
  CMAKE_BUILD_PARALLEL_LEVEL="$jobs" "$python" -m pip install --quiet --no-deps --no-build-isolation --no-index --upgrade \
    --target "$site" --config-settings=build-dir="$work/wheel" . || { printf 'FAILED: the wheel could not be built\n'; exit 1; }
fi

step "programs and C++ cases"
build tests/gpu/every_tensor/cpp "$work/gpu_cases" &
# The delegate's own objects, for calls of the bare engine.
[ -n "${TTER_CALL_OVERHEAD:-}" ] || build . "$work/benchmarks" -DTENSORRT_EXECUTORCH_BENCHMARKS=ON \
  -DTENSORRT_EXECUTORCH_TESTS=OFF -DCMAKE_BUILD_TYPE=Release &
if [ ! -d "$programs" ]; then
  mkdir -p "$work/programs"
  for archive in ${TTER_PROGRAMS:-}; do tar -C "$work/programs" --strip-components=1 -xf "$archive"; done
  programs="$work/programs"
fi
"$python" -W ignore -m gpu.every_tensor.programs "$programs" >"$work/programs.log" 2>&1 || grep FAILED "$work/programs.log"
wait
cases="$work/gpu_cases/gpu_cases"
call_overhead="${TTER_CALL_OVERHEAD:-$(find "$work/benchmarks" -name call_overhead -type f -perm -u+x 2>/dev/null | head -n 1)}"

step "kernels for all programs"
timeout 90 "$cases" "$programs" warm 2>"$work/warm.log" || tail -n 3 "$work/warm.log"

step "calls against the bare engine"
# It is no part of an installed package, so it does not find TensorRT beside itself.
rtx="$("$python" -c 'import importlib.util as u, pathlib as p; print(next(p.Path(u.find_spec("tensorrt_rtx_libs").submodule_search_locations[0]).glob("libtensorrt_rtx.so.1*")))')"
mkdir -p "$work/overhead"
rm -f "$work"/overhead/*
for model in resnet18 encoder; do
  "$python" -m gpu.every_tensor.engine "$programs/$model.device.pte" "$work/$model.engine" || continue
  for _ in 1 2 3; do # where a process lies in memory changes times by a microsecond
    TENSORRT_EXECUTORCH_LIBRARY="$rtx" timeout 60 "$call_overhead" "$programs/$model.device.pte" "$work/$model.engine" >>"$work/overhead/$model.json" 2>"$work/overhead/$model.log" ||
      tail -n 3 "$work/overhead/$model.log"
  done
done

step "every tensor"
timeout 150 "$python" -m gpu.every_tensor --programs "$programs" --gpu-cases "$cases" --call-overhead "$work/overhead" \
  --output "$OUT/h200-every-tensor.json" 2>"$work/every_tensor.log"
first="$?"
tail -n 5 "$work/every_tensor.log"

step "fast and lean"
timeout "${TTER_SECONDS:-300}" "$python" -m comparison --programs "$programs" --gpu-cases "$cases" --call-overhead "$work/overhead" \
  --seconds "${TTER_COMPARISON_SECONDS:-120}" --output "$OUT/h200-fast-and-lean.json" 2>"$work/comparison.log"
second="$?"
tail -n 5 "$work/comparison.log"
grep -hE "Error|error:" "$work"/every_tensor.log "$work"/comparison.log "$OUT"/*.workers.log 2>/dev/null | sort | uniq -c | sort -rn | head -n 20
rm -f "$OUT"/*.lock "$OUT"/*.part

step "done"
"$python" benchmarks/report.py "$OUT/h200-fast-and-lean.json" "$OUT/h200-fast-and-lean.md" || true
exit $((first > second ? first : second))
