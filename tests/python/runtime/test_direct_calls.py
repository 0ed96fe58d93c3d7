"""Methods that are one engine are called directly; nobody can tell, but by the time that it takes."""

from __future__ import annotations

import pytest

from support.fakes import BUILD, PROGRAMS, SETUP, needs_fakes, outcomes_of
from support.process import PACKAGE

pytestmark = needs_fakes

DIRECT = f"""
{SETUP}
import contextlib, ctypes, threading
from pathlib import Path
from unittest import mock
from executorch import runtime

PROGRAMS = {str(PROGRAMS)!r}
CUDA = {str(BUILD / "fakes" / "cuda" / "libfake_cudart.so")!r}

# How often ExecuTorch's own way to a method was gone.
usual = []
call = runtime.ExecuTorchMethod.__call__
runtime.ExecuTorchMethod.__call__ = lambda *args: usual.append(1) or call(*args)

@contextlib.contextmanager
def goes(*, directly):
    before = len(usual)
    yield
    assert len(usual) == before + (not directly), f"{{len(usual) - before}} calls went the usual way"

def ready(name="one_call", rows=2):
    # A method that was called twice with the same shapes, and inputs for it.
    method = load(name)
    x, y = torch.arange(3.0 * rows).reshape(rows, 3), torch.ones(rows, 3)
    for _ in range(2):
        with goes(directly=False):
            same(method.execute((x, y))[0], x + y)
    return method, x, y

def check(method, x, y, *, directly, **options):
    with goes(directly=directly):
        (result,) = method.execute((x, y), **options)
        same(result, x + y)
    return result
"""

