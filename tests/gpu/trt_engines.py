"""Engines built straight with TensorRT-RTX: what our exporter never makes, but another writer of a .pte may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import tensorrt_rtx as trt


def _build(
    define: Callable[[Any], None], *, profiles: tuple[dict[str, Any], ...] = (), streaming: bool = False
) -> bytes:
    builder = trt.Builder(trt.Logger(trt.Logger.WARNING))
    network = builder.create_network(0)
    define(network)
    config = builder.create_builder_config()
    if streaming:
        config.set_flag(trt.BuilderFlag.WEIGHT_STREAMING)
    for shapes in profiles:
        profile = builder.create_optimization_profile()
        for name, (low, usual, high) in shapes.items():
            profile.set_shape(name, low, usual, high)
        config.add_optimization_profile(profile)
    return bytes(builder.build_serialized_network(network, config))


def _output(network: Any, tensor: Any, name: str) -> None:
    tensor.name = name
    network.mark_output(tensor)


def two_profiles() -> bytes:
    """float16 matrix product and int64 sum, two optimization profiles, weights that can be streamed."""
    weights = numpy.linspace(-1, 1, 256 * 512, dtype=numpy.float16).reshape(256, 512)

    def define(network: Any) -> None:
        x = network.add_input("x", trt.float16, (-1, 256))
        w = network.add_constant((256, 512), trt.Weights(weights)).get_output(0)
        none = trt.MatrixOperation.NONE
        _output(network, network.add_matrix_multiply(x, none, w, none).get_output(0), "y")
        i = network.add_input("i", trt.int64, (-1,))
        _output(network, network.add_elementwise(i, i, trt.ElementWiseOperation.SUM).get_output(0), "total")

    def profile(low: int, usual: int, high: int) -> dict[str, Any]:
        return {"x": ((low, 256), (usual, 256), (high, 256)), "i": ((low,), (usual,), (high,))}

    return _build(define, profiles=(profile(1, 4, 8), profile(9, 32, 64)), streaming=True)


def cache_update() -> bytes:
    """A key/value cache that the engine updates in place: its output shares memory with an input."""

    def define(network: Any) -> None:
        cache = network.add_input("cache", trt.float16, (1, 2, 16, 8))
        update = network.add_input("update", trt.float16, (1, 2, 1, 8))
        index = network.add_input("index", trt.int32, (1,))
        layer = network.add_kv_cache_update(cache, update, index, trt.KVCacheMode.LINEAR)
        _output(network, layer.get_output(0), "new_cache")

    return _build(define)
