"""Whatever way the elements of an input lie in memory, Python's callers get the right numbers."""

from __future__ import annotations

import pytest

from support.fakes import PROGRAMS, SETUP, needs_fakes, on_fakes, outcomes_of
from support.process import PACKAGE, run_code

pytestmark = needs_fakes

LAYOUTS = f"""
{SETUP}
import contextlib, io, threading
from pathlib import Path
from unittest import mock
from executorch import runtime
from {PACKAGE}._layouts import with_layouts

def path(name):
    return Path({str(PROGRAMS)!r}) / f"{{name}}.pte"

def counted(*shape):
    return torch.arange(float(torch.Size(shape).numel())).reshape(shape)

def views(x):
    every_second = torch.zeros(x.shape[0], x.shape[1] * 2, *x.shape[2:])
    every_second[:, ::2] = x
    wide = torch.zeros(*x.shape[:-1], x.shape[-1] + 5)
    wide[..., 2:-3] = x
    yield "contiguous", x
    yield "transposed", x.transpose(-1, -2).contiguous().transpose(-1, -2)
    yield "sliced", every_second[:, ::2]
    yield "offset", wide[..., 2:-3]
    yield "expanded", x[:, :1].expand(x.shape)
    yield "reversed dimensions", x.permute(*reversed(range(x.dim()))).contiguous().permute(*reversed(range(x.dim())))
    if x.dim() == 4:
        yield "channels_last", x.to(memory_format=torch.channels_last)
    if x.dim() == 5:
        yield "channels_last_3d", x.to(memory_format=torch.channels_last_3d)

@contextlib.contextmanager
def on_stream(handle):
    # Pretends that it is PyTorch's current stream; gives what tells which (GPU, stream) replaced it.
    chosen = []
    @contextlib.contextmanager
    def stream(external):
        chosen.append(external)
        yield
        chosen.pop()
    with (
        mock.patch("{PACKAGE}._current_stream._current_handle", lambda device: handle),
        mock.patch("torch.cuda.ExternalStream", lambda other, device: (device, other)),
        mock.patch("torch.cuda.stream", stream),
        mock.patch("torch.cuda.current_stream", lambda device: (device, handle)),
    ):
        yield lambda: chosen[-1] if chosen else None

def check(method, x):
    for name, view in views(x):
        before = (view.clone(), view.stride(), view.data_ptr())
        (y,) = method.execute((view,))
        assert torch.equal(y, view * 3), name
        assert torch.equal(view, before[0]) and (view.stride(), view.data_ptr()) == before[1:], name
"""

IMAGE, VOLUME, MATRIX = "counted(2, 3, 4, 5)", "counted(2, 3, 2, 4, 5)", "counted(5, 4).reshape(4, 5)"