CASES = {
    "from_the_third_call_on": """
        method, x, y = ready()
        for i in range(5):
            check(method, x + i, y, directly=True)
    """,
    "lists_too": """
        method, x, y = ready()
        with goes(directly=True):
            same(method.execute([x, y])[0], x + y)
    """,
    "results_are_copies": """
        method, x, y = ready()
        first = check(method, x, y, directly=True)
        second = check(method, x + 1, y, directly=True)
        same(first, x + y)
        assert first.data_ptr() != second.data_ptr()
    """,
    "results_without_a_copy": """
        method, x, y = ready()
        usual_result = load("one_call").execute((x, y), clone_outputs=False)[0]
        first = check(method, x, y, directly=True, clone_outputs=False)
        first.unsqueeze_(0)  # changes nothing but this tensor
        second = check(method, x + 1, y, directly=True, clone_outputs=False)
        assert first.data_ptr() == second.data_ptr() and first.shape == (1, 2, 3)
        assert type(first) is type(usual_result) and not first.requires_grad
    """,
    "after_inference_mode": """
        method = load("one_call")
        x, y = torch.ones(2, 3), torch.ones(2, 3)
        with torch.inference_mode():
            for _ in range(4):
                inside = method.execute((x, y), clone_outputs=False)[0]
        outside = check(method, x, y, directly=True, clone_outputs=False)
        outside.add_(1)  # which a tensor of inference mode would refuse
        check(method, x, y, directly=True).add_(1)
    """,
    "counted_as_calls": """
        method, x, y = ready()
        check(method, x, y, directly=True)
        assert package.stats()[-1].calls == 3, package.stats()[-1]
    """,
    "several_shapes": """
        method, x, y = ready("one_call_dynamic", rows=4)
        a, b = torch.ones(7, 3), torch.ones(7, 3)
        check(method, a, b, directly=False)
        check(method, x, y, directly=True)
        check(method, a, b, directly=False)  # the second time in a row that went this way
        for _ in range(3):
            check(method, a, b, directly=True)
            check(method, x, y, directly=True)
    """,
    "the_last_four_shapes_that_repeat": """
        method = load("one_call_dynamic")
        inputs = {rows: (torch.ones(rows, 3), torch.ones(rows, 3)) for rows in range(2, 8)}
        for pair in inputs.values():
            check(method, *pair, directly=False), check(method, *pair, directly=False)
        for rows in range(7, 1, -1):
            check(method, *inputs[rows], directly=rows >= 4)
    """,
    "nothing_is_prepared_for_changing_shapes": f"""
        method = load("one_call_dynamic")
        with mock.patch("{PACKAGE}._loader._module.direct_call") as prepare:
            for rows in (2, 3, 4, 5, 2, 3):
                check(method, torch.ones(rows, 3), torch.ones(rows, 3), directly=False)
        assert not prepare.called
    """,
    "views_go_the_usual_way": """
        method, x, y = ready()
        wide = torch.zeros(2, 6)
        for view in (torch.arange(6.0).reshape(3, 2).t(), wide[:, ::2], x[:1].expand(2, 3)):
            for _ in range(3):
                check(method, view, y, directly=False)
        check(method, x, y, directly=True)
        shifted = torch.arange(7.0)[1:].reshape(2, 3)
        check(method, shifted, y, directly=True)
    """,
    "gradients_do_not_matter": """
        method, x, y = ready()
        result = check(method, x.clone().requires_grad_(), y, directly=True)
        assert not result.requires_grad
    """,
    "the_usual_way_says_what_is_wrong": """
        method, x, y = ready()
        for wrong in ((x, y.double()), (x, y.int()), (x, torch.ones(3, 3)), (x, torch.ones(3)), (x,), (x, y, y),
                      (x, "y"), (x, None), (x, torch.nn.Parameter(y)), ()):
            with goes(directly=False):
                try:
                    method.execute(wrong)
                except Exception as error:
                    message = str(error)
                else:
                    raise AssertionError(f"{len(wrong)} inputs were taken")
                assert "direct" not in message
        check(method, x, y, directly=True)
    """,
    "a_failure_of_the_engine_is_an_error": """
        method, x, y = ready()
        ctypes.CDLL(CUDA).fake_cuda_fail(b"kernel", 1, 700)
        with goes(directly=True):
            try:
                method.execute((x, y))
            except RuntimeError as error:
                assert "method->execute() failed with error 0x" in str(error), error
            else:
                raise AssertionError("nothing was raised")
        check(method, x, y, directly=True)
    """,
    "only_one_engine_on_the_callers_memory": f"""
        from {PACKAGE}._boundary import read_boundaries
        from {PACKAGE}._program import map_file
        found = set()
        for path in Path({str(PROGRAMS)!r}).glob("*.pte"):
            boundaries = read_boundaries(map_file(path), "TensorRTBackend")
            found |= {{path.stem for boundary in boundaries.values() if boundary.is_one_call}}
        assert found == {{"one_call", "one_call_dynamic", "one_call_each"}}, found
    """,
    "methods_that_share_their_memory_go_the_usual_way": """
        program = Runtime.get().load_program(str(Path(PROGRAMS) / "one_call_each.pte"))
        forward, product = program.load_method("forward"), program.load_method("product")
        x, y = torch.ones(2, 3), torch.full((2, 3), 5.0)
        for _ in range(4):
            check(forward, x, y, directly=False)
            with goes(directly=False):
                same(product.execute((x, y))[0], x * y)
    """,
    "methods_of_copied_inputs_go_the_usual_way": """
        method = load("one_call_copied")
        x, y = torch.ones(2, 3), torch.ones(2, 3)
        for _ in range(4):
            check(method, x, y, directly=False)
    """,
    "traced_programs_go_the_usual_way": f"""
        program = Runtime.get().load_program(Path({str(PROGRAMS)!r}) / "one_call.pte", enable_etdump=True)
        method = program.load_method("forward")
        x, y = torch.ones(2, 3), torch.ones(2, 3)
        for _ in range(4):
            check(method, x, y, directly=False)
    """,
    "where_pytorch_describes_no_tensors": f"""
        method = load("one_call")
        x, y = torch.ones(2, 3), torch.ones(2, 3)
        native = mock.patch("{PACKAGE}._loader._module.direct_call", side_effect=AttributeError("no such table"))
        with native as prepare:
            for _ in range(5):
                check(method, x, y, directly=False)
        assert prepare.call_count == 1
    """,
    "two_programs_of_one_file": """
        a, x, y = ready()
        b, _, _ = ready()
        for i in range(3):
            check(a, x + i, y, directly=True)
            check(b, x - i, y, directly=True)
        del a
        check(b, x, y, directly=True)
    """,
    "threads_take_turns": """
        method, x, y = ready()
        before, wrong = len(usual), []
        def work(i):
            for _ in range(50):
                result = method.execute((x + i, y))[0]
                wrong.extend([] if torch.equal(result, x + i + y) else [i])
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [t.start() for t in threads], [t.join() for t in threads]
        assert not wrong and len(usual) == before
    """,
}


@pytest.fixture(scope="module")
def outcomes() -> dict[str, str]:
    return outcomes_of(CASES, DIRECT)


@pytest.mark.parametrize("case", CASES)
def test_direct_calls(outcomes: dict[str, str], case: str) -> None:
    assert not outcomes[case], outcomes[case]
