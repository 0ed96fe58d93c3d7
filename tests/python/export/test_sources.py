"""Every kind of source is exported without being changed; other kinds are refused with a sentence."""

from __future__ import annotations

import copy

import pytest
import torch
from export_helpers import One, Two, check_against_eager, lower_model
from torch import nn
from torch.export import Dim

from torch_tensorrt_executorch_runtime._errors import ExportError, UnsupportedSourceError
from torch_tensorrt_executorch_runtime.export._torch_tensorrt import load_torch_tensorrt
from torch_tensorrt_executorch_runtime.export.lower import lower, lower_methods
from torch_tensorrt_executorch_runtime.export.save import save

X = torch.rand(2, 3)


def linear() -> nn.Module:
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4)).eval()


def exported(module: nn.Module | None = None) -> torch.export.ExportedProgram:
    return torch.export.export(module or linear(), (X,))


def test_takes_an_exported_program():
    module = linear()

    result = lower_model(exported(module))

    assert len(result.blobs) == 1
    check_against_eager(result, module, X)


def test_takes_keyword_inputs():
    module = Two(lambda x, y: x + 2 * y)

    result = lower_model(module, X, kwarg_inputs={"y": X})

    assert sorted(binding.name for binding in result.blobs[0].metadata.inputs) == ["x", "y"]


def test_one_example_tensor_may_stand_for_two_inputs():
    result = lower_model(Two(lambda x, y: x - y), X, X)

    check_against_eager(result, Two(lambda x, y: x - y), X, X + 1)


def test_inputs_is_another_name_of_arg_inputs():
    assert len(lower_methods(linear(), {"inputs": (X,)}).methods) == 1


def test_takes_several_methods():
    encode, decode = nn.Linear(3, 4).eval(), nn.Linear(4, 3).eval()
    source = {
        "encode": torch.export.export(encode, (X,)),
        "decode": torch.export.export(decode, (torch.rand(2, 4),)),
    }

    manager = lower(source)

    assert manager.methods == {"encode", "decode"}


def test_takes_input_specifications_with_a_range():
    torch_tensorrt = load_torch_tensorrt()
    specification = torch_tensorrt.Input(min_shape=(1, 3), opt_shape=(4, 3), max_shape=(8, 3), dtype=torch.float32)

    result = lower_model(linear(), specification)

    profile = result.blobs[0].metadata.inputs[0].profile
    assert profile is not None
    assert (profile.min, profile.opt, profile.max) == ((1, 3), (4, 3), (8, 3))


def test_refuses_a_mixture_of_tensors_and_ranges():
    torch_tensorrt = load_torch_tensorrt()
    specification = torch_tensorrt.Input(min_shape=(1, 3), opt_shape=(4, 3), max_shape=(8, 3), dtype=torch.float32)

    with pytest.raises(ValueError, match=r"a range of shapes are mixed. Pass dynamic_shapes="):
        lower_model(Two(lambda x, y: x + y), X, specification)


def test_takes_static_input_specifications():
    torch_tensorrt = load_torch_tensorrt()

    result = lower_model(linear(), torch_tensorrt.Input(shape=(2, 3), dtype=torch.float32))

    assert result.blobs[0].metadata.inputs[0].shape == (2, 3)


def _snapshot(program: torch.export.ExportedProgram) -> tuple:
    return (
        str(program.graph),
        str(program.graph_signature),
        str(program.range_constraints),
        [[node.name, sorted(node.meta)] for node in program.graph.nodes],
        {name: (id(value), value.clone()) for name, value in program.state_dict.items()},
        {name: id(value) for name, value in program.constants.items()},
    )


def _assert_unchanged(program: torch.export.ExportedProgram, before: tuple) -> None:
    after = _snapshot(program)
    assert after[:4] == before[:4]
    assert after[5] == before[5]
    assert after[4].keys() == before[4].keys()
    for name, (identity, value) in before[4].items():
        assert after[4][name][0] == identity
        torch.testing.assert_close(after[4][name][1], value)


@pytest.mark.parametrize("channels_last", [False, True])
def test_leaves_an_exported_program_as_it_was(channels_last):
    module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval()
    if channels_last:
        module = module.to(memory_format=torch.channels_last)
    program = torch.export.export(module, (torch.rand(2, 3, 8, 8),), dynamic_shapes=({0: Dim("n", max=4)},))
    before = _snapshot(program)

    lower_model(program)

    _assert_unchanged(program, before)


def test_leaves_the_program_as_it_was_when_the_export_fails():
    program = exported()
    before = _snapshot(program)

    with pytest.raises(ExportError):
        lower_model(program, compute_capabilities=["9.0"])

    _assert_unchanged(program, before)


def test_leaves_a_module_as_it_was():
    module = linear()
    before = copy.deepcopy(module.state_dict())
    modes = [child.training for child in module.modules()]

    lower_model(module, X)

    assert [child.training for child in module.modules()] == modes
    for name, value in module.state_dict().items():
        torch.testing.assert_close(value, before[name])


