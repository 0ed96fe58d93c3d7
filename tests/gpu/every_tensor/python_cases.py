"""What programs do with the tensors of Python callers: memory modes, layouts, streams, odd graphs, threads.

Every case returns how much is wrong: 0 is good. A case may say more than one thing through `Cases.record`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

import torch_tensorrt_executorch_runtime as tter

from .device_programs import GPU, Programs, RefusedAtExport, counted, differing, on_gpu
from .programs import GRAPHS, INPUT_COUNT

CALLS = 100
BUSY_CYCLES = 2_000_000  # about a millisecond

Case = Callable[[Programs], int]


def _numbers(like: Tensor, seed: int) -> Tensor:
    values = torch.randint(-64, 64, like.shape, generator=torch.Generator().manual_seed(seed))
    return values.to(like.dtype)


def _affine(programs: Programs, mode: str, *, device: bool, method: str = "forward") -> int:
    """Run one memory mode with three inputs; the results must stay what they are when the next call has run."""
    name = f"affine.{mode}"
    loaded = programs.load(name, method)
    (example,) = programs.example(name)
    inputs = [_numbers(example, seed) for seed in range(3)]
    results = [loaded.execute(on_gpu([x]) if device else [x]) for x in inputs]
    return sum(differing(result, [x * 2 + 1]) for result, x in zip(results, inputs, strict=True))


def _outputs_are_on(programs: Programs, mode: str, *, device: bool, output_on_gpu: bool) -> int:
    loaded = programs.load(f"affine.{mode}")
    inputs = programs.example(f"affine.{mode}")
    (output,) = loaded.execute(on_gpu(inputs) if device else list(inputs))
    return int(output.is_cuda != output_on_gpu)


def memory_modes() -> dict[str, Case]:
    """Return the cases of who copies what, by the side on which the caller's tensors are."""
    sides = {
        "default": (False, False),
        "planned_inputs": (False, False),
        "unplanned_inputs": (False, False),
        "unplanned_outputs": (False, False),
        "skip_h2d": (True, False),
        "skip_d2h": (False, True),
        "device": (True, True),
    }
    cases: dict[str, Case] = {}
    for mode, (device, output_on_gpu) in sides.items():
        cases[f"memory_modes.{mode}"] = lambda programs, mode=mode, device=device, output_on_gpu=output_on_gpu: (
            _affine(programs, mode, device=device)
            + _outputs_are_on(programs, mode, device=device, output_on_gpu=output_on_gpu)
        )
    cases["memory_modes.per_method"] = lambda programs: (
        _affine(programs, "per_method", device=True)
        + _affine(programs, "per_method", device=False, method="forward_from_host")
    )
    cases["memory_modes.host_tensor_for_device_program"] = lambda programs: _affine(programs, "device", device=False)
    cases["memory_modes.device_tensor_for_host_program"] = _device_tensor_for_host_program
    cases["memory_modes.mistakes_refused_at_export"] = _mistakes_at_export
    cases["pointer.torch_tensors"] = _torch_tensors
    return cases


def _device_tensor_for_host_program(programs: Programs) -> int:
    """Refused or right, and the next good call works."""
    loaded = programs.load("affine.default")
    (x,) = programs.example("affine.default")
    wrong = 0
    try:
        wrong += differing(loaded.execute(on_gpu([x])), [x * 2 + 1])
    except RuntimeError as error:
        wrong += not str(error)
    return wrong + differing(loaded.execute([x]), [x * 2 + 1])


def _mistakes_at_export(programs: Programs) -> int:
    """Count the combinations of settings that are not refused with the sentence that says what to set."""
    from executorch.exir import ExecutorchBackendConfig
    from executorch.exir.passes.propagate_device_config import PropagateDeviceConfig

    from torch_tensorrt_executorch_runtime.export import save

    from .programs import Affine

    mistakes: list[tuple[Any, str]] = [
        (
            ExecutorchBackendConfig(propagate_device_config=PropagateDeviceConfig(skip_h2d_for_method_inputs=True)),
            "alloc_graph_input=False",
        ),
        (
            ExecutorchBackendConfig(
                propagate_device_config=PropagateDeviceConfig(skip_d2h_for_method_outputs=True),
                enable_non_cpu_memory_planning=False,
            ),
            "enable_non_cpu_memory_planning=True",
        ),
    ]
    wrong = 0
    for config, remedy in mistakes:
        try:
            save(Affine(), programs.folder / "mistake.pte", arg_inputs=(torch.zeros(4),), backend_config=config)
        except tter.ExportError as error:
            wrong += remedy not in str(error)
        else:
            wrong += 1
    return wrong


def _torch_tensors(programs: Programs) -> int:
    """Run on slices that begin anywhere in a block, on pinned memory, and on fresh memory for each call."""
    loaded = programs.load("affine.device")
    (example,) = programs.example("affine.device")
    wrong = 0
    for offset in (0, 1, 3, 4, 32, 63, 64):
        block = torch.zeros(example.numel() + offset, device=GPU)
        x = _numbers(example, offset)
        view = block[offset:].view(example.shape)
        view.copy_(x)
        torch.cuda.synchronize()
        wrong += differing(loaded.execute([view]), [x * 2 + 1])
    pinned = _numbers(example, 99).pin_memory()
    return wrong + differing(loaded.execute([pinned]), [pinned * 2 + 1])


