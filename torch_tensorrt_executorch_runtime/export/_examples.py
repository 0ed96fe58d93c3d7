"""The example inputs of an export, and the ranges of shapes that they stand for."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export import Dim
from torch.utils import _pytree as pytree

from torch_tensorrt_executorch_runtime._errors import kind_of

__all__ = ["Example"]


@dataclass(frozen=True)
class Example:
    """The example inputs as the caller gave them; ``torch_tensorrt.Input`` stands for a range of shapes."""

    arguments: Sequence[Any] | None
    keywords: Mapping[str, Any] | None
    dynamic_shapes: Any

    def __post_init__(self) -> None:
        """Refuse what PyTorch would take apart and complain of somewhere inside.

        Raises:
            TypeError: The inputs are no sequence, or the keyword inputs no mapping from names.
        """
        arguments, keywords = self.arguments, self.keywords
        if arguments is not None and (isinstance(arguments, str) or not isinstance(arguments, Sequence)):
            raise TypeError(f"arg_inputs is {kind_of(arguments)}, but a tuple of inputs is expected: arg_inputs=(x,).")
        if keywords is not None and not isinstance(keywords, Mapping):
            raise TypeError(
                f"kwarg_inputs is {kind_of(keywords)}, but a dict by name is expected: kwarg_inputs={{'x': x}}."
            )
        if not all(isinstance(name, str) for name in keywords or ()):
            raise TypeError(f"kwarg_inputs has the keys {list(keywords or ())}, but names of arguments are expected.")

    @property
    def is_empty(self) -> bool:
        """Whether there are no inputs at all."""
        return self.arguments is None and not self.keywords

    def tensors(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return positional and keyword inputs with a tensor for each, no two of them the same object."""
        # torch.export takes one tensor that is given twice for one input, and reads only one of the two later.
        seen: set[int] = set()

        def own(leaf: Any) -> Any:
            tensor = _example_tensor(leaf)
            if not isinstance(tensor, torch.Tensor) or id(tensor) not in seen:
                seen.add(id(tensor))
                return tensor
            return tensor.clone()

        return pytree.tree_map(own, tuple(self.arguments or ())), pytree.tree_map(own, dict(self.keywords or {}))

    def shapes(self, module: torch.nn.Module) -> Any:
        """Return ``dynamic_shapes`` for ``torch.export``, read from the ``Input`` objects when none were given."""
        leaves = pytree.tree_leaves((self.arguments or (), self.keywords or {}))
        if self.dynamic_shapes is not None or not any(_is_dynamic(leaf) for leaf in leaves):
            return self.dynamic_shapes
        if not all(_is_input(leaf) for leaf in leaves):
            raise ValueError(
                "Tensors and torch_tensorrt.Input objects with a range of shapes are mixed. Pass dynamic_shapes=, or "
                "Input objects only."
            )
        bound = inspect.signature(module.forward).bind(*(self.arguments or ()), **(self.keywords or {}))
        counter: Iterator[int] = iter(range(len(leaves)))
        return pytree.tree_map(lambda leaf: _input_dims(leaf, next(counter)), dict(bound.arguments))


def _is_input(leaf: Any) -> bool:
    return type(leaf).__module__.startswith("torch_tensorrt") and type(leaf).__name__ == "Input"


def _is_dynamic(leaf: Any) -> bool:
    return _is_input(leaf) and leaf.shape_mode == type(leaf)._ShapeMode.DYNAMIC


def _example_tensor(leaf: Any) -> Any:
    if not _is_input(leaf):
        return leaf
    shape = leaf.shape["opt_shape"] if _is_dynamic(leaf) else tuple(leaf.shape)
    dtype = leaf.dtype.to(torch.dtype, use_default=True)
    return torch.ones(shape, dtype=dtype)


def _input_dims(leaf: Any, number: int) -> Any:
    if not _is_dynamic(leaf):
        return None
    low, high = leaf.shape["min_shape"], leaf.shape["max_shape"]
    name = leaf.name or f"input{number}"
    return {
        axis: Dim(f"{name}_{axis}", min=low[axis], max=high[axis])
        for axis in range(len(low))
        if low[axis] != high[axis]
    }