CASES = {
    "a_program_for_the_default_layout": f"check(load('layout_plain'), {IMAGE})",
    "a_program_for_channels_last": f"check(load('layout_channels_last'), {IMAGE})",
    "a_program_for_channels_last_3d": f"check(load('layout_channels_last_3d'), {VOLUME})",
    "a_program_for_a_transposed_matrix": f"check(load('layout_transposed'), {MATRIX})",
    "each_method_has_its_own_layout": f"""
        program = Runtime.get().load_program(path("layouts_by_method"))
        for name, x in (("plain", {IMAGE}), ("channels_last", {IMAGE}), ("channels_last_3d", {VOLUME}),
                        ("transposed", {MATRIX}), ("plain", {IMAGE})):
            check(program.load_method(name), x)
    """,
    "however_the_program_is_loaded": f"""
        data = path("layout_channels_last").read_bytes()
        for source in (path("layout_channels_last"), str(path("layout_channels_last")), data, bytearray(data),
                       io.BytesIO(data), path("layout_channels_last").open("rb")):
            program = Runtime.get().load_program(source, verification=runtime.Verification.Minimal)
            check(program.load_method("forward"), {IMAGE})
        check(Runtime.get().load_program(data=data).load_method("forward"), {IMAGE})
    """,
    "a_list_and_several_inputs": """
        y = torch.arange(6.0).reshape(3, 2).t()
        n = torch.tensor([5, 9, 7, 9])[::2]
        a, b, c = load("mixed").execute([y, n])
        same(a, y + 1), same(b, n + n), same(c, y.sum())
    """,
    "one_tensor_instead_of_a_list": f"""
        for name, y in (("layout_plain", {IMAGE}), ("layout_channels_last", {IMAGE}), ("add_one", counted(2, 3))):
            for kind, view in views(y):
                expected = view + 1 if name == "add_one" else view * 3
                assert torch.equal(load(name).execute(view)[0], expected), (name, kind)
    """,
    "dynamic_sizes": """
        for rows in (2, 8, 3):
            y = torch.arange(3.0 * rows).reshape(3, rows).t()
            same(load("dynamic").execute((y,))[0], y * 2 + 1)
    """,
    "what_needs_gradients": f"""
        y = torch.nn.Parameter({IMAGE}.to(memory_format=torch.channels_last))
        (result,) = load("layout_plain").execute((y,))
        same(result, y.detach() * 3)
    """,
    "what_does_not_fit_is_refused_by_executorch_as_before": f"""
        for name in ("layout_plain", "layout_channels_last", "layout_transposed"):
            method = load(name)
            for wrong in ((torch.zeros(3),), (torch.zeros(7, 7).t(),), (), ("x",), (None,)):
                try:
                    method.execute(wrong)
                except RuntimeError:
                    continue
                raise AssertionError(f"{{name}} took {{wrong}}")
        check(load("layout_plain"), {IMAGE})
    """,
    "inputs_that_lie_right_are_passed_as_they_are": f"""
        x = {IMAGE}
        inputs = (x, 3, "text", None)
        assert with_layouts(inputs, (None, None, None, None)) is inputs
        last = [x.to(memory_format=torch.channels_last)]
        assert with_layouts(last, ((0, 2, 3, 1),)) is last
        given = [x, last[0], 7]
        converted = with_layouts(given, (None, None))
        assert converted[0] is x and converted[1] is not last[0] and converted[2] == 7
        assert given[1] is last[0]
    """,
    "the_numbers_that_both_layouts_share_are_not_copied": """
        one_channel = torch.rand(2, 1, 4, 5)
        assert with_layouts([one_channel], ((0, 2, 3, 1),))[0] is one_channel
        one_pixel = torch.rand(2, 3, 1, 1).to(memory_format=torch.channels_last)
        assert with_layouts([one_pixel], (None,))[0] is one_pixel
    """,
    "a_program_without_an_engine_stays_executorchs_own": """
        program = Runtime.get().load_program(path("cpu_only"))
        assert type(program) is runtime.Program
        method = program.load_method("forward")
        assert type(method) is runtime.Method
        same(method.execute((torch.ones(2, 3, 4, 5),))[0], torch.ones(2, 3, 4, 5).sin())
    """,
    "executorchs_classes_stay_as_they_are": """
        program = Runtime.get().load_program(path("layout_plain"))
        method = program.load_method("forward")
        assert isinstance(program, runtime.Program) and isinstance(method, runtime.Method)
        assert type(method).__name__ == "Method" and type(program).__name__ == "Program"
        assert program.load_method("forward") is method
        assert method.metadata.num_inputs() == 1 and program.method_names == {"forward"}
        assert runtime.Method.execute.__qualname__ == "Method.execute"
        assert runtime.Program.load_method.__module__ == "executorch.runtime"
    """,
    "the_switch_leaves_the_inputs_alone": f"""
        import os
        last = {IMAGE}.to(memory_format=torch.channels_last)
        for value in ("0", "false", "No"):
            os.environ["TENSORRT_EXECUTORCH_CONVERT_LAYOUTS"] = value
            assert not torch.equal(load("layout_plain").execute((last,))[0], last * 3)
        os.environ["TENSORRT_EXECUTORCH_CONVERT_LAYOUTS"] = "1"
        check(load("layout_plain"), {IMAGE})
    """,
    "copies_on_the_gpu_are_queued_on_the_callers_stream": """
        on_gpu = mock.Mock(spec=torch.Tensor, is_cuda=True, device=torch.device("cuda:1"))
        on_gpu.is_contiguous.return_value = False
        with on_stream(5) as entered:
            on_gpu.detach.return_value.contiguous.side_effect = lambda: entered()
            with package.caller_stream(7):
                assert with_layouts([on_gpu], (None,)) == [(1, 7)]
            on_gpu.record_stream.assert_called_once_with((1, 7))
            with package.caller_stream(5):
                assert with_layouts([on_gpu], (None,)) == [None]
            assert with_layouts([on_gpu], (None,)) == [None]
    """,
    "results_on_the_gpu_are_copied_on_the_callers_stream": """
        def loaded(name):
            method = load(name)
            assert type(method) is not runtime.Method
            method._method = lambda inputs, clone_outputs: entered()
            return method
        with on_stream(5) as entered:
            for name, gpu in (("results_on_gpu", 0), ("results_on_second_gpu", 1)):
                method = loaded(name)
                with package.caller_stream(7):
                    assert method.execute((x,)) == (gpu, 7)
                with package.caller_stream(5):
                    assert method.execute((x,)) is None, "it is PyTorch's already"
                assert method.execute((x,)) is None
                with package.caller_stream(1):
                    assert method.execute((x,)) == (gpu, 0), "CUDA's default stream by its other name"
            with package.caller_stream(7):
                assert loaded("add_one").execute((x,)) is None, "results in host memory"
    """,
    "memory_is_not_given_to_others_while_the_callers_stream_uses_it": """
        def on_gpu():
            return mock.Mock(spec=torch.Tensor, is_cuda=True, device=torch.device("cuda:0"))
        given, result, on_host = on_gpu(), on_gpu(), mock.Mock(spec=torch.Tensor, is_cuda=False)
        with on_stream(5):
            method = load("results_on_gpu")
            method._method = mock.Mock(return_value=[result, on_host, 3])
            for handle in (5, None):
                with package.caller_stream(handle):
                    method.execute([given])
            assert not given.record_stream.called and not result.record_stream.called
            with package.caller_stream(7):
                method.execute([given])
                given.record_stream.assert_called_once_with((0, 7))
                given.record_stream.reset_mock()
                method._method = mock.Mock(return_value=[on_host])
                method.execute([given], clone_outputs=False)
        given.record_stream.assert_called_once_with((0, 7))
        result.record_stream.assert_called_once_with((0, 5))
        assert not on_host.record_stream.called
    """,
    "results_may_stay_in_the_memory_of_the_method": f"""
        method, rows = load("add_one"), counted(2, 3)
        (cloned,), (stays,) = method.execute((rows,)), method.execute((rows,), clone_outputs=False)
        same(stays, rows + 1)
        (again,) = method.execute((rows + 10,), clone_outputs=False)
        assert again.data_ptr() == stays.data_ptr() != cloned.data_ptr()
        same(stays, rows + 11), same(cloned, rows + 1)
        last = {IMAGE}.to(memory_format=torch.channels_last)
        same(load("layout_plain").execute((last,), clone_outputs=False)[0], last * 3)
    """,
    "a_pytorch_without_cuda_has_no_stream_to_choose": f"""
        from {PACKAGE}._current_stream import stream_to_follow
        with mock.patch("{PACKAGE}._current_stream._current_handle", None), package.caller_stream(7):
            assert stream_to_follow(0) is None
    """,
    "a_method_is_freed_with_its_last_reference": """
        import gc, weakref
        gc.disable()
        program = Runtime.get().load_program(path("layout_plain"))
        method = program.load_method("forward")
        references = weakref.ref(program), weakref.ref(method)
        del program, method
        gc.enable()
        assert [reference() for reference in references] == [None, None]
    """,
    "threads": f"""
        results = []
        def work():
            program = Runtime.get().load_program(path("layouts_by_method"))
            check(program.load_method("channels_last"), {IMAGE})
            results.append(1)
        threads = [threading.Thread(target=work) for _ in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert len(results) == 8
    """,
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of(CASES, LAYOUTS)


@pytest.mark.parametrize("case", CASES)
def test_right(outcomes: dict[str, str], case: str) -> None:
    assert not outcomes[case], outcomes[case]


CHECK_ONE = "\ncheck(load('layout_channels_last'), counted(2, 3, 4, 5))\n"


@pytest.mark.parametrize("order", ["before", "after", "again"])
def test_in_whatever_order_the_packages_are_imported(order: str) -> None:
    first = {
        "before": "import executorch.runtime",
        "after": f"import {PACKAGE}",
        "again": f"""
import importlib, sys
import {PACKAGE}
for name in [name for name in sys.modules if name.startswith("{PACKAGE}") and not name.endswith("._native")]:
    del sys.modules[name]
import {PACKAGE}
import executorch.runtime
importlib.reload(executorch.runtime)
loader = executorch.runtime.__spec__.loader
assert type(loader).__name__ == "SourceFileLoader" and loader.get_source("executorch.runtime")
assert not hasattr(executorch.runtime.Runtime.load_program.__wrapped__, "__wrapped__"), "wrapped twice"
""",
    }[order]
    result = on_fakes(run_code, first + LAYOUTS + CHECK_ONE)
    assert result.code == 0, result.err


def test_steps_aside_once_when_executorch_is_not_as_expected() -> None:
    result = on_fakes(
        run_code,
        f"""
import logging
from executorch import runtime
execute = runtime.Method.execute
runtime.Method.execute = lambda self, values: execute(self, values)
load_program = runtime.Runtime.load_program
import {PACKAGE}
from {PACKAGE}._methods import install
install(runtime)
assert runtime.Runtime.load_program is load_program
{LAYOUTS}
same(load("add_one").execute((x,))[0], x + 1)
""",
    )
    assert result.code == 0, result.err
    expected = "by this ExecuTorch (Method.execute takes ['self', 'values'], but ['self', 'inputs'] is expected)"
    assert result.err.count(expected) == 1, result.err


def test_steps_aside_once_when_the_file_cannot_be_read() -> None:
    result = on_fakes(
        run_code,
        f"""
{LAYOUTS}
import {PACKAGE}._methods as methods
def fail(data, backend):
    raise package.ProgramError("it is damaged")
methods.read_boundaries = fail
for _ in range(2):
    same(load("add_one").execute((x,))[0], x + 1)
""",
    )
    assert result.code == 0, result.err
    expected = "so they are not converted (it is damaged). Give tensors in the program's layout"
    assert result.err.count(expected) == 1, result.err
