from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from torch_tensorrt_executorch_runtime import DelegateError, OptionError, get_option, set_option

OPTIONS = (
    "tensorrt_library",
    "runtime_cache_folder",
    "use_cuda_graphs",
    "use_shared_activation_scratch",
    "device_memory_budget",
)


@pytest.fixture(autouse=True)
def restored() -> Iterator[None]:
    before = {name: get_option(name) for name in OPTIONS}
    yield
    for name, value in before.items():
        set_option(name, value)


def test_an_option_keeps_what_it_was_set_to() -> None:
    set_option("tensorrt_library", "/a/libtensorrt_rtx.so.1:/b/libnvinfer.so.11")
    assert get_option("tensorrt_library") == "/a/libtensorrt_rtx.so.1:/b/libnvinfer.so.11"


@pytest.mark.parametrize("name", ["use_cuda_graphs", "use_shared_activation_scratch"])
def test_a_switch_can_be_turned_on_and_off(name: str) -> None:
    assert get_option(name) is False
    set_option(name, True)
    assert get_option(name) is True
    set_option(name, False)
    assert get_option(name) is False
    with pytest.raises(OptionError, match=f"Option '{name}' was given 1, but it takes a value of type bool"):
        set_option(name, 1)


def test_a_text_may_have_255_bytes_and_no_more() -> None:
    set_option("tensorrt_library", "ä" * 127 + "x")
    assert get_option("tensorrt_library") == "ä" * 127 + "x"
    with pytest.raises(OptionError, match="has 256 bytes, but only 255 fit"):
        set_option("tensorrt_library", "ä" * 128)


@pytest.mark.parametrize("value", [True, 1, None, b"x", 1.5])
def test_refuses_a_value_of_another_type(value: Any) -> None:
    with pytest.raises(OptionError, match="takes a value of type str"):
        set_option("tensorrt_library", value)


def test_a_budget_is_a_number_of_bytes(capfd: pytest.CaptureFixture[str]) -> None:
    set_option("device_memory_budget", "8000000000")
    assert get_option("device_memory_budget") == "8000000000"
    with pytest.raises(DelegateError, match="was refused"):
        set_option("device_memory_budget", "8 GB")
    assert "device_memory_budget must be a number of bytes" in capfd.readouterr().err
    set_option("device_memory_budget", "")
    assert get_option("device_memory_budget") == ""


@pytest.mark.parametrize("name", ["", "tensorrt_librar", "x" * 100])
def test_refuses_an_unknown_option_and_lists_the_known(name: str) -> None:
    for call in (lambda: set_option(name, "x"), lambda: get_option(name)):
        with pytest.raises(OptionError, match="The options of the process are: tensorrt_library"):
            call()


@pytest.mark.parametrize("name", ["use_shared_engines", "weight_streaming_budget"])
def test_says_where_an_option_of_one_load_belongs(name: str) -> None:
    with pytest.raises(OptionError, match="belongs to one load and not to the process"):
        set_option(name, True)


def test_an_option_error_is_a_value_error() -> None:
    assert issubclass(OptionError, ValueError)