def _views(x: Tensor) -> dict[str, Tensor]:
    """Return tensors of one shape whose elements lie in memory in every way but the plain one."""
    padded = torch.zeros(x.shape[0], x.shape[1] * 2, *x.shape[2:], dtype=x.dtype, device=x.device)
    padded[:, ::2] = x
    wide = torch.zeros(*x.shape[:-1], x.shape[-1] + 5, dtype=x.dtype, device=x.device)
    wide[..., 2:-3] = x
    return {
        "channels_last": x.to(memory_format=torch.channels_last),
        "transposed": x.transpose(2, 3).contiguous().transpose(2, 3),
        "sliced": padded[:, ::2],
        "offset": wide[..., 2:-3],
        "expanded": x[:, :1].expand(x.shape),
    }


def _layout(programs: Programs, program: str, layout: str, *, device: bool) -> int:
    """Count the elements that were misread; a program that is refused at export misreads none."""
    try:
        loaded = programs.load(program)
    except RefusedAtExport as refusal:
        return _says_nothing(refusal)
    (example,) = programs.example(program)
    x = _numbers(example, 7)
    view = _views(x.to(GPU) if device else x)[layout]
    torch.cuda.synchronize()
    expected = programs.eager(program, [view.cpu().contiguous()])
    return differing(loaded.execute([view]), expected)


def _says_nothing(refusal: RefusedAtExport) -> int:
    """Return 1 for a refusal that does not name the setting to leave out."""
    return int("skip_h2d_for_method_inputs" not in str(refusal))


def layouts() -> dict[str, Case]:
    """Return the cases of strided inputs, on the host and on the GPU."""
    cases: dict[str, Case] = {}
    for program in ("image", "image_channels_last"):
        for side in ("host", "device"):
            for layout in ("channels_last", "transposed", "sliced", "offset", "expanded"):
                cases[f"layout.{program}.{side}.{layout}"] = (
                    lambda programs, name=f"{program}.{side}", layout=layout, device=side == "device": _layout(
                        programs, name, layout, device=device
                    )
                )
    return cases


def _graph(programs: Programs, name: str, *, device: bool) -> int:
    """Run a program several times; one that the exporter refuses must say what to leave out."""
    try:
        loaded = programs.load(name)
    except RefusedAtExport as refusal:
        return _says_nothing(refusal)
    from models.corner_cases import CORNERS

    corner = CORNERS.get(name.partition(".")[0])
    calls: Sequence[Sequence[Tensor]] = corner.calls if corner else [programs.example(name)] * 2
    module = None if corner is None else corner.make()
    wrong = 0
    for inputs in calls:
        expected = programs.eager(name, inputs) if module is None else _leaves(module, inputs)
        given = on_gpu(inputs) if device else [x.clone() for x in inputs]
        actual = loaded.execute(given)
        wrong += sum(not _near(got, want) for got, want in zip(actual, expected, strict=True))
        wrong += sum(not torch.equal(x.cpu(), y) for x, y in zip(given, inputs, strict=True))
    return wrong


def _leaves(module: Any, inputs: Sequence[Tensor]) -> list[Tensor]:
    from torch.utils import _pytree as pytree

    with torch.no_grad():
        return list(pytree.tree_leaves(module(*(x.clone() for x in inputs))))


def _near(actual: Tensor, expected: Tensor) -> bool:
    torch.cuda.synchronize()
    same = actual.shape == expected.shape and actual.dtype == expected.dtype
    return same and torch.allclose(actual.cpu().double(), expected.double(), rtol=1e-5, atol=1e-5)


def graphs() -> dict[str, Case]:
    """Return the cases whose outputs share something with inputs, constants or each other, and those with many."""
    names = [f"{name}.{side}" for name in (*GRAPHS, f"inputs_{INPUT_COUNT}") for side in ("host", "device")]
    return {
        f"graph.{name}": lambda programs, name=name: _graph(programs, name, device=name.endswith(".device"))
        for name in [*names, "no_operation.host"]
    }


def _behind_a_long_kernel(
    programs: Programs, *, guard: bool, program: str = "affine.device", layout: torch.memory_format | None = None
) -> int:
    """Fill an input on a side stream behind a long kernel, run, and copy the result on that stream, 100 times."""
    loaded = programs.load(program)
    (example,) = programs.example(program)
    stream = torch.cuda.Stream()
    x = torch.zeros_like(example, device=GPU, memory_format=layout or torch.contiguous_format)
    right = 0
    for seed in range(CALLS):
        values = _numbers(example, seed)
        source = values.to(GPU)
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            torch.cuda._sleep(BUSY_CYCLES)
            x.copy_(source)
            if guard:
                with tter.caller_stream(stream):
                    (output,) = loaded.execute([x])
            else:
                (output,) = loaded.execute([x])
            result = output.clone()
        stream.synchronize()
        right += differing([result], programs.eager(program, [values])) == 0
    return CALLS - right


