from __future__ import annotations

from dataclasses import replace

import pytest

from torch_tensorrt_executorch_runtime._compatibility import Machine, check_program
from torch_tensorrt_executorch_runtime.inspect import DelegateInfo, EngineInfo, MethodInfo, OperatorInfo, ProgramInfo

ENGINE = EngineInfo(
    flavor="rtx",
    version="1.6.1.120",
    size_bytes=100,
    sha256="0" * 64,
    sha256_recorded=True,
    layers=1,
    build_seconds=0.1,
    compute_capabilities=(),
    hardware_compatible=False,
    device_id=0,
    target_platform="",
    bindings=(),
    aliases=(),
)
MACHINE = Machine(
    devices=("9.0",),
    tensorrt=(("rtx", "1.6.1.120"),),
    backends=frozenset({"TensorRTBackend"}),
    operators=frozenset({"et_copy::_h2d_copy.out"}),
)


def program(engine: EngineInfo | None = ENGINE, *, operator: str = "", backend: str = "TensorRTBackend") -> ProgramInfo:
    method = MethodInfo(
        name="forward",
        inputs=(),
        outputs=(),
        delegates=(DelegateInfo(backend, 100, 1, {}, engine),),
        operators=(OperatorInfo(operator, 1),) if operator else (),
        outside=(),
        memory=(),
    )
    return ProgramInfo("model.pte", 100, (method,), ())


def problem(program: ProgramInfo, machine: Machine) -> str:
    verdict = check_program(program, machine)
    assert not verdict.runs
    (text,) = verdict.problems
    return text


def test_nothing_stands_against_a_program_that_fits() -> None:
    verdict = check_program(program(operator="et_copy::_h2d_copy.out"), MACHINE)
    assert verdict.runs
    assert verdict.notes == ()


def test_names_the_operators_that_are_missing() -> None:
    text = problem(program(operator="aten::erfinv.out"), MACHINE)
    assert "Method 'forward' calls aten::erfinv.out, which ExecuTorch's optimized kernels do not have" in text


@pytest.mark.parametrize(
    ("backend", "hint"), [("CudaBackend", "Install the ExecuTorch build"), ("TensorRTBackend", "Import torch_tensorrt")]
)
def test_names_the_backend_that_is_missing(backend: str, hint: str) -> None:
    text = problem(program(None, backend=backend), replace(MACHINE, backends=frozenset()))
    assert f"needs the backend {backend}, which is not registered here" in text
    assert hint in text


def test_says_that_there_is_no_gpu_and_why() -> None:
    text = problem(program(), replace(MACHINE, devices=(), device_error="no driver"))
    assert text == "The program has TensorRT engines, but no NVIDIA GPU can be used: no driver."


def test_says_that_the_gpu_of_that_number_is_missing() -> None:
    text = problem(program(replace(ENGINE, device_id=2)), MACHINE)
    assert "exported for GPU 2, but this machine shows 1 GPU(s), counted from 0" in text


def test_says_that_no_library_of_the_flavour_was_found() -> None:
    machine = replace(MACHINE, tensorrt=(("full", "11.4.0.106"),), tensorrt_errors=(("rtx", "1.4 is too old"),))
    text = problem(program(), machine)
    assert "needs TensorRT-RTX 1.6.1.120, but no usable library was found (1.4 is too old)" in text
    assert '"torch-tensorrt-executorch-runtime[rtx]"' in text


def test_any_flavour_of_tensorrt_11_serves_its_engines() -> None:
    engine = replace(ENGINE, flavor="tensorrt", version="11.4.0.106")
    assert check_program(program(engine), replace(MACHINE, tensorrt=(("dispatch", "11.4.0.106"),))).runs


def test_an_older_library_is_a_problem_and_a_newer_one_a_note() -> None:
    text = problem(program(), replace(MACHINE, tensorrt=(("rtx", "1.5.0.10"),)))
    assert "built by TensorRT-RTX 1.6.1.120, but TensorRT-RTX 1.5.0.10 is installed, which is older" in text
    newer = check_program(program(), replace(MACHINE, tensorrt=(("rtx", "1.7.1.0"),)))
    assert newer.runs
    assert "only known when it is loaded" in newer.notes[0]


def test_another_patch_release_is_the_same() -> None:
    verdict = check_program(program(), replace(MACHINE, tensorrt=(("rtx", "1.6.0.1"),)))
    assert verdict.runs
    assert verdict.notes == ()


def test_an_older_gpu_is_a_problem_and_a_newer_one_a_note() -> None:
    older = problem(program(replace(ENGINE, compute_capabilities=("12.0",))), MACHINE)
    assert "built for compute capability 12.0, but GPU 0 has 9.0" in older
    newer = check_program(program(replace(ENGINE, compute_capabilities=("8.0", "8.6"))), MACHINE)
    assert newer.runs
    assert "built for compute capability 8.0, 8.6, and this GPU has 9.0" in newer.notes[0]


def test_a_file_that_records_no_version_is_a_note() -> None:
    verdict = check_program(program(replace(ENGINE, version=None, compute_capabilities=None)), MACHINE)
    assert verdict.runs
    assert "does not record which TensorRT built its engines" in verdict.notes[0]


def test_an_engine_of_no_known_kind_is_a_problem() -> None:
    assert "it is damaged" in problem(program(replace(ENGINE, flavor="unknown")), MACHINE)


def test_the_same_sentence_is_said_once() -> None:
    twice = program(ENGINE)
    method = twice.methods[0]
    twice = replace(twice, methods=(replace(method, delegates=method.delegates * 2),))
    assert len(check_program(twice, replace(MACHINE, devices=())).problems) == 1
