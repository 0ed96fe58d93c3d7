"""The result file itself; these tests need no GPU."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .results import EXPECTED, Recorder, environment, summary


def test_the_value_nearest_to_its_limit_is_kept() -> None:
    recorder = Recorder()
    assert recorder.check("encoder.relerr", 1e-4, limit=1e-3, unit="relative error")
    assert recorder.check("encoder.relerr", 9e-3, limit=1e-2, unit="relative error")
    assert recorder.check("encoder.relerr", 2e-3, limit=1e-2, unit="relative error")
    assert recorder.checks["encoder.relerr"]["value"] == 9e-3


def test_a_value_that_must_reach_its_limit_is_kept_at_its_smallest(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "results.json", expected=("speed", "other"))
    assert recorder.at_least("speed", 3.0, limit=2.0, unit="times")
    assert not recorder.at_least("speed", 1.5, limit=2.0, unit="times")
    assert recorder.at_least("speed", 9.0, limit=2.0, unit="times")
    speed, other = json.loads((tmp_path / "results.json").read_text())["checks"]
    assert speed == {"name": "speed", "value": 1.5, "unit": "times, at least", "limit": 2.0, "ok": False}
    assert other["name"] == "other" and not other["ok"]


def test_a_check_that_could_not_be_made_says_why_and_stays_failed(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path / "results.json", expected=())
    recorder.broken("threads", "ended with -11")
    assert recorder.check("threads", 0, limit=0, unit="elements")
    document = json.loads((tmp_path / "results.json").read_text())
    assert document["checks"] == [{"name": "threads", "value": None, "unit": "", "limit": None, "ok": False}]
    assert document["data"] == {"broken": {"threads": "ended with -11"}}


def test_a_failure_is_not_hidden_by_a_later_success() -> None:
    recorder = Recorder()
    assert not recorder.check("int64.equal", 3, limit=0, unit="elements")
    assert recorder.check("int64.equal", 0, limit=0, unit="elements")
    assert not recorder.checks["int64.equal"]["ok"]
    assert not recorder.equal("same", ["a"], ["b"])
    assert recorder.equal("same", ["a"], ["a"])
    assert not recorder.checks["same"]["ok"]


def test_a_result_that_is_no_number_fails() -> None:
    recorder = Recorder()
    assert recorder.check("encoder.relerr", 1e-4, limit=1e-3, unit="relative error")
    assert not recorder.check("encoder.relerr", float("nan"), limit=1e-3, unit="relative error")
    assert not recorder.checks["encoder.relerr"]["ok"]


def test_a_check_that_nobody_made_is_written_as_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder(tmp_path / "results.json")
    for name in EXPECTED[1:]:
        recorder.check(name, 0, limit=0, unit="")
    document = json.loads((tmp_path / "results.json").read_text())
    assert list(document) == ["gpu", "driver", "versions", "commit", "command", "date", "checks", "data"]
    assert [check["name"] for check in document["checks"]] == list(EXPECTED)
    assert [check["ok"] for check in document["checks"]] == [False] + [True] * (len(EXPECTED) - 1)
    assert not summary(tmp_path / "results.json")
    assert f"FAILED {EXPECTED[0]}: not measured" in capsys.readouterr().out


def test_a_file_that_is_not_there_counts_as_failed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert not summary(tmp_path / "results.json")
    assert "was not written" in capsys.readouterr().out


def test_the_commit_of_a_plain_copy_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTER_COMMIT", "0123abc")
    environment.cache_clear()
    assert Recorder().document()["commit"] == "0123abc"


def test_overhead_is_the_median_of_the_processes_that_printed_it(tmp_path: Path) -> None:
    from gpu.every_tensor.overhead import read_overhead

    lines = ["a warning", '{"us": 3, "ratio": 1.5}', '{"us": 1, "ratio": 1.0}', '{"us": 2, "ratio": 1.1}']
    (tmp_path / "encoder.json").write_text("\n".join(lines))
    (tmp_path / "resnet18.json").write_text("call_overhead: finding TensorRT failed\n")
    assert read_overhead(tmp_path) == {"encoder": {"us": 2, "ratio": 1.1}}
    assert read_overhead(None) == {}