def _guard_alone(
    programs: Programs, *, program: str = "affine.device", layout: torch.memory_format = torch.contiguous_format
) -> int:
    """Choose the stream for the delegate only, behind a long kernel, and hand out memory to PyTorch's at once."""
    loaded = programs.load(program)
    (example,) = programs.example(program)
    stream = torch.cuda.Stream()
    wrong = 0
    for seed in range(CALLS):
        values = _numbers(example, seed)
        (x,) = on_gpu([values.to(memory_format=layout)])
        with torch.cuda.stream(stream):
            torch.cuda._sleep(BUSY_CYCLES)
        with tter.caller_stream(stream):
            (output,) = loaded.execute([x])
        # A copy that was given back before the engine has read it is overwritten here.
        rubbish = [torch.full_like(values, float("nan"), device=GPU) for _ in range(8)]
        stream.synchronize()
        wrong += differing([output], [values * 2 + 1])
        del rubbish
    return wrong


def _device_path(programs: Programs) -> dict[str, int]:
    """Count copies and host waits of 100 calls with tensors on the GPU and a stream of the caller."""
    loaded = programs.load("affine.device")
    inputs = on_gpu(programs.example("affine.device"))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream), tter.caller_stream(stream):
        loaded.execute(inputs)
        with counted() as counts:
            for _ in range(CALLS):
                loaded.execute(inputs)
        stream.synchronize()
    return counts


def _copies(programs: Programs) -> int:
    counts = _device_path(programs)
    return counts["staged_inputs"] + counts["staged_outputs"] + counts["copied_bytes"] + (counts["calls"] != CALLS)


def _integer_handle(programs: Programs) -> int:
    loaded = programs.load("affine.device")
    (example,) = programs.example("affine.device")
    stream = torch.cuda.Stream()
    x = _numbers(example, 3)
    (device,) = on_gpu([x])
    with torch.cuda.stream(stream), tter.caller_stream(stream.cuda_stream):
        (output,) = loaded.execute([device])
    stream.synchronize()
    return differing([output], [x * 2 + 1])


def _two_streams(programs: Programs) -> int:
    """Call one handle from two streams in turns; the result of each call is copied before the next one."""
    loaded = programs.load("affine.device")
    (example,) = programs.example("affine.device")
    streams = (torch.cuda.Stream(), torch.cuda.Stream())
    results, expected = [], []
    for turn in range(CALLS):
        values = _numbers(example, turn)
        (source,) = on_gpu([values])
        with torch.cuda.stream(streams[turn % 2]), tter.caller_stream(streams[turn % 2]):
            torch.cuda._sleep(BUSY_CYCLES // 20)
            results.append(loaded.execute([source * 1])[0])
        streams[turn % 2].synchronize()
        expected.append(values * 2 + 1)
    return differing(results, expected)


def streams() -> dict[str, Case]:
    """Return the cases of the caller's streams."""
    return {
        "stream.caller_stream_behind_a_long_kernel": lambda p: _behind_a_long_kernel(p, guard=True),
        "stream.torch_stream_without_guard": lambda p: _behind_a_long_kernel(p, guard=False),
        **{
            f"stream.converted_layout_{name}": lambda p, guard=guard: _behind_a_long_kernel(
                p, guard=guard, program="image.device", layout=torch.channels_last
            )
            for name, guard in (("with_guard", True), ("without_guard", False))
        },
        "stream.converted_copy_under_pressure": lambda p: _guard_alone(
            p, program="image_bfloat16.device", layout=torch.channels_last
        ),
        "stream.guard_alone": _guard_alone,
        "stream.integer_handle": _integer_handle,
        "stream.two_streams_one_handle_python": _two_streams,
        "device_path.copies": _copies,
        "device_path.host_waits": lambda p: _device_path(p)["host_waits"],
    }


def _on_threads(count: int, work: Callable[[int], int]) -> int:
    """Run `work` on threads of their own; return the sum of what they count, a failure counts as 1."""
    results = [1] * count

    def run(index: int) -> None:
        results[index] = work(index)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(results)


def _program_each(programs: Programs) -> int:
    def work(index: int) -> int:
        loaded = programs.load("affine.device")
        (example,) = programs.example("affine.device")
        stream = torch.cuda.Stream()
        wrong = 0
        for call in range(20):
            x = _numbers(example, 100 * index + call)
            with torch.cuda.stream(stream), tter.caller_stream(stream):
                (output,) = loaded.execute([x.to(GPU)])
            stream.synchronize()
            wrong += differing([output], [x * 2 + 1])
        return wrong

    return _on_threads(4, work)


def threads() -> dict[str, Case]:
    """Return the cases of several threads."""
    return {"threads.program_each_python": _program_each}


CASES: dict[str, Case] = {**memory_modes(), **streams(), **layouts(), **graphs(), **threads()}
"""Every case by the name of its check."""
