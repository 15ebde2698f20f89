"""What is told of a machine, of this one and of others."""

import importlib.metadata
import json
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from phrasescore import __version__
from phrasescore.kernels import precision
from phrasescore.workflows import doctor as module
from phrasescore.workflows.doctor import Diagnosis, Finding, doctor
from tests.command_line import run


def _found(name: str) -> Finding:
    return next(finding for finding in doctor().findings if finding.name == name)


def test_each_thing_has_what_was_found_and_what_to_do() -> None:
    findings = doctor().findings
    names = "versions processor threads GPU Moses kenlm ctranslate2 ray plotly"
    assert [finding.name for finding in findings] == names.split()
    assert all(finding.found and finding.advice for finding in findings)
    assert findings[0].found.startswith(f"phrasescore {__version__}, Python 3.")


def test_the_verb_prints_two_lines_for_each_and_ends_well() -> None:
    done = run("doctor")
    assert (done.exit_code, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert len(lines) == 2 * len(doctor().findings)
    assert all(line.startswith(("found    ", "missing  ")) for line in lines[::2])
    assert all(line.startswith(" " * 22 + "-> ") for line in lines[1::2])


def test_json_has_the_same_findings() -> None:
    done = run("doctor", "--format", "json")
    assert tuple(Finding(**each) for each in json.loads(done.stdout)) == doctor().findings


def test_names_are_aligned() -> None:
    both = Diagnosis((Finding("GPU", False, "none", "buy"), Finding("kenlm", True, "1", "use")))
    assert both.to_text() == (
        "missing  GPU    none\n                -> buy\nfound    kenlm  1\n                -> use"
    )


@pytest.mark.parametrize(
    ("fast", "advice"),
    [
        (("bfloat16", "int8"), "--precision bfloat16 and int8: faster than"),
        (("int8",), "--precision int8: faster than"),
        ((), "use --precision float32: the"),
    ],
)
def test_the_processor_decides_the_precision(
    fast: tuple[str, ...], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(precision, "lacks_units", lambda name: name not in fast)
    assert _found("processor").advice.startswith(advice)


@pytest.mark.parametrize(
    ("quota", "found", "advice"),
    [
        ("max 100000\n", "8 of 64 cores", "verbs use all"),
        ("800000 100000\n", "8 of 64 cores", "verbs use all"),
        (
            "250000 100000\n",
            "8 of 64 cores, but this container is limited to 2.5",
            "use --th",
        ),
        (None, "8 of 64 cores", "verbs use all"),
    ],
)
def test_a_container_may_have_less_time_than_cores(
    quota: str | None, found: str, advice: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if quota is not None:
        (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(module, "_QUOTA", tmp_path / "cpu.max")
    monkeypatch.setattr(module, "usable_threads", lambda _: 8)
    monkeypatch.setattr("os.cpu_count", lambda: 64)
    threads = _found("threads")
    assert threads.found == found
    assert threads.advice.startswith(advice)
    if "2.5" in found:
        assert "--threads 2;" in threads.advice


@pytest.mark.parametrize(
    ("names", "built_for", "has_file", "is_there", "found"),
    [
        (["A", "B"], "13.0", True, True, "A (81,920 MiB), B (81,920 MiB)"),
        ([], None, False, False, "none"),
        ([], "13.0", False, False, "none"),
        ([], None, True, False, "present, but this torch is built for CPUs only"),
        ([], "13.0", True, False, "present, but torch, built for CUDA 13.0, cannot use it"),
    ],
)
def test_a_gpu_that_torch_cannot_use_is_told_from_none(
    names: list[str],
    built_for: str | None,
    has_file: bool,
    is_there: bool,
    found: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if has_file:
        (tmp_path / "nvidia0").touch()
    devices = [SimpleNamespace(name=name, total_memory=80 << 30) for name in names]
    monkeypatch.setattr(module, "_GPU_FILE", tmp_path / "nvidia0")
    monkeypatch.setattr(torch.version, "cuda", built_for)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: bool(names))
    monkeypatch.setattr(torch.cuda, "device_count", lambda: len(names))
    monkeypatch.setattr(torch.cuda, "get_device_properties", devices.__getitem__)
    gpu = _found("GPU")
    assert (gpu.is_there, gpu.found) == (is_there, found)


def test_moses_is_looked_for_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not _found("Moses").is_there
    (tmp_path / "moses").write_text("#!/bin/sh\n")
    (tmp_path / "moses").chmod(0o755)
    moses = _found("Moses")
    assert (moses.is_there, moses.found) == (True, f"{tmp_path}/moses")
    assert f"--moses-bin {tmp_path};" in moses.advice


def test_a_missing_kenlm_says_how_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kenlm", None)
    assert _found("kenlm") == Finding(
        "kenlm",
        False,
        "kenlm is not installed, which reads KenLM's binary files",
        "pip install kenlm (it needs a C++ compiler and Python's headers), or use the ARPA file",
    )


def test_packages_that_are_missing_are_named_with_their_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def version(name: str) -> str:
        if name != "kenlm":
            raise importlib.metadata.PackageNotFoundError(name)
        return "0.3.0"

    monkeypatch.setattr(importlib.metadata, "version", version)
    missing = [finding for finding in doctor().findings if finding.found == "not installed"]
    assert [(finding.name, finding.is_there) for finding in missing] == [
        ("ctranslate2", False),
        ("ray", False),
        ("plotly", False),
    ]
    assert [finding.advice.partition("pip install ")[2] for finding in missing] == [
        "'phrasescore[ctranslate2]'",
        "'phrasescore[cluster]'",
        "'phrasescore[report]'",
    ]
