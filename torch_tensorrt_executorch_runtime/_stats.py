"""What the loaded engines of this process did, and what they hold."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_tensorrt_executorch_runtime import _loader

__all__ = ["EngineStats", "stats"]

_FALLBACK = "fallback: "


@dataclass(frozen=True)
class EngineStats:
    """One loaded engine since it was loaded.

    Attributes:
        label: The method that the engine belongs to, as messages name it.
        device: CUDA ordinal of its GPU.
        calls: Calls that queued the engine's work; each is either plain or a replay.
        plain_calls: Calls that queued it kernel by kernel.
        replayed_calls: Calls that launched it as a captured CUDA graph.
        captures: Graphs captured so far; ``graphs`` of them are kept now.
        staged_inputs: Input tensors that went through a buffer of the engine, because they were in host memory or not
            aligned to 256 bytes.
        staged_outputs: Output tensors that did.
        copied_bytes: Bytes that the engine copied for them, both ways.
        host_waits: Times that a call waited on the host.
        weights_bytes: Weights on the device, shared by all loads of the same engine.
        scratch_bytes: Activation scratch of its own; 0 when it takes turns in the shared block.
        staging_bytes: Buffers on the device for staged tensors.
        graph_bytes: Device memory that the kept graphs took, as the driver showed it when they were captured.
        fallbacks: Why calls ran plainly that could have been replayed, with counts.
    """

    label: str
    device: int
    calls: int
    plain_calls: int
    replayed_calls: int
    captures: int
    graphs: int
    staged_inputs: int
    staged_outputs: int
    copied_bytes: int
    host_waits: int
    weights_bytes: int
    scratch_bytes: int
    staging_bytes: int
    graph_bytes: int
    fallbacks: dict[str, int] = field(default_factory=dict)


def stats() -> list[EngineStats]:
    """Report every engine that is loaded in this process, in the order of loading.

    Counting costs a call nothing that can be measured. An engine in the middle of a call is waited for.

    Raises:
        NotRegisteredError: The environment switches the delegate off.
    """
    return [_from_facts(dict(facts)) for facts in _loader.native().stats()]


def _from_facts(facts: dict[str, str]) -> EngineStats:
    return EngineStats(
        label=facts["label"],
        device=int(facts["device"]),
        calls=int(facts["calls"]),
        plain_calls=int(facts["calls.plain"]),
        replayed_calls=int(facts["calls.replay"]),
        captures=int(facts["captures"]),
        graphs=int(facts["graphs"]),
        staged_inputs=int(facts["staged.inputs"]),
        staged_outputs=int(facts["staged.outputs"]),
        copied_bytes=int(facts["copied_bytes"]),
        host_waits=int(facts["host_waits"]),
        weights_bytes=int(facts["device.weights"]),
        scratch_bytes=int(facts["device.scratch"]),
        staging_bytes=int(facts["device.staging"]),
        graph_bytes=int(facts["device.graphs"]),
        fallbacks={key.removeprefix(_FALLBACK): int(n) for key, n in facts.items() if key.startswith(_FALLBACK)},
    )