def test_keeps_an_export_without_size_ranges_apart_from_one_with():
    module = linear()
    dynamic = lower_model(module, X, dynamic_shapes=({0: Dim("n", min=1, max=4)},))
    static = lower_model(module, X)

    assert dynamic.blobs[0].metadata.inputs[0].profile is not None
    assert static.blobs[0].metadata.inputs[0].profile is None


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (3, "The source is an int. Give a torch.nn.Module"),
        ("model.pt", "The source is a str"),
        (torch.jit.script(nn.Linear(3, 4)), "a TorchScript module"),
        (torch.compile(nn.Linear(3, 4)), "made by torch.compile"),
    ],
)
def test_refuses_other_sources(source, text):
    with pytest.raises(UnsupportedSourceError, match=text) as caught:
        lower_model(source, X)
    assert isinstance(caught.value, TypeError)


def test_refuses_a_module_without_inputs():
    with pytest.raises(UnsupportedSourceError, match=r"there are no example inputs .* Pass arg_inputs=\(...\)"):
        lower_model(linear())


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"arg_inputs": X}, r"arg_inputs is a Tensor, but a tuple of inputs is expected: arg_inputs=\(x,\)"),
        ({"inputs": X}, "arg_inputs is a Tensor"),
        ({"arg_inputs": {"x": X}}, "arg_inputs is a dict"),
        ({"arg_inputs": "x"}, "arg_inputs is a str"),
        ({"arg_inputs": 3}, "arg_inputs is an int"),
        ({"kwarg_inputs": X}, r"kwarg_inputs is a Tensor, but a dict by name is expected"),
        ({"kwarg_inputs": [X]}, "kwarg_inputs is a list"),
        ({"kwarg_inputs": {0: X}}, r"kwarg_inputs has the keys \[0\], but names of arguments are expected"),
    ],
)
def test_inputs_of_a_wrong_kind_are_named(options, text, tmp_path):
    with pytest.raises(TypeError, match=text):
        save(torch.nn.ReLU(), tmp_path / "model.pte", **options)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("layer", [nn.Dropout(), nn.BatchNorm1d(3), nn.RReLU()])
def test_refuses_training_mode(layer):
    with pytest.raises(ExportError, match=r"exported in training mode: aten\..* Call .eval\(\)"):
        lower_model(nn.Sequential(layer), X)


def test_training_mode_without_effect_is_no_fault():
    assert len(lower_model(nn.Linear(3, 4), X).blobs) == 1


def test_refuses_a_size_without_upper_bound():
    with pytest.raises(
        ExportError, match=r"'forward': dimension 0 of input 'x' \(s\d+\) has no upper bound.*Dim\('x_dim0', min=1, max"
    ):
        lower_model(One(lambda x: x + 1), X, dynamic_shapes=({0: Dim.DYNAMIC},))


def test_refuses_what_torch_export_refuses():
    def branch_on_value(x):
        return x + 1 if x.sum() > 0 else x

    with pytest.raises(ExportError, match="torch.export could not export the One: "):
        lower_model(One(branch_on_value), X)


@pytest.mark.parametrize(
    ("source", "options", "text"),
    [
        ({}, {}, "The dict of methods is empty"),
        ({"a b": exported()}, {}, "'a b' is not a Python identifier"),
        ({"f": exported()}, {"arg_inputs": (X,)}, "do not go with a dict of methods"),
        ({"f": exported()}, {"partitioners": {"g": []}}, r"partitioners names the methods \['g'\]"),
        ({"f": exported()}, {"compile_specs": {"g": []}}, r"compile_specs names the methods \['g'\]"),
        ({"f": exported()}, {"transform_passes": {"g": []}}, r"transform_passes names the methods \['g'\]"),
        ({"f": exported()}, {"constant_methods": {"f": 1}}, "both have a method 'f'"),
        ({"f": exported()}, {"constant_methods": {"1": 1}}, "'1', which is not a Python identifier"),
        (exported(), {"dynamic_shapes": ({},)}, "it is exported already. Give them to torch.export.export"),
        (exported(), {"retrace": True}, "it is exported already"),
        (linear(), {"arg_inputs": (X,), "inputs": (X,)}, "two names of one argument"),
    ],
)
def test_refuses_options_that_do_not_fit(source, options, text):
    with pytest.raises(ValueError, match=text):
        lower_methods(source, options)


def test_refuses_one_program_under_two_names():
    program = exported()
    with pytest.raises(ValueError, match="'a' and 'b' are one ExportedProgram object"):
        lower_methods({"a": program, "b": program}, {})


def test_refuses_a_module_in_a_dict():
    with pytest.raises(UnsupportedSourceError, match="Method 'f' is a Sequential, but a dict of methods takes"):
        lower_methods({"f": linear()}, {})


@pytest.mark.parametrize("option", ["partitioners", "compile_specs"])
def test_refuses_a_string_for_a_list(option):
    with pytest.raises(TypeError, match=f"{option} is a str, but a list"):
        lower_model(linear(), X, **{option: "cuda"})


def test_refuses_what_is_no_partitioner():
    with pytest.raises(TypeError, match="partitioners holds an object, but ExecuTorch Partitioners"):
        lower_model(linear(), X, partitioners=[object()])


def test_refuses_an_unknown_keyword_and_lists_all():
    with pytest.raises(
        TypeError, match=r"lower\(\) does not know the keyword speed\. Supported are: arg_inputs, .*zero_copy"
    ):
        lower(linear(), speed=1)


def test_refuses_zero_copy_caches():
    with pytest.raises(ExportError, match="zero_copy_kv=True is not offered"):
        lower_model(linear(), X, zero_copy_kv=True)


def test_notes_example_inputs_that_are_not_used(caplog):
    lower_model(exported(), X)

    assert "The example inputs are not used" in caplog.text
