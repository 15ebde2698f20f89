"""Promises of phrasescore.devices: where networks run, and how their threads wait."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from phrasescore import devices
from phrasescore.devices import torch_threads
from phrasescore.errors import PhrasescoreError


def environment(**given: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name != "GOMP_SPINCOUNT"}
    return {**kept, **given}


def spins_in_new_process(**given: str) -> str:
    """Return the setting that torch finds when it is loaded after phrasescore."""
    code = "import phrasescore, torch, os; print(os.environ.get('GOMP_SPINCOUNT'))"
    command = [sys.executable, "-c", code]
    run = subprocess.run(
        command, env=environment(**given), capture_output=True, text=True, check=True
    )
    return run.stdout.strip()


def test_it_is_set_before_torch_is_loaded() -> None:
    assert spins_in_new_process() in ("0", "100000")


@pytest.mark.parametrize("name", ["GOMP_SPINCOUNT", "OMP_WAIT_POLICY"])
def test_a_users_own_setting_stays(name: str) -> None:
    value = {"GOMP_SPINCOUNT": "77", "OMP_WAIT_POLICY": "ACTIVE"}[name]
    expected = {"GOMP_SPINCOUNT": "77", "OMP_WAIT_POLICY": "None"}[name]
    assert spins_in_new_process(**{name: value}) == expected


@pytest.mark.parametrize(
    ("load", "cores", "spins"),
    [
        ("0.00 0.01 0.05 1/89 6414", 2, "100000"),
        ("0.00 0.01 0.05 2/89 6414", 2, "0"),
        ("31.00 20.0 9.00 16/700 6414", 32, "100000"),
        ("31.00 20.0 9.00 17/700 6414", 32, "0"),
        ("something else", 2, "100000"),
    ],
)
def test_threads_do_not_spin_on_a_machine_that_is_busy(
    load: str, cores: int, spins: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "loadavg"
    path.write_text(load)
    monkeypatch.setattr(devices, "_LOAD", path)
    monkeypatch.setattr(devices, "_is_ours", False)
    monkeypatch.setattr(os, "cpu_count", lambda: cores)
    monkeypatch.setattr(os, "environ", environment())
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    devices.choose_waiting()
    assert os.environ["GOMP_SPINCOUNT"] == spins
    assert "GOMP_SPINCOUNT" not in devices.environment_of_children()


@pytest.mark.parametrize(("count", "chosen"), [(0, "cpu"), (2, "cuda")])
def test_auto_is_a_cuda_device_where_there_is_one(
    count: int, chosen: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    assert devices.choose_device("auto") == torch.device(chosen)
    assert devices.choose_device("cpu") == torch.device("cpu")
    with pytest.raises(PhrasescoreError, match=f"--device cuda:2: torch sees {count} CUDA devices"):
        devices.choose_device("cuda:2")


def test_threads_are_as_many_as_wanted_or_as_the_process_may_use(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _process: {0, 3, 5}, raising=False)
    assert (devices.usable_threads(7), devices.usable_threads(None)) == (7, 3)


@pytest.fixture
def three_threads() -> Iterator[None]:
    """Let the caller have set 3 threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def count_threads() -> Iterator[int]:
    with torch_threads(1):
        yield torch.get_num_threads()


@pytest.mark.usefixtures("three_threads")
def test_the_callers_setting_comes_back_after_an_error() -> None:
    with pytest.raises(ValueError, match="bad"), torch_threads(2), torch_threads(1):
        assert torch.get_num_threads() == 1
        raise ValueError("bad")
    assert torch.get_num_threads() == 3


@pytest.mark.usefixtures("three_threads")
def test_the_callers_setting_comes_back_after_iterators_that_overlap() -> None:
    first, second = count_threads(), count_threads()
    assert list(zip(first, second, strict=False)) == [(1, 1)]  # the first ends before the second
    assert torch.get_num_threads() == 1
    assert next(second, None) is None
    assert torch.get_num_threads() == 3
