"""The whole Python package against the fake CUDA runtime and the fake TensorRT, which compute for real."""

from __future__ import annotations

import pytest

from support.fakes import LIBRARIES, PROGRAMS, RTX, SETUP, needs_fakes, on_fakes, outcomes_of
from support.process import command, run_code

pytestmark = needs_fakes

# Each is a test of its own; they share a process, because importing torch and ExecuTorch takes seconds.
CASES = {
    "one_engine": "same(load('add_one').execute((x,))[0], x + 1)",
    "host_tensors_without_copies_in_the_program": "same(load('host_only').execute((x,))[0], x + 1)",
    "several_engines": "same(load('chain').execute((x,))[0], ((x * 2) + 1) * 3)",
    "an_operator_between_engines": "same(load('around_cpu').execute((x,))[0], torch.sin(x * 2) + 1)",
    "the_gpu_that_the_program_names": "same(load('second_gpu').execute((x,))[0], x + 1)",
    "mixed_types": """
        n = torch.tensor([2**40, -3])
        a, b, c = load("mixed").execute((x, n))
        same(a, x + 1), same(b, n + n), same(c, x.sum())
    """,
    "two_methods": """
        forward, double, y = load("two_methods"), load("two_methods", "double"), torch.ones(4)
        for _ in range(3):
            same(forward.execute((x,))[0], x + 1)
            same(double.execute((y,))[0], y * 2)
    """,
    "every_size_in_the_range_and_no_other": """
        forward = load("dynamic")
        for rows in (2, 8, 3, 5):
            y = torch.ones(rows, 3)
            same(forward.execute((y,))[0], y * 2 + 1)
        try:
            forward.execute((torch.ones(9, 3),))
        except RuntimeError:
            pass
        else:
            raise AssertionError("9 rows were taken")
        y = torch.ones(4, 3)
        same(forward.execute((y,))[0], y * 2 + 1)
    """,
    "no_rows_at_all": """
        forward = load("maybe_empty")
        for rows in (3, 0, 3, 0, 0, 8):
            y, z = torch.arange(4.0 * rows).reshape(rows, 4), torch.tensor([5.0, rows])
            a, b = forward.execute((y, z))
            same(a, y + 1), same(b, z * 2)
    """,
    "a_scalar_between_engines": """
        forward = load("scalar_between")
        for i in range(3):
            (y,) = forward.execute((x + i,))
            same(y, (x + i).sum() * 2 + 1)
            assert y.shape == ()
    """,
    "one_value_returned_twice_and_an_input": """
        forward = load("one_value_twice")
        for i in range(3):
            given = x + i
            first, again, second = forward.execute((given,))
            same(first, given + 1), same(again, given), same(second, given + 1)
            first.zero_(), again.zero_()
            same(second, x + i + 1), same(given, x + i)
    """,
    "results_whose_size_depends_on_values": """
        forward = load("selected")
        for values in ([1, -1, 2, -1, 0, 3], [-1] * 6, [1] * 6, [-1, -1, -1, -1, -1, 5]):
            y = torch.tensor(values, dtype=torch.float32)
            chosen, places = forward.execute((y,))
            same(chosen, (y * 2)[y > 0]), same(places, torch.nonzero(y + 1))
    """,
    "the_callers_stream": """
        forward = load("add_one")
        for stream in (0, None, 2):
            with package.caller_stream(stream):
                same(forward.execute((x,))[0], x + 1)
    """,
    "counts_what_every_engine_did": """
        before = len(package.stats())
        forward = load("chain")
        for _ in range(4):
            forward.execute((x,))
        engines = package.stats()[before:]
        assert len(engines) == 3, engines
        for engine in engines:
            assert engine.calls == engine.plain_calls + engine.replayed_calls == 4, engine
            assert engine.device == 0
            assert "forward" in engine.label
            assert engine.weights_bytes >= 64
            assert engine.fallbacks == {}
    """,
    "many_loads": "[same(load('add_one').execute((x,))[0], x + 1) for _ in range(20)]",
    "options_of_the_process": """
        for option in ("use_cuda_graphs", "use_shared_activation_scratch"):
            package.set_option(option, True)
            forward = load("chain")
            for i in range(5):
                same(forward.execute((x + i,))[0], (((x + i) * 2) + 1) * 3)
    """,
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of(CASES)


@pytest.mark.parametrize("case", CASES)
def test_runs(outcomes: dict[str, str], case: str) -> None:
    assert not outcomes[case], outcomes[case]


def test_the_library_can_be_chosen_by_option() -> None:
    code = f"{SETUP}\npackage.set_option('tensorrt_library', {str(RTX)!r})\n{CASES['one_engine']}"
    result = on_fakes(run_code, code, library="/nothing/libtensorrt_rtx.so.1")
    assert result.code == 0, result.err


def test_says_which_library_is_needed_when_the_named_one_is_missing() -> None:
    result = on_fakes(run_code, SETUP + "load('add_one')", library="/nothing/libtensorrt_rtx.so.1")
    assert result.code != 0
    assert "This engine needs TensorRT-RTX" in result.err
    assert "/nothing/libtensorrt_rtx.so.1" in result.err


def test_says_both_versions_when_the_library_is_too_old() -> None:
    result = on_fakes(run_code, SETUP + "load('add_one')", library=LIBRARIES / "rtx-1.4" / "libtensorrt_rtx.so.1")
    assert result.code != 0
    assert "TensorRT-RTX 1.4" in result.err
    assert "TensorRT-RTX 1.5 to 1.7 is needed" in result.err


def test_doctor_lists_the_gpus_and_the_library() -> None:
    out = on_fakes(command, "doctor").out
    assert "GPU 0" in out
    assert "Fake GPU 1, 9.0, 8.6 GB" in out
    assert f"1.6.1.120, {RTX}" in out
    assert "!" not in out, "something is missing"


def test_check_passes_what_runs_and_names_what_does_not() -> None:
    good = on_fakes(command, "check", PROGRAMS / "add_one.pte")
    assert good.code == 0, good.err
    bad = on_fakes(command, "check", PROGRAMS / "missing_gpu.pte", "--json")
    assert bad.code == 1
    assert "exported for GPU 7, but this machine shows 2 GPU(s)" in bad.json["problems"][0]


def test_the_command_runs_a_program() -> None:
    result = on_fakes(command, "run", PROGRAMS / "add_one.pte", "--repeat", "2", "--json")
    assert result.code == 0, result.err
    assert result.json["outputs"][0]["shape"] == [2, 3]
